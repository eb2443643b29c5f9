"""A third opinion on records: take the bytes apart by splitting, check the rules one by one, put them together again.

Written from the protocol alone, without order of checks, regular expressions over whole records, or speed.
"""

import unicodedata

from tests.unit.records import forge, reference_curve
from tests.unit.records.forge import MARK

_CONTROL = {*range(0x20), 0x7F}
_RESERVED = {"Group", "App", "Name", "TAI", "Data-Length", "Signed-By", "Signature", "Type"}


def is_record(raw: bytes) -> bool:
    """Whether these bytes are a valid record."""
    head, gap, data = raw.partition(b"\n\n")
    lines = head.split(b"\n")
    letters = [line[6:7] for line in lines if line.startswith(MARK + b": ")]
    if not gap or len(raw) > 35_651_584 or letters not in ([b"B"], [b"P", b"B"], [b"S", b"P", b"B"]):
        return False
    if not all(_is_line(line) for line in lines) or not _is_length(lines[-1], data):
        return False
    parts = forge.Parts(kind=letters[0], data=data)
    own = lines[:-2]
    if letters[0] == b"S":
        if len(own) < 3:
            return False
        parts = parts.but(signed_by_line=own[1], signature_line=own[2])
        own = own[3:]
    if letters[0] != b"B":
        if not _is_place(own[1:5]) or not _are_extras(own[5:]):
            return False
        parts = parts.but(required=tuple(own[1:5]), extras=tuple(own[5:]))
    return parts.raw == raw and (letters[0] != b"S" or _is_signed(parts))


def _is_line(line: bytes) -> bool:
    try:
        text = line.decode()
    except UnicodeDecodeError:
        return False
    name, colon, value = text.partition(":")
    return (
        0 < len(line) <= 1024
        and unicodedata.normalize("NFC", text) == text
        and not _CONTROL & set(line)
        and bool(name and colon)
        and " " not in name
        and value.startswith(" ")
        and len(value) > 1
        and value[1] != " "
    )


def _is_length(line: bytes, data: bytes) -> bool:
    return line == b"Data-Length: %d" % len(data) and len(data) <= 33_554_432


def _is_place(lines: list[bytes]) -> bool:
    if [line.partition(b": ")[0] for line in lines] != [b"Group", b"App", b"Name", b"TAI"]:
        return False
    group, app, name, tai = (line.partition(b": ")[2] for line in lines)
    if len(group) > 255 or len(app) > 255:
        return False
    for segment in b"/".join((group, app, name)).split(b"/"):
        if segment in (b"", b".", b"..") or len(segment) > 255 or set(segment) & set(b"{}|#"):
            return False
    seconds, colon, nanoseconds = tai[:10], tai[10:11], tai[11:]
    digits = seconds + nanoseconds
    return colon == b":" and len(digits) == 19 and len(seconds) == 10 and set(digits) <= set(b"0123456789")


def _are_extras(lines: list[bytes]) -> bool:
    names = [line.partition(b": ")[0].decode() for line in lines]
    return (
        len(lines) <= 512
        and not _RESERVED & set(names)
        and not any(name.startswith(("\U0001f5a7", "\u22ef")) for name in names)
        and [name.encode() for name in names] == sorted(name.encode() for name in names)
    )


def _is_signed(parts: forge.Parts) -> bool:
    assert parts.signed_by_line is not None
    assert parts.signature_line is not None
    verifier = parts.signed_by_line.removeprefix(b"Signed-By: V.").removesuffix(b".H3")
    symbols = parts.signature_line.removeprefix(b"Signature: ")
    if parts.signed_by_line != b"Signed-By: V." + verifier + b".H3" or parts.signature_line != b"Signature: " + symbols:
        return False
    public, signature = _unspell(verifier, 32), _unspell(symbols, 64)
    if public is None or signature is None:
        return False
    return reference_curve.is_valid(public, forge.digest(parts.plex.partition(b"\n")[2]), signature)


def _unspell(symbols: bytes, size: int) -> bytes | None:
    """The bytes of a B64A text of ``size`` bytes, or None."""
    if not set(symbols.decode("latin-1")) <= set(forge.ALPHABET):
        return None
    bits = "".join(f"{forge.ALPHABET.index(chr(symbol)):06b}" for symbol in symbols)
    data = int("0" + bits[: size * 8], 2).to_bytes(size, "big") if len(bits) >= size * 8 else b""
    return data if forge.spell(data) == symbols else None

"""A file of records of which some are damaged, each in another way, and what must be said about each."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from bobbin.records import b64a, canonical, ids
from bobbin.records.canonical import MARKLINE_SIZE
from bobbin.records.record import Seal, build_plex, seal
from bobbin.records.signing import SigningKey

KEY = SigningKey.from_secret(bytes(range(32)))


class Damaged(Struct, frozen=True, kw_only=True):
    """What was written, and what became of it."""

    good: list[Seal]
    bad: list[tuple[int, str]]
    """Offset and reason code of each damaged record."""
    inner: list[str]
    """Hashes of the records inside the damaged ones: none of them may ever be stored."""


def sealed(number: int) -> Seal:
    """One of many different Seals."""
    plex = build_plex(group="u", app="ding", name=f"n/{number}", tai_ns=number, data=b"data of %d\n" % number)
    return seal(plex, KEY, auxiliary=number.to_bytes(32, "big", signed=False) or b"")


def damage(record: Seal, way: int) -> tuple[bytes, str]:
    """The bytes of a record with one thing wrong, and the reason code for that."""
    raw = bytearray(record.raw)
    match way % 5:
        case 0:
            raw[-1] ^= 1
            return bytes(raw), "blob-digest"
        case 1:
            at = raw.index(b"Name: ") + len(b"Name: ")
            raw[at] = ord("m")
            return bytes(raw), "plex-digest"
        case 2:
            # Another verifier's name under the right digest: only the signature can tell.
            other = SigningKey.from_secret(bytes(32)).verifier
            return canonical.seal_record(other, record.signature, record.inner().raw), "invalid-signature"
        case 3:
            at = raw.index(b"App: ding")
            raw[at : at + 9] = b"App:ding "
            return bytes(raw), "header-syntax"
        case _:
            symbols = b64a.encode_bytes(bytes(32))
            raw[MARKLINE_SIZE - len(symbols) - 4 : MARKLINE_SIZE - 4] = symbols
            return bytes(raw), "seal-digest"


def write_damaged(path: Path, *, good: int, bad: int) -> Damaged:
    """A bundle of ``good`` valid Seals with ``bad`` damaged ones spread among them."""
    every = max(1, (good + bad) // bad) if bad else 0
    kept: list[Seal] = []
    spoilt: list[tuple[int, str]] = []
    inner: list[str] = []
    content = bytearray()
    for number in range(1, good + bad + 1):
        record = sealed(number)
        if bad and number % every == 0 and len(spoilt) < bad:
            raw, reason = damage(record, len(spoilt))
            spoilt.append((len(content), reason))
            inner += [record.hash, record.plex_hash, record.blob_hash]
            inner += re.findall(r"[BPS]\.[0-9A-Z_a-z~]{43}\.H3", raw.decode("utf-8", "replace"))
            content += raw
        else:
            kept.append(record)
            content += record.raw
    path.write_bytes(content)
    return Damaged(good=kept, bad=spoilt, inner=[text for text in inner if not _is_zero(text)])


def _is_zero(text: str) -> bool:
    return ids.parse_hash(text)[1] == bytes(32)


def change_store(folder: Path, old: bytes, new: bytes) -> None:
    """Exchange bytes in the file of a lace that nobody has open, as a bad disk might."""
    assert len(old) == len(new)
    path = folder / "records.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new))

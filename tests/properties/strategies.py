"""Records to draw: valid ones of every shape, and broken ones in which the damage reaches every check.

A broken record begins as a valid one. Some edits are made to its bytes: anywhere, or in the lines of its headers,
where most of the rules are. Then, for most of them, every digest and the signature are computed again, so that not
the first digest hides all that comes after it.
"""

from hypothesis import strategies as st

from bobbin.records.record import MalformedField, Plex, Record, build_blob, build_plex, seal
from bobbin.records.signing import SigningKey
from tests.unit.records import forge
from tests.unit.records.forge import MARK

KEYS = [SigningKey.from_secret(secret) for secret in (forge.SECRET, forge.OTHER_SECRET)]

_WORDS = st.sampled_from(
    ["u", "ding", "links/1", "a b", "é/ö", "\U0001f5a7", "...", "x" * 255, "a:b", "n/" * 200 + "n"]
)
_SEGMENT = st.text(
    st.characters(codec="utf-8", exclude_characters="/{}|#\x7f", min_codepoint=32), min_size=1, max_size=9
)
PATHS = _WORDS | st.lists(_SEGMENT, min_size=1, max_size=3).map("/".join)
EXTRA_NAMES = st.sampled_from(["+Link", "A", "B", "a", "Chunk+Link", "X-Custom", "é"]) | _SEGMENT
EXTRA_VALUES = (
    st.sampled_from(
        ["x", "source B.svyLzSM7ffc91i~XDbkMnuOsdjsw_6GrXpTSckqHlpO.H3", "Data-Length: 5", "\U0001f5a7: B.", "v" * 900]
    )
    | _SEGMENT
)
DATA = (
    st.binary(max_size=80)
    | st.text(max_size=30).map(str.encode)
    | st.sampled_from([b"", b"\n", b"\n\n", b"hello", forge.BLOB.raw, forge.PLEX.raw, forge.SEAL.raw])
    | st.sampled_from([b"\n" + forge.SEAL.raw, forge.SEAL.raw * 2, forge.PLEX.raw + b"x" + forge.SEAL.raw])
)


@st.composite
def records(draw: st.DrawFn, *, letters: str = "BPS") -> Record:
    """A valid record."""
    letter = draw(st.sampled_from(letters))
    data = draw(DATA)
    if letter == "B":
        return build_blob(data)
    plex = draw(_plexes(data))
    return plex if letter == "P" else seal(plex, draw(st.sampled_from(KEYS)), auxiliary=b"\x01" * 32)


@st.composite
def _plexes(draw: st.DrawFn, data: bytes) -> Plex:
    extras = draw(st.lists(st.tuples(EXTRA_NAMES, EXTRA_VALUES), max_size=4))
    place = [draw(PATHS), draw(PATHS), draw(PATHS)]
    tai_ns = draw(st.integers(0, 10**19 - 1) | st.just(1_640_995_200 * 10**9))
    try:
        return build_plex(group=place[0], app=place[1], name=place[2], tai_ns=tai_ns, data=data, extras=extras)
    except MalformedField:
        return build_plex(group="u", app="a", name="n", tai_ns=tai_ns, data=data)


# ---- damage -------------------------------------------------------------------------------------------------------

TOKENS = [
    *(bytes([byte]) for byte in b"\x00\t\n\r\x1f\x20\x7f\x80\xff:./{|#0~AS+-"),
    b"\n\n",
    b": ",
    b"  ",
    MARK,
    MARK + b": ",
    "\u0301".encode(),
    "\u212b".encode(),
    "\u22ef".encode(),
    b"\xed\xa0\x80",
    b"x" * 1020,
    b"Group: u\n",
    b"Type: x\n",
    b"A: x\n",
    b"zz: x\n",
    b"Data-Length: 5\n",
    forge.BLOB.raw[:55],
    forge.PLEX.raw[:55],
]
LINES = [
    b"Group: u",
    b"TAI: 1640995200:000000000",
    b"Type: P",
    b"A: x",
    b"zz: x",
    MARK + b"x: y",
    "\u22efx: y".encode(),
]
VALUES = [b"", b" x", b"x", b"a//b", b"..", b"a|b", b"x" * 256, b"x/" * 510 + b"x", b"1640995200:000000000", b"V.0.H3"]
NUMBERS = [b"0", b"05", b"4", b"6", b"-1", b"33554433", b"99999999999999999999999"]


@st.composite
def _byte_edits(draw: st.DrawFn, raw: bytes, start: int, end: int) -> bytes:
    """Replace, insert or remove a few bytes somewhere from ``start`` to ``end``."""
    at = draw(st.integers(start, max(start, end - 1)))
    removed = draw(st.sampled_from([0, 0, 1, 1, 1, 2, 5, 55]))
    new = draw(st.sampled_from(TOKENS) | st.binary(max_size=3))
    return raw[:at] + new + raw[at + removed :]


@st.composite
def _bit_flips(draw: st.DrawFn, raw: bytes) -> bytes:
    if not raw:
        return raw
    at = draw(st.integers(0, len(raw) - 1))
    return raw[:at] + bytes([raw[at] ^ 1 << draw(st.integers(0, 7))]) + raw[at + 1 :]


@st.composite
def _line_edits(draw: st.DrawFn, raw: bytes) -> bytes:
    """Exchange, repeat, remove or edit whole header lines."""
    head, gap, data = raw.partition(b"\n\n")
    lines = head.split(b"\n")
    a, b = draw(st.integers(0, len(lines) - 1)), draw(st.integers(0, len(lines) - 1))
    match draw(st.sampled_from(["exchange", "repeat", "remove", "move", "insert", "number", "name", "value", "value"])):
        case "exchange":
            lines[a], lines[b] = lines[b], lines[a]
        case "repeat":
            lines.insert(b, lines[a])
        case "remove":
            del lines[a]
        case "move":
            lines.insert(b, lines.pop(a))
        case "insert":
            lines.insert(draw(st.sampled_from([b, len(lines) - 2])), draw(st.sampled_from(LINES)))
        case "number":
            lines[-1] = b"Data-Length: " + draw(st.sampled_from(NUMBERS))
        case "name":
            _, _, value = lines[a].partition(b": ")
            lines[a] = (
                draw(st.sampled_from([b"Group", b"Type", b"Name", b"A", b"zz", b"Signature", MARK])) + b": " + value
            )
        case _:
            headers = [index for index, line in enumerate(lines) if not line.startswith(MARK)] or [a]
            at = draw(st.sampled_from(headers))
            lines[at] = lines[at].partition(b": ")[0] + b": " + draw(st.sampled_from(VALUES))
    return b"\n".join(lines) + gap + data


@st.composite
def _ends(draw: st.DrawFn, raw: bytes) -> bytes:
    """Cut the end off, or add to it."""
    if draw(st.booleans()):
        return raw[: draw(st.integers(0, len(raw)))]
    return raw + draw(st.sampled_from([b"x", b"\n", forge.BLOB.raw]) | st.binary(max_size=3))


def edits(raw: bytes) -> st.SearchStrategy[bytes]:
    """The bytes with one edit."""
    header_end = raw.find(b"\n\n") + 3 if b"\n\n" in raw else len(raw)
    return st.one_of(
        _line_edits(raw),
        _line_edits(raw),
        _byte_edits(raw, 55, header_end),
        _bit_flips(raw),
        _byte_edits(raw, 6, len(raw)),
        _ends(raw),
    )


@st.composite
def damaged_records(draw: st.DrawFn) -> bytes:
    """Bytes that were a record before up to three edits, most of them with digests and signature that fit again."""
    raw = draw(records()).raw
    for _ in range(draw(st.sampled_from([1, 1, 1, 2, 3]))):
        raw = draw(edits(raw))
    if draw(st.integers(0, 4)):
        raw = forge.refit(raw, secret=draw(st.sampled_from([forge.SECRET, forge.SECRET, None])))
    return raw

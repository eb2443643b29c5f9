"""Bundles to damage: good Seals around one whose data holds other records."""

from functools import lru_cache

from bobbin.records.bundle import BundleReader, Damage, Extent, Piece
from bobbin.records.reasons import InvalidRecord
from bobbin.records.record import build_plex, seal, validate
from bobbin.records.signing import SigningKey

KEY = SigningKey.from_secret(b"bundle".ljust(32, b"."))


def make_plex(name: str, data: bytes, *extras: tuple[str, str]) -> bytes:
    return build_plex(group="u", app="a", name=name, tai_ns=10**18, data=data, extras=extras).raw


def make_seal(name: str, data: bytes, *extras: tuple[str, str]) -> bytes:
    plex = build_plex(group="u", app="a", name=name, tai_ns=10**18, data=data, extras=extras)
    return seal(plex, KEY, auxiliary=b"\x01" * 32).raw


def read(bundle: bytes, *, chunk: int | None = None) -> list[Piece]:
    """The pieces of a bundle, fed in one go or in chunks of one size."""
    reader = BundleReader()
    pieces: list[Piece] = []
    for start in range(0, len(bundle), chunk or max(1, len(bundle))):
        pieces += reader.feed(bundle[start : start + (chunk or len(bundle))])
    return pieces + reader.finish()


def is_good(piece: Piece) -> bool:
    """Whether a piece would be imported."""
    return isinstance(piece, Extent) and _is_valid(piece.raw)


@lru_cache(maxsize=4096)
def _is_valid(raw: bytes) -> bool:
    try:
        validate(raw)
    except InvalidRecord:
        return False
    return True


def imported(pieces: list[Piece]) -> list[bytes]:
    return [piece.raw for piece in pieces if is_good(piece)]


def names(raws: list[bytes]) -> list[str]:
    """The records of this module by name, others by how they begin: easier to read in a failing test than bytes."""
    known = {BEFORE: "before", AFTER: "after", LAST: "last", PLANTED_SEAL: "planted Seal", PLANTED_PLEX: "planted Plex"}
    return [known.get(raw, repr(raw[:60])) for raw in raws]


def rejected(pieces: list[Piece]) -> list[bytes]:
    return [piece.raw for piece in pieces if not is_good(piece)]


def check_tiling(bundle: bytes, pieces: list[Piece]) -> None:
    """The pieces are the bundle, in order, and say where they stand."""
    assert b"".join(piece.raw for piece in pieces) == bundle
    offset = 0
    for piece in pieces:
        assert piece.raw
        assert piece.offset == offset
        assert not isinstance(piece, Damage) or piece.reason
        offset += len(piece.raw)


BEFORE = make_seal("before", b"first")
AFTER = make_seal("after", b"second")
LAST = make_seal("last", b"third")

PLANTED_SEAL = make_seal("planted", b"inner")
PLANTED_PLEX = make_plex("planted", b"inner")
OTHER_PLEX = make_plex("other", b"inner too")

# Data in which records are planted, so that each way to get lost in a damaged header finds one.
PLANTED_DATA = {
    "a Seal": PLANTED_SEAL,
    "a Seal on its own line": b"\n" + PLANTED_SEAL,
    "a Seal after an empty line": b"\n\n" + PLANTED_SEAL + b"\n\n",
    "three Seals": PLANTED_SEAL * 3,
    "a Plex": PLANTED_PLEX,
    "two Plexes": PLANTED_PLEX + OTHER_PLEX,
    "Plexes on lines of their own": b"\n" + PLANTED_PLEX + b"\n" + OTHER_PLEX + b"\n",
    "a Blob after a header line": b"A: x\n" + make_plex("x", b"y")[-60:] + PLANTED_SEAL,
    "a Seal where a smaller length ends": (b"." * 453 + PLANTED_SEAL).ljust(953, b"."),
    "a Seal where a length of fewer digits ends": (b"." * 95 + PLANTED_SEAL).ljust(950, b".") + PLANTED_SEAL,
    "a hundred marks before a Seal": "\U0001f5a7: S.".encode() * 100 + PLANTED_SEAL,
    "a record that claims to go on": PLANTED_SEAL
    + PLANTED_PLEX.replace(b"Data-Length: 5", b"Data-Length: 9999999")
    + PLANTED_SEAL,
    "a signature line at the end": PLANTED_SEAL + b"\n" + b"".join(PLANTED_SEAL.splitlines(keepends=True)[1:3]),
    "nothing": b"",
}
OUTERS = {name: make_seal("outer", data, ("A", "x")) for name, data in PLANTED_DATA.items()}

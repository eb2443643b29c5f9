"""What is kept of peers between processes: rows of one kind, each caused by a peer, checksummed, bounded, never needed.

Rows rest in the store's area of values that only save work. So nothing here makes anything else fail: a row that cannot
be written is not written, and one that has changed at rest is as if it were not there.

A peer decides what its rows are called and how long they are, so there are bounds on both: rows per peer, so that one
that keeps inventing names pushes out its own, rows in all, the bytes of one row and the bytes in all. The row that was
written longest ago goes first. Whose a row is stands in its name. What is there is therefore found by looking, also
what another process, or one that was killed, has left.
"""

from contextlib import suppress
from typing import Final

from blake3 import blake3
from msgspec import Struct

from bobbin.errors import BobbinError
from bobbin.store.base import DamagedStore, Store

_DIGEST_SIZE: Final = 32
_OWNER_CHARACTERS: Final = 32


class Bounds(Struct, frozen=True, kw_only=True):
    """How much is kept."""

    per_peer_max: int
    rows_max: int
    row_bytes_max: int
    """A longer row is not kept. At most what the store takes."""
    bytes_max: int


class Shelf:
    """The rows of one kind."""

    def __init__(self, store: Store, kind: str, bounds: Bounds) -> None:
        self._store: Final = store
        self._kind: Final = kind
        self._bounds: Final = bounds

    def get(self, peer: str, key: str) -> memoryview | None:
        """What was put last, if it is there to the bit."""
        return self._read(_name(peer, key))

    def find(self, key: str) -> memoryview | None:
        """What was put last under a key, by whichever peer's doing."""
        try:
            names = [name for name, _ in self._store.kept_rows(self._kind) if name.partition("/")[2] == key]
        except DamagedStore:
            return None
        return self._read(names[-1]) if names else None

    def put(self, peer: str, key: str, body: bytes) -> bool:
        """Write a row in place of the one that was there, and take out what is too much; whether it was written."""
        raw = blake3(body).digest() + body
        if len(raw) > min(self._bounds.row_bytes_max, self._bounds.bytes_max):
            return False
        try:
            self._store.keep(self._kind, _name(peer, key), raw)
        except BobbinError:
            return False
        with suppress(BobbinError):
            self._trim()  # If not now, then with the next row.
        return True

    def drop(self, peer: str, key: str) -> None:
        """Take a row out."""
        self._store.keep(self._kind, _name(peer, key), None)

    def forget(self, peer: str) -> None:
        """Take out every row of a peer."""
        for name, _ in list(self._store.kept_rows(self._kind)):
            if _owner_of(name) == _owner(peer):
                self._store.keep(self._kind, name, None)

    def _read(self, name: str) -> memoryview | None:
        try:
            raw = memoryview(self._store.kept(self._kind, name) or b"")
        except DamagedStore:
            return None
        body = raw[_DIGEST_SIZE:]
        return body if blake3(body).digest() == raw[:_DIGEST_SIZE] else None

    def _trim(self) -> None:
        """Let the newest rows stay that are within the bounds."""
        bounds = self._bounds
        owners: dict[str, int] = {}
        rows = size = 0
        for name, length in reversed(list(self._store.kept_rows(self._kind))):
            of_owner = owners.get(_owner_of(name), 0)
            if rows == bounds.rows_max or of_owner == bounds.per_peer_max or size + length > bounds.bytes_max:
                self._store.keep(self._kind, name, None)
            else:
                owners[_owner_of(name)] = of_owner + 1
                rows, size = rows + 1, size + length


def _name(peer: str, key: str) -> str:
    return f"{_owner(peer)}/{key}"


def _owner(peer: str) -> str:
    """A peer as a text of one length without a slash, whatever it is called."""
    return blake3(peer.encode("utf-8", "surrogatepass")).hexdigest()[:_OWNER_CHARACTERS]


def _owner_of(name: str) -> str:
    return name.partition("/")[0]

"""The claim indexes of one store: one for each plan, source label and field schema, whatever link it is for.

An index says what this side offers. Making one costs a hash for every record that may be sent. So the last one of each
kind stays in memory, where the next link of the same kind goes on from a copy, and ``flush`` writes it into the store's
area of values that only save work, for the next process. What is read back is a beginning: records have come and gone
since, and whoever goes on from it adapts it to what may be sent now (``ClaimIndex.adapt``). A row that is damaged, or
of another version, is as if it were not there.

Memory and rows are bounded as those of decisions are. A removal takes all rows out of the store, and an index that does
not know of the removal yet is not written.
"""

from collections import OrderedDict
from contextlib import suppress
from functools import cache
from importlib import metadata
from typing import Final, NamedTuple

import msgspec
import numpy as np
from blake3 import blake3
from msgspec import Struct

from bobbin.errors import ResourceError, UsageError
from bobbin.interlace.claim_index import ClaimIndex, Columns
from bobbin.interlace.schema import Schema
from bobbin.policy.executables import LocalPolicy
from bobbin.policy.operands import Origin
from bobbin.runtime.shelf import Bounds, Shelf
from bobbin.store.base import KEPT_BYTES_MAX, Mark, Store

KIND: Final = "claims"
PER_PEER_MAX: Final = 2
INDEXES_MAX: Final = 8
KEPT_MAX: Final = 64
_KEPT_BYTES_FACTOR: Final = 2
_FORMAT: Final = 2
_WRITE_FRACTION: Final = 16
"""An index is written again when about this part of it has changed."""


class Kind(NamedTuple):
    """What an index belongs to. Two links that agree in it offer the same, each record with the same fields."""

    plan: str
    source: Origin
    schema: Schema
    peer: Origin
    """By whose doing it is kept. It follows from the plan and the source."""

    def __str__(self) -> str:
        said = msgspec.msgpack.encode((self.source, self.schema.all, sorted(self.schema.names)))
        return f"{self.plan}/{blake3(said).hexdigest()}"


class _Kept(Struct, frozen=True, array_like=True):
    """An index as it rests in the store, in the order of the digests."""

    format: int
    version: str
    """Of the package that has made it: another one may read or write the fields of a record otherwise."""
    records: bytes
    """Their texts, with a line feed between them."""
    digests: bytes
    moments: bytes


class _Held(Struct, kw_only=True, eq=False):
    index: ClaimIndex
    """Nobody else changes it."""
    mark: Mark
    """A moment of the store at which just this was offered."""
    written: ClaimIndex | None = None
    """What the row in the store says."""
    written_at: int = 0
    """How many removals there had been then. The next one takes out what was written."""
    is_there: bool = False
    """Whether that could be written. If not, it is tried again at the end, or when enough has changed."""


def kind_of(policy: LocalPolicy, schema: Schema) -> Kind:
    """Which index a policy needs, with advertisements that have these fields."""
    return Kind(policy.plan.identifier, policy.own_origin, schema, policy.peer_origin)


class ClaimIndexes:
    """What the links over one store have in common."""

    def __init__(self, store: Store) -> None:
        bounds = Bounds(
            per_peer_max=PER_PEER_MAX,
            rows_max=KEPT_MAX,
            row_bytes_max=KEPT_BYTES_MAX,
            bytes_max=_KEPT_BYTES_FACTOR * KEPT_BYTES_MAX,
        )
        self._store: Final = store
        self._shelf: Final = Shelf(store, KIND, bounds)
        self._held: Final[OrderedDict[Kind, _Held]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    def get(self, kind: Kind) -> ClaimIndex | None:
        """The last index of a kind, to be adapted and changed."""
        held = self._held.get(kind)
        return self._read(kind) if held is None else held.index.copy()

    def put(self, kind: Kind, index: ClaimIndex, mark: Mark) -> None:
        """Keep an index as it is now. At the moment of ``mark`` the store held all that is in it."""
        known = self._held.pop(kind, None)
        held = _Held(index=index.copy(), mark=mark)
        if known is not None:
            held.written, held.written_at, held.is_there = known.written, known.written_at, known.is_there
        self._held[kind] = held
        of_peer = [one for one in self._held if one.peer == kind.peer]
        for one in of_peer[: max(0, len(of_peer) - PER_PEER_MAX)]:
            del self._held[one]
        while len(self._held) > INDEXES_MAX:
            self._held.popitem(last=False)

    def forget(self, peer: Origin) -> None:
        """Drop everything that a peer caused, in memory and in the store."""
        for kind in [kind for kind in self._held if kind.peer == peer]:
            del self._held[kind]
        self._shelf.forget(peer)

    def flush(self, *, everything: bool = False) -> int:
        """Write the indexes that have changed enough to be worth it, or at all; returns how many. Never fails."""
        written: list[Kind] = []
        with suppress(ResourceError):
            removal = self._store.mark().removal
            for kind, held in self._held.items():
                if held.mark.removal == removal and _is_worth_writing(held, everything=everything):
                    held.written, held.written_at, held.is_there = held.index, removal, False
                    if self._shelf.put(kind.peer, str(kind), _encode(held.index)):
                        held.is_there = True
                        written.append(kind)
            if written and self._store.mark().removal != removal:
                # A record was removed meanwhile. Its name must not be back.
                while written:
                    kind = written.pop()
                    self._shelf.drop(kind.peer, str(kind))
        return len(written)

    def _read(self, kind: Kind) -> ClaimIndex | None:
        body = self._shelf.get(kind.peer, str(kind))
        try:
            kept = None if body is None else msgspec.msgpack.decode(body, type=_Kept)
            if kept is None or (kept.format, kept.version) != (_FORMAT, version()):
                return None
            return _decode(kept)
        except (ValueError, UsageError):
            return None  # of another version: it only saved work


@cache
def version() -> str:
    """Of this package. What another one has hashed may have been other bytes."""
    return metadata.version("bobbin")


def _is_worth_writing(held: _Held, *, everything: bool) -> bool:
    if held.written is None or held.written_at != held.mark.removal:
        return True
    if everything:
        return not held.is_there or held.index.root() != held.written.root()
    return abs(held.index.changes - held.written.changes) > len(held.index) // _WRITE_FRACTION


def _encode(index: ClaimIndex) -> bytes:
    records, digests, moments = index.columns()
    said = "\n".join(records).encode()
    return msgspec.msgpack.encode(_Kept(_FORMAT, version(), said, digests, moments.astype("<u8").tobytes()))


def _decode(kept: _Kept) -> ClaimIndex:
    """Raises ``ValueError`` or ``UsageError`` where columns do not fit together."""
    records = kept.records.decode().split("\n") if kept.records else []
    return ClaimIndex.of(Columns(records, kept.digests, np.frombuffer(kept.moments, "<u8").astype(np.uint64)))

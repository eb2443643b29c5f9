"""The standing decisions of one store, lent to one exchange at a time, and kept between exchanges.

A decision in memory answers the next exchange with the same peer at the cost of what changed since the last. Memory is
bounded twice, like that of policies: per peer, so that a peer that keeps inventing plans pushes out its own, and in
all. A decision that is lent belongs to its borrower alone; a second exchange under the same plan makes its own, and the
one that comes back last stays.

``flush`` writes decisions into the store's area of values that only save work, so that the next process starts where
this one ended. Writing costs what the whole decision weighs, so one that has changed little since it was written stays
as it is: the difference is caught up with when it is read. A removal takes everything out that was written, since what
the record says may stand in it, and a decision that does not know of the removal yet is not written.
"""

from collections import OrderedDict
from collections.abc import Collection
from contextlib import suppress
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from bobbin.errors import ResourceError, UsageError
from bobbin.interlace.ports import Memory
from bobbin.interlace.schema import Schema
from bobbin.policy.claims import ClaimedField
from bobbin.policy.executables import LocalPolicy, PolicyCache
from bobbin.policy.frozen import FORMAT, Frozen
from bobbin.policy.modules import Query, Selector
from bobbin.policy.numbers import Numbers
from bobbin.policy.operands import Index, Origin, other
from bobbin.policy.plan import Plan
from bobbin.policy.standing import Standing
from bobbin.runtime.claim_indexes import ClaimIndexes
from bobbin.runtime.shelf import Bounds, Shelf
from bobbin.store.base import KEPT_BYTES_MAX, Mark, Store

KIND: Final = "standing"
CURSOR: Final = "cursor"
PER_PEER_MAX: Final = 2
DECISIONS_MAX: Final = 8
KEPT_MAX: Final = 64
CURSORS_PER_PEER_MAX: Final = 4
CURSORS_MAX: Final = 256
_KEPT_BYTES_FACTOR: Final = 2
"""All decisions at rest weigh at most as much as so many of the largest, and so do all cursors."""
MODULES_MAX: Final = 256
_WRITE_FRACTION: Final = 16
"""A decision is written again when this part of it has changed."""
_WRITE_MIN: Final = 256

Key: TypeAlias = tuple[str, Index, str]
"""Plan, this side's operand, query module."""


class _Kept(Struct, frozen=True, array_like=True):
    """A decision as it rests in the store."""

    mark: Mark
    frozen: Frozen


class Held(Struct, kw_only=True, eq=False):
    """A decision with the moment of the store that it is up to date with; no moment before it is loaded."""

    key: Key
    peer: Origin
    standing: Standing
    mark: Mark | None = None
    unwritten: int = 0
    """How many records have changed since the decision was written to the store."""
    written_at: int | None = None
    """How many removals there had been when writing was last tried. The next one takes out what was written."""
    memory: Memory | None = None
    """What the link of the last exchange knew when it ended, as long as the decision has not moved since."""
    link: tuple[str, Schema] | None = None
    """Which link that was, and the fields that its advertisements have."""


class Decisions:
    """What the exchanges over one store have in common."""

    def __init__(
        self,
        store: Store,
        *,
        query: Query | None = None,
        policies: PolicyCache | None = None,
        per_peer_max: int = PER_PEER_MAX,
        decisions_max: int = DECISIONS_MAX,
    ) -> None:
        """Without ``query``, the default query policy holds."""
        if per_peer_max < 1 or decisions_max < 1:
            raise UsageError("there is room for at least one decision")
        self.store: Final = store
        self._query: Final = query
        self._policies: Final = PolicyCache() if policies is None else policies
        self._per_peer_max: Final = per_peer_max
        self._decisions_max: Final = decisions_max
        self._held: Final[OrderedDict[Key, Held]] = OrderedDict()
        self._numbers: Final = Numbers()
        self._modules: Final[OrderedDict[str, bytes]] = OrderedDict()
        self._written: Final = _shelf(store, KIND, per_peer_max=per_peer_max, rows_max=KEPT_MAX)
        self.cursors: Final = _shelf(store, CURSOR, per_peer_max=CURSORS_PER_PEER_MAX, rows_max=CURSORS_MAX)
        """What peers advertised when the last exchange ended, by peer and link."""
        self.indexes: Final = ClaimIndexes(store)
        """Of what is offered, by plan, source label and schema."""

    def __len__(self) -> int:
        return len(self._held)

    def prepare(self, plan: Plan, index: Index, *, own: Selector, peer_module: bytes) -> LocalPolicy:
        """The plan made ready to run. Raises ``PeerError`` for a module that is none."""
        policy = self._policies.prepare(plan, index, own=own, peer_module=peer_module, query=self._query)
        self.know(own)
        self.know(policy.peer)
        return policy

    def know(self, module: Selector) -> None:
        """Remember the bytes of a module. The oldest of many are forgotten."""
        self._modules[module.identifier] = module.canonical
        self._modules.move_to_end(module.identifier)
        while len(self._modules) > MODULES_MAX:
            self._modules.popitem(last=False)

    def module(self, identifier: str) -> bytes | None:
        """The canonical bytes of a module that is known here."""
        return self._modules.get(identifier)

    def borrow(self, policy: LocalPolicy) -> Held:
        """The decision of a policy: from memory, from the store, or one that is still to be loaded."""
        key: Key = (policy.plan.identifier, policy.index, policy.query.identifier)
        held = self._held.pop(key, None)
        if held is not None:
            return held
        peer = policy.plan.operand(other(policy.index)).origin
        kept = self._read(peer, key)
        if kept is None:
            return Held(key=key, peer=peer, standing=Standing(policy, self._numbers))
        standing = Standing.restore(policy, kept.frozen, self._numbers)
        return Held(key=key, peer=peer, standing=standing, mark=kept.mark, written_at=kept.mark.removal)

    def describe(self, records: Collection[str], names: frozenset[str]) -> list[tuple[ClaimedField, ...]] | None:
        """The fields of these names, if a decision that is up to date with the store, and not lent, can tell them."""
        mark = self.store.mark()
        current = (held.standing for held in self._held.values() if held.mark == mark)
        told = (standing.describe(records, names) for standing in current)
        return next((known for known in told if known is not None), None)

    def give_back(self, held: Held) -> None:
        """Keep a decision for the next exchange, if it is up to date with anything."""
        if held.mark is None:
            return
        self._held[held.key] = held
        self._held.move_to_end(held.key)
        of_peer = [key for key, one in self._held.items() if one.peer == held.peer]
        for key in of_peer[: max(0, len(of_peer) - self._per_peer_max)]:
            del self._held[key]
        while len(self._held) > self._decisions_max:
            self._held.popitem(last=False)

    def forget(self, peer: Origin) -> None:
        """Drop everything that a peer caused, in memory and in the store."""
        self._policies.forget(peer)
        for key in [key for key, held in self._held.items() if held.peer == peer]:
            del self._held[key]
        self._written.forget(peer)
        self.cursors.forget(peer)
        self.indexes.forget(peer)

    def flush(self, *, everything: bool = False) -> int:
        """Write the decisions that are back and have changed enough to be worth it; returns how many.

        With ``everything``, all that have changed at all. What cannot be written is not: it would only save work, so it
        is no reason for anything that is done to fail. The indexes of what is offered are written in the same way.
        """
        self.indexes.flush(everything=everything)
        written: list[Held] = []
        with suppress(ResourceError):
            removal = self.store.mark().removal
            for held in self._held.values():
                mark = held.mark
                if mark is not None and mark.removal == removal and _is_worth_writing(held, everything=everything):
                    body = msgspec.msgpack.encode(_Kept(mark, held.standing.freeze()))
                    if self._written.put(held.peer, _spelled(held.key), body):
                        written.append(held)
                    held.unwritten, held.written_at = 0, removal
            if written and self.store.mark().removal != removal:
                # A record was removed meanwhile. What it says must not be back.
                while written:
                    held = written.pop()
                    self._written.drop(held.peer, _spelled(held.key))
        return len(written)

    def _read(self, peer: Origin, key: Key) -> _Kept | None:
        # A decision says what leaves this machine, so not a bit of it may have changed at rest.
        body = self._written.get(peer, _spelled(key))
        try:
            kept = None if body is None else msgspec.msgpack.decode(body, type=_Kept)
        except msgspec.MsgspecError:
            return None  # of another version: it only saved work
        return kept if kept is not None and kept.frozen.format == FORMAT else None


def _is_worth_writing(held: Held, *, everything: bool) -> bool:
    if held.mark is None or held.written_at != held.mark.removal:
        return True
    return held.unwritten >= (1 if everything else _WRITE_MIN + held.standing.size // _WRITE_FRACTION)


def _shelf(store: Store, kind: str, *, per_peer_max: int, rows_max: int) -> Shelf:
    bounds = Bounds(
        per_peer_max=per_peer_max,
        rows_max=rows_max,
        row_bytes_max=KEPT_BYTES_MAX,
        bytes_max=_KEPT_BYTES_FACTOR * KEPT_BYTES_MAX,
    )
    return Shelf(store, kind, bounds)


def _spelled(key: Key) -> str:
    plan, index, query = key
    return f"{plan}/{index}/{query}"

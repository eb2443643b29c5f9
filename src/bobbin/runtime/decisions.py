"""The standing decisions of one store, lent to one exchange at a time, and kept between exchanges.

A decision in memory answers the next exchange with the same peer at the cost of what changed since the last. Memory is
bounded twice, like that of policies: per peer, so that a peer that keeps inventing plans pushes out its own, and in
all. A decision that is lent belongs to its borrower alone; a second exchange under the same plan makes its own, and the
one that comes back last stays.

``flush`` writes decisions into the store's area of values that only save work, so that the next process starts where
this one ended. Writing costs what the whole decision weighs, so one that has changed little since it was written stays
as it is: the difference is caught up with when it is read.
"""

from collections import OrderedDict
from typing import Final, TypeAlias

import msgspec
from blake3 import blake3
from msgspec import Struct

from bobbin.errors import UsageError
from bobbin.interlace.ports import Memory
from bobbin.interlace.schema import Schema
from bobbin.policy.executables import LocalPolicy, PolicyCache
from bobbin.policy.frozen import FORMAT, Frozen
from bobbin.policy.modules import Query, Selector
from bobbin.policy.operands import Index, Origin, other
from bobbin.policy.plan import Plan
from bobbin.policy.standing import Standing
from bobbin.store.base import KEPT_BYTES_MAX, Mark, Store

KIND: Final = "standing"
_LIST: Final = "standings"
PER_PEER_MAX: Final = 2
DECISIONS_MAX: Final = 8
KEPT_MAX: Final = 64
MODULES_MAX: Final = 256
_WRITE_FRACTION: Final = 16
"""A decision is written again when this part of it has changed."""
_WRITE_MIN: Final = 256
_DIGEST_SIZE: Final = 32

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
    is_written: bool = False
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
        self._modules: Final[OrderedDict[str, bytes]] = OrderedDict()

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
        kept = self._read(key)
        if kept is None:
            return Held(key=key, peer=peer, standing=Standing(policy))
        standing = Standing.restore(policy, kept.frozen)
        return Held(key=key, peer=peer, standing=standing, mark=kept.mark, is_written=True)

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
        self._write_list([], without=peer)

    def flush(self, *, everything: bool = False) -> int:
        """Write the decisions that are back and have changed enough to be worth it; returns how many.

        With ``everything``, all that have changed at all.
        """
        written = []
        for held in self._held.values():
            worth = _WRITE_MIN + held.standing.size // _WRITE_FRACTION
            if held.is_written and held.unwritten < (1 if everything else worth):
                continue
            assert held.mark is not None
            body = msgspec.msgpack.encode(_Kept(held.mark, held.standing.freeze()))
            raw = blake3(body).digest() + body
            if len(raw) <= KEPT_BYTES_MAX:
                self.store.keep(KIND, _spelled(held.key), raw)
                written.append(held)
            held.unwritten, held.is_written = 0, True
        if written:
            self._write_list(written)
        return len(written)

    def _read(self, key: Key) -> _Kept | None:
        raw = memoryview(self.store.kept(KIND, _spelled(key)) or b"")
        body = raw[_DIGEST_SIZE:]
        # A decision says what leaves this machine, so not a bit of it may have changed at rest.
        if blake3(body).digest() != raw[:_DIGEST_SIZE]:
            return None
        try:
            kept = msgspec.msgpack.decode(body, type=_Kept)
        except msgspec.MsgspecError:
            return None  # of another version: it only saved work
        return kept if kept.frozen.format == FORMAT else None

    def _write_list(self, written: list[Held], *, without: Origin | None = None) -> None:
        """Remember which decisions are in the store, the newest last, and take out those that are too many."""
        raw = self.store.kept(_LIST, _LIST)
        listed: dict[str, str] = {} if raw is None else msgspec.msgpack.decode(raw, type=dict[str, str])
        names = dict(listed)
        for held in written:
            names.pop(_spelled(held.key), None)
            names[_spelled(held.key)] = str(held.peer)
        kept: dict[str, str] = {}
        for name, peer in reversed(names.items()):
            is_full = len(kept) == KEPT_MAX or list(kept.values()).count(peer) == self._per_peer_max
            if peer == without or is_full:
                self.store.keep(KIND, name, None)
            else:
                kept[name] = peer
        if kept != listed:
            self.store.keep(_LIST, _LIST, msgspec.msgpack.encode(dict(reversed(kept.items()))))


def _spelled(key: Key) -> str:
    plan, index, query = key
    return f"{plan}/{index}/{query}"

"""Who holds which key.

Locks are exclusive, and taken all or nothing: a transaction gets every name that it asks for, or none. All that it
holds is under one handle. A handle is a number that is given out once and never again, also not by a table that was
saved and restored; whoever comes back with a handle of the past finds nothing under it.

The same table is used twice. A leader has one for the time before a promise, in which a lock that is held for too long
is free, for its transaction may have been forgotten by everybody. The promised parts of a shard have another, inside
the replicated state, that knows no time. A promised lock ends by a decision, never by a clock.

Waits stand beside the locks, in one graph that follows every change of them: whoever is refused and waits has an edge
to each transaction in its way, worked out from the table as it is at that moment.
"""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from bobbin.cluster.transactions.names import TxId
from bobbin.cluster.transactions.wait_graph import WaitForGraph
from bobbin.errors import IntegrityError, UsageError


class WaitInfo(Struct, frozen=True):
    """One transaction in the way of another, and where."""

    waiter: TxId
    holder: TxId
    names: tuple[bytes, ...]
    """Wanted by the one and held by the other, ascending."""


class LockRefused(Struct, frozen=True):
    """Nothing was taken."""

    waits: tuple[WaitInfo, ...]
    """One for each transaction in the way, by its id, ascending."""

    @property
    def blockers(self) -> tuple[TxId, ...]:
        """Everybody in the way, ascending."""
        return tuple(info.holder for info in self.waits)


class KeyLocks(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What one transaction holds."""

    tx: TxId
    handle: int
    names: tuple[bytes, ...]
    """Ascending."""
    taken_ms: int
    """When the first of them was taken; nothing that comes later makes them last longer."""
    is_promised: bool


class LockTable(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """All locks, as a value."""

    next_handle: int
    locks: tuple[KeyLocks, ...]
    """By handle, ascending."""


class LockManager:
    """The locks of one shard, and who waits for them."""

    def __init__(self, *, timeout_ms: int | None) -> None:
        """``timeout_ms``: after so long an unpromised lock is free; None: never."""
        if timeout_ms is not None and timeout_ms <= 0:
            raise UsageError(f"a lock lasts for more than {timeout_ms} ms")
        self.waits: Final = WaitForGraph()
        self._timeout_ms: Final = timeout_ms
        self._next_handle = 1
        self._locks: dict[TxId, KeyLocks] = {}
        """In the order of their handles."""
        self._owners: dict[bytes, TxId] = {}
        """Of every name that is locked."""
        self._by_handle: dict[int, TxId] = {}
        self._expired: list[TxId] = []
        """Released because somebody else wanted the names, and not told to the clean-up yet."""

    def __len__(self) -> int:
        """How many names are locked."""
        return len(self._owners)

    # ---- what there is ---------------------------------------------------------------------------------------------

    def owner(self, name: bytes) -> TxId | None:
        return self._owners.get(name)

    def held(self, tx: TxId) -> KeyLocks | None:
        """What a transaction holds."""
        return self._locks.get(tx)

    def count(self, tx: TxId) -> int:
        """How many names a transaction holds."""
        held = self._locks.get(tx)
        return 0 if held is None else len(held.names)

    @property
    def transactions(self) -> tuple[TxId, ...]:
        """Everybody who holds something, in the order in which they came."""
        return tuple(self._locks)

    @property
    def next_handle(self) -> int:
        """The next one that will be given out."""
        return self._next_handle

    def blockers(self, tx: TxId, names: Iterable[bytes]) -> tuple[WaitInfo, ...]:
        """Everybody else who holds one of these names, by id, ascending. Nothing is changed."""
        found: dict[TxId, list[bytes]] = {}
        for name in names:
            owner = self._owners.get(name)
            if owner is not None and owner != tx:
                found.setdefault(owner, []).append(name)
        return tuple(WaitInfo(tx, owner, tuple(sorted(set(found[owner])))) for owner in sorted(found))

    # ---- taking ----------------------------------------------------------------------------------------------------

    def try_lock(self, tx: TxId, names: Iterable[bytes], now_ms: int) -> int | LockRefused:
        """Take all of these names, and say under which handle they are; or take none. Nobody is made to wait.

        What the transaction holds already stays its own, under the handle that it has.
        """
        wanted = dict.fromkeys(names)
        # Most of the time nothing is in the way, and nothing needs to be worked out about it.
        owners = self._owners
        if any(owners.get(name, tx) != tx for name in wanted):
            in_the_way = self.blockers(tx, wanted)
            over = [info.holder for info in in_the_way if self._is_over(self._locks[info.holder], now_ms)]
            for holder in over:
                self.release(holder)
            self._expired += over
            if len(over) < len(in_the_way):
                return LockRefused(self.blockers(tx, wanted) if over else in_the_way)
        return self._take(tx, wanted, now_ms)

    def lock_or_wait(
        self,
        tx: TxId,
        names: Iterable[bytes],
        now_ms: int,
        *,
        started_ms: int | None = None,
        born_ms: int = 0,
        priority: int = 0,
    ) -> int | LockRefused:
        """Like ``try_lock``; who is refused waits from then on, with an edge to each transaction in the way.

        Ask again, with the ``started_ms`` of the first time, whenever something was released: the edges are then those
        of the present. ``waits.stop_waiting`` ends a wait without a lock.
        """
        answer = self.try_lock(tx, names, now_ms)
        if isinstance(answer, LockRefused):
            began_ms = now_ms if started_ms is None else started_ms
            self.waits.wait(tx, answer.blockers, started_ms=began_ms, born_ms=born_ms, priority=priority)
        else:
            self.waits.stop_waiting(tx)
        return answer

    def _take(self, tx: TxId, wanted: dict[bytes, None], now_ms: int) -> int:
        held = self._locks.get(tx)
        if held is None:
            held = KeyLocks(tx, self._next_handle, tuple(sorted(wanted)), now_ms, is_promised=False)
            self._next_handle += 1
        else:
            names = tuple(sorted(wanted.keys() | set(held.names)))
            held = KeyLocks(tx, held.handle, names, held.taken_ms, held.is_promised)
        self._put(held)
        return held.handle

    def _put(self, held: KeyLocks) -> None:
        self._locks[held.tx] = held
        self._by_handle[held.handle] = held.tx
        for name in held.names:
            self._owners[name] = held.tx

    def mark_promised(self, tx: TxId) -> bool:
        """From now on no clock ends what a transaction holds. False if it holds nothing, or not any more."""
        held = self._locks.get(tx)
        if held is None:
            return False
        self._locks[tx] = KeyLocks(tx, held.handle, held.names, held.taken_ms, is_promised=True)
        return True

    # ---- letting go ------------------------------------------------------------------------------------------------

    def release(self, tx: TxId) -> tuple[bytes, ...]:
        """A transaction is over: it holds nothing, waits for nobody, and nobody waits for it. The names it held."""
        self.waits.remove(tx)
        held = self._locks.get(tx)
        if held is None:
            return ()
        self._free(held)
        return held.names

    def release_handle(self, handle: int) -> tuple[bytes, ...]:
        """The same, for the transaction with this handle; nothing if the handle is of the past."""
        tx = self._by_handle.get(handle)
        return () if tx is None else self.release(tx)

    def cleanup_expired(self, now_ms: int) -> tuple[TxId, ...]:
        """Release whatever was held for too long without a promise; whose it was, since the last time this was asked.

        Others may have waited for these: ask for their locks again.
        """
        over = [held.tx for held in self._locks.values() if self._is_over(held, now_ms)]
        for tx in over:
            self.release(tx)
        told, self._expired = (*self._expired, *over), []
        return told

    def _is_over(self, held: KeyLocks, now_ms: int) -> bool:
        return self._timeout_ms is not None and not held.is_promised and now_ms - held.taken_ms >= self._timeout_ms

    def _free(self, held: KeyLocks) -> None:
        del self._locks[held.tx], self._by_handle[held.handle]
        for name in held.names:
            del self._owners[name]

    # ---- keeping ---------------------------------------------------------------------------------------------------

    def save(self) -> LockTable:
        """All locks. Waits are not kept: whoever waits asks again."""
        return LockTable(self._next_handle, tuple(sorted(self._locks.values(), key=lambda held: held.handle)))

    def restore(self, table: LockTable) -> None:
        """Become what was saved, with nobody waiting; ``IntegrityError`` leaves everything as it was.

        The counter of handles never goes back, whatever the table says.
        """
        self._check_table(table)
        self._next_handle = max(self._next_handle, table.next_handle)
        self._locks, self._owners, self._by_handle = {}, {}, {}
        self._expired = []
        self.waits.clear()
        for held in table.locks:
            self._put(held)

    @staticmethod
    def _check_table(table: LockTable) -> None:
        before = 0
        owners: set[bytes] = set()
        transactions: set[TxId] = set()
        for held in table.locks:
            if not before < held.handle < table.next_handle:
                raise IntegrityError(f"handle {held.handle} of saved locks does not lie between its neighbours")
            before = held.handle
            if held.tx in transactions:
                raise IntegrityError(f"transaction {held.tx.hex()} has two handles")
            transactions.add(held.tx)
            if not owners.isdisjoint(held.names) or len(set(held.names)) < len(held.names):
                raise IntegrityError(f"a name of transaction {held.tx.hex()} is locked twice")
            owners.update(held.names)

    def check(self) -> None:
        """What always holds."""
        self.waits.check()
        owners = {name: held.tx for held in self._locks.values() for name in held.names}
        assert owners == self._owners, "names and transactions tell different things"
        assert sum(len(held.names) for held in self._locks.values()) == len(owners), "a name has two owners"
        assert self._by_handle == {held.handle: tx for tx, held in self._locks.items()}, "a handle of the past"
        assert all(handle < self._next_handle for handle in self._by_handle), "a handle that may be given out again"

"""A transaction in the making: reads of one moment, writes that nobody sees until they are committed.

=============  ================  =============
from           on                to
=============  ================  =============
Active         commit is asked   Committing
Active         rollback          RolledBack
Committing     block is on       Committed
Committing     refused           Failed
=============  ================  =============

Nothing is copied at the beginning and nothing is written before the end, so rolling back is to forget. Reads give the
store as of the beginning with the workspace's own writes on top, and what was read from the store is remembered with
its version: it must still be so when the transaction commits.
"""

from enum import Enum
from typing import Final, Protocol

from bobbin.cluster.chain.errors import WrongState
from bobbin.cluster.chain.holdings import Held, result_of
from bobbin.cluster.chain.versions import Item
from bobbin.cluster.operations import (
    OPERATIONS_MAX,
    Delete,
    EdgeCreate,
    Embed,
    NodeCreate,
    NodeDelete,
    Operation,
    Put,
    ReadVersion,
    TableDelete,
    TableInsert,
    Transaction,
    storage_key,
    why_operation_invalid,
)
from bobbin.errors import UsageError


class WorkspaceState(Enum):
    """Where a workspace stands."""

    ACTIVE = "active"
    COMMITTING = "committing"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled-back"
    FAILED = "failed"


TRANSITIONS: Final = {
    WorkspaceState.ACTIVE: frozenset({WorkspaceState.COMMITTING, WorkspaceState.ROLLED_BACK}),
    WorkspaceState.COMMITTING: frozenset({WorkspaceState.COMMITTED, WorkspaceState.FAILED}),
    WorkspaceState.COMMITTED: frozenset[WorkspaceState](),
    WorkspaceState.ROLLED_BACK: frozenset[WorkspaceState](),
    WorkspaceState.FAILED: frozenset[WorkspaceState](),
}


_BLIND: Final = (Put, Delete, Embed, NodeCreate, NodeDelete, EdgeCreate, TableInsert, TableDelete)
"""After one of these it does not matter what the store had."""


class Reader(Protocol):
    """A store whose past can be read."""

    def get(self, key: bytes, at: int) -> Item | None:
        """What a storage key held at a height."""
        ...


class TransactionWorkspace:
    """One transaction of one owner, on one shard."""

    def __init__(self, id: bytes, reader: Reader, *, since: int, born_ms: int = 0, priority: int = 0) -> None:
        self.id: Final = id
        self.since: Final = since
        """The height that is read."""
        self.state = WorkspaceState.ACTIVE
        self._reader = reader
        self._born_ms = born_ms
        self._priority = priority
        self._operations: list[Operation] = []
        self._reads: dict[bytes, int] = {}

    @property
    def operations(self) -> tuple[Operation, ...]:
        return tuple(self._operations)

    def add_operation(self, operation: Operation) -> None:
        """Buffer a write. Raises ``WrongState`` unless active, and ``UsageError`` for what could never be done."""
        self._expect(WorkspaceState.ACTIVE)
        wrong = why_operation_invalid(operation)
        if wrong is not None:
            raise UsageError(wrong)
        if len(self._operations) >= OPERATIONS_MAX:
            raise UsageError(f"a transaction has at most {OPERATIONS_MAX} operations")
        self._operations.append(operation)

    def get(self, key: bytes) -> Item | None:
        """What a storage key holds for this workspace: the store as of its beginning, and then its own writes.

        The version is that of the store; 0 for what only this workspace has written.
        """
        self._expect(WorkspaceState.ACTIVE)
        own = [operation for operation in self._operations if storage_key(operation) == key]
        version, held = 0, None
        if not any(isinstance(operation, _BLIND) for operation in own):
            version, held = self._read(key)
        for operation in own:
            result = result_of(operation, held)
            held = held if isinstance(result, str) else result
        return None if held is None else Item(key, held.value, version, held.holds)

    def _read(self, key: bytes) -> tuple[int, Held | None]:
        item = self._reader.get(key, self.since)
        self._reads[key] = 0 if item is None else item.version
        return (0, None) if item is None else (item.version, Held(item.holds, item.value))

    def transaction(self) -> Transaction:
        """What is to be committed."""
        reads = tuple(ReadVersion(key, self._reads[key]) for key in sorted(self._reads))
        return Transaction(self.id, self.operations, reads, self.since, self._born_ms, self._priority)

    # ---- the life of a workspace -------------------------------------------------------------------------------------

    def ask(self) -> Transaction:
        """Ask to commit: nothing is added from here on."""
        self._go(WorkspaceState.COMMITTING)
        return self.transaction()

    def rollback(self) -> None:
        """Forget the buffer. What others have committed is none of its business."""
        self._go(WorkspaceState.ROLLED_BACK)
        self._operations.clear()
        self._reads.clear()

    def committed(self) -> None:
        """Its block is on the chain."""
        self._go(WorkspaceState.COMMITTED)

    def failed(self) -> None:
        """It was refused; nothing of it was done."""
        self._go(WorkspaceState.FAILED)

    def _go(self, to: WorkspaceState) -> None:
        if to not in TRANSITIONS[self.state]:
            raise WrongState(f"a workspace that is {self.state.value} does not become {to.value}")
        self.state = to

    def _expect(self, state: WorkspaceState) -> None:
        if self.state is not state:
            raise WrongState(f"the workspace is {self.state.value}, not {state.value}")

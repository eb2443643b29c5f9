"""Connections for snapshots: lent out with one moment pinned, taken back, and kept for the next.

A snapshot may end in another thread than the one that began it, so the idle connections are guarded by a lock. A
connection that is still reading when it comes back (an iterator of the snapshot was left unfinished) is closed
instead of kept: the next snapshot would inherit its moment.
"""

from collections.abc import Callable, Iterator
from threading import Lock
from types import TracebackType
from typing import Self, TypeVar

import apsw

from bobbin.errors import UsageError
from bobbin.store.sqlite import faults, tally
from bobbin.store.sqlite.connection import Source

Item = TypeVar("Item")


class Moment:
    """A connection that sees one moment of the store, until it is closed."""

    def __init__(self, readers: "Readers", connection: apsw.Connection) -> None:
        self._readers = readers
        self.path = readers.source.path
        self.connection = connection
        self.is_closed = False
        connection.execute("BEGIN")
        # SQLite pins the moment at the first read, not at BEGIN.
        self.high_water = tally.high_water(connection)

    def walk(self, begin: Callable[[apsw.Connection], Iterator[Item]]) -> Iterator[Item]:
        """Iterate over something of this moment. After the moment has ended, the iterator fails when it is used."""
        with faults.translated(self.path):
            self.require_open()
            for item in begin(self.connection):
                yield item
                self.require_open()

    def require_open(self) -> None:
        """Refuse to go on after the end: by now the connection may show another moment to someone else."""
        if self.is_closed:
            raise UsageError(f"this snapshot of the store {self.path} is closed")

    def close(self) -> None:
        """End the moment and give the connection back. Closing twice does nothing."""
        if not self.is_closed:
            self.is_closed = True
            self._readers.take_back(self.connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Readers:
    """The connections of one store object that only read."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._idle: list[apsw.Connection] = []
        self._lock = Lock()
        self._is_closed = False

    def lend(self) -> Moment:
        """A connection that sees this moment from now on."""
        with faults.translated(self.source.path):
            self.source.verify_unchanged()
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            connection = connection or self.source.reader()
            try:
                return Moment(self, connection)
            except BaseException:
                connection.close(force=True)
                raise

    def take_back(self, connection: apsw.Connection) -> None:
        """Keep a connection whose moment has ended for the next, or close it."""
        with faults.translated(self.source.path):
            connection.execute("ROLLBACK")
            is_idle = connection.txn_state("main") == apsw.SQLITE_TXN_NONE
            with self._lock:
                if is_idle and not self._is_closed and len(self._idle) < self.source.config.idle_readers_max:
                    self._idle.append(connection)
                    return
            connection.close(force=True)

    def close(self) -> None:
        """Close what is idle; what is lent out is closed when it comes back."""
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close(force=True)

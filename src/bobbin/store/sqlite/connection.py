"""How a store's file is opened: one connection that writes, any number that read.

The write-ahead log lets readers see one moment while a writer goes on, in this process or another. ``synchronous`` is
FULL, so a commit returns after its bytes are on the disk, unless the configuration says that a log stands behind the
store. A reader refuses to write whatever it is asked.

Never open the database file by other means in a process that has it open here: closing such a handle drops the locks
of SQLite in the whole process (POSIX advisory locks work that way), and two writers could then damage the file.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto
from pathlib import Path
from urllib.parse import quote

import apsw
from msgspec import Struct

from bobbin.errors import UsageError
from bobbin.store.base import StoreError
from bobbin.store.sqlite import schema
from bobbin.store.sqlite.config import Config


class Access(Enum):
    """How far a store object may go."""

    WRITE = auto()
    READ = auto()
    READ_UNLOCKED = auto()
    """Where not even the files for locks can be made: a read-only folder or medium. Nobody may be writing."""


class Source(Struct, frozen=True, kw_only=True):
    """A database file and the way in which this store object opens it."""

    path: Path
    access: Access
    config: Config
    fingerprint: tuple[int, int, int] | None = None
    """What the file looked like when it was opened unlocked; it must stay so."""

    def main(self) -> apsw.Connection:
        """The connection of the store object itself: it writes, if anyone may."""
        return self._prepared(self.config.writer_cache_bytes, may_write=self.access is Access.WRITE)

    def reader(self) -> apsw.Connection:
        """A connection for a snapshot."""
        return self._prepared(self.config.reader_cache_bytes, may_write=False)

    def verify_unchanged(self) -> None:
        """Without locks, a change under our feet is only noticed like this."""
        if self.fingerprint is not None and fingerprint_of(self.path) != self.fingerprint:
            raise StoreError(f"{self.path} was changed while it was open without locks; open it again", retry=True)

    def _prepared(self, cache_bytes: int, *, may_write: bool) -> apsw.Connection:
        flags = apsw.SQLITE_OPEN_READWRITE if self.access is Access.WRITE else apsw.SQLITE_OPEN_READONLY
        name = str(self.path)
        if self.access is Access.READ_UNLOCKED:
            flags |= apsw.SQLITE_OPEN_URI
            name = f"file:{quote(name)}?immutable=1"
        try:
            connection = apsw.Connection(name, flags=flags, vfs=self.config.vfs)
        except UnicodeEncodeError as error:
            raise UsageError(f"SQLite cannot open a path that is not UTF-8: {name!r}") from error
        try:
            connection.set_busy_timeout(self.config.busy_timeout_ms)
            connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
            connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
            connection.pragma("cache_size", -(cache_bytes // 1024))
            if may_write:
                set_up_writing(connection, self.config)
            else:
                connection.pragma("query_only", 1)
        except BaseException:
            connection.close(force=True)
            raise
        return connection


def set_up_writing(connection: apsw.Connection, config: Config) -> None:
    """What makes a commit durable, and how long the log may grow."""
    connection.pragma("synchronous", "FULL" if config.syncs_commits else "NORMAL")
    # What was removed is overwritten, not merely unlinked.
    connection.pragma("secure_delete", 1)
    # On macOS a plain fsync does not reach the disk. Elsewhere these two change nothing.
    connection.pragma("fullfsync", 1)
    connection.pragma("checkpoint_fullfsync", 1)
    connection.wal_autocheckpoint(max(1, config.wal_bytes // schema.PAGE_BYTES))
    connection.pragma("journal_size_limit", config.wal_bytes)


def fingerprint_of(path: Path) -> tuple[int, int, int]:
    """What tells one state of a file from another, as far as the file system knows."""
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


@contextmanager
def transaction(connection: apsw.Connection) -> Iterator[None]:
    """Everything inside is written, or nothing is. Waits for its turn at the start, so it never fails half-way."""
    try:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("COMMIT")
    except BaseException:
        # After some failures SQLite has rolled back by itself.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise

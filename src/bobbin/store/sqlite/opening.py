"""Finding out what a path holds, and opening it as a store, or saying clearly why not.

A new store is built under a temporary name and appears at once, whole: a crash never leaves half a store behind, and
of two processes that create the same one, both end up with the same one.
"""

from collections.abc import Callable
from pathlib import Path

import apsw
from msgspec import structs

from bobbin.errors import UsageError
from bobbin.store.base import DamagedStore, StoreError
from bobbin.store.sqlite import faults, migrations, schema
from bobbin.store.sqlite.config import Config
from bobbin.store.sqlite.connection import Access, Source, fingerprint_of
from bobbin.store.sqlite.publish import published
from bobbin.store.sqlite.store import SqliteStore


def open_store(
    path: Path,
    *,
    create: bool = False,
    now: Callable[[], int],
    read_only: bool = False,
    config: Config | None = None,
) -> SqliteStore:
    """Open the store whose database file is ``path``.

    ``create`` makes one if there is nothing at the path; the folder must exist. ``now`` is the caller's clock, in TAI
    nanoseconds; it dates refusals and quarantined bytes. ``read_only`` opens a store that will not be changed through
    this object, from a read-only medium if need be.

    Raises ``UsageError`` where the path holds no store, ``StoreError`` where it holds something that cannot be used
    as one. In both cases the file is as it was.
    """
    config = config or Config()
    path = path.absolute()
    if create and not read_only and not _is_there(path):
        _create(path)
    _require_file(path)
    source, connection = _connect(path, config, read_only=read_only)
    try:
        with faults.translated(path, connection):
            _identify(connection, path)
            if not read_only:
                _make_ready(connection, path)
            elif migrations.version_of(connection) < migrations.VERSION:
                raise StoreError(f"the store {path} is of an older version; open it for writing once", retry=False)
            return SqliteStore(source, connection, now=now)
    except BaseException:
        connection.close(force=True)
        raise


def _is_there(path: Path) -> bool:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise StoreError(f"the store {path} cannot be reached ({error})", retry=False) from error
    return True


def _require_file(path: Path) -> None:
    if not _is_there(path):
        raise UsageError(f"there is no store at {path}")
    if not path.is_file():
        raise UsageError(f"there is no store at {path}: it is not a file")
    if path.stat().st_size == 0:
        raise UsageError(f"there is no store at {path}: the file is empty")


def _create(path: Path) -> None:
    try:
        with published(path) as temporary, faults.translated(path):
            flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
            connection = apsw.Connection(str(temporary), flags=flags)
            try:
                connection.pragma("page_size", schema.PAGE_BYTES)
                # Nobody knows the file yet: it needs no journal, and is flushed once, when it gets its name.
                connection.pragma("journal_mode", "OFF")
                connection.pragma("synchronous", "OFF")
                migrations.migrate(connection)
                # Last, so that all is in the one file that gets its name.
                connection.pragma("journal_mode", "WAL")
            finally:
                connection.close()
    except FileExistsError:
        # Another process was faster, and made a whole store.
        return


def _connect(path: Path, config: Config, *, read_only: bool) -> tuple[Source, apsw.Connection]:
    source = Source(path=path, access=Access.READ if read_only else Access.WRITE, config=config)
    with faults.translated(path):
        try:
            return source, _first_look(source)
        except (apsw.CantOpenError, apsw.ReadOnlyError):
            # SQLite cannot make its files for locks and log beside the database. Without a log there is no writer.
            if not read_only or path.with_name(f"{path.name}-wal").exists():
                raise
            source = structs.replace(source, access=Access.READ_UNLOCKED, fingerprint=fingerprint_of(path))
            return source, _first_look(source)


def _first_look(source: Source) -> apsw.Connection:
    """A connection that has read the file's header, so that it is known to be a database that can be read."""
    connection = source.main()
    try:
        # Until the file is known to be a store, closing must not bring a log of someone else's into it.
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.pragma("user_version")
    except BaseException:
        connection.close(force=True)
        raise
    return connection


def _identify(connection: apsw.Connection, path: Path) -> None:
    if connection.pragma("application_id") != schema.APPLICATION_ID:
        raise StoreError(f"{path} is a SQLite database, but not a store of Bobbin", retry=False)
    version = migrations.version_of(connection)
    if version > migrations.VERSION:
        sentence = f"the store {path} was written by a newer Bobbin (schema {version}, this one knows up to"
        raise StoreError(f"{sentence} {migrations.VERSION})", retry=False)
    if version < 1:
        raise DamagedStore(f"the store {path} is damaged: its schema version is {version}")
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)


def _make_ready(connection: apsw.Connection, path: Path) -> None:
    if connection.readonly("main"):
        raise StoreError(f"the store {path} cannot be written: the file is read-only", retry=False)
    if connection.pragma("journal_mode") != "wal" and connection.pragma("journal_mode", "WAL") != "wal":
        raise StoreError(f"the store {path} cannot have a write-ahead log here", retry=False)
    migrations.migrate(connection)

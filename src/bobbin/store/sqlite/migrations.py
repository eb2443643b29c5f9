"""Bringing a database from one schema version to the next.

``STEPS[n]`` takes a database from version n to version n + 1; a new store is version 0 and takes them all, so a store
that was made yesterday and one that grew over years have the same tables, letter for letter. All steps of one
``migrate`` are one transaction: after a crash the store has the old version or the new one, nothing between.
"""

from collections.abc import Callable, Sequence
from typing import Final

import apsw

from bobbin.store.sqlite import schema
from bobbin.store.sqlite.connection import transaction

Step = Callable[[apsw.Connection], None]


def _create_version_1(connection: apsw.Connection) -> None:
    connection.execute(schema.VERSION_1)
    connection.pragma("application_id", schema.APPLICATION_ID)


def _add_version_2(connection: apsw.Connection) -> None:
    connection.execute(schema.VERSION_2)


def _add_version_3(connection: apsw.Connection) -> None:
    connection.execute(schema.VERSION_3)


def _add_version_4(connection: apsw.Connection) -> None:
    connection.execute(schema.VERSION_4)


STEPS: Final[tuple[Step, ...]] = (_create_version_1, _add_version_2, _add_version_3, _add_version_4)
VERSION: Final = len(STEPS)
"""The version that this program writes."""


def version_of(connection: apsw.Connection) -> int:
    """The schema version of a database."""
    version: int = connection.pragma("user_version")
    return version


def migrate(connection: apsw.Connection, *, steps: Sequence[Step] = STEPS) -> None:
    """Take the steps that this database has not taken yet. Does nothing to one that is as new, or newer."""
    if version_of(connection) >= len(steps):
        return
    with transaction(connection):
        # Another process may have migrated while this one waited for its turn.
        version = version_of(connection)
        for step in steps[version:]:
            step(connection)
        if version < len(steps):
            connection.pragma("user_version", len(steps))


def expected_schema() -> set[tuple[str, str, str, str | None]]:
    """What ``sqlite_schema`` of a store of this version says."""
    connection = apsw.Connection(":memory:")
    try:
        migrate(connection)
        return read_schema(connection)
    finally:
        connection.close()


def read_schema(connection: apsw.Connection) -> set[tuple[str, str, str, str | None]]:
    """Type, name, table and text of everything that a database defines."""
    return set(connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name <> 'sqlite_stat1'"))

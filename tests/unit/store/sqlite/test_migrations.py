"""From version to version."""

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from bobbin.store.base import Mark
from bobbin.store.sqlite import migrations, open_store
from bobbin.store.sqlite.migrations import STEPS, Step, expected_schema, migrate, read_schema, version_of
from tests.conformance.samples import plex


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[apsw.Connection]:
    opened = apsw.Connection(str(tmp_path / "x.db"))
    yield opened
    opened.close()


def add_table(connection: apsw.Connection) -> None:
    connection.execute("CREATE TABLE added(x)")


def fail(connection: apsw.Connection) -> None:
    connection.execute("CREATE TABLE half(x)")
    raise ZeroDivisionError


def test_a_new_database_takes_every_step(connection: apsw.Connection) -> None:
    migrate(connection)
    assert version_of(connection) == migrations.VERSION == len(STEPS)
    assert read_schema(connection) == expected_schema()


def test_an_old_database_takes_only_the_steps_it_has_not_taken(connection: apsw.Connection) -> None:
    taken: list[int] = []
    steps: list[Step] = [lambda _, number=number: taken.append(number) for number in range(4)]  # type: ignore[misc]
    migrate(connection, steps=steps[:2])
    assert (version_of(connection), taken) == (2, [0, 1])
    migrate(connection, steps=steps)
    assert (version_of(connection), taken) == (4, [0, 1, 2, 3])
    migrate(connection, steps=steps)
    assert taken == [0, 1, 2, 3]


def test_a_store_of_version_1_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with open_store(path, create=True, now=lambda: 0) as store:
        store.put_records([plex(1), plex(2)])
        store.remove(plex(2).hash, reason="old")
    make_version_1(path)
    with open_store(path, now=lambda: 0) as store:
        assert store.stat().schema_version == migrations.VERSION
        assert list(store.check()) == []
        # Nobody wrote down what was removed before there was a log.
        assert store.changes(Mark()).stored == (plex(1).hash,)
        assert store.changes(Mark()).removed == frozenset()
        store.lift(plex(2).hash)
        store.remove(plex(1).hash, reason="new")
        assert store.changes(Mark()).removed == {plex(1).hash}
        assert store.changes(Mark()).lifted == {plex(2).hash}
        assert list(store.check()) == []


def make_version_1(path: Path) -> None:
    """Take out what came later, down to the very tables of version 1."""
    connection = apsw.Connection(str(path))
    connection.execute("DROP TABLE change; DROP TABLE kept")
    connection.execute("DROP TABLE message; DROP TABLE tangle; DROP TABLE member")
    connection.execute("DROP TABLE lacking; DROP TABLE waiting; DROP TABLE tangle_tally")
    connection.execute("DROP TABLE replica; DROP TABLE answer; DROP TABLE piece; DROP TABLE effect")
    connection.pragma("user_version", 1)
    first = apsw.Connection(":memory:")
    migrate(first, steps=STEPS[:1])
    assert read_schema(connection) == read_schema(first)
    first.close()
    connection.close()


def test_a_newer_database_is_left_alone(connection: apsw.Connection) -> None:
    migrate(connection, steps=[*STEPS, add_table])
    migrate(connection)
    assert version_of(connection) == len(STEPS) + 1


def test_a_step_that_fails_undoes_all_of_them(connection: apsw.Connection) -> None:
    migrate(connection)
    before = read_schema(connection)
    with pytest.raises(ZeroDivisionError):
        migrate(connection, steps=[*STEPS, add_table, fail])
    assert version_of(connection) == len(STEPS)
    assert read_schema(connection) == before
    assert not connection.in_transaction


def test_the_version_is_read_again_when_the_turn_has_come(connection: apsw.Connection, tmp_path: Path) -> None:
    # Between the first look and the lock, another process migrates.
    other = apsw.Connection(str(tmp_path / "x.db"))

    def look(statement: str, _: object) -> bool:
        if statement.startswith("BEGIN") and version_of(other) == 0:
            migrate(other)
        return True

    def trace(_: apsw.Cursor, statement: str, bindings: object) -> bool:
        return look(statement, bindings)

    connection.exec_trace = trace
    migrate(connection)
    connection.exec_trace = None
    other.close()
    assert read_schema(connection) == expected_schema()

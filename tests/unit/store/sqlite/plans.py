"""What SQLite plans to do for a statement, and how many steps it took."""

import re
from collections.abc import Callable, Iterable

import apsw

_SCAN = re.compile(r"SCAN (\w+)")
_SMALL = {"used", "CONSTANT"}


def scanned_tables(connection: apsw.Connection, statement: str, bindings: tuple[int | str | bytes, ...]) -> set[str]:
    """The tables (by their alias) that a statement walks through from end to end."""
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}", bindings)]
    assert plan, "a statement has a plan"
    found = {match[1] for line in plan if (match := _SCAN.match(line))}
    return found - _SMALL


def steps(connection: apsw.Connection, work: Callable[[], Iterable[object]]) -> int:
    """How many instructions SQLite's machine runs for this work, to the nearest ten."""
    count = 0

    def tick() -> bool:
        nonlocal count
        count += 10
        return False

    connection.set_progress_handler(tick, 10)
    try:
        for _ in work():
            pass
    finally:
        connection.set_progress_handler(None)
    return count

"""Values that only save work, by kind and key. Losing one costs time and nothing else.

A value that is kept again gets a new number, so numbers tell which was kept longest ago.
"""

from collections.abc import Iterator
from typing import Final

import apsw

from bobbin.errors import UsageError
from bobbin.store.base import KEPT_BYTES_MAX
from bobbin.store.sqlite import coding

_GET: Final = "SELECT value FROM kept WHERE kind = ? AND key = ?"
_ROWS: Final = "SELECT key, length(value) FROM kept WHERE kind = ? ORDER BY id"
_PUT: Final = "INSERT OR REPLACE INTO kept(kind, key, value) VALUES (?, ?, ?)"
_DROP: Final = "DELETE FROM kept WHERE kind = ? AND key = ?"


def check(kind: str, key: str, value: bytes | None) -> None:
    """Refuse a name that cannot be stored, or a value that is too long."""
    if not kind or not key or not coding.can_be_stored(kind) or not coding.can_be_stored(key):
        raise UsageError(f"a kept value has a kind and a key that are texts, not {kind[:80]!r} and {key[:80]!r}")
    if value is not None and len(value) > KEPT_BYTES_MAX:
        raise UsageError(f"a kept value has at most {KEPT_BYTES_MAX} bytes, not {len(value)}")


def get(connection: apsw.Connection, kind: str, key: str) -> bytes | None:
    """The value, or None."""
    check(kind, key, None)
    found: bytes | None = connection.execute(_GET, (kind, key)).get
    return found


def rows(connection: apsw.Connection, kind: str) -> Iterator[tuple[str, int]]:
    """The keys of a kind, with the sizes of their values, the oldest first."""
    yield from connection.execute(_ROWS, (kind,))


def put(connection: apsw.Connection, kind: str, key: str, value: bytes | None) -> None:
    """Keep a value, or take it out."""
    if value is None:
        connection.execute(_DROP, (kind, key))
    else:
        connection.execute(_PUT, (kind, key, value))


def clear(connection: apsw.Connection) -> None:
    """Take everything out."""
    connection.execute("DELETE FROM kept")

"""Values that only save work, by kind and key. Losing one costs time and nothing else."""

from typing import Final

import apsw

from bobbin.errors import UsageError
from bobbin.store.base import KEPT_BYTES_MAX
from bobbin.store.sqlite import coding

_GET: Final = "SELECT value FROM kept WHERE kind = ? AND key = ?"
_PUT: Final = (
    "INSERT INTO kept(kind, key, value) VALUES (?, ?, ?) ON CONFLICT(kind, key) DO UPDATE SET value = excluded.value"
)
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


def put(connection: apsw.Connection, kind: str, key: str, value: bytes | None) -> None:
    """Keep a value, or take it out."""
    if value is None:
        connection.execute(_DROP, (kind, key))
    else:
        connection.execute(_PUT, (kind, key, value))

"""Reading records: one by its name, many in commit order.

``get`` is the hot path: one prepared statement over the key, and the record's own first line to compare with.
"""

from collections.abc import Iterator
from typing import Final

import apsw

from bobbin.errors import UsageError
from bobbin.records import ids
from bobbin.records.ids import HashText
from bobbin.store.base import DamagedStore, StoredRecord, StoreRecordId
from bobbin.store.sqlite import coding

START: Final = StoreRecordId(0)
"""Before every record."""

GET: Final = "SELECT raw FROM record WHERE key = ?"
LOCATE: Final = "SELECT r.id, f.kind, f.digest FROM record r CROSS JOIN fact f ON f.id = r.id WHERE r.key = ?"
SCAN: Final = "SELECT id, raw FROM record WHERE id > ? ORDER BY id LIMIT ?"


def get(cursor: apsw.Cursor, hash_text: HashText) -> bytes | None:
    """The bytes of a record, or None."""
    found: bytes | list[bytes] | None = cursor.execute(GET, (coding.key_of_hash(hash_text),)).get
    name = hash_text.encode()
    if isinstance(found, bytes):
        if found[coding.NAME] == name:
            return found
    elif found is not None:
        # Keys that collide.
        for raw in found:
            if raw[coding.NAME] == name:
                return raw
    if found is not None and locate(cursor, hash_text) is not None:
        raise DamagedStore(f"the store is damaged: the stored bytes of {hash_text} open with another name")
    # Not there. A text that is no name could not have been there: say so.
    ids.parse_hash(hash_text)
    return None


def locate(cursor: apsw.Cursor | apsw.Connection, hash_text: HashText) -> StoreRecordId | None:
    """Where a record stands, or None."""
    for number, kind, digest in cursor.execute(LOCATE, (coding.key_of_hash(hash_text),)):
        if coding.hash_text(kind, digest) == hash_text:
            return StoreRecordId(number)
    ids.parse_hash(hash_text)
    return None


def scan(connection: apsw.Connection, *, after: StoreRecordId, limit: int | None) -> Iterator[StoredRecord]:
    """Records in commit order."""
    for number, raw in connection.execute(SCAN, (after, -1 if limit is None else limit)):
        yield StoredRecord(StoreRecordId(number), coding.hash_of_raw(raw), raw)


def check_limit(limit: int | None) -> None:
    """Refuse a limit that is not a number of records."""
    if limit is not None and limit < 0:
        raise UsageError(f"a limit is a number of records, not {limit}")

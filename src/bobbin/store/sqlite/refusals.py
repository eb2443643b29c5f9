"""Names of records that were removed and must not come back."""

from array import array
from collections.abc import Iterator, Sequence

import apsw

from bobbin.records.ids import HashText
from bobbin.store.base import Refusal
from bobbin.store.sqlite import coding
from bobbin.store.sqlite.tally import Tally


def reasons(connection: apsw.Connection, keys: Sequence[int]) -> dict[HashText, str]:
    """Of the records with these keys, those that are refused, and why. Other names may be among them."""
    if not keys:
        return {}
    wanted = apsw.carray(array("q", keys))
    return dict(connection.execute("SELECT hash, reason FROM refusal WHERE key IN carray(?)", (wanted,)))


def refuse(connection: apsw.Connection, tally: Tally, hash_text: HashText, *, reason: str, now: int) -> None:
    """Refuse a record from now on. A second refusal keeps its place and takes the newer reason."""
    row = (coding.key_of_hash(hash_text), hash_text, coding.storable(reason), coding.tai_column(now))
    before = connection.total_changes()
    connection.execute("INSERT INTO refusal(key, hash, reason, tai) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", row)
    if connection.total_changes() > before:
        tally.refused += 1
    else:
        connection.execute("UPDATE refusal SET reason = ?, tai = ? WHERE hash = ?", (row[2], row[3], row[1]))


def lift(connection: apsw.Connection, tally: Tally, hash_text: HashText) -> bool:
    """End a refusal. False if there was none."""
    connection.execute("DELETE FROM refusal WHERE hash = ?", (hash_text,))
    lifted = connection.changes() > 0
    tally.refused -= lifted
    return lifted


def walk(connection: apsw.Connection) -> Iterator[Refusal]:
    """Every refusal, the oldest first."""
    for hash_text, reason, column in connection.execute("SELECT hash, reason, tai FROM refusal ORDER BY id"):
        yield Refusal(hash=hash_text, reason=reason, tai=coding.tai_of_column(column))

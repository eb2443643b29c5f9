"""Bytes that were rejected, with the reason, the source and the time. Nothing here is ever taken for a record.

Whoever sends rubbish must not fill the disk. Up to a total size the bytes are kept; beyond it, and for single items
beyond their own bound, a row says everything but the bytes; beyond a number of rows a rejection is only counted
(``quarantine_overflow``). Nothing is dropped without a trace, and no older row makes room for a newer one.

The same bytes, rejected again at the same place of the same source, are one row: to repeat an import changes nothing.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import apsw
from blake3 import blake3

from bobbin.store.base import Quarantined, Rejected
from bobbin.store.sqlite import coding
from bobbin.store.sqlite.config import Config
from bobbin.store.sqlite.tally import Tally

KNOWN: Final = (
    "SELECT EXISTS (SELECT 1 FROM quarantine WHERE key = ? AND start IS ? AND source = ? AND size = ? AND reason = ?)"
)
"""Whether a rejection is there already. The key is a part of a digest of the bytes, kept or not."""

_WHOLE: Final = "SELECT id, raw, size, reason, detail, source, start, tai, raw IS NOT NULL FROM quarantine"
_WITHOUT_BYTES: Final = "SELECT id, NULL, size, reason, detail, source, start, tai, raw IS NOT NULL FROM quarantine"
_ADD: Final = (
    "INSERT INTO quarantine(key, raw, size, reason, detail, source, start, tai) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)


def add(connection: apsw.Connection, tally: Tally, rejected: Sequence[Rejected], *, config: Config, now: int) -> None:
    """Put rejected bytes there, as far as there is room."""
    tai = coding.tai_column(now)
    for item in rejected:
        if tally.quarantined >= config.quarantine_rows_max:
            tally.quarantine_overflow += 1
            continue
        key = coding.key_of(blake3(item.raw).digest())
        size = len(item.raw)
        reason, detail, source = map(coding.storable, (item.reason, item.detail, item.source))
        if connection.execute(KNOWN, (key, item.offset, source, size, reason)).get:
            continue
        fits = tally.quarantine_bytes + size <= config.quarantine_bytes_max
        keep = fits and size <= config.quarantine_item_bytes_max
        raw = item.raw if keep else None
        connection.execute(_ADD, (key, raw, size, reason, detail, source, item.offset, tai))
        tally.quarantined += 1
        tally.quarantine_bytes += size if keep else 0


def release(connection: apsw.Connection, tally: Tally, number: int) -> bool:
    """Forget one row. False if there was none."""
    kept = connection.execute("DELETE FROM quarantine WHERE id = ? RETURNING coalesce(length(raw), 0)", (number,)).get
    if kept is None:
        return False
    tally.quarantined -= 1
    tally.quarantine_bytes -= kept
    return True


def release_all(connection: apsw.Connection, tally: Tally) -> int:
    """Forget every row, and what was only counted."""
    rows = tally.quarantined
    connection.execute("DELETE FROM quarantine")
    tally.quarantined = tally.quarantine_bytes = tally.quarantine_overflow = 0
    return rows


def walk(connection: apsw.Connection, *, with_bytes: bool) -> Iterator[Quarantined]:
    """Every row, the oldest first."""
    columns = _WHOLE if with_bytes else _WITHOUT_BYTES
    return map(_row, connection.execute(f"{columns} ORDER BY id"))


def find(connection: apsw.Connection, number: int) -> Quarantined | None:
    """One row, or None."""
    return next(map(_row, connection.execute(f"{_WHOLE} WHERE id = ?", (number,))), None)


def _row(columns: tuple[int, bytes | None, int, str, str, str, int | None, int, int]) -> Quarantined:
    number, raw, size, reason, detail, source, start, tai, kept = columns
    return Quarantined(
        id=number,
        raw=raw,
        size=size,
        reason=reason,
        detail=detail,
        source=source,
        offset=start,
        tai=coding.tai_of_column(tai),
        kept=bool(kept),
    )

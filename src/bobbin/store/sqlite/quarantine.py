"""Bytes that were rejected, with the reason, the source and the time. Nothing here is ever taken for a record.

Whoever sends rubbish must not fill the disk. Up to a total size the bytes are kept; beyond it, and for single items
beyond their own bound, a row says everything but the bytes; beyond a number of rows a rejection is only counted
(``quarantine_overflow``). Nothing is dropped without a trace, and no older row makes room for a newer one.
"""

from collections.abc import Iterator, Sequence

import apsw

from bobbin.store.base import Quarantined, Rejected
from bobbin.store.sqlite import coding
from bobbin.store.sqlite.config import Config
from bobbin.store.sqlite.tally import Tally


def add(connection: apsw.Connection, tally: Tally, rejected: Sequence[Rejected], *, config: Config, now: int) -> None:
    """Put rejected bytes there, as far as there is room."""
    tai = coding.tai_column(now)
    rows = []
    for item in rejected:
        if tally.quarantined >= config.quarantine_rows_max:
            tally.quarantine_overflow += 1
            continue
        size = len(item.raw)
        fits = tally.quarantine_bytes + size <= config.quarantine_bytes_max
        keep = fits and size <= config.quarantine_item_bytes_max
        texts = (coding.storable(item.reason), coding.storable(item.detail), coding.storable(item.source))
        rows.append((item.raw if keep else None, size, *texts, item.offset, tai))
        tally.quarantined += 1
        tally.quarantine_bytes += size if keep else 0
    connection.executemany(
        "INSERT INTO quarantine(raw, size, reason, detail, source, start, tai) VALUES (?, ?, ?, ?, ?, ?, ?)", rows
    )


def release(connection: apsw.Connection, tally: Tally, number: int) -> bool:
    """Forget one row. False if there was none."""
    kept = connection.execute("DELETE FROM quarantine WHERE id = ? RETURNING coalesce(length(raw), 0)", (number,)).get
    if kept is None:
        return False
    tally.quarantined -= 1
    tally.quarantine_bytes -= kept
    return True


def walk(connection: apsw.Connection) -> Iterator[Quarantined]:
    """Every row, the oldest first."""
    rows = connection.execute("SELECT id, raw, size, reason, detail, source, start, tai FROM quarantine ORDER BY id")
    for number, raw, size, reason, detail, source, start, tai in rows:
        yield Quarantined(
            id=number,
            raw=raw,
            size=size,
            reason=reason,
            detail=detail,
            source=source,
            offset=start,
            tai=coding.tai_of_column(tai),
        )

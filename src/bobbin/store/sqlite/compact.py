"""Giving unused space back: dictionary values that nothing uses any more, and free pages.

Dropping values and raising the generation is one commit, so a process that remembers a dropped value finds out before
it next writes. Then the file is rebuilt without its free pages; numbers of records, and the highest one ever given,
stay as they are. The file shrinks when the last snapshot older than this has ended. While it is rebuilt the disk
holds the store twice.
"""

from typing import Final

import apsw

from bobbin.store.sqlite import tally, tangle_rows
from bobbin.store.sqlite.connection import transaction

_UNUSED_TEXTS: Final = """
DELETE FROM text WHERE id NOT IN (
  SELECT signer FROM fact WHERE signer IS NOT NULL
  UNION SELECT name FROM header UNION SELECT value FROM header
  UNION SELECT name FROM link UNION SELECT data FROM link UNION SELECT target FROM link
)
"""
_UNUSED_PLACES: Final = (
    "DELETE FROM place WHERE NOT EXISTS (SELECT 1 FROM fact INDEXED BY fact_by_place WHERE place = place.id)"
)


def drop_unused(connection: apsw.Connection) -> None:
    """Drop dictionary values that no record uses, and tangles of which nothing is left."""
    with transaction(connection):
        tangle_rows.drop_unused(connection)
        before = connection.total_changes()
        connection.execute(_UNUSED_TEXTS)
        connection.execute(_UNUSED_PLACES)
        if connection.total_changes() > before:
            counts = tally.read(connection)
            counts.generation += 1
            tally.write(connection, counts)


def shrink(connection: apsw.Connection, *, busy_timeout_ms: int) -> None:
    """Rebuild the file without free pages, and empty the write-ahead log unless someone is still reading it."""
    connection.execute("VACUUM")
    connection.set_busy_timeout(0)
    try:
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    except apsw.BusyError:
        # A snapshot is open. The last connection that closes empties the log.
        pass
    finally:
        connection.set_busy_timeout(busy_timeout_ms)

"""The bounds and sizes of a SQLite store. Defaults serve a lace on one machine; none of them changes what is stored."""

from msgspec import Struct

from bobbin import profile

_MEBIBYTE = 1024 * 1024


class Config(Struct, frozen=True, kw_only=True):
    """What can be tuned. Every number is a bound."""

    busy_timeout_ms: int = 30_000
    """How long a write waits for another process that writes."""

    writer_cache_bytes: int = 64 * _MEBIBYTE
    """Memory for pages, while writing. The indexes of a million records nearly fit."""

    reader_cache_bytes: int = 8 * _MEBIBYTE
    """The same, for each snapshot."""

    idle_readers_max: int = 4
    """How many connections of closed snapshots are kept for the next ones."""

    wal_bytes: int = 64 * _MEBIBYTE
    """At this size the write-ahead log is copied into the database. One commit, or a snapshot that stays open, may
    make it longer."""

    quarantine_bytes_max: int = 256 * _MEBIBYTE
    """Bytes kept in the quarantine altogether. Beyond it a row says what was rejected and why, without the bytes."""

    quarantine_rows_max: int = 100_000
    """Rows kept in the quarantine. Beyond it rejections are only counted."""

    quarantine_item_bytes_max: int = profile.RECORD_BYTES_MAX
    """A rejected item longer than this is kept without its bytes."""

    vfs: str | None = None
    """The SQLite file system to open files through; None for the operating system's own."""

    syncs_commits: bool = True
    """Whether a commit returns after its bytes are on the disk. Not where a log is durable from which whatever the
    store has lost is done again: then the disk is waited for only when the write-ahead log is copied."""

    dictionary_cache_entries_max: int = 16_384
    """How many dictionary entries are remembered between writes (twice as many for a moment)."""

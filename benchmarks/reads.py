"""Reading: one record by its hash, and the listing of a prefix in a small and in a large store."""

import random
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import apsw

from benchmarks.material import FOLDER_RECORDS, RECORD_BYTES, Shape, bundle, place_of
from benchmarks.rounds import rate_of, rate_row, ratio_row, setting, take_turns
from bobbin.records.canonical import MARK, MARKLINE_SIZE
from bobbin.records.ids import HashText
from bobbin.runtime.clock import tai_now
from bobbin.runtime.ingest import ingest
from bobbin.store.sqlite import Config, SqliteStore, open_store
from bobbin.store.sqlite.schema import PAGE_BYTES
from measurement.result import Result

QUESTION: Final = (
    "How fast is one record read by its hash, against a bare read of the same bytes through apsw? And does listing a "
    "prefix depend on how much else is in the store?"
)

BARE: Final = """
CREATE TABLE bare(id INTEGER PRIMARY KEY, hash TEXT NOT NULL, raw BLOB NOT NULL);
CREATE UNIQUE INDEX bare_by_hash ON bare(hash);
"""


def run() -> Result:
    """Measure."""
    large, small = setting("READS_LARGE_RECORDS", 1_000_000), setting("READS_SMALL_RECORDS", 10_000)
    gets, lists = setting("READS_GETS", 1000), setting("READS_LISTS", 50)
    rounds = setting("READS_ROUNDS", 41)
    source = random.Random(1)
    with (
        tempfile.TemporaryDirectory(prefix="bobbin-bench-") as folder,
        _store(Path(folder) / "large", large) as large_store,
        _store(Path(folder) / "small", small) as small_store,
        _bare(Path(folder) / "bare", large) as bare,
    ):
        hashes = _hashes(large)
        cursor = bare.cursor()

        def read(one: Callable[[int], bytes | None]) -> float:
            """The rate of reading records at random places; checks that bytes came."""
            numbers = [source.randrange(large) for _ in range(gets)]
            sizes: list[int] = []
            rate = rate_of(lambda: sizes.extend(len(one(number) or b"") for number in numbers), gets)
            assert sizes == [RECORD_BYTES] * gets, "every record is there"
            return rate

        def show(store: SqliteStore, count: int) -> float:
            """The rate of listing folders at random."""
            folders = [source.randrange(count // FOLDER_RECORDS) for _ in range(lists)]
            lengths: list[int] = []
            rate = rate_of(lambda: lengths.extend(len(list(store.list(place_of(one)))) for one in folders), lists)
            assert lengths == [FOLDER_RECORDS] * lists, "every folder has the same number of records"
            return rate

        def bare_by_hash(number: int) -> bytes | None:
            found: bytes | None = cursor.execute("SELECT raw FROM bare WHERE hash = ?", (hashes[number],)).get
            return found

        def bare_by_id(number: int) -> bytes | None:
            found: bytes | None = cursor.execute("SELECT raw FROM bare WHERE id = ?", (number + 1,)).get
            return found

        rates = take_turns(
            {
                "get": lambda: read(lambda number: large_store.get(hashes[number])),
                "hash": lambda: read(bare_by_hash),
                "id": lambda: read(bare_by_id),
                "large": lambda: show(large_store, large),
                "small": lambda: show(small_store, small),
            },
            rounds=rounds,
        )
    per_list = {name: [1 / rate for rate in rates[name]] for name in ("large", "small")}
    note = f"{large:,} records of {RECORD_BYTES} bytes, at random"
    lines = f"{FOLDER_RECORDS} lines each, prefixes at random"
    return Result(
        question=QUESTION,
        rows=[
            rate_row("get by hash", rates, "get", unit="reads/s", note=note),
            rate_row("bare apsw read, by an index on the hash text", rates, "hash", unit="reads/s", note=note),
            rate_row("bare apsw read, by row number", rates, "id", unit="reads/s", note=note),
            rate_row(f"list a prefix, {large:,} records", rates, "large", unit="listings/s", note=lines),
            rate_row(f"list a prefix, {small:,} records", rates, "small", unit="listings/s", note=lines),
        ],
        ratios=[
            ratio_row("get by hash / bare read by hash", rates, "get", "hash", bar=0.5),
            ratio_row("get by hash / bare read by row number", rates, "get", "id", bar=0.5),
            ratio_row(
                f"time to list a prefix, {large:,} / {small:,} records",
                per_list,
                "large",
                "small",
                bar=1.5,
                comparison="<=",
            ),
        ],
        notes=[_NOTE],
    )


_NOTE: Final = (
    "The bare reads go to a table of row number, hash text and bytes with one index, in a file with the same page size "
    "and the same cache, through one prepared statement."
)


@contextmanager
def _store(path: Path, count: int) -> Iterator[SqliteStore]:
    with open_store(path, create=True, now=tai_now) as store, bundle(count, Shape.PLEX).open("rb") as file:
        total = ingest(store, file, source="bench", form="bundle", workers=0)
        assert total.stored == count, "every record is there"
        yield store


@contextmanager
def _bare(path: Path, count: int) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(str(path))
    connection.pragma("page_size", PAGE_BYTES)
    connection.pragma("journal_mode", "wal")
    connection.pragma("cache_size", -(Config().writer_cache_bytes // 1024))
    connection.execute(BARE)
    with bundle(count, Shape.PLEX).open("rb") as file, connection:
        raws = iter(lambda: file.read(RECORD_BYTES), b"")
        rows = ((number, _hash(raw), raw) for number, raw in enumerate(raws, 1))
        connection.executemany("INSERT INTO bare(id, hash, raw) VALUES (?, ?, ?)", rows)
    try:
        yield connection
    finally:
        connection.close()


def _hashes(count: int) -> list[HashText]:
    with bundle(count, Shape.PLEX).open("rb") as file:
        return [_hash(raw) for raw in iter(lambda: file.read(RECORD_BYTES), b"")]


def _hash(raw: bytes) -> HashText:
    return HashText(raw[len(MARK) + 2 : MARKLINE_SIZE - 1].decode())

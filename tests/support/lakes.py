"""Lakes for tests: records of every kind, put into the table ``records`` without Spark."""

import random
from collections.abc import Sequence

import pyarrow as pa

from bobbin.records.record import Record, build_blob, build_plex, seal
from bobbin.records.signing import SigningKey
from bobbin.store.lake.lake import Lake
from bobbin.store.lake.tables import RECORDS
from bobbin.store.lake.writing import PartWriter

KEY = SigningKey.from_secret(b"\x07" * 32)
LINKED = build_blob(b"linked")


def some_records(count: int, seed: int) -> list[Record]:
    """Blobs, Plexes and Seals, some with repeated headers, links, and values that need an escape."""
    source = random.Random(seed)
    made: list[Record] = []
    for number in range(count):
        data = f"{seed}/{number}".encode()
        extras = [(source.choice(["A", "B", "+Link"]), source.choice(["x", "it's", f"to {LINKED.hash}"])) for _ in "12"]
        plex = build_plex(
            group="u", app="é", name=f"n/{number}", tai_ns=number, data=data, extras=extras[: source.randrange(3)]
        )
        kinds: list[Record] = [build_blob(data), plex, seal(plex, KEY, auxiliary=b"\x01" * 32)]
        made.append(source.choice(kinds))
    return made


def store(lake: Lake, records: Sequence[Record], *, replace: bool = False) -> None:
    """Add records to a lake, as one file; with ``replace``, instead of those that are there."""
    rows = sorted((record.hash, record.raw) for record in records)
    with lake.begin("ingest") as run:
        with PartWriter(lake.files, RECORDS, run.path("records")) as writer:
            writer.write(
                pa.RecordBatch.from_arrays([pa.array(column) for column in zip(*rows, strict=True)], ["record", "raw"])
            )
        (run.replace if replace else run.append)("records")
        run.commit()

"""What the benchmarks of the pipeline read: small records, unsigned or signed, as a bundle and as Parquet files.

Made once, in all cores, and kept where the other material is (``material.cache_folder``). Every byte follows from the
number of the record.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from blake3 import blake3

from benchmarks.material import APPS, FIRST_TAI, FOLDER_RECORDS, GROUP, SIGNERS, cache_folder
from bobbin.records import canonical, tai
from bobbin.records.signing import SigningKey

VERSION: Final = 1
"""Changes whenever the bytes do."""

PLEX_BYTES: Final = 265
FILES: Final = 8
"""A set of Parquet files has so many, so that both cores have some."""

DAMAGED_EVERY: Final = 1000
"""In damaged material one byte of every so manieth record is another."""

_SHARD_RECORDS_MAX: Final = 100_000
_ROW_GROUP: Final = 32_768


class SparkShape(StrEnum):
    """What the records look like."""

    PLEX = "plex"
    """Not signed, ``PLEX_BYTES`` each."""
    SEAL = "seal"
    """The same, signed."""

    @property
    def size(self) -> int:
        """The bytes of each record."""
        return PLEX_BYTES + (canonical.SEAL_HEAD_SIZE if self is SparkShape.SEAL else 0)


def spark_bundle(count: int, shape: SparkShape = SparkShape.PLEX) -> Path:
    """A bundle of so many records."""
    path = cache_folder() / f"spark-{shape}-{count}-v{VERSION}.bundle"
    if not path.exists():
        unfinished = path.with_suffix(f".{os.getpid()}")
        with unfinished.open("wb") as file:
            for shard in _shards(count, shape):
                file.write(shard)
        unfinished.replace(path)
    return path


def spark_parquet(count: int, shape: SparkShape = SparkShape.PLEX, *, damaged: bool = False) -> Path:
    """The same records as a folder of Parquet files with the column ``raw``."""
    folder = cache_folder() / f"spark-{shape}-{count}{'-damaged' if damaged else ''}-v{VERSION}"
    if not folder.exists():
        unfinished = folder.with_name(f"{folder.name}.parquet.{os.getpid()}")
        unfinished.mkdir()
        share = -(-count // FILES)
        with spark_bundle(count, shape).open("rb") as bundle:
            for number in range(min(FILES, -(-count // share))):
                _write(bundle.read(share * shape.size), shape.size, unfinished / f"{number}.parquet", damaged=damaged)
        unfinished.rename(folder)
    return folder


def _write(raw: bytes, size: int, path: Path, *, damaged: bool) -> None:
    rows = len(raw) // size
    if damaged:
        changed = bytearray(raw)
        for row in range(0, rows, DAMAGED_EVERY):
            changed[row * size + size - 1] ^= 1
        raw = bytes(changed)
    column = pa.FixedSizeBinaryArray.from_buffers(pa.binary(size), rows, [None, pa.py_buffer(raw)])
    table = pa.table({"raw": column.cast(pa.binary())})
    pq.write_table(table, path, compression="zstd", row_group_size=_ROW_GROUP)


def _shards(count: int, shape: SparkShape) -> Iterator[bytes]:
    """The records in order, made a shard at a time by as many processes as there are cores."""
    cores = os.cpu_count() or 1
    size = max(1, min(_SHARD_RECORDS_MAX, -(-count // cores)))
    root = Path(__file__).resolve().parent.parent

    def make(begin: int) -> bytes:
        command = [sys.executable, "-m", "benchmarks.spark_material", str(begin), str(min(begin + size, count)), shape]
        return subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE).stdout

    # Shards that are made but not written yet wait in memory, so there are never many.
    begins = range(0, count, size)
    with ThreadPoolExecutor(cores) as threads:
        for start in range(0, len(begins), cores):
            yield from threads.map(make, begins[start : start + cores])


def make_shard(begin: int, end: int, shape: SparkShape) -> bytes:
    """The records with these numbers."""
    keys = [SigningKey.from_secret(bytes([number + 1]) * 32) for number in range(SIGNERS)]
    return b"".join(_make(number, shape, keys) for number in range(begin, end))


def _make(number: int, shape: SparkShape, keys: list[SigningKey]) -> bytes:
    """One record, written without the checks that ingesting it will make."""
    noise = blake3(f"bobbin pipeline {number}".encode())
    headers = [
        ("Group", GROUP),
        ("App", f"app-{number // FOLDER_RECORDS % APPS}"),
        ("Name", f"{number // FOLDER_RECORDS:06d}/{number:08d}"),
        ("TAI", tai.render(FIRST_TAI + number * 1_000_003)),
    ]
    overhead = len(canonical.plex_record(headers, canonical.blob_record(bytes(10)))) - 10
    plex = canonical.plex_record(headers, canonical.blob_record(noise.digest(PLEX_BYTES - overhead, seek=64)))
    if shape is SparkShape.PLEX:
        return plex
    key = keys[number % SIGNERS]
    signature = key.sign(blake3(plex[canonical.MARKLINE_SIZE :]).digest(), auxiliary=noise.digest(32, seek=32))
    return canonical.seal_record(key.verifier, signature, plex)


if __name__ == "__main__":
    sys.stdout.buffer.write(make_shard(int(sys.argv[1]), int(sys.argv[2]), SparkShape(sys.argv[3])))

"""What the benchmarks read: bundles of records that are the same on every machine, made once and kept.

They lie in a folder of the system's temporary one; deleting it costs only the time to make them again. Records are
made in all cores. Every byte follows from the record's number.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from pathlib import Path
from typing import Final

from blake3 import blake3

from bobbin.records import canonical, ids, tai
from bobbin.records.coordinate import Prefix
from bobbin.records.ids import Kind
from bobbin.records.signing import SigningKey

VERSION: Final = 1
"""Changes whenever the bytes do."""

RECORD_BYTES: Final = 1000
FOLDER_RECORDS: Final = 100
SIGNERS: Final = 8
APPS: Final = 4
GROUP: Final = "bench"
FIRST_TAI: Final = 1_700_000_000 * tai.NANOSECONDS
_SHARD_RECORDS_MAX: Final = 25_000


class Shape(StrEnum):
    """What the records of a bundle look like. All have ``RECORD_BYTES``."""

    SEAL = "seal"
    """Signed, without extra headers."""
    SEAL_WITH_HEADERS = "seal-with-headers"
    """Signed, with two extra headers, one of them a link that no other record has."""
    PLEX = "plex"
    """Not signed, without extra headers."""


def cache_folder() -> Path:
    """Where material and peers are kept between runs: a folder that belongs to this user alone."""
    folder = Path(tempfile.gettempdir()) / f"bobbin-benchmarks-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid() or folder.stat().st_mode & 0o077:
        raise PermissionError(f"{folder} must belong to this user alone")
    return folder


def bundle(count: int, shape: Shape = Shape.SEAL) -> Path:
    """A bundle of ``count`` records of one shape."""
    path = cache_folder() / f"{shape}-{count}-v{VERSION}.bundle"
    if not path.exists():
        unfinished = path.with_suffix(f".{os.getpid()}")
        with unfinished.open("wb") as file:
            for shard in _shards(count, shape):
                file.write(shard)
        unfinished.replace(path)
    return path


def place_of(folder: int) -> Prefix:
    """A prefix below which exactly ``FOLDER_RECORDS`` records are, whatever the size of the bundle."""
    return Prefix(group=GROUP, app=f"app-{folder % APPS}", name=f"folder-{folder:06d}/")


def _shards(count: int, shape: Shape) -> Iterator[bytes]:
    """The records in order, made a shard at a time by as many processes as there are cores."""
    cores = os.cpu_count() or 1
    size = min(_SHARD_RECORDS_MAX, -(-count // cores))
    root = Path(__file__).resolve().parent.parent

    def make(begin: int) -> bytes:
        command = [sys.executable, "-m", "benchmarks.material", str(begin), str(min(begin + size, count)), shape]
        return subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE).stdout

    with ThreadPoolExecutor(cores) as threads:
        yield from threads.map(make, range(0, count, size))


def make_shard(begin: int, end: int, shape: Shape) -> bytes:
    """The records with these numbers."""
    keys = [SigningKey.from_secret(bytes([number + 1]) * 32) for number in range(SIGNERS)]
    return b"".join(_make(number, shape, keys) for number in range(begin, end))


def _make(number: int, shape: Shape, keys: list[SigningKey]) -> bytes:
    """One record, written without the checks that importing it will make."""
    noise = blake3(f"bobbin benchmark {number}".encode())
    place = place_of(number // FOLDER_RECORDS)
    headers = [
        ("Group", GROUP),
        ("App", str(place.app)),
        ("Name", f"{place.name}record-{number:08d}"),
        ("TAI", tai.render(FIRST_TAI + number * 1_000_003)),
    ]
    if shape is Shape.SEAL_WITH_HEADERS:
        target = ids.hash_text(Kind.BLOB, noise.digest())
        headers += [("+Link", f"source {target}"), ("Content-Type", "application/octet-stream")]
    overhead = len(canonical.plex_record(headers, canonical.blob_record(bytes(100)))) - 100
    if shape is not Shape.PLEX:
        overhead += canonical.SEAL_HEAD_SIZE
    data = noise.digest(RECORD_BYTES - overhead, seek=64)
    plex = canonical.plex_record(headers, canonical.blob_record(data))
    if shape is Shape.PLEX:
        return plex
    key = keys[number % SIGNERS]
    signature = key.sign(blake3(plex[canonical.MARKLINE_SIZE :]).digest(), auxiliary=noise.digest(32, seek=32))
    return canonical.seal_record(key.verifier, signature, plex)


if __name__ == "__main__":
    sys.stdout.buffer.write(make_shard(int(sys.argv[1]), int(sys.argv[2]), Shape(sys.argv[3])))

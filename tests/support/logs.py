"""Logs and storages in a folder that crashes, with limits that suit small tests."""

from collections.abc import Callable, Iterable, Iterator
from itertools import count

from bobbin.cluster.raft.effects import DurableRecord
from bobbin.store.raft_storage import RaftStorage
from bobbin.store.wal.files import Files
from bobbin.store.wal.log import FREE_BYTES_MIN, ROTATE_BYTES, Log, LogLimits
from bobbin.store.wal.reading import read_log
from tests.support.crashing_files import CrashingFiles
from tests.support.log_records import CLUSTER, NODE


def counted() -> Callable[[int], bytes]:
    """Salts that differ from one another, the same ones in each run."""
    numbers: Iterator[int] = count(1)
    return lambda size: (next(numbers) * 0x9E3779B97F4A7C15).to_bytes(16, "big")[-size:]


def opened(files: Files, *, rotate_bytes: int = ROTATE_BYTES, keep: int = 3, free: int = FREE_BYTES_MIN) -> Log:
    """A log in this folder."""
    limits = LogLimits(rotate_bytes=rotate_bytes, keep=keep, free_bytes_min=free)
    reading = read_log(files, node=NODE, cluster=CLUSTER)
    return Log(files, reading, node=NODE, cluster=CLUSTER, limits=limits, entropy=counted())


def storage(files: Files, *, rotate_bytes: int = ROTATE_BYTES, memory_max: int = 1 << 20) -> RaftStorage:
    """The storage of a node in this folder."""
    return RaftStorage.open(
        files,
        node=NODE,
        cluster=CLUSTER,
        rotate_bytes=rotate_bytes,
        snapshot_memory_max=memory_max,
        entropy=counted(),
    )


def write(log: Log | RaftStorage, groups: Iterable[Iterable[DurableRecord]]) -> None:
    """Each group by a sync of its own."""
    for group in groups:
        log.append(tuple(group))
        log.sync()


def flipped(files: CrashingFiles, name: str, offset: int, mask: int) -> CrashingFiles:
    """The folder after a power cut that lost nothing, with bits of one byte turned over."""
    other = files.after_power_cut()
    other.inodes[name].content[offset] ^= mask
    other.inodes[name].durable[offset] ^= mask
    return other

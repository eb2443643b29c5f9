"""What a node of a cluster keeps on its disk: its log, its snapshots, and the incarnation it speaks under.

One folder holds all of it::

    log-…        the log, in files that follow one another (``store.wal.log``)
    snapshot-…   snapshots of the state machine (``store.wal.snapshots``)
    standing     the incarnation (``store.wal.standing``)
    ….tmp        files that were being written when the node stopped; removed at open

Opening reads and checks everything, and writes a new file of the log before it returns: what is recovered is durable
then, whatever was only in the memory of the system before. The newest whole snapshot counts, also one that the log does
not know of yet because the node stopped between writing it and cutting the log. A damaged one is passed over with a
notice; where entries before it are gone, the entries after it are of no use, and the node begins without any, keeping
its term, its vote, and how far its log had come.

The order that makes a cut safe is held here: a ``Cut`` or ``Reset`` is taken only when its snapshot is durable, and
older snapshots go only when that record is.

The log and the incarnation are used from one thread; a snapshot may be written, fetched or read in another meanwhile.
"""

import secrets
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

from bobbin.cluster.names import NodeId
from bobbin.cluster.raft.effects import Cut, DurableRecord, Reset
from bobbin.cluster.raft.entries import SnapshotMetadata
from bobbin.errors import IntegrityError, ResourceError, UsageError
from bobbin.store.wal.faults import translated
from bobbin.store.wal.files import Files
from bobbin.store.wal.image import LogImage
from bobbin.store.wal.log import FREE_BYTES_MIN, KEEP, ROTATE_BYTES, Log, LogLimits
from bobbin.store.wal.reading import Notice, NoticeCode, Reading, read_log
from bobbin.store.wal.replacing import TEMPORARY, remove_quietly
from bobbin.store.wal.snapshots import SnapshotReader, Snapshots, snapshot_names
from bobbin.store.wal.standing import NAME as STANDING
from bobbin.store.wal.standing import read_incarnation, save_incarnation

SNAPSHOT_MEMORY_MAX: Final = 256 * 1_048_576


class LogMissing(IntegrityError):
    """There was a log, and it is gone. Nothing was begun in its place: nobody knows any more how this node voted."""


class RaftStorage:
    """The durable part of a node. Made by ``open``; closing it closes its files."""

    def __init__(
        self, files: Files, log: Log, snapshots: Snapshots, *, node: NodeId, cluster: bytes, incarnation: int
    ) -> None:
        self.recovered: Final = log.image.recovered()
        """What was found at open."""
        self.notices: tuple[Notice, ...] = ()
        """What a person should know of it."""
        self.boot_id: Final = log.boot
        """Rises by one with each open, and is durable."""
        self.incarnation = incarnation
        """The newest that is durable."""
        self._files: Final = files
        self._log: Final = log
        self._snapshots: Final = snapshots
        self._node: Final = node
        self._cluster: Final = cluster
        self._stands_on: SnapshotMetadata | None = log.image.snapshot

    @classmethod
    def open(
        cls,
        files: Files,
        *,
        node: NodeId,
        cluster: bytes = b"",
        rotate_bytes: int = ROTATE_BYTES,
        keep: int = KEEP,
        free_bytes_min: int = FREE_BYTES_MIN,
        snapshot_memory_max: int = SNAPSHOT_MEMORY_MAX,
        has_begun: bool = False,
        entropy: Callable[[int], bytes] = secrets.token_bytes,
    ) -> "RaftStorage":
        """Open the folder of a node, or begin one.

        ``UsageError`` if it is another node's, and nothing has changed then; ``IntegrityError`` if the log is damaged;
        ``LogMissing`` if there is none although the node ``has_begun`` one, and nothing has changed then either;
        ``ResourceError`` if the disk fails. ``files`` stays the caller's to close when this raises.
        """
        limits = LogLimits(rotate_bytes=rotate_bytes, keep=keep, free_bytes_min=free_bytes_min)
        snapshots = Snapshots(files, cluster=cluster, memory_max=snapshot_memory_max, free_bytes_min=free_bytes_min)
        with translated("reading the log"):
            reading = read_log(files, node=node, cluster=cluster)
            names = files.names()
        if not reading.chain and (STANDING in names or snapshot_names(names)):
            raise LogMissing("the log is missing, but not what belongs to it")
        if not reading.chain and has_begun:
            raise LogMissing("the log is missing, although this node has begun one")
        incarnation = read_incarnation(files, node=node, cluster=cluster)
        is_changed = _stand_on_newest(reading, snapshots)
        log = Log(files, reading, node=node, cluster=cluster, limits=limits, entropy=entropy, is_changed=is_changed)
        for name in names:
            if name.endswith(TEMPORARY):
                remove_quietly(files, name)
        storage = cls(files, log, snapshots, node=node, cluster=cluster, incarnation=incarnation)
        storage.notices = tuple(reading.notices)
        storage._remove_needless_snapshots()
        return storage

    @property
    def image(self) -> LogImage:
        """What of the log is durable. Not to be changed."""
        return self._log.image

    def append(self, records: Sequence[DurableRecord]) -> None:
        """Take records, all or none; they are durable after the next ``sync``. ``UsageError`` for wrong ones."""
        for record in records:
            if isinstance(record, Cut | Reset) and not self._snapshots.is_durable(record.metadata):
                raise UsageError(f"the snapshot of {record.metadata.last_index} is not durable")
        self._log.append(records)

    def sync(self) -> None:
        """Make everything taken since the last time durable.

        A ``ResourceError`` means that none of it counts: it is dropped, and ``image`` is as before. The log can be used
        again, as soon as the disk allows.
        """
        self._log.sync()
        stands_on = self._log.image.snapshot
        if stands_on is not None and stands_on != self._stands_on:
            self._stands_on = stands_on
            self._remove_needless_snapshots()

    def write_snapshot(self, chunks: Iterable[bytes], metadata: SnapshotMetadata) -> SnapshotMetadata:
        """Make a snapshot of the state machine durable, and say what it is: hash and size are found here.

        A hash and size in ``metadata`` that are not empty must be right. Nothing stays when this raises.
        """
        return self._snapshots.write(chunks, metadata)

    def open_snapshot(self, sha256: bytes | None = None) -> SnapshotReader | None:
        """The durable snapshot with this hash, or the newest one; None when there is none. To be closed."""
        return self._snapshots.open(sha256)

    def begin_fetch(self, metadata: SnapshotMetadata) -> None:
        """Bytes of this snapshot are about to come; what was fetched before is forgotten."""
        self._snapshots.begin_fetch(metadata)

    def write_chunk(self, offset: int, data: bytes) -> None:
        """Bytes of the snapshot that is being fetched, behind those that are held, or anew at offset 0.

        A ``UsageError`` changes nothing; after a ``ResourceError`` nothing is held.
        """
        self._snapshots.write_chunk(offset, data)

    @property
    def fetched(self) -> int:
        """Bytes that are held of the snapshot that is being fetched."""
        return self._snapshots.fetched

    def finish_fetch(self, metadata: SnapshotMetadata) -> None:
        """Compare the hash and make the snapshot durable. Whether or not it raises, nothing is being fetched then."""
        self._snapshots.finish_fetch(metadata)

    def drop_fetch(self) -> None:
        """Forget what was fetched."""
        self._snapshots.drop_fetch()

    def save_incarnation(self, incarnation: int) -> None:
        """Make it durable. It never goes back."""
        if incarnation < self.incarnation:
            raise UsageError(f"incarnation {incarnation} is below {self.incarnation}")
        save_incarnation(self._files, incarnation, node=self._node, cluster=self._cluster)
        self.incarnation = incarnation

    def close(self) -> None:
        """Give all files back. What was not synced is dropped, and what was being fetched."""
        self._snapshots.drop_fetch()
        self._log.close()
        self._files.close()

    def _remove_needless_snapshots(self) -> None:
        """Those before the one that the log durably stands on. What cannot be removed now goes at the next open."""
        if self._stands_on is not None:
            with suppress(ResourceError):
                self._snapshots.remove_older(self._stands_on)


def _stand_on_newest(reading: Reading, snapshots: Snapshots) -> bool:
    """Let the log stand on the newest whole snapshot; whether that changes it."""
    image = reading.image
    known = image.snapshot
    newest = snapshots.newest(reading.notices)
    if newest == known:
        return False
    if newest is not None and (known is None or newest.last_index >= known.last_index):
        image.stand_on(newest)
        detail = f"the log stands on a snapshot of {newest.last_index} that it did not know of"
        reading.notices.append(Notice(NoticeCode.UNFINISHED_CUT, detail))
        return True
    assert known is not None
    if not snapshots.is_there(known):
        detail = f"the snapshot of {known.last_index} that the log stands on is missing"
        reading.notices.append(Notice(NoticeCode.MISSING_SNAPSHOT, detail))
    if newest is not None and newest.last_index >= image.first_index - 1:
        image.stand_on(newest)
        return True
    end = image.last_index
    image.lose_snapshot()
    if image.lost is not None:
        detail = f"entries up to {end} need a snapshot of {known.last_index} that is gone; they have to come from peers"
        reading.notices.append(Notice(NoticeCode.LOST_LOG, detail))
    if newest is not None:
        # An older one that was still there: less to fetch, and the next open finds the same.
        image.stand_on(newest)
    return True

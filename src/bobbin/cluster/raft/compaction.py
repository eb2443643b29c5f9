"""When a node takes a snapshot of its state and cuts its log, and how much of the log stays.

The order is: capture, make durable, look again, cut, note the moment. The raft machine keeps that order; this part says
when to begin, whether what came back still counts, and where to cut. The epoch rises with every snapshot that this node
takes. It is in the metadata of the snapshot and in the record of the cut, so after a crash between the two the snapshot
stands without its cut, which the machine sees by the entries that it still holds and makes up for.
"""

from typing import Final

from bobbin.cluster.names import MILLISECOND_NS, Index
from bobbin.cluster.raft.entries import SnapshotMetadata
from bobbin.cluster.settings import RaftConfig

_HASTE: Final = 4
"""Times the bytes that allow a compaction: from there on none waits for the cooldown of one that went well."""


class Compaction:
    """Counts ticks, keeps the time between compactions, and numbers them."""

    def __init__(self, config: RaftConfig, *, epoch: int = 0) -> None:
        self.epoch = epoch
        """Of the newest snapshot that counts; the one that begins next has a higher one."""
        self.is_running = False
        """A snapshot has been asked for, and neither ``taken`` nor ``failed`` was told."""
        self._config = config
        self._ticks = 0
        self._earliest_ns: int | None = None
        """No compaction begins by itself before this moment."""
        self._has_failed = False
        """The last one."""

    def is_due(
        self, now_ns: int, *, entries_held: int, bytes_since: int, finalized_index: Index, snapshot_index: Index
    ) -> bool:
        """Whether to begin now. Call it once on every tick: it counts them, and looks at each n-th only.

        ``entries_held`` counts what the log holds since its last cut, trailing entries included; ``bytes_since`` is
        what the entries after the snapshot take; ``finalized_index`` is the last entry that is committed and applied;
        ``snapshot_index`` is 0 without a snapshot.
        """
        self._ticks += 1
        if self._ticks < self._config.compaction_check_interval:
            return False
        self._ticks = 0
        if self.is_running or finalized_index <= snapshot_index:
            return False
        bytes_max = self._config.snapshot_threshold_bytes
        if self._earliest_ns is not None and now_ns < self._earliest_ns:
            return bytes_since >= _HASTE * bytes_max and not self._has_failed
        return entries_held >= self._config.snapshot_threshold or bytes_since >= bytes_max

    def begin(self) -> int:
        """A snapshot is asked for; the epoch that it will have."""
        assert not self.is_running, "one snapshot at a time"
        self.is_running = True
        return self.epoch + 1

    def taken(self, now_ns: int) -> None:
        """The snapshot that ``begin`` numbered is durable, and the log is cut by it."""
        assert self.is_running, "nothing was begun"
        self.epoch += 1
        self._rest(now_ns, has_failed=False)

    def failed(self, now_ns: int) -> None:
        """The snapshot could not be made, or no longer counts. A capture is dear, so the next one waits as well."""
        assert self.is_running, "nothing was begun"
        self._rest(now_ns, has_failed=True)

    def installed(self, metadata: SnapshotMetadata) -> None:
        """Another node's snapshot took the place of everything held; epochs go on above its own."""
        self.epoch = max(self.epoch, metadata.epoch)

    def _rest(self, now_ns: int, *, has_failed: bool) -> None:
        self.is_running = False
        self._has_failed = has_failed
        self._earliest_ns = now_ns + self._config.compaction_cooldown_ms * MILLISECOND_NS


def still_counts(metadata: SnapshotMetadata, *, snapshot: SnapshotMetadata | None, finalized_index: Index) -> bool:
    """The second look, between durable and cut: nothing newer was installed meanwhile, nor does it go past finality."""
    return metadata.last_index <= finalized_index and (snapshot is None or metadata.last_index > snapshot.last_index)


def first_kept(snapshot_index: Index, trailing: int) -> Index:
    """The first entry that stays after a cut: so many stay, up to the last that the snapshot stands in for."""
    return Index(max(1, snapshot_index - trailing + 1))

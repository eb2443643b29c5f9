"""What of each node would survive, by what its disk has been told: the half of the checker that looks at disks.

Records are applied to an image when the sync has returned. What a node finds when it comes back must be that image, or
that with everything that was being written when the power went, or with a group whose write had failed and after which
nothing was written. Term and vote never fall there (R8).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NoReturn, assert_never

from bobbin.cluster.names import NodeId, Term
from bobbin.cluster.raft.effects import Append, Cut, DurableRecord, HardState, Reset, Role, Truncate
from bobbin.cluster.raft.entries import Configuration, SnapshotMetadata
from bobbin.cluster.raft.events import Recovered
from bobbin.simulator.raft_image import LogImage, link
from bobbin.simulator.raft_ledger import Ledger


class NodeView:
    """What the checker knows of one node."""

    def __init__(self, node: NodeId, bootstrap: Configuration | None) -> None:
        self.node: Final = node
        self.bootstrap: Final = bootstrap
        self.memory = LogImage(bootstrap)
        self.durable = LogImage(bootstrap)
        self.durable_term = Term(0)
        self.durable_vote: NodeId | None = None
        self.hard: tuple[int, NodeId | None] = (0, None)
        """Term and vote as last told to the disk."""
        self.in_flight: list[DurableRecord] = []
        """Given to the disk, which has not answered."""
        self.failed: list[list[DurableRecord]] = []
        """Given to the disk, which has failed; they may still be found there until another record is written."""
        self.snapshots: list[SnapshotMetadata] = []
        """Durable ones that the log does not speak of yet."""
        self.snapshot_index = 0
        """Where the newest durable snapshot ends."""
        self.said = 0
        """The highest term in what it has sent."""
        self.is_up = False
        self.begin_life()

    def begin_life(self) -> None:
        """A machine begins, as a follower that has said and counted nothing."""
        self.role = Role.FOLLOWER
        self.term = int(self.durable_term)
        self.commit = 0
        self.applied = 0
        self.given = 0
        """The last entry that was given out to be applied."""
        self.is_pre_candidate = False
        self.reset_told: SnapshotMetadata | None = None
        """A snapshot in place of the log, of which the disk does not know yet."""
        self.matches: dict[NodeId, int] = {}
        self.last_before: tuple[int, int] = (0, 0)
        """Where the log ended before the present step."""


class DiskChecker:
    """Knows what is durable at every node of one cluster."""

    def __init__(self, nodes: Iterable[tuple[NodeId, Configuration | None]], fail: Callable[[str], NoReturn]) -> None:
        self.ledger: Final = Ledger(fail)
        self.views: Final = {node: NodeView(node, bootstrap) for node, bootstrap in nodes}
        self._fail: Final = fail

    def handed(self, node: NodeId, records: Sequence[DurableRecord]) -> None:
        """Records are being written."""
        self.views[node].in_flight = list(records)

    def synced(self, node: NodeId) -> None:
        """The records that were being written are durable."""
        view = self.views[node]
        for record in view.in_flight:
            self._write_durably(view, record)
        view.in_flight = []
        view.failed.clear()

    def not_synced(self, node: NodeId) -> None:
        """The records that were being written are not durable, says the storage."""
        view = self.views[node]
        view.failed.append(view.in_flight)
        view.in_flight = []

    def snapshot_kept(self, node: NodeId, metadata: SnapshotMetadata) -> None:
        """A snapshot is durable, or on its way there."""
        view = self.views[node]
        index = metadata.last_index
        if index > self.ledger.last or metadata.last_term != self.ledger.terms[index]:
            self._fail(f"R3: {node} has a snapshot at {index} of term {metadata.last_term}, which was never committed")
        view.snapshots.append(metadata)

    def snapshot_durable(self, node: NodeId, metadata: SnapshotMetadata) -> None:
        """A snapshot has been made durable; a node that comes back stands on it, whatever its log says."""
        view = self.views[node]
        view.snapshot_index = max(view.snapshot_index, metadata.last_index)

    def _write_durably(self, view: NodeView, record: DurableRecord) -> None:
        match record:
            case HardState():
                if record.term < view.durable_term:
                    self._fail(f"R8: the term on the disk of {view.node} falls to {record.term}")
                view.durable_term, view.durable_vote = record.term, record.voted_for
            case _:
                self._change(view.durable, record)
                if isinstance(record, Reset) and record.metadata == view.reset_told:
                    view.reset_told = None

    def _change(self, image: LogImage, record: DurableRecord) -> None:
        ledger = self.ledger
        match record:
            case Append():
                for entry in record.entries:
                    image.append(entry, ledger.chains[entry.index, entry.term])
            case Truncate():
                image.truncate(record.from_index)
            case Cut():
                image.cut(record.first_index, record.metadata)
            case Reset():
                image.reset(record.metadata, self.chain_committed(record.metadata.last_index))
            case HardState():
                pass
            case _:
                assert_never(record)

    def chain_committed(self, index: int) -> int | None:
        return self.ledger.committed[index] if index <= self.ledger.last else None

    def restart(self, node: NodeId, recovered: Recovered, *, may_lack: bool) -> NodeView:
        """A life begins with what was found on the disk, which must be what was durable, or something later.

        ``may_lack``: a snapshot was damaged on purpose, so entries may be missing; term and vote may not.
        """
        view = self.views[node]
        found = self._found(view, recovered)
        batches = [view.in_flight, *view.failed]
        if may_lack:
            view.snapshot_index = 0
        elif not any(self._could_be(view, found, recovered, records) for records in ([], *batches)):
            self._fail(
                f"the disk of {view.node} held term {view.durable_term}, vote {view.durable_vote} and entries up to "
                f"{view.durable.last_index} of term {view.durable.last_term}; found were {recovered.term}, "
                f"{recovered.voted_for}, {found.last_index} and {found.last_term}"
            )
        if recovered.term < view.durable_term:
            self._fail(f"R8: the term of {view.node} falls from {view.durable_term} to {recovered.term}")
        if found.snapshot_index < view.snapshot_index:
            self._fail(f"{view.node} had a snapshot of {view.snapshot_index}, and finds {found.snapshot_index}")
        view.durable_term, view.durable_vote = recovered.term, recovered.voted_for
        view.hard = (recovered.term, recovered.voted_for)
        view.durable, view.memory = found, found.copy()
        snapshot = recovered.snapshot
        if snapshot is not None and found.term_at(snapshot.last_index) != snapshot.last_term:
            # Entries that do not agree with a snapshot are not committed, and give way to it.
            view.memory.reset(snapshot, self.chain_committed(snapshot.last_index))
        view.snapshot_index = found.snapshot_index
        view.in_flight, view.snapshots = [], []
        view.failed.clear()
        view.is_up = True
        view.begin_life()
        view.commit = view.applied = view.given = found.snapshot_index
        return view

    def _found(self, view: NodeView, recovered: Recovered) -> LogImage:
        """An image of what was recovered; chains are those that the entries make."""
        found = LogImage(view.bootstrap)
        snapshot, entries = recovered.snapshot, recovered.entries
        if snapshot is not None:
            found.reset(snapshot, self.chain_committed(snapshot.last_index))
            if entries and entries[0].index <= snapshot.last_index:
                base = entries[0].index - 1
                found.base, found.base_chain = base, self.chain_committed(base)
                found.base_term = self.ledger.terms[base]
        for entry in entries:
            before = found.last_chain
            if before is None or entry.index != found.last_index + 1:
                self._fail(f"{view.node} has found entry {entry.index} after {found.last_index}")
            found.append(entry, link(before, entry))
        if snapshot is not None:
            later = [pair for pair in found.configurations if pair[0] > snapshot.last_index]
            found.configurations = [(snapshot.last_index, snapshot.configuration), *later]
        return found

    def _could_be(
        self, view: NodeView, found: LogImage, recovered: Recovered, records: Sequence[DurableRecord]
    ) -> bool:
        """Whether what was found is the durable image, or that with all of these records."""
        image, hard = view.durable.copy(), (view.durable_term, view.durable_vote)
        for record in records:
            if isinstance(record, HardState):
                hard = (record.term, record.voted_for)
            else:
                self._change(image, record)
        if (recovered.term, recovered.voted_for) != hard:
            return False
        kept = [image.snapshot, *view.snapshots]
        if found.snapshot not in kept:
            return False
        if found.snapshot_index > image.last_index:
            return not found.terms
        if found.last_index == image.last_index:
            return found.last_chain == image.last_chain
        # A snapshot that was fetched takes the place of a log that contradicts it.
        return found.snapshot in view.snapshots and not found.terms

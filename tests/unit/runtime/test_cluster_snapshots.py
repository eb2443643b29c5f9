"""Snapshots of a running node."""

from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

import pytest
from msgspec import structs

from bobbin.cluster.key_value import Put
from bobbin.cluster.names import Index, NodeId, Term
from bobbin.cluster.raft.effects import DropChunks, InstallSnapshot, ReadSnapshot, StoreChunk, TakeSnapshot
from bobbin.cluster.raft.entries import Configuration, Entry, SnapshotMetadata
from bobbin.cluster.raft.events import (
    Event,
    SnapshotBytes,
    SnapshotFailed,
    SnapshotInstalled,
    SnapshotRefused,
    SnapshotTaken,
)
from bobbin.runtime.cluster_members import Directory, KnownMembers
from bobbin.runtime.cluster_snapshots import SnapshotWork
from bobbin.runtime.cluster_state import State
from bobbin.store.raft_storage import RaftStorage
from bobbin.store.wal.files import RealFiles
from bobbin.wire.cluster.commands import encode_command

if TYPE_CHECKING:
    from collections.abc import Callable

_A = NodeId("a" * 32)


class _Node:
    def __init__(self, folder: Path) -> None:
        self.state: Final = State(known=KnownMembers(directory=Directory()), checkpoint_entries=1_000)
        self.storage: Final = RaftStorage.open(RealFiles(folder), node=_A, free_bytes_min=0)
        self.posted: Final[SimpleQueue[Callable[[], object]]] = SimpleQueue()
        self.heard: Final[list[Event]] = []
        self.skipped: Final[list[Index]] = []
        self.broke: Final[list[BaseException]] = []
        self.is_faulty = False
        self.work: Final = SnapshotWork(
            self.storage,
            self.state,
            post=self.posted.put,
            feed=self.heard.append,
            skipped=self.skip,
            broke=self.broke.append,
        )

    def skip(self, index: Index) -> None:
        if self.is_faulty:
            raise RuntimeError("a fault")
        self.skipped.append(index)

    def fill(self, count: int) -> None:
        first = self.state.index + 1
        self.state.apply(
            [Entry(Term(1), Index(first + at), encode_command(Put(b"", 0, b"%d" % at, b"v"))) for at in range(count)]
        )

    def turn(self) -> Event:
        """Wait for what the thread posts."""
        self.posted.get(timeout=60)()
        return self.heard[-1]

    def take(self, index: int) -> Event:
        self.work.take(TakeSnapshot(Index(index), Term(1), Configuration((_A,)), 1))
        return self.heard[-1] if self.heard and isinstance(self.heard[-1], SnapshotFailed) else self.turn()

    def close(self) -> None:
        self.work.close()
        self.storage.close()


def _taken(node: _Node) -> SnapshotMetadata:
    event = node.take(node.state.index)
    assert isinstance(event, SnapshotTaken)
    return event.metadata


def test_a_snapshot_is_of_the_moment_and_travels_to_another_node(tmp_path: Path) -> None:
    one, two = _Node(tmp_path / "one"), _Node(tmp_path / "two")
    one.fill(500)
    root = one.state.table.root
    one.work.take(TakeSnapshot(Index(500), Term(1), Configuration((_A,)), 1))
    one.fill(5)  # while it is being written
    event = one.turn()
    assert isinstance(event, SnapshotTaken)
    metadata = event.metadata
    assert (metadata.last_index, metadata.size > 500) == (500, True)
    offset = 0
    while offset < metadata.size:
        one.work.read(ReadSnapshot(_A, metadata.sha256, offset, 4_000))
        chunk = one.turn()
        assert isinstance(chunk, SnapshotBytes)
        assert chunk.data is not None
        two.work.store(StoreChunk(metadata, offset, chunk.data))
        two.posted.get(timeout=60)()
        offset += len(chunk.data)
    two.work.install(InstallSnapshot(metadata))
    assert two.turn() == SnapshotInstalled(metadata)
    assert two.state.table.root == root
    assert two.state.index == 500
    assert two.skipped == [500]
    one.close()
    two.close()


def test_a_snapshot_of_another_moment_is_not_taken(tmp_path: Path) -> None:
    node = _Node(tmp_path)
    node.fill(3)
    assert isinstance(node.take(2), SnapshotFailed)
    node.close()


def test_one_that_is_gone_has_no_bytes_and_a_damaged_one_changes_nothing(tmp_path: Path) -> None:
    node = _Node(tmp_path)
    node.fill(3)
    metadata = _taken(node)
    node.work.read(ReadSnapshot(_A, bytes(32), 0, 10))
    assert node.turn() == SnapshotBytes(_A, bytes(32), 0, None)
    root = node.state.table.root
    other = structs.replace(metadata, last_index=Index(9), sha256=bytes(32), size=5)
    node.work.store(StoreChunk(other, 0, b"wrong"))
    node.posted.get(timeout=60)()
    node.work.install(InstallSnapshot(other))
    refused = node.turn()
    assert isinstance(refused, SnapshotRefused)
    assert refused.reason
    assert (node.state.table.root, node.state.index) == (root, 3)
    node.work.drop(DropChunks("enough"))
    node.posted.get(timeout=60)()
    assert node.work.read_machines(metadata).root == root
    node.close()
    node.work.drop(DropChunks("too late"))
    assert node.posted.empty()


def test_what_nobody_has_foreseen_is_told_wherever_it_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine would else wait for its snapshot for ever: no compaction any more, or nothing applied any more."""

    def fail(*_: object) -> None:
        raise MemoryError("no memory left")

    node = _Node(tmp_path)
    node.fill(3)
    metadata = _taken(node)
    heard = len(node.heard)
    with monkeypatch.context() as patched:
        patched.setattr(RaftStorage, "write_snapshot", fail)
        node.work.take(TakeSnapshot(Index(3), Term(1), Configuration((_A,)), 2))
        node.posted.get(timeout=60)()
        assert [type(error) for error in node.broke] == [MemoryError]
    with monkeypatch.context() as patched:
        patched.setattr(RaftStorage, "finish_fetch", lambda *_: None)
        node.is_faulty = True
        node.work.install(InstallSnapshot(metadata))
        node.posted.get(timeout=60)()
    assert [str(error) for error in node.broke] == ["no memory left", "a fault"]
    assert len(node.heard) == heard
    node.close()


def test_no_snapshot_is_taken_while_a_machine_is_ahead_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = _Node(tmp_path)
    node.fill(3)
    monkeypatch.setattr(type(node.state.machines), "is_at", lambda _, index: index > 3)
    failed = node.take(3)
    assert isinstance(failed, SnapshotFailed)
    assert "ahead" in failed.reason
    node.close()

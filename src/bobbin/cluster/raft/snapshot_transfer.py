"""How a snapshot travels from a leader to a follower that lacks entries no longer in the log.

The leader offers; the follower pulls, one chunk after the other, each asked for by its offset. A snapshot is known by
its hash, size and place in the log, so bytes of two snapshots are never put together: an offer of another one drops
what was fetched, an offer of the same one, by whichever leader, goes on where it stood. Starting anew is the receiver's
decision. It asks for offset 0, and the chunk that answers replaces what was held; every later one must begin exactly
where those bytes end. What does not fit is refused, counted by its reason, and changes nothing.

The sender stays with the snapshot that a follower has begun to fetch until it is done or has gone quiet, although newer
ones are taken meanwhile; otherwise a slow follower would begin for ever. Always: ``held`` bytes are stored, in order,
of the snapshot in ``metadata`` and no other.
"""

from collections import Counter
from enum import Enum
from typing import Final

from msgspec import Struct

from bobbin.cluster.names import MILLISECOND_NS, Index, NodeId, Term
from bobbin.cluster.raft.effects import DropChunks, Effect, InstallSnapshot, ReadSnapshot, StoreChunk
from bobbin.cluster.raft.entries import SnapshotMetadata
from bobbin.cluster.raft.events import SnapshotBytes
from bobbin.cluster.raft.messages import SnapshotChunk, SnapshotRequest
from bobbin.cluster.settings import RaftConfig

HASH_BYTES: Final = 32


class Refusal(Enum):
    """Why an offer or a chunk was not taken."""

    NO_TRANSFER = "no-transfer"
    """Nothing is being fetched, or all of it is here and being installed."""
    OTHER_SNAPSHOT = "other-snapshot"
    WRONG_OFFSET = "wrong-offset"
    WRONG_TOTAL = "wrong-total"
    WRONG_END = "wrong-end"
    """Called the last one before the total is reached, or not called so when it is."""
    TOO_LARGE = "too-large"
    EMPTY = "empty"
    NO_SUCH_SIZE = "no-such-size"
    """The offer announces no bytes, or a hash of a wrong length."""


class SnapshotReceiver:
    """What a follower holds of the one snapshot that it fetches."""

    def __init__(self, config: RaftConfig) -> None:
        self.metadata: SnapshotMetadata | None = None
        """Of the snapshot that is being fetched or installed."""
        self.held = 0
        """Bytes given out to be stored."""
        self.is_installing = False
        self.refusals: Counter[Refusal] = Counter()
        self.expired = 0
        """Transfers that were given up."""
        self._config = config
        self._heard_ns = 0
        """When the last chunk came that was taken, or the offer."""
        self._asked_ns: int | None = None
        """When the chunk at ``held`` was asked for; None before."""

    def offer(self, metadata: SnapshotMetadata, now_ns: int) -> list[Effect]:
        """The leader has this snapshot, and the machine wants it. Ask for ``next_request`` afterwards."""
        if self.is_installing or (self.metadata is not None and _is_same(metadata, self.metadata)):
            return []
        if metadata.size <= 0 or len(metadata.sha256) != HASH_BYTES:
            self.refusals[Refusal.NO_SUCH_SIZE] += 1
            return []
        effects = self._drop("another snapshot is offered")
        self.metadata = metadata
        self._heard_ns = now_ns
        return effects

    def next_request(self, now_ns: int, *, term: Term, requester: NodeId, round: int) -> SnapshotRequest | None:  # noqa: A002 -- the field's name
        """What to ask the leader for, again after each ``rpc_timeout`` without an answer; None for nothing."""
        if self.metadata is None or self.is_installing:
            return None
        if self._asked_ns is not None and now_ns < self._asked_ns + self._config.rpc_timeout * MILLISECOND_NS:
            return None
        self._asked_ns = now_ns
        return SnapshotRequest(
            term=term,
            requester=requester,
            sha256=self.metadata.sha256,
            offset=self.held,
            size=min(self._config.snapshot_chunk_size, self.metadata.size - self.held),
            round=round,
        )

    def take(self, chunk: SnapshotChunk, now_ns: int) -> list[Effect]:
        """Bytes that came. Accepted ones are to be stored; with the last of them, to be installed."""
        effects = self.expire(now_ns)
        refusal = self._judge(chunk)
        if refusal is not None:
            self.refusals[refusal] += 1
            return effects
        assert self.metadata is not None, "a chunk was accepted for nothing"
        effects.append(StoreChunk(self.metadata, chunk.offset, chunk.data))
        self.held += len(chunk.data)
        self._heard_ns = now_ns
        self._asked_ns = None
        if self.held == self.metadata.size:
            self.is_installing = True
            effects.append(InstallSnapshot(self.metadata))
        self.check()
        return effects

    def expire(self, now_ns: int) -> list[Effect]:
        """Give up a transfer of which nothing has come for too long; the next offer begins at offset 0.

        However large a snapshot is and however slow the link, it is fetched as long as it moves on.
        """
        due = self.wake_at_ns
        if due is None or now_ns < due:
            return []
        self.expired += 1
        return self._drop("the transfer stands still")

    @property
    def wake_at_ns(self) -> int | None:
        """When ``expire`` has something to do; None while nothing is being fetched."""
        if self.metadata is None or self.is_installing:
            return None
        return self._heard_ns + self._config.snapshot_transfer_timeout_ms * MILLISECOND_NS

    def installed(self) -> None:
        """The driver has installed what ``InstallSnapshot`` named."""
        assert self.is_installing, "nothing was being installed"
        self._forget()

    def refused(self) -> list[Effect]:
        """The bytes were not what they claimed to be, or could not be stored; the next offer begins at offset 0."""
        return self._drop("the fetched snapshot was refused")

    def check(self) -> None:
        """What always holds."""
        if self.metadata is None:
            assert not self.held, "bytes of no snapshot"
            assert not self.is_installing, "installing no snapshot"
        else:
            assert 0 <= self.held <= self.metadata.size, "more bytes than announced"
            assert self.is_installing == (self.held == self.metadata.size), "installed neither before nor after the end"

    def _judge(self, chunk: SnapshotChunk) -> Refusal | None:
        metadata = self.metadata
        if metadata is None or self.is_installing:
            return Refusal.NO_TRANSFER
        named = (chunk.sha256, chunk.last_index, chunk.last_term)
        if named != (metadata.sha256, metadata.last_index, metadata.last_term):
            return Refusal.OTHER_SNAPSHOT
        if chunk.total != metadata.size:
            return Refusal.WRONG_TOTAL
        if len(chunk.data) > self._config.snapshot_chunk_size:
            return Refusal.TOO_LARGE
        if not chunk.data:
            return Refusal.EMPTY
        if chunk.offset != self.held:
            return Refusal.WRONG_OFFSET
        end = chunk.offset + len(chunk.data)
        if end > metadata.size:
            return Refusal.WRONG_TOTAL
        if chunk.is_last != (end == metadata.size):
            return Refusal.WRONG_END
        return None

    def _drop(self, reason: str) -> list[Effect]:
        effects: list[Effect] = [DropChunks(reason)] if self.held else []
        self._forget()
        return effects

    def _forget(self) -> None:
        self.metadata = None
        self.held = 0
        self.is_installing = False
        self._asked_ns = None


def _is_same(one: SnapshotMetadata, other: SnapshotMetadata) -> bool:
    # Two nodes may take the same snapshot at different moments and in different epochs; the bytes are the same.
    return (one.sha256, one.size, one.last_index, one.last_term, one.configuration) == (
        other.sha256,
        other.size,
        other.last_index,
        other.last_term,
        other.configuration,
    )


class _Sending(Struct):
    """A snapshot on its way to one follower."""

    metadata: SnapshotMetadata
    heard_ns: int
    """When the follower last asked for bytes of it, or when it was first offered."""


class SnapshotSender:
    """Which snapshot a leader sends to whom. A new term begins with a new one."""

    def __init__(self, config: RaftConfig) -> None:
        self._config = config
        self._sending: dict[NodeId, _Sending] = {}

    def offer(self, to: NodeId, newest: SnapshotMetadata, now_ns: int) -> SnapshotMetadata:
        """The snapshot to offer a follower: the one that it is fetching, otherwise the newest."""
        sending = self._sending.get(to)
        if sending is None or now_ns >= sending.heard_ns + self._config.snapshot_transfer_timeout_ms * MILLISECOND_NS:
            sending = self._sending[to] = _Sending(newest, now_ns)
        return sending.metadata

    def asked(self, request: SnapshotRequest, now_ns: int) -> ReadSnapshot | None:
        """What to read for a follower; None when it asks for what was not offered to it, or for no place in it."""
        sending = self._sending.get(request.requester)
        if sending is None or request.sha256 != sending.metadata.sha256:
            return None
        left = sending.metadata.size - request.offset
        size = min(request.size, self._config.snapshot_chunk_size, left)
        if request.offset < 0 or size <= 0:
            return None
        sending.heard_ns = now_ns
        return ReadSnapshot(request.requester, request.sha256, request.offset, size)

    def chunk(self, read: SnapshotBytes, *, term: Term, leader: NodeId) -> SnapshotChunk | None:
        """The bytes that were read, as a message; None when that snapshot is gone: the next offer is of the newest."""
        sending = self._sending.get(read.to)
        if sending is None or read.sha256 != sending.metadata.sha256:
            return None
        if not read.data:
            del self._sending[read.to]
            return None
        metadata = sending.metadata
        return SnapshotChunk(
            term=term,
            leader=leader,
            sha256=metadata.sha256,
            last_index=metadata.last_index,
            last_term=metadata.last_term,
            offset=read.offset,
            total=metadata.size,
            data=read.data,
            is_last=read.offset + len(read.data) == metadata.size,
        )

    def matched(self, follower: NodeId, match_index: Index) -> None:
        """A follower holds the log up to here; what ends there or before need not be sent to it any more."""
        sending = self._sending.get(follower)
        if sending is not None and match_index >= sending.metadata.last_index:
            del self._sending[follower]

    @property
    def kept(self) -> frozenset[bytes]:
        """The hashes of the snapshots that some follower is fetching."""
        return frozenset(sending.metadata.sha256 for sending in self._sending.values())

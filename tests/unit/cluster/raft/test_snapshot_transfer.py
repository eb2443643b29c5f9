from hashlib import sha256

import pytest
from msgspec.structs import replace

from bobbin.cluster.names import MILLISECOND_NS, Index, NodeId, Term
from bobbin.cluster.raft.effects import Cut, DropChunks, Effect, InstallSnapshot, ReadSnapshot, StoreChunk
from bobbin.cluster.raft.entries import Configuration, SnapshotMetadata
from bobbin.cluster.raft.events import SnapshotBytes
from bobbin.cluster.raft.messages import SnapshotChunk, SnapshotOffer, SnapshotRequest
from bobbin.cluster.raft.snapshot_transfer import Refusal, SnapshotReceiver, SnapshotSender
from bobbin.cluster.settings import MB, RaftConfig
from bobbin.wire.cluster import codec, durable

_ME = NodeId("me")
_LEADER = NodeId("leader")
_CONFIG = RaftConfig(snapshot_chunk_size=10)
_LIMIT_NS = 300_000 * MILLISECOND_NS


def _metadata(data: bytes, *, last_index: int = 50, last_term: int = 3, epoch: int = 1) -> SnapshotMetadata:
    return SnapshotMetadata(
        last_index=Index(last_index),
        last_term=Term(last_term),
        sha256=sha256(data).digest(),
        size=len(data),
        configuration=Configuration((_LEADER, _ME)),
        created_s=1_000 + epoch,
        epoch=epoch,
    )


def _chunk(metadata: SnapshotMetadata, whole: bytes, at: int, size: int = 10, /, **other: object) -> SnapshotChunk:
    part = whole[at : at + size]
    chunk = SnapshotChunk(
        term=Term(4),
        leader=_LEADER,
        sha256=metadata.sha256,
        last_index=metadata.last_index,
        last_term=metadata.last_term,
        offset=at,
        total=metadata.size,
        data=part,
        is_last=at + len(part) == metadata.size,
    )
    return replace(chunk, **other)


def _request(receiver: SnapshotReceiver, now_ns: int = 0) -> SnapshotRequest | None:
    return receiver.next_request(now_ns, term=Term(4), requester=_ME, round=7)


class _Disk:
    """Does what the effects say, and nothing else."""

    def __init__(self) -> None:
        self.held = b""
        self.installed: list[bytes] = []

    def do(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case StoreChunk(offset=0, data=data):
                    self.held = data
                case StoreChunk(offset=offset, data=data):
                    assert offset == len(self.held)
                    self.held += data
                case DropChunks():
                    self.held = b""
                case InstallSnapshot():
                    self.installed.append(self.held)
                case _:
                    raise AssertionError(effect)


def test_metadata_say_all_of_a_snapshot_and_survive_the_wire_and_the_disk() -> None:
    metadata = SnapshotMetadata(
        last_index=Index(9),
        last_term=Term(4),
        sha256=sha256(b"state").digest(),
        size=5,
        configuration=Configuration((NodeId("a"), NodeId("b")), (NodeId("c"),), (NodeId("b"), NodeId("d"))),
        created_s=1_700_000_000,
        epoch=12,
        codebook=b"codes",
    )
    offer = SnapshotOffer(term=Term(5), leader=_LEADER, metadata=metadata, round=1)
    kind, payload = codec.encode(offer)
    assert codec.decode(kind, payload) == offer
    cut = Cut(Index(8), metadata)
    assert durable.decode_group(durable.group([durable.encode_record(cut)])) == [cut]
    footer = durable.SnapshotFooter(version=durable.VERSION, cluster=bytes(16), metadata=metadata)
    assert durable.decode_footer(durable.encode_whole(footer)) == footer


_A = bytes(range(25))
_B = bytes(range(100, 135))


def test_a_snapshot_is_pulled_chunk_by_chunk_and_then_installed() -> None:
    receiver, disk, metadata = SnapshotReceiver(_CONFIG), _Disk(), _metadata(_A)
    disk.do(receiver.offer(metadata, 0))
    asked = []
    while (request := _request(receiver)) is not None:
        assert request.sha256 == metadata.sha256
        asked.append((request.offset, request.size))
        disk.do(receiver.take(_chunk(metadata, _A, request.offset, request.size), 0))
    assert asked == [(0, 10), (10, 10), (20, 5)]
    assert disk.installed == [_A]
    receiver.installed()
    assert receiver.metadata is None
    assert not receiver.refusals


def test_nothing_is_wanted_before_an_offer_and_a_stray_chunk_is_refused() -> None:
    receiver = SnapshotReceiver(_CONFIG)
    assert _request(receiver) is None
    assert receiver.take(_chunk(_metadata(_A), _A, 0), 0) == []
    assert receiver.refusals == {Refusal.NO_TRANSFER: 1}


@pytest.mark.parametrize("offset", [0, 5, 15, 20, 10**12])
def test_a_chunk_that_does_not_begin_where_the_held_bytes_end_changes_nothing(offset: int) -> None:
    receiver, disk, metadata = SnapshotReceiver(_CONFIG), _Disk(), _metadata(_A)
    receiver.offer(metadata, 0)
    disk.do(receiver.take(_chunk(metadata, _A, 0), 0))
    stray = _chunk(metadata, _A, 0, 5, offset=offset, is_last=offset + 5 == metadata.size)
    assert receiver.take(stray, 0) == []
    assert receiver.refusals == {Refusal.WRONG_OFFSET: 1}
    assert (receiver.held, disk.held) == (10, _A[:10])
    disk.do(receiver.take(_chunk(metadata, _A, 10), 0))
    disk.do(receiver.take(_chunk(metadata, _A, 20), 0))
    assert disk.installed == [_A]


def test_offset_zero_starts_anew() -> None:
    receiver, disk, metadata = SnapshotReceiver(_CONFIG), _Disk(), _metadata(_A)
    receiver.offer(metadata, 0)
    disk.do(receiver.take(_chunk(metadata, _A, 0), 0))
    disk.do(receiver.refused())
    receiver.offer(metadata, 0)
    request = _request(receiver)
    assert request is not None
    assert request.offset == 0
    disk.held = b"left over"
    disk.do(receiver.take(_chunk(metadata, _A, 0), 0))
    assert disk.held == _A[:10]


@pytest.mark.parametrize(
    ("other", "refusal"),
    [
        ({"sha256": bytes(32)}, Refusal.OTHER_SNAPSHOT),
        ({"last_index": Index(51)}, Refusal.OTHER_SNAPSHOT),
        ({"last_term": Term(2)}, Refusal.OTHER_SNAPSHOT),
        ({"total": 24}, Refusal.WRONG_TOTAL),
        ({"total": 26}, Refusal.WRONG_TOTAL),
        ({"data": b""}, Refusal.EMPTY),
        ({"data": bytes(11)}, Refusal.TOO_LARGE),
        ({"is_last": True}, Refusal.WRONG_END),
    ],
)
def test_a_chunk_that_is_not_what_was_asked_for_changes_nothing(other: dict[str, object], refusal: Refusal) -> None:
    receiver, metadata = SnapshotReceiver(_CONFIG), _metadata(_A)
    receiver.offer(metadata, 0)
    receiver.take(_chunk(metadata, _A, 0), 0)
    assert receiver.take(_chunk(metadata, _A, 10, 10, **other), 0) == []
    assert receiver.refusals == {refusal: 1}
    assert receiver.held == 10


def test_the_last_chunk_makes_exactly_the_announced_total() -> None:
    receiver, disk, metadata = SnapshotReceiver(_CONFIG), _Disk(), _metadata(_A)
    receiver.offer(metadata, 0)
    for offset in (0, 10):
        disk.do(receiver.take(_chunk(metadata, _A, offset), 0))
    assert receiver.take(_chunk(metadata, _A, 20, 4, is_last=True), 0) == []
    assert receiver.take(_chunk(metadata, _A, 20, 5, is_last=False), 0) == []
    assert receiver.take(_chunk(metadata, _A, 20, 5, data=_A[20:] + b"!", is_last=True), 0) == []
    assert receiver.refusals == {Refusal.WRONG_END: 2, Refusal.WRONG_TOTAL: 1}
    assert disk.installed == []
    disk.do(receiver.take(_chunk(metadata, _A, 20, 5), 0))
    assert disk.installed == [_A]


def test_a_chunk_of_the_default_size_is_taken_and_a_larger_one_is_not() -> None:
    data = bytes(3 * MB)
    metadata = _metadata(data)
    receiver = SnapshotReceiver(RaftConfig())
    receiver.offer(metadata, 0)
    assert receiver.take(_chunk(metadata, data, 0, MB + 1), 0) == []
    assert receiver.refusals == {Refusal.TOO_LARGE: 1}
    assert receiver.take(_chunk(metadata, data, 0, MB), 0) == [StoreChunk(metadata, 0, data[:MB])]


def test_an_unanswered_request_is_repeated_after_the_timeout_and_not_before() -> None:
    receiver, metadata = SnapshotReceiver(_CONFIG), _metadata(_A)
    receiver.offer(metadata, 0)
    first = _request(receiver, 0)
    assert first is not None
    receiver.offer(metadata, 1)
    assert _request(receiver, 100 * MILLISECOND_NS - 1) is None
    assert _request(receiver, 100 * MILLISECOND_NS) == first


def test_a_transfer_that_moves_on_may_take_as_long_as_it_needs() -> None:
    receiver, disk, metadata = SnapshotReceiver(_CONFIG), _Disk(), _metadata(_A)
    receiver.offer(metadata, 0)
    now_ns = 0
    for offset in range(0, len(_A), 10):
        now_ns += _LIMIT_NS - 1
        disk.do(receiver.expire(now_ns))
        disk.do(receiver.take(_chunk(metadata, _A, offset), now_ns))
    assert now_ns > 2 * _LIMIT_NS
    assert (receiver.is_installing, receiver.expired, disk.held) == (True, 0, _A)


def test_a_transfer_that_stands_still_for_too_long_is_dropped_and_the_next_begins_at_zero() -> None:
    receiver, disk, metadata = SnapshotReceiver(_CONFIG), _Disk(), _metadata(_A)
    receiver.offer(metadata, 1)
    disk.do(receiver.take(_chunk(metadata, _A, 0), 1))
    due_ns = receiver.wake_at_ns
    assert due_ns == _LIMIT_NS + 1
    assert receiver.expire(_LIMIT_NS) == []
    assert receiver.held == 10
    disk.do(receiver.expire(_LIMIT_NS + 1))
    assert (receiver.metadata, receiver.held, receiver.expired, disk.held) == (None, 0, 1, b"")
    assert receiver.wake_at_ns is None
    receiver.offer(metadata, _LIMIT_NS + 2)
    request = _request(receiver, _LIMIT_NS + 2)
    assert request is not None
    assert request.offset == 0


def test_a_chunk_after_the_limit_is_too_late() -> None:
    receiver, disk, metadata = SnapshotReceiver(_CONFIG), _Disk(), _metadata(_A)
    receiver.offer(metadata, 0)
    disk.do(receiver.take(_chunk(metadata, _A, 0), 0))
    disk.do(receiver.take(_chunk(metadata, _A, 10), _LIMIT_NS))
    assert (receiver.metadata, disk.held, receiver.expired) == (None, b"", 1)


def test_the_limit_of_a_transfer_is_the_setting() -> None:
    receiver = SnapshotReceiver(RaftConfig(snapshot_transfer_timeout_ms=2))
    receiver.offer(_metadata(_A), 0)
    assert receiver.wake_at_ns == 2 * MILLISECOND_NS


def test_another_leader_with_the_same_snapshot_goes_on_where_the_first_stopped() -> None:
    receiver, disk, metadata = SnapshotReceiver(_CONFIG), _Disk(), _metadata(_A)
    receiver.offer(metadata, 0)
    disk.do(receiver.take(_chunk(metadata, _A, 0), 0))
    disk.do(receiver.offer(_metadata(_A, epoch=8), 0))
    request = _request(receiver, 0)
    assert request is not None
    assert request.offset == 10
    for offset in (10, 20):
        disk.do(receiver.take(_chunk(metadata, _A, offset), 0))
    assert disk.installed == [_A]


def test_another_leader_with_another_snapshot_begins_anew_and_nothing_is_mixed() -> None:
    receiver, disk = SnapshotReceiver(_CONFIG), _Disk()
    first, second = _metadata(_A), _metadata(_B, last_index=60)
    receiver.offer(first, 0)
    for offset in (0, 10):
        disk.do(receiver.take(_chunk(first, _A, offset), 0))
    disk.do(receiver.offer(second, 0))
    assert disk.held == b""
    request = _request(receiver, 0)
    assert request is not None
    assert (request.sha256, request.offset) == (second.sha256, 0)
    # What the first leader still has on its way, and the second one's bytes at the old offset.
    assert receiver.take(_chunk(first, _A, 20), 0) == []
    assert receiver.take(_chunk(second, _B, 20), 0) == []
    for offset in (0, 10, 20, 30):
        disk.do(receiver.take(_chunk(second, _B, offset), 0))
    assert disk.installed == [_B]


def test_while_a_snapshot_is_installed_no_other_is_fetched() -> None:
    receiver, metadata = SnapshotReceiver(RaftConfig()), _metadata(_A)
    receiver.offer(metadata, 0)
    assert receiver.take(_chunk(metadata, _A, 0, 25), 0)[-1] == InstallSnapshot(metadata)
    assert receiver.offer(_metadata(_B), 0) == []
    assert receiver.metadata == metadata
    assert _request(receiver) is None
    assert receiver.expire(10 * _LIMIT_NS) == []
    assert receiver.take(_chunk(metadata, _A, 0, 25), 0) == []


def test_a_snapshot_that_turned_out_wrong_is_dropped() -> None:
    receiver, disk, metadata = SnapshotReceiver(RaftConfig()), _Disk(), _metadata(_A)
    receiver.offer(metadata, 0)
    disk.do(receiver.take(_chunk(metadata, _A, 0, 25), 0))
    disk.do(receiver.refused())
    assert (receiver.metadata, receiver.held, disk.held) == (None, 0, b"")


@pytest.mark.parametrize("wrong", [{"size": 0}, {"size": -1}, {"sha256": b"short"}])
def test_an_offer_that_cannot_be_is_refused(wrong: dict[str, object]) -> None:
    receiver = SnapshotReceiver(_CONFIG)
    assert receiver.offer(replace(_metadata(_A), **wrong), 0) == []
    assert receiver.metadata is None
    assert receiver.refusals == {Refusal.NO_SUCH_SIZE: 1}


# ---- the sender -----------------------------------------------------------------------------------------------------


def _asking(metadata: SnapshotMetadata, offset: int, size: int = 10, requester: NodeId = _ME) -> SnapshotRequest:
    return SnapshotRequest(term=Term(4), requester=requester, sha256=metadata.sha256, offset=offset, size=size, round=1)


def test_a_sender_reads_what_was_asked_for_and_never_more_than_its_own_chunk() -> None:
    data = bytes(5 * MB)
    sender, metadata = SnapshotSender(RaftConfig()), _metadata(data)
    assert sender.offer(_ME, metadata, 0) == metadata
    assert sender.asked(_asking(metadata, 0, 4 * MB), 0) == ReadSnapshot(_ME, metadata.sha256, 0, MB)
    assert sender.asked(_asking(metadata, MB, 100), 0) == ReadSnapshot(_ME, metadata.sha256, MB, 100)
    assert sender.asked(_asking(metadata, 5 * MB - 7, MB), 0) == ReadSnapshot(_ME, metadata.sha256, 5 * MB - 7, 7)


@pytest.mark.parametrize(("offset", "size"), [(25, 10), (26, 10), (-1, 10), (0, 0), (0, -5)])
def test_a_sender_reads_no_place_that_is_not_there(offset: int, size: int) -> None:
    sender, metadata = SnapshotSender(_CONFIG), _metadata(_A)
    sender.offer(_ME, metadata, 0)
    assert sender.asked(_asking(metadata, offset, size), 0) is None


def test_a_sender_gives_only_what_it_offered_to_this_follower() -> None:
    sender, metadata = SnapshotSender(_CONFIG), _metadata(_A)
    sender.offer(_ME, metadata, 0)
    assert sender.asked(_asking(_metadata(_B), 0), 0) is None
    assert sender.asked(_asking(metadata, 0, requester=NodeId("stranger")), 0) is None


def test_a_chunk_says_what_it_is_part_of_and_whether_it_is_the_last() -> None:
    sender, metadata = SnapshotSender(_CONFIG), _metadata(_A)
    sender.offer(_ME, metadata, 0)
    for offset, is_last in ((0, False), (10, False), (20, True)):
        read = SnapshotBytes(_ME, metadata.sha256, offset, _A[offset : offset + 10])
        assert sender.chunk(read, term=Term(4), leader=_LEADER) == _chunk(metadata, _A, offset, is_last=is_last)


def test_a_sender_stays_with_a_snapshot_until_the_follower_has_it() -> None:
    sender, old, new = SnapshotSender(_CONFIG), _metadata(_A), _metadata(_B, last_index=60)
    assert sender.offer(_ME, old, 0) == old
    assert sender.offer(_ME, new, 1) == old
    assert sender.kept == {old.sha256}
    assert sender.asked(_asking(old, 20), 1) is not None
    sender.matched(_ME, Index(49))
    assert sender.kept == {old.sha256}
    sender.matched(_ME, Index(50))
    assert sender.kept == frozenset()
    assert sender.offer(_ME, new, 2) == new


def test_a_follower_that_has_gone_quiet_is_offered_the_newest() -> None:
    sender, old, new = SnapshotSender(_CONFIG), _metadata(_A), _metadata(_B, last_index=60)
    sender.offer(_ME, old, 0)
    sender.asked(_asking(old, 0), 5)
    assert sender.offer(_ME, new, _LIMIT_NS + 4) == old
    assert sender.offer(_ME, new, _LIMIT_NS + 5) == new


def test_a_snapshot_that_is_gone_is_offered_no_more() -> None:
    sender, old, new = SnapshotSender(_CONFIG), _metadata(_A), _metadata(_B, last_index=60)
    sender.offer(_ME, old, 0)
    assert sender.chunk(SnapshotBytes(_ME, old.sha256, 0, None), term=Term(4), leader=_LEADER) is None
    assert sender.offer(_ME, new, 1) == new


def test_bytes_that_were_read_for_an_earlier_snapshot_are_not_sent_as_another() -> None:
    sender, old, new = SnapshotSender(_CONFIG), _metadata(_A), _metadata(_B, last_index=60)
    sender.offer(_ME, old, 0)
    sender.matched(_ME, Index(50))
    sender.offer(_ME, new, 1)
    assert sender.chunk(SnapshotBytes(_ME, old.sha256, 0, _A[:10]), term=Term(4), leader=_LEADER) is None
    assert sender.chunk(SnapshotBytes(NodeId("x"), new.sha256, 0, b"x"), term=Term(4), leader=_LEADER) is None

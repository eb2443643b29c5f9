from bobbin.cluster.names import Index, NodeId, Term
from bobbin.cluster.raft.inbox import INBOX_BYTES_MAX, INBOX_MAX, Inbox
from bobbin.cluster.raft.messages import AppendEntries, SnapshotChunk, TimeoutNow
from tests.support.raft_cluster import entry
from tests.support.raft_messages import append

SENDER = NodeId("a")


def with_bytes(size: int, round_: int) -> AppendEntries:
    return append("a", 1, (0, 0), (entry(1, 1, bytes(size)), entry(1, 2, None)), round_=round_)


def chunk(size: int) -> SnapshotChunk:
    return SnapshotChunk(
        term=Term(1),
        leader=SENDER,
        sha256=bytes(32),
        last_index=Index(1),
        last_term=Term(1),
        offset=0,
        total=size,
        data=bytes(size),
        is_last=True,
    )


def test_messages_come_out_in_order_and_the_oldest_gives_way() -> None:
    inbox = Inbox()
    for term in range(INBOX_MAX + 2):
        inbox.put(SENDER, TimeoutNow(term=Term(term), leader=SENDER))
    assert (len(inbox), inbox.dropped) == (INBOX_MAX, 2)
    taken = [inbox.take()[1].term for _ in range(INBOX_MAX)]
    assert taken == list(range(2, INBOX_MAX + 2))


def test_the_room_is_bounded_in_bytes_too() -> None:
    inbox = Inbox()
    quarter = INBOX_BYTES_MAX // 4
    for round_ in range(6):
        inbox.put(SENDER, with_bytes(quarter, round_))
    assert (len(inbox), inbox.dropped) == (4, 2)
    first = inbox.take()[1]
    assert isinstance(first, AppendEntries)
    assert first.round == 2
    inbox.put(SENDER, with_bytes(quarter, 6))
    assert (len(inbox), inbox.dropped) == (4, 2), "what was taken has made room"
    inbox.put(SENDER, chunk(2 * quarter))
    assert (len(inbox), inbox.dropped) == (3, 4)


def test_one_message_is_kept_however_large_it_is() -> None:
    inbox = Inbox()
    inbox.put(SENDER, with_bytes(1, 1))
    inbox.put(SENDER, chunk(INBOX_BYTES_MAX + 1))
    assert (len(inbox), inbox.dropped) == (1, 1)
    assert isinstance(inbox.take()[1], SnapshotChunk)

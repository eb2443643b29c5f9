"""Requests about a chain, and their answers: the same after the journey, and bounds on every field."""

import msgspec
import pytest

from bobbin.cluster.chain.block import genesis
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.operations import (
    Average,
    CompareAndSwap,
    CounterAdd,
    Delete,
    EdgeCreate,
    Embed,
    NodeCreate,
    NodeDelete,
    Put,
    ReadVersion,
    SetAdd,
    TableDelete,
    TableInsert,
    TableUpdate,
    Transaction,
    Update,
    VectorAdd,
)
from bobbin.cluster.transactions.names import ShardId, TxId, tx_id
from bobbin.cluster.transactions.phases import Ended
from bobbin.errors import UsageError
from bobbin.wire.cluster import chain
from bobbin.wire.cluster.chain import (
    ChainAbort,
    ChainAnswer,
    ChainBegin,
    ChainBlocks,
    ChainBook,
    ChainChange,
    ChainChanges,
    ChainCodebook,
    ChainCommit,
    ChainEnded,
    ChainHistory,
    ChainItem,
    ChainItems,
    ChainNear,
    ChainNearest,
    ChainOpen,
    ChainPage,
    ChainPending,
    ChainRead,
    ChainRequest,
    ChainResolve,
    ChainSay,
    ChainValidate,
    ChainVerdict,
    ChainVerify,
    Near,
    PendingTransaction,
)
from bobbin.wire.cluster.client import (
    CHAIN_BYTES_MAX,
    Status,
    decode_answers,
    decode_requests,
    encode_answers,
    encode_requests,
    weight,
)
from bobbin.wire.cluster.faults import Refusal
from tests.support.cluster_wire import refusal_of

TX = tx_id(7, b"by chanc")
VECTOR = Embedding.of(8, {1: 0.5, 3: -2.0})
TRANSACTION = Transaction(
    TX,
    (
        Put(b"a", b"1"),
        Delete(b"b"),
        Update(b"c", b"2"),
        CompareAndSwap(b"d", b"", b"3"),
        Embed(b"e", VECTOR),
        NodeCreate(b"f", "label"),
        NodeDelete(b"g"),
        EdgeCreate(b"h", b"i", "kind"),
        TableInsert(b"t", (b"1", b"2")),
        TableUpdate(b"t", bytes(32), (b"3",)),
        TableDelete(b"t", bytes(32)),
        CounterAdd(b"j", -3),
        SetAdd(b"k", b"member"),
        VectorAdd(b"l", VECTOR),
        Average(b"m", VECTOR),
    ),
    (ReadVersion(b"a", 3), ReadVersion(b"z", 0)),
    6,
    1_700_000_000_000,
    -1,
)
CHAIN_REQUESTS: tuple[ChainRequest, ...] = (
    ChainRead(1, (b"a", b"emb:b"), 12, linearizable=False),
    ChainRead(2, ()),
    ChainCommit(3, TRANSACTION),
    ChainBegin(4, TX, ((ShardId(0), TRANSACTION), (ShardId(65_535), TRANSACTION)), 5_000),
    ChainAbort(5, TX),
    ChainValidate(6, (ReadVersion(b"a", 3),)),
    ChainSay(7, ShardId(2), b"message"),
    ChainBlocks(8, 10, 20, linearizable=False),
    ChainHistory(9, b"a", 4, linearizable=False),
    ChainVerify(10),
    ChainPending(11),
    ChainResolve(12, TX, commits=True, reason="its coordinator burnt down"),
    ChainCodebook(13),
    ChainCodebook(14, b"centroids"),
    ChainNearest(15, VECTOR, 3),
)
CHAIN_ANSWERS: tuple[ChainAnswer, ...] = (
    ChainItems(1, 12, 13, (ChainItem(b"1", 3, 1), ChainItem(None, 0))),
    ChainEnded(2, Ended.COMMITTED, TX, 13, refusals=((3, "another value"),)),
    ChainEnded(3, Ended.CONFLICT, TX, 0, "somebody was first", 0.75, TX),
    ChainPage(4, (genesis(8),), 0),
    ChainChanges(5, (ChainChange(3, 1_700_000_000_000, TX, Put(b"a", b"1"), ""),), is_whole=True),
    ChainVerdict(6, 12, bytes(32), 3, "signature: it is not by the proposer"),
    ChainVerdict(7, 12, bytes(32), None, ""),
    ChainOpen(8, (PendingTransaction(TX, "participates", "promised", 0, (0, 1), 3),), 1),
    ChainBook(9, 2, b"centroids"),
    ChainNear(10, (Near(3, 0.5),)),
)


def test_every_request_and_answer_is_the_same_after_the_journey() -> None:
    for request in CHAIN_REQUESTS:
        assert decode_requests(encode_requests([request])) == [request]
    assert decode_requests(encode_requests([Status(1), *CHAIN_REQUESTS]))[1:] == list(CHAIN_REQUESTS)
    for answer in CHAIN_ANSWERS:
        assert decode_answers(encode_answers([answer])) == [answer]
    assert {type(request) for request in CHAIN_REQUESTS} == set(ChainRequest.__args__)
    assert {type(answer) for answer in CHAIN_ANSWERS} == set(ChainAnswer.__args__)


def test_the_kinds_never_change_their_numbers() -> None:
    requests = {type(one): msgspec.msgpack.decode(msgspec.msgpack.encode(one))[0] for one in CHAIN_REQUESTS}
    answers = {type(one): msgspec.msgpack.decode(msgspec.msgpack.encode(one))[0] for one in CHAIN_ANSWERS}
    assert list(requests.values()) == list(range(32, 45))
    assert list(answers.values()) == list(range(32, 40))


@pytest.mark.parametrize(
    "request_",
    [
        ChainRead(1, (b"",)),
        ChainRead(1, (bytes(chain.STORAGE_KEY_BYTES_MAX + 1),)),
        ChainRead(1, (b"a",) * (chain.READ_KEYS_MAX + 1)),
        ChainHistory(1, b""),
        ChainHistory(1, bytes(chain.STORAGE_KEY_BYTES_MAX + 1)),
        ChainBegin(1, TxId(b"short"), (), 1),
        ChainBegin(1, TX, ((ShardId(65_536), TRANSACTION),), 1),
        ChainBegin(1, TX, ((ShardId(0), Transaction(TX, ())),) * (chain.PARTS_MAX + 1), 1),
        ChainAbort(1, TxId(bytes(17))),
        ChainResolve(1, TxId(b""), commits=True, reason=""),
        ChainResolve(1, TX, commits=True, reason="x" * (chain.REASON_CHARACTERS_MAX + 1)),
        ChainValidate(1, (ReadVersion(b"a", 1),) * (chain.READS_MAX + 1)),
        ChainSay(1, ShardId(-1), b""),
        ChainSay(1, ShardId(65_536), b""),
        ChainSay(1, ShardId(0), bytes(chain.MESSAGE_BYTES_MAX + 1)),
        ChainCodebook(1, bytes(chain.CODEBOOK_BYTES_MAX + 1)),
        ChainBlocks(1, 0, 0),
        ChainBlocks(1, 0, chain.BLOCKS_MAX + 1),
        ChainNearest(1, VECTOR, 0),
        ChainNearest(1, VECTOR, chain.NEAREST_MAX + 1),
    ],
    ids=lambda request: type(request).__name__,
)
def test_what_no_node_would_take_is_refused_on_both_sides(request_: ChainRequest) -> None:
    with pytest.raises(UsageError):
        encode_requests([request_])
    raw = msgspec.msgpack.encode([request_])
    assert refusal_of(lambda: decode_requests(raw)) is Refusal.UNREADABLE


@pytest.mark.parametrize(
    "raw",
    [
        [33, 1, [TX, [[99, b"a"]], [], 0, 0, 0]],
        [33, 1, [TX, [[1, b"a"]], [], 0, 0, 0]],
        [33, 1, [TX, [[1, b"a", b"b", b"c"]], [], 0, 0, 0]],
        [33, 1, None],
        [34, 1, TX, [[0]], 5],
        [34, 1, TX, [], -1],
        [36, 1, [[b"a"]]],
        [40],
        [40, 1, 2],
        [42, 1, TX, 1, ""],
    ],
    ids=str,
)
def test_requests_out_of_shape_are_refused(raw: object) -> None:
    assert refusal_of(lambda: decode_requests(msgspec.msgpack.encode([raw]))) is Refusal.UNREADABLE


def test_the_weight_of_a_request_is_what_it_takes_and_has_a_bound() -> None:
    small = ChainCommit(1, Transaction(TX, (CounterAdd(b"a", 1),)))
    assert weight(small) == len(encode_requests([small]))
    # A plain put is not encoded for that: never less than what it takes, and little more.
    for data in (b"1", bytes(1_000), bytes(100_000)):
        put = ChainCommit(1, Transaction(TX, (Put(b"a", data),)))
        assert 0 <= weight(put) - len(encode_requests([put])) <= 100
    with pytest.raises(UsageError, match="at most"):
        weight(ChainSay(1, ShardId(0), bytes(CHAIN_BYTES_MAX)))

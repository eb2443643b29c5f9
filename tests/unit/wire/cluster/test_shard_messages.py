import pytest
from msgspec.structs import replace

from bobbin.cluster.geometry import Embedding
from bobbin.cluster.operations import Embed, Put, Transaction
from bobbin.cluster.settings import MessageValidationConfig
from bobbin.cluster.transactions.messages import (
    Conflict,
    No,
    Recheck,
    ShardMessage,
    TxAbortMsg,
    TxPrepareResponse,
    WaitEdge,
    WaitReport,
    Yes,
)
from bobbin.cluster.transactions.names import ShardId, TxId
from bobbin.wire.cluster.faults import MessageRefused, Refusal
from bobbin.wire.cluster.shard_messages import EDGES_MAX, KEYS_MAX, MESSAGE_BYTES_MAX, decode, encode
from tests.unit.wire.cluster.shard_samples import HERE, MESSAGES, OTHER, PREPARE, THERE, TX, VECTOR
from tests.vectors.load import load

VECTORS = load("cluster/shard.json")["messages"]
CONFIG = MessageValidationConfig()
NAN = Embedding(8, (1,), (float("nan"),))
FAR = ShardId(65_536)


def refusal(message: ShardMessage, config: MessageValidationConfig = CONFIG) -> tuple[Refusal, str]:
    with pytest.raises(MessageRefused) as caught:
        decode(encode(message), config=config)
    return caught.value.refusal, caught.value.field


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_have_these_bytes_for_ever(name: str) -> None:
    raw = bytes.fromhex(VECTORS[name])
    assert encode(MESSAGES[name]) == raw
    assert decode(raw, config=CONFIG) == MESSAGES[name]
    assert VECTORS.keys() == MESSAGES.keys()


@pytest.mark.parametrize("name", MESSAGES)
def test_no_piece_of_a_message_and_nothing_longer_is_a_message(name: str) -> None:
    raw = encode(MESSAGES[name])
    for end in range(0, len(raw), max(1, len(raw) // 50)):
        with pytest.raises(MessageRefused):
            decode(raw[:end], config=CONFIG)
    with pytest.raises(MessageRefused):
        decode(raw + b"\x00", config=CONFIG)


def test_what_is_too_long_is_refused_before_it_is_read() -> None:
    with pytest.raises(MessageRefused) as caught:
        decode(bytes(MESSAGE_BYTES_MAX + 1), config=CONFIG)
    assert caught.value.refusal is Refusal.OVERSIZED


def test_a_prepare_is_looked_at_by_shard_then_timeout_then_embedding() -> None:
    bad = replace(PREPARE, shard=FAR, timeout_ms=0, delta=NAN)
    assert refusal(bad) == (Refusal.SHARD, "shard")
    assert refusal(replace(bad, shard=THERE)) == (Refusal.TIMEOUT, "timeout_ms")
    assert refusal(replace(bad, shard=THERE, timeout_ms=300_001)) == (Refusal.TIMEOUT, "timeout_ms")
    assert refusal(replace(bad, shard=THERE, timeout_ms=1)) == (Refusal.EMBEDDING, "delta.values[0]")
    good = replace(PREPARE, timeout_ms=1)
    assert decode(encode(good), config=CONFIG) == good


def test_each_of_shard_timeout_and_embedding_refuses_alone() -> None:
    assert refusal(replace(PREPARE, coordinator=FAR))[0] is Refusal.SHARD
    assert refusal(replace(PREPARE, shard=ShardId(-1)))[0] is Refusal.SHARD
    assert refusal(replace(PREPARE, participants=(THERE, HERE))) == (Refusal.SHARD, "participants[1]")
    assert refusal(replace(PREPARE, timeout_ms=0))[0] is Refusal.TIMEOUT
    vectors = (
        NAN,
        Embedding(8, (1,), (float("inf"),)),
        Embedding(8, (5, 1), (1.0, 1.0)),
        Embedding(8, (8,), (1.0,)),
        Embedding(8, (1,), ()),
        Embedding(0, (), ()),
        Embedding(65_537, (), ()),
        Embedding(8, (1,), (1_000_001.0,)),
    )
    for vector in vectors:
        assert refusal(replace(PREPARE, delta=vector))[0] is Refusal.EMBEDDING
        part = Transaction(TX, (Put(b"k", b""), Embed(b"k", vector)))
        found, field = refusal(replace(PREPARE, part=part))
        assert found is Refusal.EMBEDDING
        assert field.startswith("part.operations[1].vector")


def test_ids_keys_and_parts_have_bounds() -> None:
    assert refusal(replace(PREPARE, tx=TxId(b"short"))) == (Refusal.NUMBER, "tx")
    long = Transaction(TX, (Put(b"k" * 4_097, b""),))
    assert refusal(replace(PREPARE, part=long)) == (Refusal.KEY, "part.operations[0].key")
    many = Transaction(TX, (Put(b"k", b""),) * 1_001)
    assert refusal(replace(PREPARE, part=many)) == (Refusal.COMMAND, "part")


def test_votes_have_bounds() -> None:
    for vote, expected in (
        (Yes(-1, VECTOR, ()), Refusal.NUMBER),
        (Yes(1, NAN, ()), Refusal.EMBEDDING),
        (Yes(1, VECTOR, (b"k",) * (KEYS_MAX + 1)), Refusal.ENTRIES),
        (No("x" * 5_000), Refusal.QUERY),
        (Conflict(float("nan"), None), Refusal.EMBEDDING),
        (Conflict(0.0, TxId(b"short")), Refusal.NUMBER),
        (Conflict(0.0, None, "x" * 5_000), Refusal.QUERY),
    ):
        assert refusal(TxPrepareResponse(TX, THERE, vote))[0] is expected


def test_reports_and_questions_about_waits_have_bounds() -> None:
    edge = WaitEdge(TX, OTHER, 1, 1, 1, 1, HERE)
    for bad, expected in (
        (replace(edge, waiter=TxId(b"")), Refusal.NUMBER),
        (replace(edge, holder=TxId(b"")), Refusal.NUMBER),
        (replace(edge, coordinator=FAR), Refusal.SHARD),
        (replace(edge, started_ms=-1), Refusal.NUMBER),
        (replace(edge, priority=2**63), Refusal.NUMBER),
    ):
        assert refusal(WaitReport(THERE, 1, 1, (bad,)))[0] is expected
    assert refusal(WaitReport(THERE, -1, 1, ())) == (Refusal.NUMBER, "round")
    assert refusal(WaitReport(THERE, 1, -1, ()))[0] is Refusal.TERM
    assert refusal(Recheck(1, THERE, ((TX, TxId(b"")),)))[0] is Refusal.NUMBER
    assert refusal(Recheck(1, THERE, ((TX, OTHER),) * (EDGES_MAX + 1)))[0] is Refusal.ENTRIES
    assert refusal(TxAbortMsg(TX, HERE, THERE, "x" * 5_000)) == (Refusal.QUERY, "reason")


@pytest.mark.parametrize("name", MESSAGES)
def test_no_message_passes_with_a_shard_that_cannot_be(name: str) -> None:
    message = MESSAGES[name]
    for field in ("shard", "coordinator", "asker"):
        if field in message.__struct_fields__:
            changed = replace(message, **{field: FAR})
            assert refusal(changed) == (Refusal.SHARD, field)


def test_bounds_that_are_switched_off_leave_the_form() -> None:
    off = MessageValidationConfig(enabled=False)
    odd = replace(PREPARE, timeout_ms=0)
    assert decode(encode(odd), config=off) == odd
    with pytest.raises(MessageRefused):
        decode(b"\x91\x63", config=off)

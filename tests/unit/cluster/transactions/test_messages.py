"""The fields of every message between shards."""

from typing import get_args

import msgspec
import pytest

from bobbin.cluster.geometry import Embedding
from bobbin.cluster.transactions.messages import (
    Conflict,
    No,
    PrepareVote,
    Recheck,
    Rechecked,
    ShardMessage,
    TxAbortMsg,
    TxAckMsg,
    TxCommitMsg,
    TxDecisionMsg,
    TxPrepareMsg,
    TxPrepareResponse,
    TxQueryMsg,
    VictimMsg,
    WaitEdge,
    WaitReport,
    Yes,
)
from tests.unit.cluster.transactions.driven import HOME, ONE, TWO, X, Y, part

DELTA = Embedding.dense((0.5, 0.0, -1.0))
EDGE = WaitEdge(X, Y, 10, 5, 3, 2, HOME)
MESSAGES: list[ShardMessage] = [
    TxPrepareMsg(X, HOME, ONE, part(X, ONE), DELTA, 5_000, (ONE, TWO)),
    TxPrepareResponse(X, ONE, Yes(7, DELTA, (b"key",))),
    TxPrepareResponse(X, ONE, No("held", is_final=True)),
    TxPrepareResponse(X, ONE, Conflict(0.5, Y, "moved")),
    TxCommitMsg(X, HOME, ONE),
    TxAbortMsg(X, HOME, ONE, "held"),
    TxAckMsg(X, ONE, success=False, error="disk"),
    TxQueryMsg(X, HOME, ONE, TWO),
    TxDecisionMsg(X, HOME, commits=None),
    TxDecisionMsg(X, HOME, commits=True),
    WaitReport(ONE, 4, 2, (EDGE,)),
    Recheck(3, ONE, ((X, Y),)),
    Rechecked(3, ONE, ()),
    VictimMsg(X, HOME, "in a circle"),
]


def test_every_kind_is_tried() -> None:
    assert {type(message) for message in MESSAGES} == set(get_args(ShardMessage))
    votes = {type(message.vote) for message in MESSAGES if isinstance(message, TxPrepareResponse)}
    assert votes == set(get_args(PrepareVote))


@pytest.mark.parametrize("message", MESSAGES)
def test_every_message_comes_back_as_it_was(message: ShardMessage) -> None:
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=ShardMessage)
    assert again == message
    assert type(again) is type(message)


def test_tags_are_fixed() -> None:
    tags = [kind.__struct_config__.tag for kind in get_args(ShardMessage)]
    assert tags == list(range(1, 12))

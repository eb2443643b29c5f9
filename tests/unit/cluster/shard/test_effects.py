from typing import get_args

from bobbin.cluster.shard.effects import Answer, Effect
from bobbin.cluster.shard.events import Event
from bobbin.cluster.transactions.names import TxId
from bobbin.cluster.transactions.phases import Ended


def test_effects_are_a_closed_set_and_none_is_an_event() -> None:
    assert len(set(get_args(Effect))) == 5
    assert not set(get_args(Effect)) & set(get_args(Event))


def test_an_answer_says_nothing_that_it_was_not_told() -> None:
    answer = Answer(1, Ended.BUSY, TxId(bytes(16)))
    assert (answer.height, answer.reason, answer.similarity, answer.other, answer.refusals) == (0, "", None, None, ())

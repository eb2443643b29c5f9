from typing import get_args

from bobbin.cluster.names import Term
from bobbin.cluster.raft.effects import DurableRecord, Effect, HardState, Role, Why


def test_records_and_effects_are_closed_sets_of_values() -> None:
    assert HardState(Term(1), None) == HardState(Term(1), None)
    assert len(set(get_args(DurableRecord))) == 5
    assert not set(get_args(DurableRecord)) & set(get_args(Effect))


def test_words_that_people_see_are_unique() -> None:
    assert len({why.value for why in Why}) == len(Why)
    assert [role.value for role in Role] == ["follower", "candidate", "leader"]

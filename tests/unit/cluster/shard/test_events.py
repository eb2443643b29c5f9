from typing import get_args

from bobbin.cluster.shard.events import Commit, Event, Lost, Tick
from tests.unit.cluster.shard.driven import DrivenShards


def test_events_are_a_closed_set_of_values() -> None:
    assert len(set(get_args(Event))) == 11
    transaction = DrivenShards().transaction()
    assert Commit(1, transaction) == Commit(1, transaction) != Commit(2, transaction)
    assert hash(Lost(1, "why")) == hash(Lost(1, "why"))
    assert Tick() == Tick()

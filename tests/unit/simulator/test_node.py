"""A node keeps what it was given, tells its machines of every change, and sees after a crash what is left."""

import pytest

from bobbin.errors import ResourceError
from bobbin.interlace.effects import Persist
from bobbin.interlace.events import Fate
from bobbin.interlace.messages import Delivered
from bobbin.records.record import Record
from bobbin.simulator.clock import NodeClock, Timeline
from bobbin.simulator.node import MemoryVault, Node
from tests.unit.simulator.exchanges import EVERYTHING, note


class FailingVault(MemoryVault):
    """A put fails, and has happened nevertheless or has not."""

    def __init__(self, *, happens: bool) -> None:
        super().__init__()
        self.happens = happens

    def put(self, record: Record) -> bool:
        if self.happens:
            super().put(record)
        raise ResourceError("the disk is full", retry=False)


def make(vault: MemoryVault | None = None) -> Node:
    chosen = MemoryVault() if vault is None else vault
    return Node("n", clock=NodeClock(Timeline()), vault=lambda _: chosen, choice=EVERYTHING, key=None)


def test_every_change_is_told_and_counted() -> None:
    node = make()
    told: list[int] = []
    listener = lambda: told.append(node.version)  # noqa: E731 (a name to take it back by)
    node.listen(listener)
    record = note(1)
    node.put(record)
    node.remove(record.hash)
    assert record.hash in node.refused
    node.put(record)
    assert node.records == {}, "what is refused does not come in"
    node.lift(record.hash)
    node.put(record)
    assert told == [1, 2, 3, 4]
    assert node.expected == set(node.records) == {record.hash}
    node.unlisten(listener)
    node.remove(record.hash)
    assert len(told) == 4


def test_what_comes_over_a_link_is_expected_only_if_it_is_stored() -> None:
    node = make()
    good, other = note(1), note(2)
    holdings = node.vault.link(None)
    arrivals = (Delivered(record=good.hash, raw=good.raw), Delivered(record=other.hash, raw=good.raw))
    settled = node.persist(holdings, Persist(arrivals))
    assert [one.fate for one in settled] == [Fate.STORED, Fate.REJECTED]
    assert node.expected == {good.hash}


@pytest.mark.parametrize("happens", [True, False])
def test_an_operation_that_failed_has_happened_or_not(happens: bool) -> None:  # noqa: FBT001
    node = make(FailingVault(happens=happens))
    with pytest.raises(ResourceError):
        node.put(note(1))
    assert node.recover() is None
    assert node.expected == set(node.records)


def test_a_crash_that_loses_a_record_is_noticed() -> None:
    vault = MemoryVault()
    node = make(vault)
    node.put(note(1))
    vault._shared.records.clear()
    assert node.recover() is not None


def test_a_policy_can_be_replaced() -> None:
    node = make()
    before = node.selector.identifier
    node.change(EVERYTHING.__class__(selector="SelectHave(P) :- Have(P).\n"))
    assert node.selector.identifier != before

"""Twisted sketches are of the right form, and an exchange with whoever says them ends."""

from random import Random

import pytest

from bobbin.interlace.choice import Strategy
from bobbin.interlace.messages import Advertise, Message, Request
from bobbin.interlace.reasons import Reason
from bobbin.interlace.reconciliation import (
    Changed,
    Compared,
    Cut,
    Lacking,
    Part,
    Probe,
    Ranged,
    Sketched,
    Standing,
    Supplied,
)
from bobbin.reconcile.estimate import COUNTERS
from bobbin.simulator.hostile_sketches import TWISTS
from tests.unit.simulator.exchanges import Setting, note

PARTS: list[Part] = [
    Standing(count=3, root=bytes(32), held=bytes(16)),
    Probe(bulk=bytes(COUNTERS), cuts=(Cut(moment=5, sum=7),)),
    Sketched(first=0, raw=bytes(80)),
    Ranged(moment=9, ids=bytes(24)),
    Lacking(ids=bytes(24)),
    Changed(added=("0" * 11,), removed=("1" * 11,)),
    Compared(removed=("1" * 11,)),
    Supplied(),
]


@pytest.mark.parametrize("name", sorted(TWISTS))
def test_a_twist_changes_parts_and_leaves_the_rest(name: str) -> None:
    twist, changed = TWISTS[name], 0
    for seed in range(20):
        random = Random(seed)
        for part in PARTS:
            message = Advertise(part=part)
            changed += twist(random, message) != [message]
        assert twist(random, Request()) == [Request()]
    assert changed


@pytest.mark.parametrize("name", sorted(TWISTS))
@pytest.mark.parametrize("strategy", [Strategy.SKETCH, Strategy.RANGES, Strategy.AUTO])
def test_an_honest_side_comes_to_an_end(name: str, strategy: Strategy) -> None:
    for seed in range(4):
        random = Random(seed)
        setting = Setting([note(number) for number in range(1, 9)], [note(number) for number in range(4, 12)])

        def tamper(message: Message, random: Random = random) -> list[Message]:
            return TWISTS[name](random, message) if random.random() < 0.7 else [message]

        setting.connect(tamper=tamper, strategy=strategy, shares=(5, 6))
        setting.run()
        honest = setting.ends[0]
        assert honest.result is not None
        assert honest.result.fixed_point or isinstance(honest.result.reason, Reason)
        assert honest.witness is not None
        assert honest.witness.checks > 3

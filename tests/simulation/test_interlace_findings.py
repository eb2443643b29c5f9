"""What simulated worlds have found, each as the shortest case that shows it."""

from collections.abc import Collection

import pytest
from msgspec import structs

from bobbin.interlace.advertise import advertisement
from bobbin.interlace.learned import Learned
from bobbin.interlace.messages import Message, Setup
from bobbin.interlace.reasons import Reason
from bobbin.interlace.wants import Wants
from bobbin.policy.operands import Origin
from bobbin.simulator.batch import run_batch
from bobbin.simulator.endpoint import Tamper
from bobbin.simulator.policies import Choice
from bobbin.simulator.world import Broken
from tests.simulation.interlace_mutants import planted
from tests.unit.simulator.exchanges import Setting, note

RECORD = "P." + "0" * 43 + ".H3"


def absent(records: Collection[str]) -> frozenset[str]:
    """Nothing is stored here."""
    return frozenset(records)


def test_a_record_that_came_and_left_again_between_two_evaluations_is_asked_for_again() -> None:
    # It was received and stored; before the next evaluation it was removed, and the refusal lifted. Nothing has moved
    # between the two evaluations, and the record is missing as it was before.
    learned = Learned(2, [advertisement(RECORD, Origin("source:1"), ())])
    wants = Wants()
    wants.update(frozenset({RECORD}), frozenset(), frozenset(), absent)
    assert wants.choose(learned, {"H3"}, 10, absent) == (RECORD,)
    wants.settle([RECORD])
    wants.update(frozenset(), frozenset(), frozenset(), absent)
    assert wants.choose(learned, {"H3"}, 10, absent) == (RECORD,)


def _without_module(message: Message) -> list[Message]:
    return [structs.replace(message, module=None) if isinstance(message, Setup) else message]


def _with_another_module(message: Message) -> list[Message]:
    return [structs.replace(message, module=b"SelectHave(P) :- Have(P).\n") if isinstance(message, Setup) else message]


@pytest.mark.parametrize(
    ("tamper", "end", "fault", "promise"),
    [
        (
            _without_module,
            Reason.PLAN_COMPILATION,
            "runs its own module for one that never came",
            "a module was supplied once before it is used",
        ),
        (
            _with_another_module,
            Reason.MALFORMED_MODULE,
            "takes a module under any name",
            "the machine goes on although a module has another name than its bytes",
        ),
    ],
)
def test_a_module_that_nobody_may_run_is_found_out(tamper: Tamper, end: Reason, fault: str, promise: str) -> None:
    # Beside 28704: the witness knows more modules than it did, and none that never came.
    setting = Setting([note(1)], [note(2)])
    setting.nodes[1].change(Choice(selector="SelectAdvertised(P,S) :- Advertised(P,S).\n"))
    setting.connect(tamper=tamper)
    setting.run()
    result = setting.ends[0].result
    assert result is not None
    assert result.reason is end
    with planted(fault):
        setting.connect(tamper=tamper)
        with pytest.raises(Broken, match=promise):
            setting.run()


@pytest.mark.parametrize(
    "seed",
    [2374, 2466, 3167, 3469, 7094, 9166, 14752, 15408, 15450, 15795, 16690, 1905, 300812, 402932, 34295, 65799, 28704],
)
def test_worlds_that_were_broken_once(seed: int) -> None:
    # 2374, 9166, 14752, 15408, 15795: the power was cut while a cursor was saved. That is no reason for an exchange to
    # fail, so nobody heard of it, and the simulated node lived on without power.
    # 2466: a record came, was removed, and came again as wrong bytes, and the result no longer named it as received.
    # 3167, 3469: the oracle's mistake: a clock that is set back has reached what it has reached.
    # 7094: the oracle's mistake: a record that was announced, was away and is back when its turn comes may be sent.
    # 15450, 16690: a liar who advertised before there was a plan could not be put into bytes.
    # 1905: what a liar had listed was compared with before it was found to be less than announced.
    # 402932: questions of a block that does not count were answered in place of what had to be told anew.
    # 300812: the witness's own mistake. A change may lead on from what the peer holds since an earlier link.
    # 34295, 65799: the witness's own mistake. Who tells its changes may have been told plainly, and asks about that.
    # 28704: the witness's own mistake. A module is known from a setup, even if its link broke before there was a plan.
    assert run_batch(range(seed, seed + 1)).broken == 0

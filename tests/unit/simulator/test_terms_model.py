"""The terms, worked out a second time, are those of the machine; what cannot be agreed on is named."""

from collections.abc import Callable

import pytest
from msgspec import structs

from bobbin.interlace.effects import Negotiated
from bobbin.interlace.messages import Hello, Setup
from bobbin.records import tai
from bobbin.simulator.terms_model import Said, Terms, work_out
from bobbin.simulator.world import Broken
from tests.unit.simulator.exchanges import Setting, fail, note


def spoken() -> tuple[Setting, Said, Negotiated]:
    """What two honest machines have said up to their agreement."""
    setting = Setting([note(1)], [])
    setting.connect()
    setting.run()
    witness = setting.ends[0].witness
    epoch = setting.ends[0].machine.epoch
    assert witness is not None
    assert epoch is not None
    notice = Negotiated(plan=epoch.terms.plan, link=epoch.terms.link, start_tai=epoch.terms.start_tai)
    return setting, witness._negotiated, notice


def expect(condition: bool, message: str) -> None:  # noqa: FBT001
    if not condition:
        fail(message)


def terms(setting: Setting, said: Said, notice: Negotiated) -> Terms:
    return work_out(said, setting.ends[0].machine.config, notice, query=None, modules={}, expect=expect)


def test_the_terms_are_those_of_the_machine() -> None:
    setting, said, notice = spoken()
    ours = terms(setting, said, notice)
    epoch = setting.ends[0].machine.epoch
    assert epoch is not None
    theirs = epoch.terms
    assert (ours.schema, ours.limits, ours.formats) == (theirs.schema, theirs.limits, theirs.formats)
    assert (ours.interval_ns, ours.skew_seconds) == (theirs.tick_interval_ns, theirs.clock_skew_seconds)
    assert tai.render(ours.start_ns) == theirs.start_tai
    assert ours.length == 2


TWISTS: dict[str, Callable[[Hello], Hello]] = {
    "clocks": lambda hello: structs.replace(hello, tai=tai.render(0)),
    "limits": lambda hello: structs.replace(hello, limits={"phase_timeout": 0}),
    "interval": lambda hello: structs.replace(hello, tick_interval_ns=0),
    "format": lambda hello: structs.replace(hello, formats=frozenset({"H9"})),
    "plan": lambda hello: structs.replace(hello, plan="E.0"),
}


@pytest.mark.parametrize("twist", sorted(TWISTS))
def test_a_hello_that_nobody_may_accept_is_named(twist: str) -> None:
    setting, said, notice = spoken()
    assert said.peer_hello is not None
    said.peer_hello = TWISTS[twist](said.peer_hello)
    with pytest.raises(Broken):
        terms(setting, said, notice)


def test_a_setup_that_nobody_may_accept_is_named() -> None:
    setting, said, notice = spoken()
    setup = said.peer_setup
    assert isinstance(setup, Setup)
    said.peer_setup = structs.replace(setup, index=1 - setup.index)
    with pytest.raises(Broken):
        terms(setting, said, notice)

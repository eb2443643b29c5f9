"""The terms, worked out a second time, are those of the machine; what cannot be agreed on is named."""

from collections.abc import Callable

import pytest
from msgspec import structs

from bobbin.datalog.canonicalise import identifier
from bobbin.interlace.effects import Negotiated
from bobbin.interlace.messages import Hello, Setup
from bobbin.policy.operands import Operand
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


def terms(setting: Setting, said: Said, notice: Negotiated, modules: dict[str, bytes] | None = None) -> Terms:
    known = setting.nodes[0].modules if modules is None else modules
    return work_out(said, setting.ends[0].machine.config, notice, query=None, modules=known, expect=expect)


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


OTHER = b"SelectHave(P) :- Have(P).\n"


def setups(said: Said) -> tuple[Setup, Setup]:
    assert said.own_setup is not None
    assert said.peer_setup is not None
    # Two sides with one policy would each know the other's module.
    operand = Operand(module=identifier(OTHER), origin=said.peer_setup.operand.origin)
    return said.own_setup, structs.replace(said.peer_setup, operand=operand, module=OTHER)


def test_a_module_that_came_on_a_link_without_a_plan_is_known_on_the_next() -> None:
    setting, said, notice = spoken()
    own, peer = setups(said)
    modules: dict[str, bytes] = {}
    broken_off = Said()
    assert broken_off.say_setup(own, modules) is None
    assert broken_off.hear_setup(peer, modules) is None
    assert said.hear_setup(structs.replace(peer, module=None), modules) is None
    assert terms(setting, said, notice, modules).policy.peer.canonical == OTHER


def test_a_module_that_never_came_is_named() -> None:
    setting, said, notice = spoken()
    own, peer = setups(said)
    modules: dict[str, bytes] = {}
    assert said.say_setup(own, modules) is None
    assert said.hear_setup(structs.replace(peer, module=None), modules) is None
    with pytest.raises(Broken, match="supplied once before it is used"):
        terms(setting, said, notice, modules)


def test_an_own_module_that_was_never_said_is_named() -> None:
    setting, said, notice = spoken()
    _, peer = setups(said)
    modules: dict[str, bytes] = {}
    assert said.hear_setup(peer, modules) is None
    with pytest.raises(Broken, match="brings its own module"):
        terms(setting, said, notice, modules)


def test_bytes_under_another_name_are_wrong_and_never_known() -> None:
    _, said, _ = spoken()
    own, peer = setups(said)
    modules: dict[str, bytes] = {}
    assert said.hear_setup(peer, modules) is None
    for setup, take in ((own, said.say_setup), (peer, said.hear_setup)):
        for wrong in (OTHER + b"\n", b"", b"\xff"):
            assert take(structs.replace(setup, module=wrong), modules) == "a module has another name than its bytes"
    assert modules == {identifier(OTHER): OTHER}

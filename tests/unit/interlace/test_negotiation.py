"""From two operands to an agreement, step by step."""

from typing import Unpack

import pytest
from msgspec import structs

from bobbin.errors import PeerError
from bobbin.interlace.config import Config
from bobbin.interlace.negotiation import Agreement, Negotiation
from bobbin.interlace.reasons import Abort, Reason
from bobbin.interlace.schema import Schema
from bobbin.interlace.setup import Party
from bobbin.profile import PARTITION_PREFIX_LENGTH
from bobbin.records import tai
from tests.policy_worlds import ALICE, BOB, EVERYTHING
from tests.support.exchanges import BY_GROUP, START_NS, Changes, Watched, config, selector

_ALICE = Changes(own=Party(verifier=ALICE), peer=Party(verifier=BOB))
_BOB = Changes(own=Party(verifier=BOB), peer=Party(verifier=ALICE), initiator=False)


def _alice(rules: str = EVERYTHING, **changes: Unpack[Changes]) -> Config:
    merged: Changes = {**_ALICE, **changes}
    return config(rules, **merged)


def _bob(rules: str = EVERYTHING, **changes: Unpack[Changes]) -> Config:
    merged: Changes = {**_BOB, **changes}
    return config(rules, **merged)


def _negotiation(made: Config) -> Negotiation:
    return Negotiation(made, made.selector, Watched())


def _pair(alice: Config | None = None, bob: Config | None = None) -> tuple[Negotiation, Negotiation]:
    """Both after setup."""
    one = _negotiation(alice or _alice(BY_GROUP))
    another = _negotiation(bob or _bob(EVERYTHING))
    one.hear_setup(another.setup())
    another.hear_setup(one.setup())
    return one, another


def _agree(one: Negotiation, another: Negotiation) -> tuple[Agreement | None, Agreement | None]:
    first, second = one.hello(START_NS), another.hello(START_NS)
    return one.hear_hello(second), another.hear_hello(first)


def test_both_agree_on_plan_link_and_start() -> None:
    """IL-004, IL-124, IL-146, IL-214."""
    one, another = _agree(*_pair())
    assert one is not None
    assert another is not None
    assert one.plan == another.plan
    assert one.terms.link == another.terms.link is not None
    assert one.terms.start_tai == another.terms.start_tai == tai.render(START_NS)
    assert (one.terms.peer, another.terms.peer) == (BOB, ALICE)


def test_the_schema_is_what_the_plan_needs_unless_one_is_wished_for() -> None:
    """IL-077, IL-078."""
    one, _ = _pair()
    assert one.hello(START_NS).schema == Schema(names=frozenset({"Group"}))
    wish = Schema(names=frozenset({"Group", "App"}))
    wishing, _ = _pair(_alice(BY_GROUP, schema=wish))
    assert wishing.hello(START_NS).schema == wish


def test_a_hello_says_what_this_side_has() -> None:
    """IL-092, IL-093, IL-127."""
    one, _ = _pair()
    hello = one.hello(START_NS + 5)
    assert (hello.signer, hello.tai) == (ALICE, tai.render(START_NS + 5))
    assert hello.tick_interval_ns == config().service.tick_interval_ns
    assert hello.plan_bytes is None
    assert hello.limits == config().limits.advertised()


def test_a_plan_with_parameters_is_adopted_in_a_second_hello() -> None:
    """IL-136, IL-186."""
    wishing = _alice(BY_GROUP, parameters={PARTITION_PREFIX_LENGTH: "3"})
    one, another = _pair(wishing)
    assert _agree(one, another) == (None, None)
    first, second = _agree(one, another)
    assert first is not None
    assert second is not None
    assert first.plan == second.plan
    assert second.plan.parameter(PARTITION_PREFIX_LENGTH) == "3"


def test_adopting_happens_once() -> None:
    """IL-136, IL-258: a peer that changes its plan again is refused."""
    one, another = _pair()
    own = one.hello(START_NS)
    longer = _pair(bob=_bob(EVERYTHING, parameters={PARTITION_PREFIX_LENGTH: "3"}))[1].hello(START_NS)
    assert one.hear_hello(longer) is None
    assert one.hello(START_NS).plan == longer.plan != own.plan
    with pytest.raises(Abort) as aborted:
        one.hear_hello(another.hello(START_NS))
    assert aborted.value.reason is Reason.PLAN_MISMATCH


def test_plan_bytes_are_checked_before_they_are_adopted() -> None:
    """IL-136: no plan at all, or not the one that was announced."""
    for wrong in (b"", b"ExchangePlan('x','y')\n"):
        one, another = _pair()
        one.hello(START_NS)
        with pytest.raises(PeerError):
            one.hear_hello(structs.replace(another.hello(START_NS), plan="E." + "0" * 43, plan_bytes=wrong))


def test_a_module_is_known_from_our_own_from_the_store_or_not_at_all() -> None:
    """IL-087, IL-121."""
    made = _alice(EVERYTHING)
    same = _negotiation(_bob(EVERYTHING)).setup()
    _negotiation(made).hear_setup(structs.replace(same, module=None))
    other = structs.replace(_negotiation(_bob(BY_GROUP)).setup(), module=None)
    with pytest.raises(Abort) as aborted:
        _negotiation(made).hear_setup(other)
    assert aborted.value.reason is Reason.PLAN_COMPILATION
    holdings = Watched()
    holdings.modules[selector(BY_GROUP).identifier] = selector(BY_GROUP).canonical
    Negotiation(made, made.selector, holdings).hear_setup(other)


def test_the_active_selector_need_not_be_the_configured_one() -> None:
    """IL-233."""
    made = _alice(EVERYTHING)
    changed = Negotiation(made, selector(BY_GROUP), Watched())
    assert changed.setup().operand.module == selector(BY_GROUP).identifier


def test_a_hello_that_does_not_parse_as_time_fails() -> None:
    """IL-092, IL-137."""
    one, another = _pair()
    one.hello(START_NS)
    wrong = structs.replace(another.hello(START_NS), tai="now")
    with pytest.raises(Abort) as aborted:
        one.hear_hello(wrong)
    assert aborted.value.reason is Reason.NEGOTIATION

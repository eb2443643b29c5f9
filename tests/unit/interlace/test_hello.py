"""Negotiation: what both hellos give, and every way to fail."""

from typing import TypedDict, Unpack

import pytest
from msgspec import structs

from bobbin.interlace.hello import Terms, negotiate
from bobbin.interlace.limits import NAMES, Limits, Service
from bobbin.interlace.messages import Hello
from bobbin.interlace.reasons import Abort, Reason
from bobbin.interlace.schema import Schema
from bobbin.policy.advertised_fields import FieldRequirements
from bobbin.policy.operands import Operand, Origin
from bobbin.policy.plan import Plan, make_plan
from bobbin.records.ids import Verifier
from tests.policy_worlds import ALICE, BOB, DING_IDENTIFIER
from tests.support.exchanges import Against, config

_TAI = "1640995200:000000000"
_CAROL = Verifier("V." + "0" * 43 + ".H3")
_SECOND = 1_000_000_000


def _plan(first: str = BOB, second: str = ALICE) -> Plan:
    return make_plan(
        Operand(module=DING_IDENTIFIER, origin=Origin(first)), Operand(module=DING_IDENTIFIER, origin=Origin(second))
    )


_SIGNED = _plan()
_ANONYMOUS = _plan("source:0", "source:1")
_OWN = Hello(
    plan=_SIGNED.identifier,
    tai=_TAI,
    tick_interval_ns=10 * _SECOND,
    formats=frozenset({"H3"}),
    schema=Schema(names=frozenset({"App", "Group", "Name"})),
    signer=ALICE,
)
_PEER = structs.replace(_OWN, signer=BOB)


class _Around(TypedDict, total=False):
    plan: Plan
    required: FieldRequirements
    limits: Limits
    service: Service
    own_verifier: Verifier | None
    proven_peer: Verifier | None
    pinned_peer: Verifier | None
    local_formats: frozenset[str]


def _negotiate(own: Hello = _OWN, peer: Hello = _PEER, **around: Unpack[_Around]) -> Terms:
    """Alice's view of an exchange with Bob, with what a test changes of it."""
    usual: _Around = {
        "plan": _SIGNED,
        "required": FieldRequirements(names=frozenset({"App"})),
        "limits": Limits(),
        "service": Service(),
        "own_verifier": ALICE,
        "proven_peer": BOB,
        "pinned_peer": None,
        "local_formats": frozenset({"H3"}),
    }
    merged: _Around = {**usual, **around}
    return negotiate(own, peer, **merged)


def _refusal(own: Hello = _OWN, peer: Hello = _PEER, **around: Unpack[_Around]) -> Reason:
    with pytest.raises(Abort) as refused:
        _negotiate(own, peer, **around)
    assert str(refused.value)
    return refused.value.reason


def _anonymous(hello: Hello) -> Hello:
    return structs.replace(hello, plan=_ANONYMOUS.identifier, signer=None)


def test_two_hellos_that_agree() -> None:
    assert _negotiate() == Terms(
        plan=_SIGNED.identifier,
        start_tai=_TAI,
        clock_skew_seconds=0,
        tick_interval_ns=10 * _SECOND,
        formats=frozenset({"H3"}),
        schema=_OWN.schema,
        limits=Limits(),
        peer=BOB,
        link="Zw0Pp5roXlBSvgIx4Y~xqwiTntvfHbAJYpJjpNynuZK",
    )


def test_il_146_both_sides_have_the_same_link() -> None:
    """IL-146, ILC-065, ILC-108."""
    here = _negotiate()
    there = _negotiate(_PEER, _OWN, own_verifier=BOB, proven_peer=ALICE)
    assert here.link == there.link == "Zw0Pp5roXlBSvgIx4Y~xqwiTntvfHbAJYpJjpNynuZK"
    assert (here.peer, there.peer) == (BOB, ALICE)


# ---- who the peer is ------------------------------------------------------------------------------------------------


def test_il_128_a_signer_without_proof_aborts() -> None:
    """IL-128, IL-060."""
    peer = structs.replace(_anonymous(_PEER), signer=BOB)
    reason = _refusal(_anonymous(_OWN), peer, plan=_ANONYMOUS, own_verifier=None, proven_peer=None)
    assert reason == Reason.PEER_VERIFIER_MISMATCH


def test_il_128_a_signer_other_than_the_proven_one_aborts() -> None:
    """IL-128, IL-257."""
    assert _refusal(peer=structs.replace(_PEER, signer=_CAROL)) == Reason.PEER_VERIFIER_MISMATCH
    assert _refusal(peer=structs.replace(_PEER, signer=ALICE)) == Reason.PEER_VERIFIER_MISMATCH
    # Also where no origin tells the two apart.
    peer = structs.replace(_anonymous(_PEER), signer=_CAROL)
    assert _refusal(_anonymous(_OWN), peer, plan=_ANONYMOUS) == Reason.PEER_VERIFIER_MISMATCH


def test_il_129_an_accepted_signer_is_the_peer() -> None:
    """IL-129."""
    assert _negotiate().peer == BOB


def test_il_130_without_proof_there_is_no_peer() -> None:
    """IL-130, IL-149, IL-091."""
    terms = _negotiate(_anonymous(_OWN), _anonymous(_PEER), plan=_ANONYMOUS, own_verifier=None, proven_peer=None)
    assert (terms.peer, terms.link) == (None, None)


def test_il_130_a_label_like_a_verifier_gives_no_peer() -> None:
    """IL-130, IL-072."""
    plan = _plan(f"source:{BOB}", "source:1")
    own, peer = (structs.replace(hello, plan=plan.identifier, signer=None) for hello in (_OWN, _PEER))
    terms = _negotiate(own, peer, plan=plan, own_verifier=None, proven_peer=None)
    assert (terms.peer, terms.link) == (None, None)


def test_il_149_one_proven_side_makes_no_link() -> None:
    """IL-149: on either side of it."""
    plan = _plan(ALICE, "source:1")
    proven = structs.replace(_OWN, plan=plan.identifier)
    unproven = structs.replace(proven, signer=None)
    here = _negotiate(proven, unproven, plan=plan, proven_peer=None)
    there = _negotiate(unproven, proven, plan=plan, own_verifier=None, proven_peer=ALICE)
    assert (here.link, there.link) == (None, None)
    assert (here.peer, there.peer) == (None, ALICE)


def test_il_132_a_verifier_origin_that_hello_does_not_confirm_aborts() -> None:
    """IL-132, IL-134: proof alone is not enough, the signer must be named."""
    assert _refusal(peer=structs.replace(_PEER, signer=None)) == Reason.PEER_VERIFIER_MISMATCH


def test_il_132_also_when_both_sides_are_of_one_signer() -> None:
    """IL-132."""
    plan = _plan(ALICE, ALICE)
    own = structs.replace(_OWN, plan=plan.identifier)
    assert _negotiate(own, own, plan=plan, proven_peer=ALICE).peer == ALICE
    peer = structs.replace(own, signer=None)
    assert _refusal(own, peer, plan=plan, proven_peer=ALICE) == Reason.PEER_VERIFIER_MISMATCH


def test_il_135_an_origin_other_than_the_signer_aborts() -> None:
    """IL-135, ILC-139."""
    plan = _plan(_CAROL, ALICE)
    own, peer = (structs.replace(hello, plan=plan.identifier) for hello in (_OWN, _PEER))
    assert _refusal(own, peer, plan=plan) == Reason.PEER_VERIFIER_MISMATCH


def test_a_proven_peer_that_names_no_signer_and_has_a_label_is_unknown() -> None:
    """IL-130."""
    terms = _negotiate(_anonymous(_OWN), _anonymous(_PEER), plan=_ANONYMOUS)
    assert (terms.peer, terms.link) == (None, None)


def test_ilc_139_the_pinned_peer_must_be_there() -> None:
    """ILC-139, IL-257: another one, or nobody, is not it."""
    assert _negotiate(pinned_peer=BOB).peer == BOB
    assert _refusal(pinned_peer=_CAROL) == Reason.PEER_VERIFIER_MISMATCH
    reason = _refusal(_anonymous(_OWN), _anonymous(_PEER), plan=_ANONYMOUS, proven_peer=None, pinned_peer=BOB)
    assert reason == Reason.PEER_VERIFIER_MISMATCH


# ---- the plan -------------------------------------------------------------------------------------------------------


def test_il_136_two_plans_abort() -> None:
    """IL-136, IL-258."""
    peer = structs.replace(_PEER, plan=_ANONYMOUS.identifier)
    assert _refusal(peer=peer) == Reason.PLAN_MISMATCH


# ---- time -----------------------------------------------------------------------------------------------------------


def _both_ways(own: Hello, peer: Hello) -> tuple[Terms, Terms]:
    here = _negotiate(own, structs.replace(peer, signer=BOB))
    there = _negotiate(
        structs.replace(peer, signer=BOB), structs.replace(own, signer=ALICE), own_verifier=BOB, proven_peer=ALICE
    )
    return here, there


@pytest.mark.parametrize(
    ("one", "another", "skew"),
    [
        (_TAI, _TAI, 0),
        ("1640995200:999999999", "1640995201:000000000", 0),
        ("1640995200:000000001", "1640995201:000000000", 0),
        ("1640995200:000000000", "1640995201:000000000", 1),
        ("1640995201:999999999", "1640995200:000000000", 1),
        ("1640995200:500000000", "1640995203:400000000", 2),
        ("1640995200:000000000", "1640995500:999999999", 300),
        ("0000000000:000000000", "0000000009:000000000", 9),
    ],
)
def test_il_139_the_skew_is_the_floor_of_the_difference(one: str, another: str, skew: int) -> None:
    """IL-139, IL-140, IL-065, ILC-118: the same number on both sides."""
    here, there = _both_ways(structs.replace(_OWN, tai=one), structs.replace(_PEER, tai=another))
    assert here.clock_skew_seconds == there.clock_skew_seconds == skew


@pytest.mark.parametrize("later", ["1640995200:000000001", "1640995300:000000000"])
def test_il_138_the_start_is_the_later_hello(later: str) -> None:
    """IL-138, IL-063: on both sides, whoever is later."""
    late = structs.replace(_OWN, tai=later)
    assert [terms.start_tai for terms in _both_ways(late, _PEER)] == [later, later]
    assert [terms.start_tai for terms in _both_ways(_OWN, structs.replace(_PEER, tai=later))] == [later, later]


@pytest.mark.parametrize("tai", ["1640995501:000000000", "1640994899:000000000", "1672531200:000000000"])
def test_ilc_144_too_much_skew_is_a_failure_with_a_name(tai: str) -> None:
    """ILC-144: a hello dated next year is not accepted; nor is one from the past."""
    assert _refusal(peer=structs.replace(_PEER, tai=tai)) == Reason.CLOCK_SKEW


def test_ilc_144_the_most_skew_is_configured() -> None:
    """ILC-144."""
    peer = structs.replace(_PEER, tai="1640996200:000000000")
    assert _negotiate(peer=peer, service=Service(clock_skew_seconds_max=1_000)).clock_skew_seconds == 1_000
    assert _refusal(peer=peer, service=Service(clock_skew_seconds_max=999)) == Reason.CLOCK_SKEW


def test_a_time_that_is_none_is_a_failure() -> None:
    """IL-092."""
    assert _refusal(peer=structs.replace(_PEER, tai="soon")) == Reason.NEGOTIATION


@pytest.mark.parametrize(("one", "another", "agreed"), [(9, 10, 10), (10, 9, 10), (10**10, 9 * 10**9, 10**10)])
def test_il_141_the_longer_tick_interval_holds(one: int, another: int, agreed: int) -> None:
    """IL-141, ILC-134: longer as a number."""
    own = structs.replace(_OWN, tick_interval_ns=one)
    peer = structs.replace(_PEER, tick_interval_ns=another)
    assert [terms.tick_interval_ns for terms in _both_ways(own, peer)] == [agreed, agreed]


def test_il_142_a_tick_interval_is_not_zero_and_not_too_long() -> None:
    """IL-142."""
    service = Service(tick_interval_ns=1, tick_interval_ns_max=1_000)
    own = structs.replace(_OWN, tick_interval_ns=1)
    for interval_ns in (0, -1, 1_001, 2**64):
        peer = structs.replace(_PEER, tick_interval_ns=interval_ns)
        assert _refusal(own, peer, service=service) == Reason.NEGOTIATION
    peer = structs.replace(_PEER, tick_interval_ns=1_000)
    assert _negotiate(own, peer, service=service).tick_interval_ns == 1_000


# ---- formats, fields, limits ----------------------------------------------------------------------------------------


def test_il_150_formats_are_those_of_both() -> None:
    """IL-150, IL-094, IL-152."""
    own = structs.replace(_OWN, formats=frozenset({"H3", "H4", "H5"}))
    peer = structs.replace(_PEER, formats=frozenset({"H2", "H3", "H4"}))
    assert _negotiate(own, peer, local_formats=own.formats).formats == {"H3", "H4"}
    assert _negotiate(own, peer, local_formats=frozenset({"H4"})).formats == {"H4"}


def test_il_151_no_common_format_aborts() -> None:
    """IL-151, IL-259, ILC-132."""
    assert _refusal(peer=structs.replace(_PEER, formats=frozenset({"H4"}))) == Reason.UNSUPPORTED_FORMAT
    assert _refusal(peer=structs.replace(_PEER, formats=frozenset({"h3"}))) == Reason.UNSUPPORTED_FORMAT


@pytest.mark.parametrize("own_all", [True, False])
@pytest.mark.parametrize("peer_all", [True, False])
def test_il_156_the_schema_is_what_both_can_do(*, own_all: bool, peer_all: bool) -> None:
    """IL-154, IL-156, IL-157."""
    own = structs.replace(_OWN, schema=Schema(all=True) if own_all else Schema(names=frozenset({"App", "Group"})))
    peer = structs.replace(_PEER, schema=Schema(all=True) if peer_all else Schema(names=frozenset({"App", "TAI"})))
    expected = {
        (True, True): Schema(all=True),
        (True, False): peer.schema,
        (False, True): own.schema,
        (False, False): Schema(names=frozenset({"App"})),
    }
    assert _negotiate(own, peer).schema == expected[own_all, peer_all]


@pytest.mark.parametrize("knows", [0, 1])
def test_il_078_a_field_that_one_side_does_not_know_aborts(knows: int) -> None:
    """IL-078, IL-159, IL-260: nor does ``group`` stand for ``Group``."""
    required = FieldRequirements(names=frozenset({"Group"}))
    schemas = [Schema(names=frozenset({"group", "App"})), Schema(names=frozenset({"Group", "App"}))]
    own = structs.replace(_OWN, schema=schemas[knows])
    peer = structs.replace(_PEER, schema=schemas[1 - knows])
    assert _refusal(own, peer, required=required) == Reason.UNSUPPORTED_SCHEMA
    assert _negotiate(own, structs.replace(peer, schema=Schema(all=True))).schema == own.schema


def test_il_079_every_field_needs_both_sides() -> None:
    """IL-079: a long list of names is not all of them."""
    required = FieldRequirements(all=True)
    names = frozenset({"Type", "Group", "App", "Name", "TAI", "Signed-By", "Signature"})
    every, some = Schema(all=True), Schema(names=names)
    for one, another in ((every, some), (some, every), (some, some)):
        own, peer = structs.replace(_OWN, schema=one), structs.replace(_PEER, schema=another)
        assert _refusal(own, peer, required=required) == Reason.UNSUPPORTED_SCHEMA
    own, peer = structs.replace(_OWN, schema=every), structs.replace(_PEER, schema=every)
    assert _negotiate(own, peer, required=required).schema.all


@pytest.mark.parametrize("name", NAMES)
def test_il_144_the_smaller_limit_holds(name: str) -> None:
    """IL-144."""
    local = structs.replace(Limits(), **{name: 10})
    for told, agreed in ((9, 9), (10, 10), (11, 10), (2**64 - 1, 10), (1, 1)):
        limits = _negotiate(peer=structs.replace(_PEER, limits={name: told}), limits=local).limits
        assert limits == structs.replace(local, **{name: agreed})


def test_il_143_limits_may_be_left_out_and_unknown_names_are_ignored() -> None:
    """IL-143."""
    local = Limits(max_loop_iterations=3)
    assert _negotiate(limits=local).limits == local
    peer = structs.replace(_PEER, limits={"max_patience": 1, "Max_loop_iterations": 1})
    assert _negotiate(peer=peer, limits=local).limits == local


@pytest.mark.parametrize("value", [0, -1, 2**64])
@pytest.mark.parametrize("name", NAMES)
def test_il_145_a_limit_out_of_range_is_a_failure(name: str, value: int) -> None:
    """IL-145, ILC-138: it is neither ignored nor brought into range."""
    assert _refusal(peer=structs.replace(_PEER, limits={name: value})) == Reason.NEGOTIATION


def test_il_127_a_hello_of_ours_names_no_signer_without_proof() -> None:
    """IL-127: that would be a mistake of this program."""
    with pytest.raises(AssertionError):
        _negotiate(own_verifier=None)


@pytest.mark.parametrize("interval", [1, Service().tick_interval_ns_max])
def test_the_ends_of_the_range_of_a_tick_interval(interval: int) -> None:
    """IL-141, IL-142: both are accepted, and the larger of the two sides holds."""
    against = Against(config())
    against.to_hello()
    against.say(structs.replace(against.hello(), tick_interval_ns=interval))
    assert against.machine.epoch is not None
    assert against.machine.epoch.terms.tick_interval_ns == max(interval, Service().tick_interval_ns)

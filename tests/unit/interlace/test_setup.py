"""Setup: origins and indexes follow from what the binding knows, on both sides alike."""

import pytest
from msgspec import structs

from bobbin.errors import UsageError
from bobbin.interlace.messages import Setup
from bobbin.interlace.reasons import Abort, Reason
from bobbin.interlace.setup import Party, agree_plan, check_peer_setup, own_setup
from bobbin.policy.modules import compile_selector
from bobbin.policy.operands import Index, Origin
from bobbin.policy.plan import link_identifier
from tests.policy_worlds import ALICE, BOB, DING, DING_IDENTIFIER, EVERYTHING

_DING = compile_selector(DING)
_EVERYTHING = compile_selector(EVERYTHING)
_ALICE = Party(verifier=ALICE)
_BOB = Party(verifier=BOB)
_NOBODY = Party(verifier=None)
_LABELLED = Party(verifier=None, label=Origin("source:window"))


def _both(one: Party, another: Party, *, first_dials: bool = True) -> tuple[Setup, Setup]:
    return (
        own_setup(_DING, own=one, peer=another, initiator=first_dials),
        own_setup(_EVERYTHING, own=another, peer=one, initiator=not first_dials),
    )


def _reoriginated(setup: Setup, origin: str) -> Setup:
    return structs.replace(setup, operand=structs.replace(setup.operand, origin=Origin(origin)))


def _refusal(message: Setup, own: Setup, own_party: Party, peer_party: Party) -> Reason:
    with pytest.raises(Abort) as refused:
        check_peer_setup(message, own=own, own_party=own_party, peer_party=peer_party)
    assert refused.value.code == refused.value.reason.value
    return refused.value.reason


def test_a_setup_has_the_module_with_its_bytes() -> None:
    made = own_setup(_DING, own=_ALICE, peer=_BOB, initiator=True)
    assert (made.operand.module, made.module) == (DING_IDENTIFIER, DING.encode())


@pytest.mark.parametrize("alice_dials", [True, False])
def test_ilc_061_the_smaller_verifier_is_operand_0_whoever_dials(*, alice_dials: bool) -> None:
    """ILC-061, IL-085."""
    alice, bob = _both(_ALICE, _BOB, first_dials=alice_dials)
    assert (alice.index, bob.index) == (1, 0)
    assert (alice.operand.origin, bob.operand.origin) == (Origin(ALICE), Origin(BOB))


@pytest.mark.parametrize("one", [_ALICE, _NOBODY, _LABELLED])
@pytest.mark.parametrize("another", [_NOBODY, _LABELLED])
@pytest.mark.parametrize("first_dials", [True, False])
def test_ilc_061_otherwise_whoever_dials_is_operand_0(one: Party, another: Party, *, first_dials: bool) -> None:
    """ILC-061, IL-085."""
    here, there = _both(one, another, first_dials=first_dials)
    assert (here.index, there.index) == ((0, 1) if first_dials else (1, 0))
    check_peer_setup(there, own=here, own_party=one, peer_party=another)
    check_peer_setup(here, own=there, own_party=another, peer_party=one)
    assert agree_plan(here, there) == agree_plan(there, here)


def test_two_sides_of_one_signer_are_told_apart_by_who_dials() -> None:
    here, there = _both(_ALICE, _ALICE)
    assert (here.index, there.index) == (0, 1)
    assert here.operand.origin == there.operand.origin == Origin(ALICE)
    check_peer_setup(there, own=here, own_party=_ALICE, peer_party=_ALICE)


def test_ilc_059_an_anonymous_link_is_labelled_by_index() -> None:
    """ILC-059, IL-071."""
    here, there = _both(_NOBODY, _NOBODY, first_dials=False)
    assert (here.index, here.operand.origin) == (1, "source:1")
    assert (there.index, there.operand.origin) == (0, "source:0")


def test_il_070_a_proven_verifier_is_the_origin_even_with_a_label() -> None:
    """IL-070."""
    party = Party(verifier=ALICE, label=Origin("source:window"))
    assert own_setup(_DING, own=party, peer=_NOBODY, initiator=False).operand.origin == Origin(ALICE)


def test_il_071_without_proof_the_binding_has_a_label_for_a_side() -> None:
    """IL-071."""
    assert own_setup(_DING, own=_LABELLED, peer=_BOB, initiator=True).operand.origin == "source:window"


@pytest.mark.parametrize("label", ["local", "source:", ALICE, "window", "source:e\u0301", "source:a\nb"])
def test_il_072_a_label_is_a_label(label: str) -> None:
    """IL-072, IL-071: a side without proof cannot be called by a verifier."""
    with pytest.raises(UsageError):
        Party(verifier=None, label=Origin(label))


def test_il_072_a_label_spelled_like_a_verifier_is_none() -> None:
    """IL-072: it decides nothing about the index."""
    spelled = Party(verifier=None, label=Origin(f"source:{BOB}"))
    here, there = _both(spelled, _ALICE, first_dials=False)
    assert (here.index, there.index) == (1, 0)


def test_il_133_a_local_origin_aborts() -> None:
    """IL-133, ILC-058."""
    for one, another in ((_ALICE, _BOB), (_NOBODY, _NOBODY), (_ALICE, _LABELLED)):
        here, there = _both(one, another)
        assert _refusal(_reoriginated(there, "local"), here, one, another) == Reason.PLAN_COMPILATION


def test_il_134_a_verifier_without_proof_aborts() -> None:
    """IL-134."""
    here, there = _both(_ALICE, _NOBODY)
    assert _refusal(_reoriginated(there, BOB), here, _ALICE, _NOBODY) == Reason.PEER_VERIFIER_MISMATCH


@pytest.mark.parametrize("origin", [ALICE, "source:0", "source:window"])
def test_il_135_another_origin_than_the_proven_one_aborts(origin: str) -> None:
    """IL-135, IL-257, ILC-139: our own verifier is another one, too."""
    here, there = _both(_ALICE, _BOB)
    assert _refusal(_reoriginated(there, origin), here, _ALICE, _BOB) == Reason.PEER_VERIFIER_MISMATCH


@pytest.mark.parametrize(("party", "origin"), [(_NOBODY, "source:0"), (_NOBODY, "source:x"), (_LABELLED, "source:1")])
def test_il_131_a_label_that_the_binding_did_not_give_aborts(party: Party, origin: str) -> None:
    """IL-131: ``source:0`` is ours, not the peer's."""
    here, there = _both(_NOBODY, party)
    assert _refusal(_reoriginated(there, origin), here, _NOBODY, party) == Reason.PLAN_COMPILATION


@pytest.mark.parametrize(("one", "another"), [(_ALICE, _BOB), (_BOB, _ALICE), (_LABELLED, _ALICE)])
def test_il_085_an_index_that_is_ours_aborts(one: Party, another: Party) -> None:
    """IL-085: both cannot be operand 0."""
    here, there = _both(one, another)
    assert _refusal(structs.replace(there, index=here.index), here, one, another) == Reason.PLAN_COMPILATION


def test_il_080_a_module_name_that_is_none_aborts() -> None:
    """IL-080, IL-263."""
    here, there = _both(_ALICE, _BOB)
    message = structs.replace(there, operand=structs.replace(there.operand, module="R.GROUP_X"))
    assert _refusal(message, here, _ALICE, _BOB) == Reason.PLAN_COMPILATION


def test_ilc_065_the_published_plan_and_link() -> None:
    """ILC-065, IL-123, IL-124, ILC-108: whoever is asked, and whoever dialled."""
    for dials in (True, False):
        alice = own_setup(_DING, own=_ALICE, peer=_BOB, initiator=dials)
        bob = own_setup(_DING, own=_BOB, peer=_ALICE, initiator=not dials)
        plan = agree_plan(alice, bob)
        assert plan == agree_plan(bob, alice)
        assert plan.identifier == "E.VVBTh8kMnUEQp95bnyjcvTDW8z1sUF7rXwzSGiDdudC"
        assert link_identifier(ALICE, BOB, plan) == "Zw0Pp5roXlBSvgIx4Y~xqwiTntvfHbAJYpJjpNynuZK"


def test_il_123_the_plan_has_operand_0_first() -> None:
    """IL-123."""
    here, there = _both(_ALICE, _BOB)
    assert [operand.origin for operand in agree_plan(here, there).operands] == [Origin(BOB), Origin(ALICE)]


def test_il_186_a_prefix_length_is_part_of_the_plan() -> None:
    """IL-186."""
    here, there = _both(_ALICE, _BOB)
    plan = agree_plan(here, there, {"partition_prefix_length": "3"})
    assert plan.parameter("partition_prefix_length") == "3"
    assert plan.identifier != agree_plan(here, there).identifier
    with pytest.raises(UsageError):
        agree_plan(here, there, {"partition_prefix_size": "3"})


@pytest.mark.parametrize("index", [0, 1])
def test_two_operands_of_one_index_have_no_plan(index: Index) -> None:
    here, there = _both(_ALICE, _BOB)
    with pytest.raises(Abort) as refused:
        agree_plan(structs.replace(here, index=index), structs.replace(there, index=index))
    assert refused.value.reason == Reason.PLAN_COMPILATION

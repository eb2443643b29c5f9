"""Setup and hello as two machines go through them: order, agreement, what is refused and what nobody is told."""

import msgspec
import pytest
from msgspec import structs

from bobbin.datalog.canonicalise import identifier
from bobbin.errors import UsageError
from bobbin.interlace.config import Config
from bobbin.interlace.effects import Negotiated
from bobbin.interlace.events import LinkClosed, Started
from bobbin.interlace.limits import NAMES, Limits, Service
from bobbin.interlace.machine import InterlaceMachine
from bobbin.interlace.messages import Advertise, Hello, Message, Partition, Request, Setup, Transfer
from bobbin.interlace.reasons import Reason
from bobbin.interlace.schema import Schema
from bobbin.interlace.setup import Party
from bobbin.interlace.state import Phase
from bobbin.policy.executables import PolicyCache
from bobbin.policy.modules import compile_query, compile_selector
from bobbin.policy.operands import Index, Operand, Origin
from bobbin.policy.plan import make_plan
from bobbin.profile import PARTITION_PREFIX_LENGTH
from bobbin.records import tai
from tests.policy_worlds import ALICE, BOB, EVERYTHING
from tests.support.exchanges import (
    BY_GROUP,
    NOBODY,
    PULL,
    PUSH,
    START_NS,
    Against,
    Changes,
    SetClock,
    Watched,
    config,
    hashes,
    meet,
    record,
    records,
    selector,
)

_SIGNED = Changes(own=Party(verifier=ALICE), peer=Party(verifier=BOB))


def _signed(rules: str = EVERYTHING) -> Config:
    return config(rules, **_SIGNED)


def _reason(against: Against) -> Reason | None:
    assert against.closed
    assert against.result is not None
    assert not against.result.fixed_point
    return against.result.reason


# ---- setup ----------------------------------------------------------------------------------------------------------


def test_both_sides_agree_on_one_plan_of_both_operands() -> None:
    """IL-004, IL-019, IL-020, IL-025, IL-026, IL-213."""
    meeting = meet(records(2), [], BY_GROUP, EVERYTHING, signed=True)
    left, right = meeting.run()
    one, another = meeting.left.machine.epoch, meeting.right.machine.epoch
    assert one is not None
    assert another is not None
    assert left.plan == right.plan == one.agreement.plan.identifier == another.agreement.plan.identifier
    assert one.agreement.plan.canonical == another.agreement.plan.canonical
    # BOB's text is the smaller one.
    assert [operand.module for operand in one.agreement.plan.operands] == [
        selector(EVERYTHING).identifier,
        selector(BY_GROUP).identifier,
    ]
    # Each side has made its own executable: its own rules first, the peer's as the peer's.
    assert one.agreement.policy is not another.agreement.policy
    assert [one.agreement.policy.own_origin, one.agreement.policy.peer_origin] == [Origin(ALICE), Origin(BOB)]
    assert [another.agreement.policy.own_origin, another.agreement.policy.peer_origin] == [Origin(BOB), Origin(ALICE)]
    assert right.received == hashes(meeting.here.records.values())


def test_a_side_alone_sets_up_nothing() -> None:
    """IL-019, IL-126: without the peer's operand there is no hello, without its hello no advertisement."""
    against = Against(config())
    against.give(Started())
    assert [type(message) for message in against.said] == [Setup]
    assert against.stands_in(Phase.SETUP)
    against.say(against.setup())
    assert [type(message) for message in against.said] == [Setup, Hello]
    assert against.stands_in(Phase.HELLO)
    assert against.machine.epoch is None


_EARLY: tuple[Message, ...] = (Advertise(), Request(), Transfer(last=True))


@pytest.mark.parametrize("message", _EARLY, ids=lambda message: type(message).__name__)
def test_nothing_of_the_loop_is_accepted_before_the_plan_is_agreed(message: Message) -> None:
    """IL-044, IL-180, IL-256: neither instead of setup nor instead of hello."""
    for steps in (0, 1):
        against = Against(config(), Watched(records(1)))
        against.give(Started())
        if steps:
            against.say(against.setup())
        assert against.say(message) == []
        assert _reason(against) is Reason.OUT_OF_PHASE
        assert against.machine.epoch is None


def test_hello_comes_after_setup() -> None:
    """IL-120."""
    against = Against(config())
    against.give(Started())
    hello = Hello(
        plan="E." + "0" * 43,
        tai=tai.render(START_NS),
        tick_interval_ns=1,
        formats=frozenset({"H3"}),
        schema=Schema(all=True),
    )
    assert against.say(hello) == []
    assert _reason(against) is Reason.OUT_OF_PHASE


def test_an_operand_without_bytes_is_looked_up_and_else_refused() -> None:
    """IL-087, IL-121: from the binding, from what is known here, or not at all."""
    known = Against(config(PUSH), rules=PULL)
    known.holdings.modules[selector(PULL).identifier] = selector(PULL).canonical
    for against in (known, Against(config(PULL), rules=PULL)):
        against.give(Started())
        said = against.say(structs.replace(against.setup(), module=None))
        assert [type(message) for message in said] == [Hello]
    unknown = Against(config(PUSH), rules=PULL)
    unknown.give(Started())
    assert unknown.say(structs.replace(unknown.setup(), module=None)) == []
    assert _reason(unknown) is Reason.PLAN_COMPILATION


def test_every_setup_brings_the_bytes_of_its_module() -> None:
    """IL-087, IL-082."""
    against = Against(config(PUSH))
    (setup,) = against.give(Started())
    assert isinstance(setup, Setup)
    assert setup.module == selector(PUSH).canonical
    assert setup.operand.module == selector(PUSH).identifier


_MALFORMED = {
    "no lacegram": b"SelectHave(P)",
    "unsafe": b"SelectHave(P) :- Have(Q).\n",
    "unstratified": b"A(P) :- Have(P), not A(P).\nSelectHave(P) :- A(P).\n",
    "no export": b"Other(P) :- Have(P).\n",
    "a query": b"Queryable(P,O) :- Have(P), Viewer(O).\n",
    "not canonical": b"SelectHave(P)  :- Have(P).\n",
    "directional rules": b"MaySend(P) :- Have(P).\nSelectHave(P) :- Have(P).\n",
}


@pytest.mark.parametrize("module", _MALFORMED.values(), ids=_MALFORMED.keys())
def test_a_malformed_module_aborts(module: bytes) -> None:
    """IL-122, IL-262: nothing of it is evaluated, nothing stands in for it."""
    against = Against(config(), Watched(records(2)))
    against.give(Started())
    honest = against.setup()
    named = identifier(module)
    assert (
        against.say(structs.replace(honest, operand=structs.replace(honest.operand, module=named), module=module)) == []
    )
    assert _reason(against) is Reason.MALFORMED_MODULE
    assert not against.holdings.evaluations


def test_module_bytes_under_another_name_abort() -> None:
    """IL-121, IL-124, IL-262."""
    against = Against(config())
    against.give(Started())
    against.say(structs.replace(against.setup(), module=selector(PUSH).canonical))
    assert _reason(against) is Reason.MALFORMED_MODULE


def _announced(against: Against, *, origin: str | None = None, index: Index | None = None) -> Setup:
    honest = against.setup()
    operand = honest.operand if origin is None else structs.replace(honest.operand, origin=Origin(origin))
    return structs.replace(honest, operand=operand, index=honest.index if index is None else index)


@pytest.mark.parametrize(
    ("own", "origin", "reason"),
    [
        (config(), "local", Reason.PLAN_COMPILATION),
        (config(), BOB, Reason.PEER_VERIFIER_MISMATCH),
        (config(), "source:other", Reason.PLAN_COMPILATION),
        (config(), "source:0", Reason.PLAN_COMPILATION),
        (_signed(), ALICE, Reason.PEER_VERIFIER_MISMATCH),
        (_signed(), "source:1", Reason.PEER_VERIFIER_MISMATCH),
        (_signed(), "local", Reason.PLAN_COMPILATION),
    ],
)
def test_an_origin_is_not_for_the_peer_to_choose(own: Config, origin: str, reason: Reason) -> None:
    """IL-131, IL-133, IL-134, IL-135, IL-257, ILC-139: local, unproven, not the proven one, another label."""
    against = Against(own, Watched(records(1)))
    against.give(Started())
    assert against.say(_announced(against, origin=origin)) == []
    assert _reason(against) is reason
    assert not against.holdings.evaluations


def test_two_operands_of_one_index_make_no_plan() -> None:
    """IL-085, IL-123, IL-263: a compilation failure ends the exchange, there is no empty plan instead."""
    against = Against(config())
    against.give(Started())
    assert against.say(_announced(against, index=0)) == []
    assert _reason(against) is Reason.PLAN_COMPILATION
    assert against.machine.epoch is None


def test_a_setup_replaces_what_the_sender_said_before() -> None:
    """IL-083: one operand at a time; a second setup in the same negotiation has no place."""
    against = Against(config(), Watched(records(1)))
    against.to_hello()
    against.say(against.setup())
    assert _reason(against) is Reason.OUT_OF_PHASE


def test_query_policy_stays_at_home() -> None:
    """IL-086: no message has a byte of it, and the peer's plan does not depend on it."""
    secret = compile_query("Queryable(P,O) :- Have(P), Field(P,'Name',_,'very-private'), Viewer(O).\n")
    some = records(3)
    with_policy = meet(Watched(some, query=secret), [], codec=True)
    without = meet(Watched(some), [], codec=True)
    with_result, without_result = with_policy.run(), without.run()
    assert with_result[0].plan == without_result[0].plan
    assert not with_result[0].sent
    assert without_result[0].sent
    assert all(
        "very-private" not in repr(message) and secret.identifier not in repr(message)
        for _, message in with_policy.said
    )


def test_policies_are_cached_under_their_plan() -> None:
    """IL-021, IL-125, IL-213: the same result as a fresh compilation; another plan finds another executable."""
    holdings = Watched(records(3))
    first = meet(holdings, [], BY_GROUP).run()
    again = meet(holdings, [], BY_GROUP).run()
    assert again[0].sent == first[0].sent == hashes(holdings.records.values())
    nothing = meet(holdings, [], BY_GROUP, "SelectAdvertised(P,S) :- Advertised(P,S), Eq(P,'no').\n").run()
    assert nothing[0].plan != first[0].plan
    assert not nothing[0].sent


def test_a_cached_policy_does_not_replace_the_check_of_the_plan() -> None:
    """IL-125: a hit in the cache, and still bytes of another module are refused."""
    holdings = Watched(records(1))
    honest = Against(config(), holdings)
    honest.to_loop()
    against = Against(config(), holdings)
    against.give(Started())
    against.say(structs.replace(against.setup(), module=b"SelectHave(P) :- Have(P).\n"))
    assert _reason(against) is Reason.MALFORMED_MODULE


def test_there_is_no_door_for_a_prepared_policy() -> None:
    """IL-022: a machine starts from a selector, and what it runs is made from the plan it has agreed on."""
    fields = set(Config.__struct_fields__)
    assert "selector" in fields
    assert not [name for name in fields if "polic" in name or "plan" in name or "prepared" in name]
    with pytest.raises(TypeError):
        Config(own=NOBODY, peer=NOBODY, initiator=True)  # type: ignore[call-arg]
    assert PolicyCache().__len__() == 0


def test_no_directional_rules_are_needed() -> None:
    """IL-011, IL-010: one selected set on both sides is all that an exchange takes."""
    here, there = records(3), records(3, first=10)
    meeting = meet(here, there, BY_GROUP)
    meeting.run()
    assert set(meeting.here.records) == set(meeting.there.records) == hashes([*here, *there])
    with pytest.raises(Exception, match="MaySend"):
        compile_selector("MaySend(P) :- Have(P).\nSelectHave(P) :- Have(P).\n")


# ---- hello ----------------------------------------------------------------------------------------------------------


def _greeted(own: Config, **changes: object) -> Against:
    """A machine that has heard a hello, changed from an honest one."""
    against = Against(own, Watched(records(2)))
    against.to_hello()
    against.say(structs.replace(against.hello(), **changes))
    return against


def test_a_signer_without_proof_fails() -> None:
    """IL-128, IL-257."""
    assert _reason(_greeted(config(), signer=BOB)) is Reason.PEER_VERIFIER_MISMATCH


def test_another_signer_than_the_proven_one_fails() -> None:
    """IL-128, IL-135, IL-257, ILC-139."""
    assert _reason(_greeted(_signed(), signer=ALICE)) is Reason.PEER_VERIFIER_MISMATCH


def test_a_verifier_origin_is_provisional_until_hello() -> None:
    """IL-132, IL-134: nothing was evaluated when the hello that should prove the origin does not."""
    against = Against(_signed(), Watched(records(2)))
    against.to_hello()
    assert not against.holdings.evaluations
    assert against.machine.epoch is None
    against.say(structs.replace(against.hello(), signer=None))
    assert _reason(against) is Reason.PEER_VERIFIER_MISMATCH
    assert not against.holdings.evaluations


def test_only_the_pinned_peer_will_do() -> None:
    """IL-257, ILC-139."""
    pinned = structs.replace(_signed(), pinned=ALICE)
    assert _reason(_greeted(pinned)) is Reason.PEER_VERIFIER_MISMATCH
    assert _greeted(structs.replace(_signed(), pinned=BOB)).machine.phase is Phase.ADVERTISE


def test_a_signer_is_named_only_with_proof() -> None:
    """IL-127, IL-129, IL-130: proven on both sides, it is named and supplies ``Peer``; without, neither is there."""
    proven, nobody = Against(_signed()), Against(config())
    proven.to_loop()
    nobody.to_loop()
    for against, own, peer in ((proven, ALICE, BOB), (nobody, None, None)):
        hello = next(message for message in against.said if isinstance(message, Hello))
        assert hello.signer == own
        assert isinstance(against.holdings, Watched)
        runtime = against.holdings.questions[0].runtime
        assert (runtime.here, runtime.peer) == (own, peer)


def test_another_plan_in_the_hello_aborts() -> None:
    """IL-136, IL-258."""
    assert _reason(_greeted(config(), plan="E." + "0" * 43)) is Reason.PLAN_MISMATCH


def _longer(against: Against, length: str = "3") -> bytes:
    first, second = sorted((against.said[0], against.setup()), key=lambda setup: setup.index)  # type: ignore[union-attr]
    assert isinstance(first, Setup)
    assert isinstance(second, Setup)
    return make_plan(first.operand, second.operand, {PARTITION_PREFIX_LENGTH: length}).canonical


def test_a_plan_with_parameters_is_adopted_after_both_have_computed_its_name() -> None:
    """IL-136, IL-186, ILC-063: both say hello again, for the plan that one of them brought."""
    meeting = meet(records(400), [], right=Changes(parameters={PARTITION_PREFIX_LENGTH: "1"}))
    left, right = meeting.run()
    assert left.fixed_point
    assert right.fixed_point
    assert left.plan == right.plan
    assert [len(meeting.messages(side, Hello)) for side in ("left", "right")] == [2, 2]
    summaries = [part for block in meeting.advertised("left") for part in block.partitions]
    assert min(len(part.prefix) for part in summaries) == 1
    assert right.received == hashes(records(400))


def test_plan_bytes_that_are_not_what_they_are_called_abort() -> None:
    """IL-136: the bytes are hashed before anything goes on; a plan over other operands will not do either."""
    against = Against(config())
    against.to_hello()
    against.say(structs.replace(against.hello(), plan="E." + "0" * 43, plan_bytes=_longer(against)))
    assert _reason(against) is Reason.PLAN_MISMATCH

    strangers = Operand(module=selector(PUSH).identifier, origin=Origin("source:0"))
    plan = make_plan(strangers, strangers, {PARTITION_PREFIX_LENGTH: "3"})
    assert _reason(_greeted(config(), plan=plan.identifier, plan_bytes=plan.canonical)) is Reason.PLAN_MISMATCH


def test_both_bring_different_plans_and_nobody_gives_way() -> None:
    """IL-136, IL-258."""
    meeting = meet(
        records(2),
        [],
        parameters={PARTITION_PREFIX_LENGTH: "3"},
        right=Changes(parameters={PARTITION_PREFIX_LENGTH: "4"}),
    )
    assert {result.reason for result in meeting.run()} == {Reason.PLAN_MISMATCH}


def test_a_longer_prefix_takes_the_plan() -> None:
    """IL-186: a summary with three symbols where the plan says nothing is malformed."""
    against = Against(config())
    against.to_loop()
    against.say(Advertise(partitions=(Partition(prefix="abc", count=1, root=bytes(32)),)))
    assert _reason(against) is Reason.MALFORMED_SUMMARY


def test_time_and_tick_are_required_of_both() -> None:
    """IL-137: there is no hello without them, and no default."""
    whole = {"plan": "E.", "tai": "", "tick_interval_ns": 1, "formats": ["H3"], "schema": {}}
    assert msgspec.convert(whole, Hello).formats == {"H3"}
    for name in ("tai", "tick_interval_ns"):
        with pytest.raises(msgspec.ValidationError, match=name):
            msgspec.convert({key: value for key, value in whole.items() if key != name}, Hello)


@pytest.mark.parametrize("interval", [0, 24 * 3600 * 10**9 + 1])
def test_a_tick_interval_has_bounds(interval: int) -> None:
    """IL-142."""
    assert _reason(_greeted(config(), tick_interval_ns=interval)) is Reason.NEGOTIATION


@pytest.mark.parametrize("name", NAMES)
def test_a_limit_outside_its_range_fails(name: str) -> None:
    """IL-145, ILC-138."""
    assert _reason(_greeted(config(), limits={name: 0})) is Reason.NEGOTIATION
    assert _reason(_greeted(config(), limits={name: 2**64})) is Reason.NEGOTIATION


def test_limits_are_optional() -> None:
    """IL-143, IL-144."""
    against = _greeted(config(limits=Limits(max_loop_iterations=5)), limits={})
    assert against.machine.epoch is not None
    assert against.machine.epoch.terms.limits == Limits(max_loop_iterations=5)


@pytest.mark.parametrize("name", NAMES)
def test_the_smaller_limit_holds_on_both_sides(name: str) -> None:
    """IL-007, IL-144, IL-037: whichever side has it."""
    small = Limits(**{name: 7})
    for left, right in ((small, Limits()), (Limits(), small)):
        meeting = meet([], [], limits=left, right=Changes(limits=right))
        meeting.run()
        for side in (meeting.left, meeting.right):
            assert side.machine.epoch is not None
            assert side.machine.epoch.terms.limits == small


def test_no_common_record_format_aborts() -> None:
    """IL-151, IL-259, ILC-132."""
    assert _reason(_greeted(config(), formats=frozenset({"H9"}))) is Reason.UNSUPPORTED_FORMAT


def test_the_common_formats_are_the_intersection() -> None:
    """IL-007, IL-027, IL-150."""
    meeting = meet([], [], formats=frozenset({"H3", "H4", "H5"}), right=Changes(formats=frozenset({"H3", "H5", "H6"})))
    meeting.run()
    for side in (meeting.left, meeting.right):
        assert side.machine.epoch is not None
        assert side.machine.epoch.terms.formats == {"H3", "H5"}


_ANY_FIELD = "SelectAdvertised(P,S) :- AdvertisedField(P,S,N,_,'u'), Ne(N,'x').\n"


@pytest.mark.parametrize(
    ("rules", "left", "right", "fits"),
    [
        (BY_GROUP, Schema(names=frozenset({"Group"})), Schema(names=frozenset({"Group", "App"})), True),
        (BY_GROUP, Schema(names=frozenset({"Group"})), Schema(all=True), True),
        (BY_GROUP, Schema(names=frozenset({"Group"})), Schema(names=frozenset({"App"})), False),
        (BY_GROUP, Schema(names=frozenset({"group"})), Schema(all=True), False),
        (_ANY_FIELD, Schema(all=True), Schema(all=True), True),
        (_ANY_FIELD, Schema(all=True), Schema(names=frozenset({"Group", "App", "Name"})), False),
        (EVERYTHING, Schema(), Schema(), True),
    ],
)
def test_the_schema_must_satisfy_the_plan(rules: str, left: Schema, right: Schema, *, fits: bool) -> None:
    """IL-078, IL-079, IL-260, IL-158, IL-159: names known to one side only, all names explicit on one side only."""
    meeting = meet(records(2), [], rules, schema=left, right=Changes(schema=right))
    results = meeting.run()
    if fits:
        assert [result.reason for result in results] == [None, None]
    else:
        assert {result.reason for result in results} == {Reason.UNSUPPORTED_SCHEMA}
        assert not meeting.there.records


def test_an_empty_schema_still_advertises() -> None:
    """IL-158."""
    meeting = meet(records(2), [], EVERYTHING, schema=Schema())
    meeting.run()
    (block, *_) = meeting.advertised("left")
    assert [one.fields for one in block.records] == [(), ()]
    assert len(meeting.there.records) == 2


@pytest.mark.parametrize("ahead", [True, False])
def test_a_skew_that_is_too_large_is_named(*, ahead: bool) -> None:
    """ILC-144: a hello that is dated far ahead, or far behind, moves nothing."""
    skewed = tai.render(START_NS + (301 if ahead else -301) * 10**9)
    assert _reason(_greeted(config(), tai=skewed)) is Reason.CLOCK_SKEW
    patient = config(service=Service(clock_skew_seconds_max=400))
    assert _greeted(patient, tai=skewed).machine.phase is Phase.ADVERTISE


def test_what_was_negotiated_is_told() -> None:
    """IL-214, IL-147: plan, link and start, on both sides alike."""
    meeting = meet([], [], signed=True)
    left, right = meeting.run()
    told = [next(n for n in side.notices if isinstance(n, Negotiated)) for side in (meeting.left, meeting.right)]
    assert told[0] == told[1]
    assert (told[0].plan, told[0].link) == (left.plan, left.link)
    assert left.link is not None
    assert (left.peer, right.peer) == (BOB, ALICE)


def test_an_anonymous_link_has_no_name() -> None:
    """IL-148, IL-149: it runs, with a local key for its cursor if it is given one, and reports none."""
    meeting = meet(records(1), [], cursor_key="desk")
    left, right = meeting.run()
    assert (left.link, right.link, left.peer, right.peer) == (None, None, None, None)
    assert right.cursor_updated
    assert set(meeting.there.cursors) == {"desk"}
    forgetful = meet(records(1), [])
    assert not forgetful.run()[1].cursor_updated


def test_one_proven_side_makes_no_link_name() -> None:
    """IL-148, IL-149."""
    alice = Party(verifier=ALICE)
    meeting = meet(records(1), [], own=alice, peer=NOBODY, right=Changes(own=NOBODY, peer=alice))
    left, right = meeting.run()
    assert (left.link, right.link) == (None, None)
    assert (left.peer, right.peer) == (None, ALICE)
    assert left.fixed_point


def test_one_machine_per_link() -> None:
    """IL-024: what one link has learned is unknown to another one over the same store."""
    some = records(3)
    holdings = Watched()
    first, second = Against(config(), holdings), Against(config(), Watched())
    first.to_request(map(first.claim, some))
    second.to_request()
    assert first.machine.epoch is not None
    assert second.machine.epoch is not None
    assert (len(first.machine.epoch.learned), len(second.machine.epoch.learned)) == (3, 0)


def test_a_cursor_is_of_one_link() -> None:
    """IL-024, IL-034: two links over the same store, one after the other, with one plan and one source."""
    store = Watched()
    for key, known in (("one", 0), ("other", 0), ("one", 3)):
        against = Against(config(cursor_key=key), store.beside())
        against.to_loop()
        assert against.machine.epoch is not None
        assert len(against.machine.epoch.learned) == known
        against.claiming(map(against.claim, records(3)))
        against.give(LinkClosed())
    assert store.cursors.keys() == {"one", "other"}


def test_a_machine_starts_once() -> None:
    """IL-237."""
    against = Against(config())
    against.give(Started())
    with pytest.raises(UsageError):
        against.give(Started())
    assert isinstance(InterlaceMachine(config(), Watched()), InterlaceMachine)


def test_the_negotiated_schema_is_what_is_advertised() -> None:
    """IL-007, IL-027, IL-077, IL-100, IL-154: a name of one side alone is in no advertisement."""
    left, right = Schema(names=frozenset({"Group", "App", "Name"})), Schema(names=frozenset({"Group", "Name", "TAI"}))
    meeting = meet([record(1)], [], BY_GROUP, schema=left, right=Changes(schema=right), clock=SetClock())
    meeting.run()
    (advertised,) = meeting.advertised("left")[0].records
    assert [field.name for field in advertised.fields] == ["Group", "Name"]

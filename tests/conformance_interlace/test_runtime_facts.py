"""What rules see of the exchange that they run in: exactly the facts of the page, the same time on both sides."""

import pytest
from msgspec import structs

from bobbin.errors import UsageError
from bobbin.facts.extract import fields as fields_of
from bobbin.interlace.config import Open
from bobbin.interlace.effects import TickIgnored
from bobbin.interlace.limits import Service
from bobbin.interlace.messages import Advertise
from bobbin.interlace.setup import Party
from bobbin.policy.modules import compile_selector
from bobbin.policy.operands import Origin
from bobbin.policy.runtime_facts import RuntimeFacts
from bobbin.records import tai
from tests.policy_worlds import ALICE, BOB, EVERYTHING
from tests.support.exchanges import (
    NOBODY,
    START_NS,
    Against,
    Changes,
    Watched,
    config,
    hashes,
    meet,
    record,
    records,
)

_START = tai.render(START_NS)


def _when(condition: str) -> str:
    return f"SelectAdvertised(P,S) :- Advertised(P,S).\nSelectHave(P) :- Have(P), {condition}.\n"


def _sends(condition: str, *, signed: bool = False, **changes: object) -> bool:
    """Whether the left side sends its record under this condition. The peer takes everything."""
    meeting = meet(records(1), [], _when(condition), EVERYTHING, signed=signed, **changes)  # type: ignore[arg-type]
    left, _ = meeting.run()
    assert left.fixed_point
    return bool(left.sent)


def test_here_and_peer_are_each_sides_own_view_of_one_pair() -> None:
    """IL-059, IL-060, IL-068, IL-129: the plan is the same, the facts are not."""
    meeting = meet(records(1), [], signed=True)
    left, right = meeting.run()
    assert left.plan == right.plan
    assert isinstance(meeting.here, Watched)
    assert isinstance(meeting.there, Watched)
    for holdings, here, peer in ((meeting.here, ALICE, BOB), (meeting.there, BOB, ALICE)):
        assert {(one.runtime.here, one.runtime.peer) for one in holdings.questions} == {(here, peer)}


@pytest.mark.parametrize(
    ("condition", "signed", "sends"),
    [
        (f"Here('{ALICE}')", True, True),
        (f"Here('{BOB}')", True, False),
        (f"Peer('{BOB}')", True, True),
        (f"Peer('{ALICE}')", True, False),
        ("Here(V), Ne(V,'x')", False, False),
        ("Peer(V), Ne(V,'x')", False, False),
    ],
)
def test_a_rule_sees_who_is_proven_and_nobody_else(condition: str, *, signed: bool, sends: bool) -> None:
    """IL-059, IL-060, IL-067, IL-130: absent means absent, no stand-in can be matched."""
    assert _sends(condition, signed=signed) is sends


def test_transport_is_the_address_of_this_connection() -> None:
    """IL-061."""
    assert _sends("Transport('tcp:here:4790')", transport="tcp:here:4790")
    assert not _sends("Transport('tcp:here:4790')", transport="tcp:there:4790")
    assert not _sends("Transport(S), Ne(S,'x')")


def test_encryption_is_there_only_with_proof() -> None:
    """IL-062, IL-067."""
    assert _sends("TransportEncrypted()", encrypted=True)
    assert not _sends("TransportEncrypted()")
    assert not _sends("TransportEncrypted()", transport="tls:here:4791")


def _greeted(own_clock: int, peer_clock: int) -> tuple[RuntimeFacts, RuntimeFacts]:
    """The runtime facts on both sides of a link whose clocks differ."""
    facts = []
    for one, another in ((own_clock, peer_clock), (peer_clock, own_clock)):
        against = Against(config())
        against.clock.tai_ns = one
        against.to_hello()
        against.say(structs.replace(against.hello(), tai=tai.render(another)))
        assert isinstance(against.holdings, Watched)
        facts.append(against.holdings.questions[0].runtime)
    return facts[0], facts[1]


def test_start_and_skew_are_shared() -> None:
    """IL-063, IL-065, IL-138, IL-139, IL-140, ILC-118: the later hello, the whole seconds between them."""
    one, another = _greeted(START_NS, START_NS + 2 * 10**9 + 999_999_999)
    assert one == another
    assert one.start_tai == one.tick_tai == tai.render(START_NS + 2 * 10**9 + 999_999_999)
    assert one.clock_skew_seconds == 2
    assert one.tuples()["ClockSkewSeconds"] == {("2",)}


def test_a_rule_sees_the_shared_start() -> None:
    """IL-063, IL-064, IL-160."""
    assert _sends(f"StartTAI('{_START}'), TickTAI('{_START}'), ClockSkewSeconds('0')")


def test_rules_see_these_facts_and_no_others() -> None:
    """IL-029, IL-066: everything that is told has one of seven names."""
    against = Against(
        config(own=Party(verifier=ALICE), peer=Party(verifier=BOB), transport="tls:here:1", encrypted=True)
    )
    against.to_loop()
    assert isinstance(against.holdings, Watched)
    assert against.holdings.questions[0].runtime.tuples().keys() == {
        "Here", "Peer", "Transport", "TransportEncrypted", "StartTAI", "TickTAI", "ClockSkewSeconds",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["HostName", "StoreSize", "ExchangeOperand", "TickReady"])
def test_nothing_private_and_no_control_data_can_be_asked_for(name: str) -> None:
    """IL-066, IL-089, IL-116: a rule over it is no rule."""
    arity = ",".join("_" * (4 if name == "ExchangeOperand" else 1))
    with pytest.raises(Exception, match=name):
        compile_selector(f"SelectHave(P) :- Have(P), {name}({arity}).\n")


def test_no_clock_is_read_behind_the_facts() -> None:
    """IL-069: the same snapshot at two wall-clock times gives one result; time counts only as a shared tick."""
    rules = _when(f"TickTAI(T), Lt(T,'{tai.render(START_NS + 10**9)}')")
    sent = []
    for later in (0, 3600):
        holdings = Watched(records(2))
        meeting = meet(holdings, [], rules, EVERYTHING)
        holdings.before_evaluate = lambda later=later, meeting=meeting: meeting.clock.move(later)  # type: ignore[misc]
        sent.append(meeting.run()[0].sent)
    assert sent[0] == sent[1] == hashes(records(2))


# ---- source labels --------------------------------------------------------------------------------------------------


def test_a_proven_peer_is_the_source_of_its_advertisements() -> None:
    """IL-070, IL-073: under its verifier, not under a label."""
    rules = f"SelectAdvertised(P,S) :- Advertised(P,S), Eq(S,'{ALICE}').\nSelectHave(P) :- Have(P).\n"
    assert meet(records(2), [], EVERYTHING, rules, signed=True).run()[1].received == hashes(records(2))
    assert not meet(records(2), [], EVERYTHING, rules.replace(ALICE, "source:0"), signed=True).run()[1].received


def test_an_unproven_peer_has_one_label_for_the_whole_exchange() -> None:
    """IL-071: the one that the binding gives, in every loop."""
    window = Party(verifier=None, label=Origin("source:window"))
    rules = "SelectAdvertised(P,S) :- Advertised(P,S), Eq(S,'source:window').\nSelectHave(P) :- Have(P).\n"
    meeting = meet(
        records(6),
        [],
        EVERYTHING,
        rules,
        own=window,
        peer=NOBODY,
        service=Service(request_records_max=2),
        right=Changes(own=NOBODY, peer=window),
    )
    _, right = meeting.run()
    assert right.received == hashes(records(6))
    assert right.iterations > 3


def test_a_label_proves_nothing() -> None:
    """IL-072: it gives no peer, no link, and none can be spelled like a verifier."""
    window = Party(verifier=None, label=Origin("source:" + BOB))
    against = Against(config(peer=window))
    against.to_loop()
    assert isinstance(against.holdings, Watched)
    assert against.holdings.questions[0].runtime.peer is None
    assert against.machine.epoch is not None
    assert against.machine.epoch.terms.link is None
    with pytest.raises(UsageError):
        Party(verifier=None, label=Origin(BOB))


def test_claimed_fields_are_those_of_the_record() -> None:
    """IL-074, IL-075, IL-100: name, index and value, repeated names included, from the stored record."""
    stored = record(3, name="links/3")
    meeting = meet([stored], [], "SelectAdvertised(P,S) :- AdvertisedField(P,S,N,'0',N).\nSelectHave(P) :- Have(P).\n")
    meeting.run()
    (advertised,) = meeting.advertised("left")[0].records
    assert sorted((field.name, field.value) for field in advertised.fields) == sorted(fields_of(stored))
    assert {field.index for field in advertised.fields} == {"0"}


# ---- ticks ----------------------------------------------------------------------------------------------------------

_INTERVAL = Service(tick_interval_ns=10 * 10**9)


def _at(seconds: int) -> str:
    return tai.render(START_NS + seconds * 10**9)


def _idle() -> Against:
    """An open exchange at its first fixed point, with a peer that has no records and follows."""
    against = Against(config(_when(f"TickTAI(T), Ge(T,'{_at(10)}')"), lifecycle=Open()), Watched(records(1)))
    against.to_request()
    against.say(against.said[-1])
    against.say(Advertise())
    return against


def test_a_side_says_how_far_its_clock_is_on_the_blocks_that_it_sends_anyway() -> None:
    """IL-115, IL-162: not before its time, and not in a block of its own."""
    against = Against(config(lifecycle=Open()))
    block = against.to_loop()
    assert block.tick == _START
    against.clock.move(9.999999999)
    against.say(Advertise())
    against.say(against.said[-1])
    assert isinstance(against.said[-1], Advertise)
    assert against.said[-1].tick == _START
    against.say(Advertise())
    against.clock.move(0.000000001)
    (block_again,) = against.fire()
    assert isinstance(block_again, Advertise)
    assert block_again.tick == _at(10)


def test_a_tick_needs_both_sides() -> None:
    """IL-064, IL-161, IL-166, IL-167: ours alone moves nothing, nor does the peer's alone."""
    against = _idle()
    assert isinstance(against.holdings, Watched)
    against.clock.move(10)
    against.fire()
    against.say(Advertise())
    assert against.holdings.questions[-1].runtime.tick_tai == _START
    assert against.machine.epoch is not None
    assert against.machine.epoch.ticks.local_ready == _at(10)

    hasty = _idle()
    assert isinstance(hasty.holdings, Watched)
    hasty.say(Advertise(tick=_at(3600)))
    assert hasty.holdings.questions[-1].runtime.tick_tai == _START
    assert hasty.machine.epoch is not None
    assert hasty.machine.epoch.ticks.local_ready == _START


def test_a_tick_of_both_replaces_the_time_and_evaluates_again() -> None:
    """IL-046, IL-169, IL-170, IL-196, IL-221, IL-232: what a rule held back until then is advertised."""
    against = _idle()
    assert isinstance(against.holdings, Watched)
    against.clock.move(10)
    against.fire()
    (request,) = against.say(Advertise(tick=_at(10)))
    (block,) = against.say(request)
    assert isinstance(block, Advertise)
    assert {one.record for one in block.records} == hashes(records(1))
    assert against.holdings.questions[-1].runtime.tuples()["TickTAI"] == {(_at(10),)}


@pytest.mark.parametrize("tick", [_at(5), _at(-10), "yesterday"])
def test_a_tick_that_is_not_valid_is_ignored_and_told(tick: str) -> None:
    """IL-163, IL-165, ILC-121: misaligned, before the start, no time at all."""
    against = _idle()
    against.clock.move(10)
    against.fire()
    against.say(Advertise(tick=tick))
    assert against.result is None
    assert [notice.tick for notice in against.notices if isinstance(notice, TickIgnored)] == [tick]
    assert against.machine.epoch is not None
    assert against.machine.epoch.ticks.tick == _START


def test_a_tick_that_goes_back_is_ignored() -> None:
    """IL-164, IL-168, ILC-121."""
    against = _idle()
    against.clock.move(20)
    against.fire()
    (request,) = against.say(Advertise(tick=_at(20)))
    against.say(structs.replace(request, tick=_at(10)))
    assert [notice.tick for notice in against.notices if isinstance(notice, TickIgnored)] == [_at(10)]
    assert against.machine.epoch is not None
    assert against.machine.epoch.ticks.tick == _at(20)


def test_a_tick_that_comes_with_a_request_counts_before_the_end() -> None:
    """IL-162, IL-170, IL-221: the shared time moves after the evaluation behind the request lists."""
    against = _idle()
    against.clock.move(10)
    against.fire()
    (request,) = against.say(Advertise())
    (block,) = against.say(structs.replace(request, tick=_at(10)))
    assert isinstance(block, Advertise)
    assert {one.record for one in block.records} == hashes(records(1))


def test_a_plain_bounded_exchange_stands_at_its_start() -> None:
    """IL-171: a peer's readiness moves nothing, and this side says none."""
    against = Against(config(), Watched(records(1)))
    block = against.to_loop()
    assert block.tick is None
    against.clock.move(60)
    against.say(Advertise(tick=_at(10)))
    assert isinstance(against.holdings, Watched)
    assert {one.runtime.tick_tai for one in against.holdings.questions} == {_START}


def test_the_tick_is_in_no_digest() -> None:
    """IL-116: the same record has the same advertisement under two ticks."""
    meeting = meet(records(1), [], lifecycle=Open())
    meeting.start()
    first = meeting.advertised("left")[0].records
    again = meet(records(1), [])
    again.run()
    assert again.advertised("left")[0].records == first
    assert meeting.advertised("left")[0].tick is not None


def test_a_binding_tells_who_and_how_only_as_runtime_facts() -> None:
    """ILC-087: other transports and proofs change those facts and nothing else that a rule or a plan can learn."""
    told = {
        (None, False): meet(records(1), []),
        ("tcp:127.0.0.1:4790", False): meet(records(1), [], transport="tcp:127.0.0.1:4790"),
        ("tls:example.com:4791", True): meet(records(1), [], transport="tls:example.com:4791", encrypted=True),
    }
    plans = set()
    for (transport, encrypted), meeting in told.items():
        meeting.run()
        epoch = meeting.left.machine.epoch
        assert epoch is not None
        plans.add(epoch.agreement.plan.canonical)
        facts = epoch.runtime_facts().tuples()
        expected = {"StartTAI", "TickTAI", "ClockSkewSeconds"}
        expected |= {"Transport"} if transport else set()
        expected |= {"TransportEncrypted"} if encrypted else set()
        assert set(facts) == expected
    assert len(plans) == 1

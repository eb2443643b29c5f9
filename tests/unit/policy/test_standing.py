"""A decision that stands."""

from collections.abc import Iterator

import pytest
from msgspec import structs

from bobbin.datalog.limits import Limits
from bobbin.errors import UsageError
from bobbin.facts.relations import Pattern, Tuple
from bobbin.policy import standing as module
from bobbin.policy.claims import ClaimedField
from bobbin.policy.executables import Budgets, Part, PolicyLimitExceeded
from bobbin.policy.numbers import Numbers
from bobbin.policy.runtime_facts import RuntimeFacts
from bobbin.policy.standing import Shift, Standing
from bobbin.policy.views import RecordFacts
from tests.policy_worlds import ALICE, BOB, DING, EVERYTHING, SHOW_EVERYTHING, plex, policy, record, stored

RUNTIME = RuntimeFacts(here=ALICE, peer=BOB)
HASHES = [plex(number) for number in range(6)]
DINGS = [record(hash, App="ding", Group="u") for hash in HASHES]
CLAIM = (ClaimedField("App", "0", "ding"), ClaimedField("Group", "0", "u"))
MAKER = EVERYTHING + "Made(T) :- Field(_,'TAI',_,N), TaiAdd(N,'1',T).\n"
"""A peer's module that makes up texts."""


class _Silent(RecordFacts):
    """A source that must not be asked."""

    def enumerate(self, predicate: str) -> Iterator[Tuple]:
        raise AssertionError(predicate)

    def match(self, predicate: str, pattern: Pattern) -> Iterator[Tuple]:
        raise AssertionError((predicate, pattern))


def _loaded(own: str = DING, peer: str = EVERYTHING, query: str | None = None, records: int = 2) -> Standing:
    standing = Standing(policy(own, peer, query))
    standing.load(stored(*DINGS[:records]), RUNTIME)
    return standing


def test_loading_tells_everything() -> None:
    standing = Standing(policy(DING))
    shift = standing.load(stored(*DINGS[:2]), RUNTIME, {HASHES[5]: CLAIM, HASHES[4]: ()})
    assert shift == Shift(send_added=frozenset(HASHES[:2]), request_added=frozenset({HASHES[5]}))
    assert standing.may_send == standing.visible == set(HASHES[:2])
    assert standing.may_request == {HASHES[5]}
    assert standing.claimed.keys() == {HASHES[4], HASHES[5]}
    assert standing.size == 2 + 2 + 1 + 2


def test_it_knows_the_fields_that_any_side_reads() -> None:
    query = "Queryable(P,V) :- Viewer(V), OwnSelected(P), Field(P,'Level',_,'open').\n"
    assert _loaded().fields == frozenset({"App", "Group"})
    assert _loaded(query=query).fields == frozenset({"App", "Group", "Level"})
    assert _loaded(peer="SelectHave(P) :- Field(P,N,_,N).\n").fields is None


def test_nothing_new_costs_nothing() -> None:
    standing = _loaded()
    assert standing.advance(_Silent(), runtime=RUNTIME) == Shift()
    later = structs.replace(RUNTIME, start_tai="1640995200:000000000")
    assert standing.advance(_Silent(), runtime=later) == Shift(), "no rule reads the time"
    assert standing.advance(_Silent(), runtime=later, withdrawn=[HASHES[5]]) == Shift(), "never claimed"


def test_records_come_and_go() -> None:
    standing = _loaded()
    shift = standing.advance(stored(*DINGS[1:3]), runtime=RUNTIME, stored=DINGS[2], removed=[HASHES[0]])
    assert shift == Shift(send_added=frozenset({HASHES[2]}), send_removed=frozenset({HASHES[0]}))
    assert standing.visible == {HASHES[1], HASHES[2]}


def test_claims_come_change_and_go() -> None:
    standing = _loaded()
    facts = _Silent()
    wanted = frozenset({HASHES[5]})
    assert standing.advance(facts, runtime=RUNTIME, claimed={HASHES[5]: CLAIM}) == Shift(request_added=wanted)
    assert standing.advance(facts, runtime=RUNTIME, claimed={HASHES[5]: CLAIM}) == Shift()
    assert standing.advance(facts, runtime=RUNTIME, claimed={HASHES[5]: CLAIM[:1]}) == Shift(request_removed=wanted)
    assert standing.advance(facts, runtime=RUNTIME, claimed={HASHES[5]: CLAIM}) == Shift(request_added=wanted)
    assert standing.advance(facts, runtime=RUNTIME, withdrawn=[*wanted, *wanted]) == Shift(request_removed=wanted)
    assert standing.claimed == {}


def test_a_record_that_comes_into_view_is_read_from_the_source() -> None:
    """Its facts were stored before, and the peer's module never saw them."""
    query = "Queryable(P,O) :- Have(P), TransportEncrypted(), Viewer(O).\n"
    peer = "SelectHave(P) :- Field(P,'Level',_,'open').\n"
    standing = Standing(policy(EVERYTHING, peer, query))
    facts = stored(record(HASHES[0], Level="open"), record(HASHES[1], Level="closed"))
    assert standing.load(facts, RUNTIME) == Shift()
    encrypted = structs.replace(RUNTIME, transport_encrypted=True)
    assert standing.advance(facts, runtime=encrypted) == Shift(send_added=frozenset({HASHES[0]}))
    assert standing.visible == set(HASHES[:2])
    assert standing.advance(facts, runtime=RUNTIME) == Shift(send_removed=frozenset({HASHES[0]}))
    assert standing.visible == set()


def test_a_name_without_a_record_is_not_sent_until_it_is_stored() -> None:
    own = "SelectHave(Q) :- RecordLink(_,_,_,_,Q).\n"
    standing = Standing(
        policy(own, own + f"SelectHave('{HASHES[1]}').\n", "Queryable(P,O) :- OwnSelected(P), Viewer(O).\n")
    )
    link = ("RecordLink", (HASHES[0], "+Link", "0", "to", HASHES[1]))
    before = stored([("Have", (HASHES[0],)), link])
    assert standing.load(before, RUNTIME) == Shift()
    assert standing.visible == {HASHES[1]}
    after = stored([("Have", (HASHES[0],)), link], [("Have", (HASHES[1],))])
    shift = standing.advance(after, runtime=RUNTIME, stored=[("Have", (HASHES[1],))])
    assert shift == Shift(send_added=frozenset({HASHES[1]}))
    gone = standing.advance(before, runtime=RUNTIME, removed=[HASHES[1]])
    assert gone == Shift(send_removed=frozenset({HASHES[1]}))


def test_a_record_outside_the_view_is_not_sent_however_the_peer_names_it() -> None:
    """ILC-076: neither when everything is decided from nothing, nor when it is carried on."""
    peer = "".join(f"SelectHave('{hash}').\n" for hash in HASHES)
    query = "Queryable(P,O) :- Have(P), Field(P,'Level',_,'open'), Viewer(O).\n"
    standing = Standing(policy(EVERYTHING, peer, query))
    shown, hidden = record(HASHES[0], Level="open"), record(HASHES[1], Level="closed")
    assert standing.load(stored(shown, hidden), RUNTIME) == Shift(send_added=frozenset({HASHES[0]}))
    later = [record(HASHES[2], Level="closed"), record(HASHES[3], Level="open")]
    shift = standing.advance(stored(shown, hidden, *later), runtime=RUNTIME, stored=[*later[0], *later[1]])
    assert shift == Shift(send_added=frozenset({HASHES[3]}))
    assert standing.may_send == {HASHES[0], HASHES[3]}


@pytest.mark.parametrize("at_once", [1, 4_096])
def test_what_nobody_advertises_is_not_requested_however_it_is_named(
    at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ILC-074: neither from nothing, nor carried on claim by claim, nor with many claims at once."""
    monkeypatch.setattr(module, "_CLAIMS_ANEW_MIN", at_once)
    rules = f"SelectAdvertised('{HASHES[3]}','{BOB}').\nSelectAdvertised(P,S) :- Advertised(P,S).\n"
    standing = Standing(policy(rules, rules))
    assert standing.load(stored(), RUNTIME) == Shift()
    shift = standing.advance(stored(), runtime=RUNTIME, claimed={HASHES[4]: CLAIM})
    assert shift == Shift(request_added=frozenset({HASHES[4]}))
    shift = standing.advance(stored(), runtime=RUNTIME, claimed={HASHES[3]: CLAIM}, withdrawn=[HASHES[4]])
    assert shift == Shift(request_added=frozenset({HASHES[3]}), request_removed=frozenset({HASHES[4]}))


@pytest.mark.parametrize("many", [1, 4_096])
@pytest.mark.parametrize("peer_forbids", [False, True])
def test_a_selection_that_is_withdrawn_is_not_sent_any_more(
    *, peer_forbids: bool, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that is still stored and still in view, which one side's rules select no longer, or select again."""
    monkeypatch.setattr(module, "_MANY", many)
    wary = "SelectHave(P) :- Have(P), not Stopped().\nStopped() :- Field(_,'Level',_,'stop').\n"
    show = "Queryable(P,O) :- Have(P), Viewer(O).\n"
    standing = Standing(policy(EVERYTHING, wary, show) if peer_forbids else policy(wary, EVERYTHING, show))
    stop = record(HASHES[5], Level="stop")
    standing.load(stored(*DINGS[:2]), RUNTIME)
    assert standing.may_send == set(HASHES[:2])
    shift = standing.advance(stored(*DINGS[:2], stop), runtime=RUNTIME, stored=stop)
    assert shift == Shift(send_removed=frozenset(HASHES[:2]))
    shift = standing.advance(stored(*DINGS[:2]), runtime=RUNTIME, removed=[HASHES[5]])
    assert shift == Shift(send_added=frozenset(HASHES[:2]))
    assert standing.may_send == set(HASHES[:2])


def test_many_records_are_compared_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MANY", 1)
    standing = _loaded()
    shift = standing.advance(stored(*DINGS[:4]), runtime=RUNTIME, stored=[*DINGS[2], *DINGS[3]])
    assert shift.send_added == set(HASHES[2:4])
    assert standing.advance(_Silent(), runtime=RUNTIME, claimed={HASHES[5]: CLAIM}).request_added == {HASHES[5]}


def test_what_a_peer_claims_is_no_offer_to_it() -> None:
    """The own module without claims is what the view is made of."""
    own = "SelectHave(P) :- Have(P), Advertised(P,_).\n"
    standing = Standing(policy(own, EVERYTHING))
    standing.load(stored(*DINGS[:2]), RUNTIME)
    assert standing.advance(stored(*DINGS[:2]), runtime=RUNTIME, claimed={HASHES[0]: ()}) == Shift()
    assert standing.visible == set()


def test_a_decision_is_of_one_proven_peer() -> None:
    standing = Standing(policy(DING))
    with pytest.raises(UsageError, match="not proven"):
        standing.load(stored(), RuntimeFacts(here=ALICE))
    standing.load(stored(), RUNTIME)
    with pytest.raises(UsageError, match="not proven"):
        standing.advance(stored(), runtime=RuntimeFacts(here=ALICE, peer=ALICE))


def test_after_a_limit_it_must_be_loaded_again() -> None:
    budgets = Budgets(peer=Limits(derived_tuples_max=2))
    standing = Standing(policy(DING, EVERYTHING, SHOW_EVERYTHING, budgets=budgets))
    with pytest.raises(UsageError, match="load it first"):
        standing.advance(stored(), runtime=RUNTIME)
    standing.load(stored(*DINGS[:2]), RUNTIME)
    with pytest.raises(PolicyLimitExceeded) as caught:
        standing.advance(stored(*DINGS[:3]), runtime=RUNTIME, stored=DINGS[2])
    assert caught.value.part is Part.PEER_SELECTOR
    assert not standing.is_usable
    with pytest.raises(UsageError, match="load it first"):
        standing.advance(stored(*DINGS[:2]), runtime=RUNTIME)
    with pytest.raises(UsageError, match="load it first"):
        standing.freeze()
    assert standing.load(stored(*DINGS[:2]), RUNTIME).send_added == set(HASHES[:2])


def test_a_restored_decision_goes_on_without_reading_anything_again() -> None:
    frozen = _loaded().freeze()
    standing = Standing.restore(policy(DING), frozen)
    assert standing.may_send == set(HASHES[:2])
    assert standing.advance(_Silent(), runtime=RUNTIME) == Shift()
    assert standing.freeze() == frozen
    shift = standing.advance(_Silent(), runtime=RUNTIME, stored=DINGS[2], removed=[HASHES[1]])
    assert shift == Shift(send_added=frozenset({HASHES[2]}), send_removed=frozenset({HASHES[1]}))
    assert standing.advance(_Silent(), runtime=RUNTIME, removed=[HASHES[0]]).send_removed == {HASHES[0]}


def test_a_decision_at_rest_has_the_runtime_facts_of_now() -> None:
    restored = Standing.restore(policy(DING, EVERYTHING), _loaded().freeze())
    later = RuntimeFacts(here=ALICE, peer=BOB, transport="stdio")
    restored.advance(stored(*DINGS[:2]), runtime=later)
    assert restored.freeze().runtime == later


def test_another_format_is_refused() -> None:
    frozen = structs.replace(_loaded().freeze(), format=0)
    with pytest.raises(UsageError, match="format 0"):
        Standing.restore(policy(DING), frozen)


MANY_CLAIMS = dict.fromkeys(HASHES[3:], CLAIM)


@pytest.mark.parametrize("peer", [EVERYTHING, MAKER])
def test_many_claims_are_taken_in_at_once(peer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CLAIMS_ANEW_MIN", 2)
    standing = _loaded(peer=peer)
    shift = standing.advance(_Silent(), runtime=RUNTIME, claimed=MANY_CLAIMS)
    assert shift == Shift(request_added=frozenset(HASHES[3:]))
    assert standing.claimed == MANY_CLAIMS
    restored = Standing.restore(policy(DING, peer), standing.freeze())
    for one in (standing, restored):
        other = {HASHES[4]: CLAIM[:1], HASHES[5]: CLAIM}
        shift = one.advance(_Silent(), runtime=RUNTIME, claimed=other, withdrawn=[HASHES[3], HASHES[0]])
        assert shift == Shift(request_removed=frozenset(HASHES[3:5]))
        assert one.claimed == other
        assert one.may_send == one.visible == set(HASHES[:2])


def test_many_claims_with_other_news(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CLAIMS_ANEW_MIN", 2)
    standing = _loaded()
    facts = stored(*DINGS[1:3])
    shift = standing.advance(
        facts, runtime=RUNTIME, stored=DINGS[2], removed=[HASHES[0]], claimed=MANY_CLAIMS, withdrawn=[HASHES[0]]
    )
    assert shift == Shift(
        send_added=frozenset({HASHES[2]}), send_removed=frozenset({HASHES[0]}), request_added=frozenset(HASHES[3:])
    )


@pytest.mark.parametrize("peer", [EVERYTHING, MAKER])
def test_texts_that_are_gone_are_forgotten(peer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_IDLE_TEXTS_MAX", 50)
    standing = _loaded(peer=peer)
    for number in range(300):
        name = plex(1_000 + number)
        assert standing.advance(_Silent(), runtime=RUNTIME, claimed={name: CLAIM}).request_added == {name}
        assert standing.advance(_Silent(), runtime=RUNTIME, withdrawn=[name]).request_removed == {name}
    assert len(standing._values) < 150
    assert len(standing._peer.values) < 150
    assert standing.may_send == set(HASHES[:2])
    standing.load(stored(*DINGS[:3]), RUNTIME)
    assert standing.may_send == set(HASHES[:3])


@pytest.mark.parametrize("peer", [EVERYTHING, MAKER])
def test_texts_of_claims_that_are_replaced_are_forgotten(peer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer may replace so many claims each time that they are always taken in at once."""
    monkeypatch.setattr(module, "_IDLE_TEXTS_MAX", 50)
    monkeypatch.setattr(module, "_CLAIMS_ANEW_MIN", 10)
    standing = _loaded(peer=peer)
    before: frozenset[str] = frozenset()
    most = 0
    for number in range(100):
        claimed = {plex(1_000 + 20 * number + one): _named(f"{number}/{one}") for one in range(20)}
        shift = standing.advance(_Silent(), runtime=RUNTIME, claimed=claimed, withdrawn=before)
        assert shift == Shift(request_added=frozenset(claimed), request_removed=before)
        before = frozenset(claimed)
        most = max(most, len(standing._values), len(standing._peer.values))
    assert most < 1_000, "of the 4,000 texts that were claimed"
    assert standing.may_send == standing.visible == set(HASHES[:2])
    facts = stored(*DINGS[:3])
    assert standing.advance(facts, runtime=RUNTIME, stored=DINGS[2], withdrawn=before) == Shift(
        send_added=frozenset({HASHES[2]}), request_removed=before
    )


def _named(name: str) -> tuple[ClaimedField, ...]:
    return (*CLAIM, ClaimedField("Name", "0", name))


def test_a_peer_that_makes_up_texts_has_numbers_for_itself() -> None:
    """What it may compute must not depend on texts of records that it cannot see."""
    own = "SelectHave(P) :- Have(P), Field(P,'App',_,'ding').\n"
    budgets = Budgets(peer=Limits(computed_values_max=0))
    hidden = record(HASHES[1], App="hidden", TAI="0000000001:000000001")
    shown = record(HASHES[0], App="ding", TAI="0000000001:000000000")
    for records in ([shown], [shown, hidden]):
        standing = Standing(policy(own + "Noted(T) :- Field(_,'TAI',_,T).\n", MAKER, budgets=budgets))
        with pytest.raises(PolicyLimitExceeded) as caught:
            standing.load(stored(*records), RUNTIME)
        assert caught.value.part is Part.PEER_SELECTOR


def test_records_are_described_from_what_is_loaded() -> None:
    standing = _loaded()
    names = frozenset({"App"})
    assert standing.describe(HASHES[:2], names) == [(CLAIM[0],), (CLAIM[0],)]
    assert standing.describe(HASHES[:3], names) is None, "one may not be sent"
    assert standing.describe(HASHES[:2], frozenset({"App", "Unread"})) is None
    assert Standing(policy(DING)).describe(HASHES[:2], names) is None, "nothing is loaded"
    assert Standing.restore(policy(DING), standing.freeze()).describe(HASHES[:2], names) is None, "not taken up yet"


def test_decisions_with_numbers_in_common_do_not_feel_each_other() -> None:
    numbers = Numbers()
    one, other = (Standing(policy(DING), numbers) for _ in range(2))
    one.load(stored(*DINGS[:2]), RUNTIME)
    other.load(stored(*DINGS[:2]), RUNTIME)
    assert one._values is other._values
    facts = stored(*DINGS[:3])
    gained = Shift(send_added=frozenset({HASHES[2]}))
    assert one.advance(facts, runtime=RUNTIME, stored=DINGS[2]) == gained
    assert other.may_send == set(HASHES[:2])
    assert other.advance(facts, runtime=RUNTIME, stored=DINGS[2]) == gained, "the other was first to number its texts"
    assert one.advance(_Silent(), runtime=RUNTIME, claimed={HASHES[5]: CLAIM}).request_added == {HASHES[5]}
    assert not other.may_request
    again = Standing.restore(other.policy, other.freeze(), numbers)
    assert again.advance(_Silent(), runtime=RUNTIME, claimed={HASHES[5]: CLAIM}).request_added == {HASHES[5]}
    assert again._values is one._values


def test_a_decision_that_brings_many_texts_in_vain_goes_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_IDLE_TEXTS_MAX", 50)
    numbers = Numbers()
    one, other = (Standing(policy(DING), numbers) for _ in range(2))
    for standing in (one, other):
        standing.load(stored(*DINGS[:2]), RUNTIME)
    for number in range(300):
        name = plex(1_000 + number)
        assert one.advance(_Silent(), runtime=RUNTIME, claimed={name: CLAIM}).request_added == {name}
        assert one.advance(_Silent(), runtime=RUNTIME, withdrawn=[name]).request_removed == {name}
    assert one._values is not other._values
    assert len(one._values) < 150
    assert len(other._values) < 250, "what it had brought before that"
    assert one.may_send == other.may_send == set(HASHES[:2])


def test_a_decision_whose_own_rules_make_up_texts_has_numbers_of_its_own() -> None:
    numbers = Numbers()
    standing = Standing(policy(MAKER), numbers)
    standing.load(stored(*DINGS[:2]), RUNTIME)
    assert len(numbers.begin()) == 0

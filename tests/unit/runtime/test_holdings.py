"""What an exchange reads of a store, and how it writes there."""

import os
import signal
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from threading import Event

import apsw
import pytest
from msgspec import structs

from bobbin.datalog.limits import Limits
from bobbin.datalog.local.budget import LimitExceeded
from bobbin.errors import ResourceError, UsageError
from bobbin.interlace.advertise import advertisement
from bobbin.interlace.cursor import Cursor
from bobbin.interlace.effects import Persist, Remember, SaveCursor
from bobbin.interlace.events import Fate, Settled
from bobbin.interlace.learned import Learned
from bobbin.interlace.machine import InterlaceMachine
from bobbin.interlace.messages import Advertisement, Delivered
from bobbin.interlace.offers import Offers
from bobbin.interlace.ports import Evaluated, Holdings, Memory, Question
from bobbin.interlace.schema import Schema
from bobbin.interlace.wants import Wants
from bobbin.policy.claims import ClaimedField, Claims
from bobbin.policy.decide import Situation, decide
from bobbin.policy.executables import Budgets, PolicyCache
from bobbin.policy.operands import Origin
from bobbin.records.ids import HashText
from bobbin.runtime import holdings as module
from bobbin.runtime.decisions import CURSOR, CURSORS_PER_PEER_MAX, KIND, Decisions
from bobbin.runtime.holdings import StoreHoldings
from bobbin.runtime.pair import Pair, Side
from bobbin.runtime.workers import Validators
from bobbin.store.base import DamagedStore, Store, StoreError
from bobbin.store.sqlite import open_store
from tests.conformance.samples import EXTRAS, plex, sealed
from tests.policy_worlds import BOB, DING, EVERYTHING
from tests.support.exchanges import SetClock, config
from tests.unit.runtime.test_decisions import RUNTIME, prepared

SCHEMA = Schema(names=frozenset({"App", "Group"}))
CLAIM = (ClaimedField("App", "0", "ding"), ClaimedField("Group", "0", "u"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "records.db", create=True, now=lambda: 0) as opened:
        opened.put_records([plex(number) for number in range(3)])
        yield opened


def begun(decisions: Decisions, own: str = DING, peer: str = EVERYTHING) -> StoreHoldings:
    holdings = StoreHoldings(decisions)
    holdings.begin(prepared(decisions, own, peer), SCHEMA, None)
    return holdings


def hashes(*numbers: int) -> frozenset[str]:
    return frozenset(plex(number).hash for number in numbers)


def test_it_is_what_a_machine_asks_for(store: Store) -> None:
    holdings: Holdings = StoreHoldings(Decisions(store))
    assert holdings.cursor("link") is None


def test_evaluations_tell_what_changed(store: Store) -> None:
    holdings = begun(Decisions(store))
    question = Question(runtime=RUNTIME)
    assert holdings.evaluate(question) == Evaluated(send_added=hashes(0, 1, 2))
    assert holdings.evaluate(question) == Evaluated()
    store.put_records([plex(3)])
    store.remove(plex(0).hash, reason="test")
    store.remove(plex(9).hash, reason="test")
    expected = Evaluated(send_added=hashes(3), send_removed=hashes(0), moved=hashes(0, 3, 9))
    assert holdings.evaluate(question) == expected
    store.lift(plex(9).hash)
    assert holdings.evaluate(question) == Evaluated(moved=hashes(9))


def test_claims_are_told_as_changes(store: Store) -> None:
    holdings = begun(Decisions(store))
    first = holdings.evaluate(Question(runtime=RUNTIME, claimed={plex(7).hash: CLAIM, plex(8).hash: ()}))
    assert first.request_added == hashes(7)
    second = Question(runtime=RUNTIME, claimed={plex(8).hash: CLAIM}, withdrawn=hashes(7))
    assert holdings.evaluate(second) == Evaluated(request_added=hashes(8), request_removed=hashes(7))


def test_an_epoch_starts_from_nothing_though_the_decision_is_old(store: Store) -> None:
    decisions = Decisions(store)
    holdings = begun(decisions)
    holdings.evaluate(Question(runtime=RUNTIME, claimed={plex(7).hash: CLAIM, plex(8).hash: CLAIM}))
    store.put_records([plex(3)])
    holdings.begin(prepared(decisions), SCHEMA, None)
    second = holdings.evaluate(Question(runtime=RUNTIME, claimed={plex(8).hash: CLAIM}))
    assert second == Evaluated(send_added=hashes(0, 1, 2, 3), request_added=hashes(8))
    holdings.release()
    holdings.release()
    third = begun(decisions).evaluate(Question(runtime=RUNTIME))
    assert third == Evaluated(send_added=hashes(0, 1, 2, 3))


def test_a_link_goes_on_from_its_memory(store: Store) -> None:
    decisions = Decisions(store)
    policy = prepared(decisions)
    memory = Memory(offers=Offers(2), learned=Learned(2, ()), wants=Wants())
    first = StoreHoldings(decisions)
    assert first.begin(policy, SCHEMA, "link") is None
    first.evaluate(Question(runtime=RUNTIME, claimed={plex(7).hash: CLAIM}))
    first.remember(Remember(key="link", memory=memory))
    first.release()
    store.put_records([plex(3)])
    second = StoreHoldings(decisions)
    assert second.begin(policy, SCHEMA, "link") is memory
    evaluated = second.evaluate(Question(runtime=RUNTIME, withdrawn=hashes(7)))
    assert evaluated == Evaluated(send_added=hashes(3), request_removed=hashes(7), moved=hashes(3))
    second.release()
    third = StoreHoldings(decisions)
    assert third.begin(policy, SCHEMA, "link") is None, "the second exchange moved on, and left no memory"
    assert third.evaluate(Question(runtime=RUNTIME)) == Evaluated(send_added=hashes(0, 1, 2, 3))


@pytest.mark.parametrize("other", [("another", SCHEMA), ("link", Schema(all=True)), (None, SCHEMA)])
def test_a_memory_is_of_one_link_and_schema(store: Store, other: tuple[str | None, Schema]) -> None:
    decisions = Decisions(store)
    policy = prepared(decisions)
    holdings = StoreHoldings(decisions)
    holdings.begin(policy, SCHEMA, "link")
    holdings.evaluate(Question(runtime=RUNTIME))
    memory = Memory(offers=Offers(2), learned=Learned(2, ()), wants=Wants())
    holdings.remember(Remember(key="link", memory=memory))
    assert holdings.begin(policy, other[1], other[0]) is None
    assert holdings.evaluate(Question(runtime=RUNTIME)).send_added == hashes(0, 1, 2)


def test_only_the_link_of_the_exchange_is_remembered(store: Store) -> None:
    memory = Memory(offers=Offers(2), learned=Learned(2, ()), wants=Wants())
    holdings = StoreHoldings(Decisions(store))
    with pytest.raises(UsageError, match="not the link"):
        holdings.remember(Remember(key="link", memory=memory))
    holdings.begin(prepared(Decisions(store)), SCHEMA, None)
    with pytest.raises(UsageError, match="not the link"):
        holdings.remember(Remember(key="link", memory=memory))


def test_two_exchanges_at_once_do_not_share_claims(store: Store) -> None:
    decisions = Decisions(store)
    one, two = begun(decisions), begun(decisions)
    assert one.evaluate(Question(runtime=RUNTIME, claimed={plex(7).hash: CLAIM})).request_added == hashes(7)
    assert two.evaluate(Question(runtime=RUNTIME)).request_added == frozenset()


def test_an_evaluation_needs_a_policy(store: Store) -> None:
    with pytest.raises(UsageError, match="begin"):
        StoreHoldings(Decisions(store)).evaluate(Question(runtime=RUNTIME))


def test_after_a_limit_the_next_evaluation_starts_again(store: Store) -> None:
    budgets = Budgets(own=Limits(derived_tuples_max=3))
    decisions = Decisions(store, policies=PolicyCache(budgets=budgets))
    holdings = begun(decisions)
    question = Question(runtime=RUNTIME, claimed={plex(7).hash: ()})
    assert holdings.evaluate(question).send_added == hashes(0, 1, 2)
    store.put_records([plex(3)])
    with pytest.raises(LimitExceeded):
        holdings.evaluate(Question(runtime=RUNTIME))
    store.remove(plex(0).hash, reason="test")
    evaluated = holdings.evaluate(Question(runtime=RUNTIME))
    assert (evaluated.send_added, evaluated.send_removed) == (hashes(3), hashes(0))
    holdings.release()
    assert len(decisions) == 1


def test_a_decision_survives_the_process(store: Store) -> None:
    before = begun(Decisions(store))
    before.evaluate(Question(runtime=RUNTIME, claimed={plex(7).hash: CLAIM}))
    before.release()
    assert before.flush() == 1
    store.put_records([plex(3)])
    after = begun(Decisions(store))
    evaluated = after.evaluate(Question(runtime=RUNTIME, claimed={plex(7).hash: CLAIM}))
    assert evaluated == Evaluated(send_added=hashes(0, 1, 2, 3), request_added=hashes(7))
    store.remove(plex(1).hash, reason="test")
    assert after.evaluate(Question(runtime=RUNTIME)).send_removed == hashes(1)


def test_a_removal_since_the_last_process_is_caught_up_with(store: Store) -> None:
    before = begun(Decisions(store))
    before.evaluate(Question(runtime=RUNTIME, claimed={plex(7).hash: CLAIM}))
    before.release()
    before.flush()
    store.remove(plex(1).hash, reason="test")
    after = begun(Decisions(store)).evaluate(Question(runtime=RUNTIME))
    assert after == Evaluated(send_added=hashes(0, 2))


@pytest.mark.parametrize("reload_min", [0, 1_000])
def test_any_run_of_changes_is_decided_as_if_anew(
    store: Store, reload_min: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_RELOAD_MIN", reload_min)
    random = Random(reload_min)
    decisions = Decisions(store)
    policy = prepared(decisions, "SelectHave(P) :- Have(P), not RecordLink(P,_,_,_,_).\n" + EVERYTHING.splitlines()[0])
    holdings = StoreHoldings(decisions)
    holdings.begin(policy, SCHEMA, None)
    sent: set[str] = set()
    wanted: set[str] = set()
    claims: dict[str, tuple[ClaimedField, ...]] = {}
    for step in range(30):
        if random.random() < 0.5:
            extras = EXTRAS[:1] if random.random() < 0.3 else ()
            store.put_records([plex(random.randrange(12), extras=extras) for _ in range(random.randrange(4))])
        if random.random() < 0.3:
            store.remove(plex(random.randrange(12)).hash, reason="test")
        if random.random() < 0.3:
            store.lift(plex(random.randrange(12)).hash)
        new: dict[str, tuple[ClaimedField, ...]] = {
            plex(random.randrange(20)).hash: CLAIM for _ in range(random.randrange(3))
        }
        gone = frozenset(hash for hash in claims if random.random() < 0.2 and hash not in new)
        if step % 7 == 6:
            holdings.release()
            decisions.flush(everything=True)
            decisions = Decisions(store) if step % 2 else decisions
            holdings = StoreHoldings(decisions)
            holdings.begin(policy, SCHEMA, None)
            sent, wanted, claims, gone = set(), set(), {}, frozenset()
        claims = {hash: fields for hash, fields in (claims | new).items() if hash not in gone}
        evaluated = holdings.evaluate(Question(runtime=RUNTIME, claimed=new, withdrawn=gone))
        sent = (sent | evaluated.send_added) - evaluated.send_removed
        wanted = (wanted | evaluated.request_added) - evaluated.request_removed
        with store.snapshot() as now:
            where = Situation(facts=now.facts, claims=Claims(Origin(BOB), claims), runtime=RUNTIME)
            decision = decide(policy, where)
        assert sent == decision.may_send
        assert wanted == decision.may_request


def test_descriptions_have_the_fields_of_the_schema(store: Store) -> None:
    holdings = StoreHoldings(Decisions(store))
    asked = [plex(1).hash, plex(9).hash]
    some = holdings.describe(asked, Schema(names=frozenset({"Name", "App", "Nothing"})))
    assert some == [(ClaimedField("App", "0", "ding"), ClaimedField("Name", "0", "links/1")), None]
    everything, _ = holdings.describe(asked, Schema(all=True))
    assert everything is not None
    assert [field.name for field in everything] == ["App", "Data-Length", "Group", "Name", "TAI", "Type"]


def test_many_records_are_described_as_they_were_evaluated(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    holdings = begun(Decisions(store))
    records = sorted(holdings.evaluate(Question(runtime=RUNTIME)).send_added)
    apart = [holdings.describe(records, Schema(names=names)) for names in (frozenset({"App"}), frozenset({"Name"}))]
    monkeypatch.setattr(module, "_DESCRIBE_MIN", 2)
    for expected, names in zip(apart, (frozenset({"App"}), frozenset({"Name"})), strict=True):
        assert holdings.describe(records, Schema(names=names)) == expected, "read by the rules, or not"
    everything = holdings.describe(records, Schema(all=True))
    assert all(fields is not None and len(fields) > 2 for fields in everything)
    assert holdings.describe([*records, plex(9).hash], SCHEMA)[-1] is None
    store.remove(HashText(records[0]), reason="test")
    assert holdings.describe(records, Schema(names=frozenset({"App"}))) == apart[0], "of the last evaluation"


class _Interrupted(StoreHoldings):
    """While something is described for the first time, another process takes a record out and puts it back."""

    interruptions = 0

    def describe(self, records: Collection[str], schema: Schema) -> list[tuple[ClaimedField, ...] | None]:
        if self.interruptions:
            return super().describe(records, schema)
        self.interruptions += 1
        self._store.remove(plex(1).hash, reason="test")
        described = super().describe(records, schema)
        self._store.lift(plex(1).hash)
        self._store.put_records([plex(1)])
        return described


def test_what_was_away_while_it_was_described_is_exchanged(store: Store, tmp_path: Path) -> None:
    with open_store(tmp_path / "other.db", create=True, now=lambda: 0) as other:
        here, there = _Interrupted(Decisions(store)), StoreHoldings(Decisions(other))
        left = Side(InterlaceMachine(config(), here), here)
        right = Side(InterlaceMachine(config(initiator=False), there), there)
        assert all(result.fixed_point for result in Pair(left, right, clock=SetClock()).run())
        assert here.interruptions == 1
        assert all(other.have(plex(number).hash) for number in range(3))


def test_the_present_is_asked_for_bytes_and_absence(store: Store) -> None:
    holdings = StoreHoldings(Decisions(store))
    store.remove(plex(5).hash, reason="test")
    assert holdings.load(plex(1).hash) == plex(1).raw
    assert holdings.load(plex(9).hash) is None
    assert holdings.load("P.abc.K9") is None
    assert holdings.absent([plex(1).hash, plex(5).hash, plex(9).hash]) == hashes(9)


def test_modules_come_from_what_was_prepared(store: Store) -> None:
    holdings = StoreHoldings(Decisions(store))
    elsewhere = prepared(Decisions(store))
    peer_module = elsewhere.peer.canonical
    policy = holdings.prepare(elsewhere.plan, elsewhere.index, own=elsewhere.own, peer_module=peer_module)
    assert holdings.module(policy.own.identifier) == policy.own.canonical
    assert holdings.module("R.unknown") is None


@pytest.mark.parametrize("workers", [None, 0, 1])
def test_arrivals_are_checked_and_stored_in_one_commit(
    store: Store, workers: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_UNIT_RECORDS_MAX", 2)
    store.remove(plex(5).hash, reason="test")
    woken: list[int] = []
    store.subscribe(woken.append)
    good = sealed(7)
    forged = structs.replace(sealed(8), raw=sealed(8).raw[:-1] + b"!")
    arrivals = [
        Delivered(record=good.hash, raw=good.raw),
        Delivered(record=plex(1).hash, raw=plex(1).raw),
        Delivered(record=plex(5).hash, raw=plex(5).raw),
        Delivered(record=plex(9).hash, raw=plex(8).raw),
        Delivered(record=sealed(8).hash, raw=forged.raw),
        Delivered(record=plex(6).hash, raw=plex(6).raw),
    ]
    if workers is None:
        settled = StoreHoldings(Decisions(store)).accept(arrivals, source="peer")
    else:
        with Validators(workers) as validators:
            settled = StoreHoldings(Decisions(store), validators=validators).accept(arrivals, source="peer")
    assert [one.fate for one in settled] == [
        Fate.STORED,
        Fate.DUPLICATE,
        Fate.REFUSED,
        Fate.REJECTED,
        Fate.REJECTED,
        Fate.STORED,
    ]
    assert [one.record for one in settled] == [arrival.record for arrival in arrivals]
    assert settled[3] == Settled(record=plex(9).hash, fate=Fate.REJECTED, reason="not-requested")
    assert settled[4].reason != ""
    assert len(woken) == 1
    assert store.have(good.hash)
    assert not store.have(plex(8).hash)
    assert not store.have(plex(5).hash)
    rows = list(store.quarantined())
    assert [(row.raw, row.source) for row in rows] == [(plex(8).raw, "peer"), (forged.raw, "peer")]


def test_many_arrivals_can_be_checked_elsewhere_and_stored_after(store: Store) -> None:
    arrivals = tuple(Delivered(record=sealed(number).hash, raw=sealed(number).raw) for number in range(100, 180))
    damaged = Delivered(record=arrivals[7].record, raw=arrivals[7].raw[:-1] + b"?")
    effect = Persist((*arrivals[:7], damaged, *arrivals[8:]))
    ready = Event()
    with Validators(1, at_once=False) as validators:
        holdings = StoreHoldings(Decisions(store), validators=validators)
        assert holdings.begin_persist(Persist(arrivals[:3]), ready.set) is None, "a few are not worth it"
        finish = holdings.begin_persist(effect, ready.set)
        assert finish is not None
        assert ready.wait(60)
        assert not store.have(HashText(arrivals[0].record))
        settled = finish()
    assert [one.record for one in settled if one.fate is not Fate.STORED] == [damaged.record]
    assert store.have(HashText(arrivals[0].record))
    assert StoreHoldings(Decisions(store)).begin_persist(effect, ready.set) is None, "without workers it is done here"


def test_a_worker_that_dies_costs_no_arrival(store: Store) -> None:
    arrivals = tuple(Delivered(record=sealed(number).hash, raw=sealed(number).raw) for number in range(100, 180))
    ready = Event()
    with Validators(1) as validators:
        os.kill(validators.process_ids[0], signal.SIGSTOP)
        finish = StoreHoldings(Decisions(store), validators=validators).begin_persist(Persist(arrivals), ready.set)
        assert finish is not None
        os.kill(validators.process_ids[0], signal.SIGKILL)
        assert ready.wait(60)
        assert {one.fate for one in finish()} == {Fate.STORED}
    assert all(store.have(HashText(one.record)) for one in arrivals)


def test_what_is_persisted_came_from_the_peer(store: Store) -> None:
    holdings = begun(Decisions(store))
    arrivals = (Delivered(record=plex(7).hash, raw=plex(7).raw), Delivered(record=plex(8).hash, raw=b"junk"))
    assert [one.fate for one in holdings.persist(Persist(arrivals))] == [Fate.STORED, Fate.REJECTED]
    assert [(row.raw, row.source) for row in store.quarantined()] == [(b"junk", BOB)]
    assert holdings.evaluate(Question(runtime=RUNTIME)).send_added == hashes(0, 1, 2, 7)


def test_no_arrivals_are_no_commit(store: Store) -> None:
    woken: list[int] = []
    store.subscribe(woken.append)
    assert StoreHoldings(Decisions(store)).accept([], source="peer") == ()
    assert woken == []


def cursor_of(key: str, *, source: str = BOB, group: str = "u") -> Cursor:
    fields = (ClaimedField("App", "0", "ding"), ClaimedField("Group", "0", group))
    advertised = Advertisement(record=plex(1).hash, fields=fields)
    return Cursor(key=key, plan="E.x", source=source, schema=SCHEMA, advertisements=(advertised,))


def test_a_cursor_is_what_was_saved_last(store: Store) -> None:
    holdings = begun(Decisions(store))
    cursor = structs.replace(cursor_of("link"), root=bytes(range(32)))
    holdings.save(SaveCursor(structs.replace(cursor, advertisements=())))
    holdings.save(SaveCursor(cursor))
    assert begun(Decisions(store)).cursor("link") == cursor
    assert holdings.cursor("another") is None
    assert StoreHoldings(Decisions(store)).cursor("link") == cursor, "outside an exchange it is found by the link alone"
    holdings.save(SaveCursor(cursor_of("link", source="source:other")))
    assert holdings.cursor("link") == cursor, "another peer's is none of this one"
    Decisions(store).cursors.put(BOB, "link", b"\x00 of another version")
    assert holdings.cursor("link") is None


def test_whether_a_cursor_was_saved_is_said(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    holdings = begun(Decisions(store))
    assert holdings.save(SaveCursor(cursor_of("link")))

    def fail(*_: object) -> None:
        raise ResourceError("disk full", retry=False)

    monkeypatch.setattr(type(store), "keep", fail)
    assert not holdings.save(SaveCursor(cursor_of("link")))


def test_a_cursor_has_no_digests_and_leads_to_the_same_summaries(store: Store) -> None:
    whole = advertisement(plex(1).hash, Origin(BOB), CLAIM)
    cursor = structs.replace(cursor_of("link"), advertisements=(whole,))
    holdings = begun(Decisions(store))
    holdings.save(SaveCursor(cursor))
    saved = holdings.cursor("link")
    assert saved is not None
    assert saved.advertisements == (Advertisement(record=whole.record, fields=CLAIM),)
    assert Learned(2, saved.advertisements, Origin(BOB)).summary() == Learned(2, (whole,)).summary()


def test_a_cursor_that_has_changed_at_rest_is_not_believed(store: Store) -> None:
    holdings = begun(Decisions(store))
    holdings.save(SaveCursor(cursor_of("link")))
    [(name, _)] = store.kept_rows(CURSOR)
    raw = store.kept(CURSOR, name)
    assert raw is not None
    store.keep(CURSOR, name, bytes(raw).replace(b"ding", b"dong"))
    assert holdings.cursor("link") is None


def test_cursors_of_a_peer_and_in_all_are_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bobbin.runtime.decisions.CURSORS_MAX", 6)
    holdings = begun(Decisions(store))
    for number in range(20):
        holdings.save(SaveCursor(cursor_of(f"link {number}")))
    assert len(list(store.kept_rows(CURSOR))) == CURSORS_PER_PEER_MAX
    assert holdings.cursor("link 19") is not None
    for number in range(20):
        holdings.save(SaveCursor(cursor_of("link", source=f"source:{number}")))
    assert len(list(store.kept_rows(CURSOR))) == 6


def test_a_cursor_that_cannot_be_saved_makes_nothing_fail(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bobbin.store.sqlite.keeping.KEPT_BYTES_MAX", 10)
    holdings = begun(Decisions(store))
    holdings.save(SaveCursor(cursor_of("link")))
    assert holdings.cursor("link") is None

    def fail(*_: object) -> None:
        raise StoreError("no space", retry=True)

    monkeypatch.setattr(store, "keep", fail)
    holdings.save(SaveCursor(cursor_of("link")))
    assert holdings.cursor("link") is None


def test_what_a_removed_record_says_is_nowhere_afterwards(tmp_path: Path) -> None:
    secret = "unmistakable"
    record = plex(7, group=secret)
    path = tmp_path / "secret.db"
    own = "SelectHave(P) :- Have(P), Field(P,'Group',_,_).\n" + EVERYTHING.splitlines()[0]
    with open_store(path, create=True, now=lambda: 0) as store:
        store.put_records([plex(1), record])
        decisions = Decisions(store)
        holdings = begun(decisions, own)
        holdings.evaluate(Question(runtime=RUNTIME))
        holdings.save(SaveCursor(cursor_of("link", group=secret)))
        holdings.release()
        assert holdings.flush() == 1
        for kind in (KIND, CURSOR):
            [(name, _)] = store.kept_rows(kind)
            assert secret.encode() in (store.kept(kind, name) or b"")
        store.remove(record.hash, reason="test")
        decisions.flush(everything=True)
        store.compact()
        holdings = begun(decisions, own)
        holdings.evaluate(Question(runtime=RUNTIME))
        holdings.release()
        assert holdings.flush() == 1
    assert secret.encode() not in path.read_bytes()


def test_a_damaged_record_is_not_available_and_holds_up_no_other(store: Store, tmp_path: Path) -> None:
    damaged = plex(1).raw.replace(plex(1).hash.encode(), plex(9).hash.encode(), 1)
    with closing(apsw.Connection(str(tmp_path / "records.db"))) as connection:
        connection.execute("UPDATE record SET raw = ? WHERE raw = ?", (damaged, plex(1).raw))
    with pytest.raises(DamagedStore):
        store.get(plex(1).hash)
    holdings = StoreHoldings(Decisions(store))
    assert holdings.load(plex(1).hash) is None
    assert holdings.load(plex(2).hash) == plex(2).raw


def test_what_is_expected_is_loaded_as_anything_else_is(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put_records([plex(number) for number in range(3, 12)])
    store.remove(plex(4).hash, reason="test")
    damaged = plex(7).raw.replace(plex(7).hash.encode(), plex(30).hash.encode(), 1)
    with closing(apsw.Connection(str(tmp_path / "records.db"))) as connection:
        connection.execute("UPDATE record SET raw = ? WHERE raw = ?", (damaged, plex(7).raw))
    names = [plex(number).hash for number in (*range(12), 20, 21, 22)] + ["P.abc.K9"]
    expected = [plex(number).raw if number < 12 and number not in (4, 7) else None for number in range(12)]
    for together in (1, 2, 5, 100):
        for size in (1, 2 * len(plex(1).raw), 10**6):
            monkeypatch.setattr(module, "_TOGETHER_RECORDS_MAX", together)
            monkeypatch.setattr(module, "_TOGETHER_BYTES_MAX", size)
            holdings = StoreHoldings(Decisions(store))
            holdings.expect(names)
            assert [holdings.load(name) for name in names] == [*expected, None, None, None, None]
            holdings.expect(names)
            assert holdings.load(names[3]) == plex(3).raw, "even out of order"
            holdings.expect([])
            assert holdings.load(names[5]) == plex(5).raw


def test_many_expected_records_cost_few_questions(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    holdings = StoreHoldings(Decisions(store))
    asked: list[HashText] = []
    get = store.get

    def ask(name: HashText) -> bytes | None:
        asked.append(name)
        return get(name)

    monkeypatch.setattr(store, "get", ask)
    names = [plex(number).hash for number in range(5)]
    holdings.expect(names)
    assert [holdings.load(name) is None for name in names] == [False, False, False, True, True]
    assert asked == names[3:], "only of what was not found"


def test_what_was_read_ahead_is_not_kept_for_the_next_step(store: Store) -> None:
    holdings = StoreHoldings(Decisions(store))
    names = [plex(number).hash for number in range(3)]
    holdings.expect(names)
    assert holdings.load(names[0]) == plex(0).raw
    store.remove(names[1], reason="test")
    holdings.expect(names[1:])
    assert holdings.load(names[1]) is None


def test_a_decision_that_is_back_describes_what_it_holds_while_nothing_has_changed(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_DESCRIBE_MIN", 1)
    decisions = Decisions(store)
    holdings = begun(decisions)
    holdings.evaluate(Question(runtime=RUNTIME))
    holdings.release()
    names = [plex(number).hash for number in range(3)]
    schema = Schema(names=frozenset({"App"}))
    expected = holdings.describe(names, schema)
    monkeypatch.setattr(store, "fields", lambda *_: pytest.fail("the store is not asked"))
    assert holdings.describe(names, schema) == expected == [(CLAIM[0],)] * 3
    monkeypatch.undo()
    monkeypatch.setattr(module, "_DESCRIBE_MIN", 1)
    store.remove(plex(1).hash, reason="test")
    assert holdings.describe(names, schema) == [(CLAIM[0],), None, (CLAIM[0],)], "the decision does not know of it"


def test_a_reading_of_many_that_fails_is_made_up_for_one_by_one(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(records: Sequence[str], *, bytes_max: int) -> dict[str, bytes]:
        readings.append(len(records))
        raise DamagedStore(f"a page is damaged, within {bytes_max} bytes")

    readings: list[int] = []
    monkeypatch.setattr(store, "get_many", fail)
    holdings = StoreHoldings(Decisions(store))
    names = [plex(number).hash for number in range(3)]
    holdings.expect(names)
    assert [holdings.load(name) for name in names] == [plex(number).raw for number in range(3)]
    assert readings == [3], "it is not tried again for each"

"""Decisions are lent, kept and written down."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bobbin.errors import ResourceError, UsageError
from bobbin.policy.executables import LocalPolicy
from bobbin.policy.modules import compile_selector
from bobbin.policy.operands import Operand, Origin, other, own_index
from bobbin.policy.plan import make_plan
from bobbin.policy.runtime_facts import RuntimeFacts
from bobbin.runtime import decisions as module
from bobbin.runtime.decisions import KIND, Decisions, Held
from bobbin.store.base import Mark, Store
from bobbin.store.sqlite import open_store
from tests.conformance.samples import plex
from tests.policy_worlds import ALICE, BOB, DING, EVERYTHING

RUNTIME = RuntimeFacts(here=ALICE, peer=BOB)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "records.db", create=True, now=lambda: 0) as opened:
        opened.put_records([plex(number) for number in range(3)])
        yield opened


def prepared(decisions: Decisions, own: str = DING, peer: str = EVERYTHING, origin: str = BOB) -> LocalPolicy:
    """A policy of Alice's, as setup would agree on it."""
    mine, theirs = compile_selector(own), compile_selector(peer)
    index = own_index(Origin(ALICE), Origin(origin), initiator=True)
    sides = {
        index: Operand(module=mine.identifier, origin=Origin(ALICE)),
        other(index): Operand(module=theirs.identifier, origin=Origin(origin)),
    }
    return decisions.prepare(make_plan(sides[0], sides[1]), index, own=mine, peer_module=theirs.canonical)


def loaded(decisions: Decisions, policy: LocalPolicy) -> Held:
    held = decisions.borrow(policy)
    runtime = RUNTIME if str(policy.peer_origin) == BOB else RuntimeFacts(here=ALICE)
    with decisions.store.snapshot() as now:
        held.standing.load(now.facts, runtime)
        held.mark = now.mark()
    return held


def numbered(number: int) -> str:
    return f"{EVERYTHING}Number{number}(P) :- Have(P).\n"


def test_a_decision_is_lent_to_one_at_a_time(store: Store) -> None:
    decisions = Decisions(store)
    policy = prepared(decisions)
    held = loaded(decisions, policy)
    decisions.give_back(held)
    assert len(decisions) == 1
    assert decisions.borrow(policy) is held
    assert len(decisions) == 0
    another = decisions.borrow(policy)
    assert another is not held
    assert another.mark is None
    decisions.give_back(another)
    assert len(decisions) == 0, "one that was never loaded is worth nothing"


def test_a_peer_pushes_out_its_own(store: Store) -> None:
    decisions = Decisions(store, per_peer_max=2, decisions_max=3)
    first = [prepared(decisions, numbered(number)) for number in range(3)]
    others = [prepared(decisions, numbered(number), origin=f"source:{number}") for number in range(2)]
    for policy in (others[0], *first):
        decisions.give_back(loaded(decisions, policy))
    assert len(decisions) == 3
    assert decisions.borrow(first[0]).mark is None
    decisions.give_back(loaded(decisions, others[1]))
    assert len(decisions) == 3
    assert decisions.borrow(others[0]).mark is None, "the one that was not used for longest made room"
    assert decisions.borrow(first[2]).mark is not None


def test_modules_are_known_by_name(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MODULES_MAX", 2)
    decisions = Decisions(store)
    prepared(decisions)
    for text in (DING, EVERYTHING):
        selector = compile_selector(text)
        assert decisions.module(selector.identifier) == selector.canonical
    decisions.know(compile_selector(numbered(1)))
    assert decisions.module(compile_selector(DING).identifier) is None
    assert decisions.module("R.unknown") is None


def test_a_written_decision_is_read_by_the_next_process(store: Store) -> None:
    before = Decisions(store)
    held = loaded(before, prepared(before))
    assert before.flush() == 0, "it is still lent"
    before.give_back(held)
    assert before.flush() == 1
    assert before.flush() == 0, "nothing has changed"
    after = Decisions(store)
    again = after.borrow(prepared(after))
    assert again.mark == held.mark
    assert again.standing.may_send == held.standing.may_send != set()
    assert after.borrow(prepared(after, numbered(1))).mark is None, "another plan"


def test_few_changes_are_not_worth_writing(store: Store) -> None:
    decisions = Decisions(store)
    held = loaded(decisions, prepared(decisions))
    decisions.give_back(held)
    assert decisions.flush() == 1
    held.unwritten = 5
    assert decisions.flush() == 0
    assert decisions.flush(everything=True) == 1
    assert held.unwritten == 0
    held.unwritten = 300
    assert decisions.flush() == 1


def test_a_value_that_is_not_what_was_written_is_not_believed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    decisions = Decisions(store)
    policy = prepared(decisions)
    decisions.give_back(loaded(decisions, policy))
    decisions.flush()
    [(key, _)] = store.kept_rows(KIND)
    raw = store.kept(KIND, key)
    assert raw is not None
    for spoilt in (raw[:-1], raw[:40] + bytes([raw[40] ^ 1]) + raw[41:], b"", b"short"):
        store.keep(KIND, key, spoilt)
        assert Decisions(store).borrow(policy).mark is None
    store.keep(KIND, key, raw)
    assert Decisions(store).borrow(policy).mark == Mark(store.high_water(), 0)
    monkeypatch.setattr(module, "FORMAT", 99)
    assert Decisions(store).borrow(policy).mark is None


def test_what_is_written_is_bounded(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_MAX", 3)
    decisions = Decisions(store, per_peer_max=2)
    policies = [prepared(decisions, numbered(number)) for number in range(3)]
    policies += [prepared(decisions, numbered(number), origin=f"source:{number}") for number in range(2)]
    for policy in policies:
        decisions.give_back(loaded(decisions, policy))
        decisions.flush()
    assert [Decisions(store).borrow(policy).mark is not None for policy in policies] == [False, False, True, True, True]
    decisions.forget(Origin("source:0"))
    assert [Decisions(store).borrow(policy).mark is not None for policy in policies] == [
        False,
        False,
        True,
        False,
        True,
    ]
    assert decisions.borrow(policies[3]).mark is None


def test_a_decision_too_large_to_be_kept_is_not(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_BYTES_MAX", 10)
    decisions = Decisions(store)
    policy = prepared(decisions)
    decisions.give_back(loaded(decisions, policy))
    assert decisions.flush() == 0
    assert Decisions(store).borrow(policy).mark is None


def test_forgetting_a_peer_drops_its_cursors(store: Store) -> None:
    decisions = Decisions(store)
    for peer in (BOB, "source:0"):
        decisions.cursors.put(peer, "link", b"what it said")
    decisions.forget(Origin(BOB))
    assert decisions.cursors.get(BOB, "link") is None
    assert bytes(decisions.cursors.get("source:0", "link") or b"") == b"what it said"


def test_a_spoilt_list_of_an_earlier_version_holds_up_nothing(store: Store) -> None:
    store.keep("standings", "standings", b"\xc1 no list")
    decisions = Decisions(store)
    decisions.give_back(loaded(decisions, prepared(decisions)))
    assert decisions.flush() == 1
    decisions.forget(Origin(BOB))
    assert list(store.kept_rows(KIND)) == []


@pytest.mark.parametrize("method", ["keep", "mark"])
def test_a_store_that_fails_does_not_fail_what_is_done(
    store: Store, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ResourceError("no space", retry=True)

    decisions = Decisions(store)
    policy = prepared(decisions)
    decisions.give_back(loaded(decisions, policy))
    monkeypatch.setattr(store, method, fail)
    assert decisions.flush() == 0
    assert decisions.borrow(policy).mark is not None, "in memory nothing is lost"


def test_a_removal_takes_out_what_was_written_and_the_next_evaluation_brings_it_back(store: Store) -> None:
    decisions = Decisions(store)
    policy = prepared(decisions)
    decisions.give_back(loaded(decisions, policy))
    assert decisions.flush() == 1
    store.remove(plex(1).hash, reason="test")
    assert list(store.kept_rows(KIND)) == []
    assert decisions.flush(everything=True) == 0, "it still knows the removed record"
    decisions.give_back(loaded(decisions, policy))
    assert decisions.flush() == 1, "what was written before is gone"
    again = Decisions(store).borrow(policy)
    assert again.standing.may_send == {plex(0).hash, plex(2).hash}


def test_what_was_written_while_a_record_was_removed_is_taken_back(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    decisions = Decisions(store)
    decisions.give_back(loaded(decisions, prepared(decisions)))
    keep = store.keep

    def removed_before(kind: str, key: str, value: bytes | None) -> None:
        if value is not None:
            store.remove(plex(1).hash, reason="test")
        keep(kind, key, value)

    monkeypatch.setattr(store, "keep", removed_before)
    assert decisions.flush() == 0
    assert list(store.kept_rows(KIND)) == []


def test_there_is_room_for_one(store: Store) -> None:
    for per_peer_max, decisions_max in ((0, 1), (1, 0)):
        with pytest.raises(UsageError):
            Decisions(store, per_peer_max=per_peer_max, decisions_max=decisions_max)


def test_only_a_decision_of_this_moment_describes(store: Store) -> None:
    decisions = Decisions(store)
    held = loaded(decisions, prepared(decisions))
    names = [one.hash for one in store.scan()]
    app = frozenset({"App"})
    assert decisions.describe(names, app) is None, "it is lent"
    decisions.give_back(held)
    told = decisions.describe(names, app)
    assert told == held.standing.describe(names, app)
    assert decisions.describe([*names, "P.x.K9"], app) is None
    store.remove(names[0], reason="test")
    assert decisions.describe(names, app) is None

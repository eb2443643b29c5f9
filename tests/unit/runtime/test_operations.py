"""Operations: the policies that they are made of, the account of several rounds."""

import pytest

from bobbin.errors import UsageError
from bobbin.interlace.result import Result
from bobbin.policy.modules import Selector, compile_selector, deny_all_query
from bobbin.records.coordinate import Address, Coordinate, Prefix
from bobbin.records.record import Record, build_blob
from bobbin.runtime.accounts import SyncReport
from bobbin.runtime.local_peer import LocalSide, run_local
from bobbin.runtime.operations import (
    CHOSEN_MAX,
    Wishes,
    at,
    compiled_query,
    compiled_selector,
    hash_of,
    narrowed,
    one_of,
    only,
    place_of,
    placed,
)
from bobbin.simulator.holdings import MemoryHoldings
from tests.local_exchanges import ALL, GROUP_U, Clock, plex, sealed, side

RECORDS: list[Record] = [
    plex("links/1"),
    plex("links/2"),
    plex("links"),
    sealed("links/1"),
    plex("links/1", app="other"),
    plex("links/1", group="w"),
    build_blob(b"links/1"),
]


def selected(policy: Selector) -> list[Record]:
    """The records that move to an empty side under a policy."""
    own = LocalSide(holdings=MemoryHoldings(), selector=policy)
    received = run_local(own, side(RECORDS, ALL), clock=Clock()).own.result.received
    return [record for record in RECORDS if record.hash in received]


def test_only_these_records() -> None:
    assert selected(only([RECORDS[1].hash, RECORDS[6].hash])) == [RECORDS[1], RECORDS[6]]
    with pytest.raises(UsageError, match="at least one"):
        only([])
    with pytest.raises(UsageError, match="at most"):
        only([f"P.{number}.H3" for number in range(CHOSEN_MAX + 1)])


def test_as_many_records_as_can_be_named_make_a_policy() -> None:
    names = [plex(f"{number}").hash for number in range(CHOSEN_MAX)]
    assert compile_selector(only(names).canonical).identifier == only(names[::-1]).identifier


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("//u//ding//links/1", [0, 3]),
        ("//u//ding//links/", [0, 1, 3]),
        ("//u//ding//", [0, 1, 2, 3]),
        ("//u//", [0, 1, 2, 3, 4]),
        ("//nobody//", []),
    ],
)
def test_what_stands_at_a_place(place: str, expected: list[int]) -> None:
    assert selected(at(place_of(place))) == [RECORDS[number] for number in expected]


def test_a_policy_narrows_an_operation() -> None:
    everything = only([record.hash for record in RECORDS])
    assert selected(narrowed(everything, None)) == RECORDS
    assert selected(narrowed(everything, GROUP_U)) == RECORDS[:5]
    assert selected(narrowed(everything, compile_selector(GROUP_U))) == RECORDS[:5]


def test_texts_become_policies() -> None:
    assert compiled_selector(GROUP_U).identifier == compile_selector(GROUP_U).identifier
    assert compiled_query(None) is None
    query = deny_all_query()
    assert compiled_query(query) is query
    assert compiled_query("Queryable(P,O) :- Have(P), Viewer(O).\n") is not None


def test_texts_become_places_and_names() -> None:
    name = RECORDS[0].hash
    for text in (name, f"////{name}", Address(hash=name)):
        assert one_of(text) == Address(hash=name)
    place = Coordinate(group="u", app="ding", name="x")
    assert one_of("//u//ding//x") == one_of(place) == place_of(place) == place
    assert place_of("//u//") == Prefix(group="u")
    assert hash_of(f"////{name}") == name
    for wrong in ("//u//", "P.x.H3", "x"):
        with pytest.raises(UsageError):
            one_of(wrong)
    with pytest.raises(UsageError):
        place_of(f"////{name}")


def report(*results: Result, there: Result | None = None, claimed: frozenset[str] = frozenset()) -> SyncReport:
    """An account of these rounds."""
    ran = run_local(side(), side(), clock=Clock())
    return SyncReport(
        rounds=results,
        peer_rounds=(there or ran.peer.result,),
        figures={},
        agreed=None,
        claimed=claimed,
        disclosure=ran.own.ledger.disclosure(),
        honesty=ran.own.ledger.honesty(MemoryHoldings().describe),
    )


def result(**changes: object) -> Result:
    return Result(link=None, plan=None, peer=None, **changes)  # type: ignore[arg-type]


def test_several_rounds_are_one_account() -> None:
    both = report(
        result(
            received=frozenset("a"),
            rejected={"b": "why", "c": "why"},
            not_available=frozenset("d"),
            iterations=2,
            bytes_received=5,
            bytes_sent=1,
        ),
        result(received=frozenset("bd"), sent=frozenset("e"), iterations=1, bytes_received=6, fixed_point=True),
    )
    assert both.received == {"a", "b", "d"}
    assert both.sent == {"e"}
    assert both.rejected == {"c": "why"}, "what came after all was not rejected in the end"
    assert both.not_available == frozenset()
    assert (both.iterations, both.bytes_received, both.bytes_sent) == (3, 11, 1)
    assert both.fixed_point
    assert both.result is both.rounds[-1]


def test_the_account_of_a_hand_over() -> None:
    given = ["a", "b", "c", "d"]
    there = result(rejected={"b": "blob-digest"}, received=frozenset("a"))
    ours = result(sent=frozenset("ab"), fixed_point=True)
    account = placed(given, report(ours, there=there, claimed=frozenset("ac")))
    assert account.stored == {"a"}
    assert account.rejected == {"b": "blob-digest"}
    assert account.there_already == {"c"}
    assert account.not_taken == {"d"}
    assert not account.unknown


def test_of_what_was_not_settled_before_the_end_nothing_is_said() -> None:
    account = placed(["a", "b", "c"], report(result(sent=frozenset("a")), claimed=frozenset("b")))
    assert account.stored == {"a"}
    assert account.there_already == {"b"}
    assert not account.not_taken
    assert account.unknown == {"c"}


def test_an_exchange_has_a_round() -> None:
    with pytest.raises(UsageError):
        Wishes(rounds=0)

"""Requests and transfers: what may be asked for, what is sent, and what is left for later."""

import pytest
from msgspec import structs

from bobbin.interlace.effects import Looped
from bobbin.interlace.events import LinkClosed
from bobbin.interlace.limits import Service
from bobbin.interlace.messages import Advertise, Delivered, Request, Response, Transfer, Unavailable
from bobbin.interlace.reasons import Reason
from bobbin.interlace.state import Awaits
from bobbin.policy.modules import compile_query
from bobbin.records.record import build_plex
from tests.policy_worlds import EVERYTHING
from tests.support.exchanges import (
    BY_GROUP,
    START_NS,
    Against,
    Watched,
    config,
    delivered,
    hashes,
    meet,
    record,
    records,
    selector,
)


def _reason(against: Against) -> Reason | None:
    assert against.result is not None
    return against.result.reason


# ---- what may be requested ------------------------------------------------------------------------------------------


def test_requestable_is_permitted_advertised_missing_and_of_an_accepted_format() -> None:
    """IL-012, IL-040, IL-113, IL-152: each of the four conditions alone keeps a record off the list."""
    wanted, unselected, held, unadvertised = record(1), record(2, group="x"), record(3), record(4)
    against = Against(config(BY_GROUP, formats=frozenset({"H3", "H4"})), Watched([held]))
    against.to_loop()
    odd = structs.replace(against.claim(wanted), record=record(5).hash.replace(".H3", ".H9"))
    claims = [*map(against.claim, (wanted, unselected, held)), odd]
    request = against.claiming(claims)
    assert request.records == (wanted.hash,)
    assert unadvertised.hash not in request.records


def test_each_side_evaluates_its_own_store_under_the_rules_of_the_plan() -> None:
    """IL-005, IL-006, IL-008, IL-009: what only the peer holds is not held here, whatever it claims."""
    rules = (
        "SelectAdvertised(P,S) :- Advertised(P,S), not Have(P).\n"
        "SelectHave(P) :- Have(P).\n"
        "SelectHave(P) :- Advertised(P,_).\n"
    )
    mine, theirs = record(1), record(2)
    against = Against(config(rules), Watched([mine]), rules=EVERYTHING)
    assert against.to_request([against.claim(theirs)]).records == (theirs.hash,)
    assert isinstance(against.holdings, Watched)
    assert {name for answer in against.holdings.answers for name in answer.send_added} == {mine.hash}
    assert against.machine.epoch is not None
    plan = against.machine.epoch.agreement.plan
    assert {operand.module for operand in plan.operands} == {
        selector(rules).identifier,
        selector(EVERYTHING).identifier,
    }


def test_a_format_must_be_negotiated_too() -> None:
    """IL-152, IL-007: accepted here and not there, or there and not here, is not asked for."""
    against = Against(config(formats=frozenset({"H3", "H4"})))
    against.to_hello()
    against.say(structs.replace(against.hello(), formats=frozenset({"H3", "H5"})))
    names = [record(number).hash.replace(".H3", suffix) for number, suffix in ((1, ".H3"), (2, ".H4"), (3, ".H5"))]
    claims = [structs.replace(against.claim(record(1)), record=name) for name in names]
    assert against.claiming(claims).records == (names[0],)


def test_a_refused_record_is_not_requested_until_it_is_lifted() -> None:
    """ILC-147."""
    holdings = Watched(records(2))
    gone = record(1).hash
    holdings.remove(gone)
    meeting = meet(records(2), holdings)
    _, right = meeting.run()
    assert right.fixed_point
    assert not meeting.requested("right")[0]
    assert gone not in holdings.records
    holdings.refused.clear()
    assert meet(records(2), holdings).run()[1].received == {gone}


def test_each_evaluation_decides_anew_what_to_request() -> None:
    """IL-032, IL-040, IL-196, IL-239: a record that somebody else stored meanwhile is not asked for again."""
    some = records(2)
    against = Against(config(service=Service(request_records_max=1)))
    first, second = sorted(hashes(some))
    assert against.to_request(map(against.claim, some)).records == (first,)
    against.say(Request())
    against.holdings.put(next(one for one in some if one.hash == second))
    against.say(Transfer(last=True))
    (request,) = against.say(Advertise())
    assert request == Request(records=(first,))


def test_a_request_list_is_bounded_and_ascends() -> None:
    """IL-199, ILC-119, IL-225: the rest follows in later lists, until nothing is left."""
    meeting = meet(records(25), [], service=Service(request_records_max=10))
    _, right = meeting.run()
    assert right.received == hashes(records(25))
    lists = meeting.requested("right")
    assert [len(one) for one in lists if one] == [10, 10, 5]
    assert all(list(one) == sorted(set(one)) for one in lists)


def test_lists_that_do_not_ascend_abort() -> None:
    """ILC-119, IL-261."""
    one, two = sorted(hashes(records(2)))
    for wrong in ((two, one), (one, one)):
        against = Against(config(), Watched(records(2)))
        against.to_request()
        against.say(Request(records=wrong))
        assert _reason(against) is Reason.MALFORMED_BLOCK


def test_support_records_are_not_fetched_by_looking() -> None:
    """IL-015, IL-016: what a selected record links to stays where it is, unless it is selected itself."""
    evidence = record(1, group="evidence")
    linked = build_plex(
        group="u", app="ding", name="x", tai_ns=START_NS, data=b"x", extras=[("+Link", f"evidence {evidence.hash}")]
    )
    meeting = meet([evidence, linked], [], BY_GROUP)
    meeting.run()
    assert set(meeting.there.records) == {linked.hash}
    assert {name for names in meeting.requested("right") for name in names} == {linked.hash}


def test_a_peers_requests_are_no_facts() -> None:
    """ILC-136: two machines that hear different lists evaluate the same."""
    asked = []
    for names in ((), tuple(sorted(hashes(records(2))))):
        against = Against(config(), Watched(records(2)))
        against.to_request()
        against.say(Request(records=names))
        assert isinstance(against.holdings, Watched)
        asked.append([question.claimed for question in against.holdings.questions][:2])
    assert asked[0] == asked[1]


# ---- what is sent ---------------------------------------------------------------------------------------------------


def _served(holdings: Watched, asked: list[str], *, rules: str = EVERYTHING, service: Service | None = None) -> Against:
    against = Against(config(rules, service=service or Service()), holdings, rules=EVERYTHING)
    against.to_request()
    against.say(Request(records=tuple(sorted(asked))))
    return against


def _responses(against: Against) -> list[Response]:
    return [response for message in against.said if isinstance(message, Transfer) for response in message.responses]


def test_requests_of_both_sides_are_answered_with_the_stored_bytes() -> None:
    """IL-113, IL-118, IL-117, IL-219: each under its own hash."""
    here, there = records(3), records(3, first=10)
    meeting = meet(here, there)
    left, right = meeting.run()
    for side, some in (("left", here), ("right", there)):
        responses = [response for part in meeting.transferred(side) for response in part.responses]
        assert responses == [Delivered(record=one.hash, raw=one.raw) for one in sorted(some, key=lambda one: one.hash)]
    assert (left.received, right.received) == (hashes(there), hashes(here))


def test_unknown_unselected_and_unadvertised_hashes_are_not_available() -> None:
    """ILC-120, IL-114, IL-039, IL-013: no bytes, no abort, no silence."""
    shown, unselected = record(1), record(2, group="x")
    unknown = record(3).hash
    asked = [shown.hash, unselected.hash, unknown, "nonsense"]
    against = _served(Watched([shown, unselected]), asked, rules=BY_GROUP)
    assert _responses(against) == [
        Delivered(record=name, raw=shown.raw) if name == shown.hash else Unavailable(record=name)
        for name in sorted(asked)
    ]
    assert against.result is None


def test_what_came_after_the_advertisement_is_not_available_yet() -> None:
    """ILC-120: it is announced in the next loop, and may be asked for then."""
    late = record(9)
    against = Against(config(), Watched(records(2)))
    against.to_request()
    against.holdings.put(late)
    against.say(Request(records=(late.hash,)))
    assert _responses(against) == [Unavailable(record=late.hash)]
    (block,) = against.say(Transfer(last=True))
    assert isinstance(block, Advertise)
    assert late.hash in {one.record for one in block.records}


@pytest.mark.parametrize("case", ["removed", "policy"])
def test_sendable_is_judged_when_sending(case: str) -> None:
    """IL-013, IL-039, IL-202, IL-272, IL-114: not when advertising, and for each record anew."""
    query = compile_query("Queryable(P,O) :- OwnSelected(P), not Field(_,'App',_,'veto'), Viewer(O).\n")
    some = records(3)
    holdings = Watched(some, query=query)
    names = sorted(hashes(some))

    def change() -> None:
        if case == "removed":
            holdings.remove(names[1])
        else:
            holdings.put(record(50, group="x", app="veto"))

    service = Service(chunk_records_max=1)
    against = Against(config(BY_GROUP, service=service), holdings, rules=EVERYTHING)
    against.to_request()
    against.holds_back = True
    against.say(Request(records=tuple(names)))
    change()
    against.holds_back = False
    against.give(against.waiting.pop(0))
    fates = {type(response).__name__ for response in _responses(against)[1:]}
    if case == "removed":
        assert [type(response) for response in _responses(against)] == [Delivered, Unavailable, Delivered]
    else:
        assert fates == {"Unavailable"}
    assert against.result is None
    # The advertisement follows.
    (block,) = against.say(Transfer(last=True))
    assert isinstance(block, Advertise)
    assert names[1] not in {one.record for one in block.records}


def test_a_record_that_vanishes_while_it_is_looked_up_is_not_available() -> None:
    """IL-202, IL-039: the very load decides."""
    holdings = Watched(records(1))
    holdings.before_load = holdings.remove
    against = _served(holdings, [record(0).hash])
    assert _responses(against) == [Unavailable(record=record(0).hash)]


def test_a_record_that_was_away_for_a_moment_is_sent() -> None:
    """IL-013, IL-202: announced, gone, and back when its turn comes."""
    one = record(0)
    holdings = Watched([one])
    against = Against(config(), holdings)
    against.to_loop()
    del holdings.records[one.hash]
    against.claiming()
    holdings.put(one)
    against.say(Request(records=(one.hash,)))
    assert _responses(against) == [Delivered(record=one.hash, raw=one.raw)]


def test_not_available_is_reported_and_does_not_block_the_end() -> None:
    """IL-272, IL-033, ILC-124: listed in the result, not asked for again while the advertisement stands."""
    one, two = sorted(records(2), key=lambda one: one.hash)
    against = Against(config())
    against.to_transfer([one, two])
    against.say(Transfer(responses=(Unavailable(record=one.hash), Delivered(record=two.hash, raw=two.raw)), last=True))
    (request,) = against.say(Advertise())
    assert request == Request()
    against.say(Request())
    against.say(Advertise())
    result = against.result
    assert result is not None
    assert result.fixed_point
    assert result.not_available == {one.hash}
    assert result.received == {two.hash}
    assert not result.rejected


def test_a_new_advertisement_opens_the_way_again() -> None:
    """ILC-124: after a rejection as after an absence; what comes in the end counts."""
    one = record(1)
    for answer in (Unavailable(record=one.hash), Delivered(record=one.hash, raw=b"no record")):
        against = Against(config(BY_GROUP))
        assert against.to_request([against.claim(one)]).records
        against.say(Request())
        against.say(Transfer(responses=(answer,), last=True))
        assert against.claiming([against.claim(one, [("App", "other"), ("Group", "u")])]).records == (one.hash,)
        against.say(Request())
        against.say(delivered(one))
        against.say(Advertise())
        against.say(Request())
        against.say(Advertise())
        assert against.result is not None
        assert against.result.received == {one.hash}
        assert not against.result.rejected
        assert not against.result.not_available


def test_the_next_exchange_asks_again() -> None:
    """IL-274, IL-237: what was rejected in one exchange may be had in the next."""
    one = record(1)
    holdings = Watched()
    for _ in range(2):
        against = Against(config(cursor_key="k"), holdings)
        assert against.to_request([against.claim(one)]).records == (one.hash,)
        against.say(Request())
        against.say(Transfer(responses=(Unavailable(record=one.hash),), last=True))
        against.say(Advertise())
        against.say(Request())
        against.say(Advertise())
        assert against.result is not None
        assert against.result.fixed_point


# ---- batches, budgets, deferral -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "service",
    [
        Service(serve_records_max=3),
        Service(serve_bytes_max=400),
        Service(serve_records_max=1, chunk_records_max=1),
        Service(chunk_records_max=2),
        Service(chunk_bytes_max=1),
        Service(unsettled_records_max=1, chunk_records_max=1),
        Service(request_records_max=2, serve_records_max=1),
    ],
    ids=["records", "bytes", "one by one", "parts", "small parts", "slow store", "both"],
)
def test_budgets_do_not_end_an_exchange(service: Service) -> None:
    """IL-201, IL-205, IL-222, IL-225, IL-229: what is deferred is asked for again until all is there."""
    meeting = meet(records(12), [], service=service)
    left, right = meeting.run()
    assert left.fixed_point
    assert right.fixed_point
    assert right.received == left.sent == hashes(records(12))
    assert not right.deferred


def test_a_service_budget_is_kept() -> None:
    """IL-201, IL-203: three records in one phase, the others are neither sent nor called unavailable."""
    against = _served(Watched(records(10)), sorted(hashes(records(10))), service=Service(serve_records_max=3))
    assert len(_responses(against)) == 3
    assert isinstance(against.said[-1], Transfer)
    assert against.said[-1].last


def test_deferred_is_neither_rejected_nor_unavailable_nor_withdrawn() -> None:
    """IL-203, IL-204, IL-205, IL-222, IL-033: it stays claimed, and is asked for in the next loop."""
    some = records(4)
    against = Against(config())
    against.to_transfer(some)
    one = some[0]
    against.say(delivered(one))
    loops = [notice for notice in against.notices if isinstance(notice, Looped)]
    assert [(loop.received, loop.deferred) for loop in loops] == [(1, 3)]
    assert against.machine.epoch is not None
    assert len(against.machine.epoch.learned) == 4
    (request,) = against.say(Advertise())
    assert request == Request(records=tuple(sorted(hashes(some) - {one.hash})))
    # Not asked for without its advertisement.
    against.say(Request())
    against.say(Transfer(last=True))
    (request,) = against.say(
        Advertise(
            records=tuple(sorted((against.claim(some[0]), against.claim(some[1])), key=lambda claim: claim.record))
        )
    )
    assert request == Request(records=(some[1].hash,))


def test_what_is_deferred_at_the_end_is_told() -> None:
    """IL-203, IL-224."""
    some = records(2)
    against = Against(config())
    against.to_transfer(some)
    against.say(delivered(some[0], last=False))
    against.give(LinkClosed())
    assert against.result is not None
    assert against.result.received == {some[0].hash}
    assert against.result.deferred == {some[1].hash}
    assert not against.result.rejected
    assert not against.result.not_available


def test_serving_stops_at_half_of_the_phase() -> None:
    """IL-201, IL-282: the other half belongs to the side that has to store what it gets."""
    against = Against(config(service=Service(chunk_records_max=1)), Watched(records(5)))
    against.to_request()
    against.holds_back = True
    against.say(Request(records=tuple(sorted(hashes(records(5))))))
    against.clock.move(15.000000001)
    against.holds_back = False
    against.give(against.waiting.pop(0))
    assert [message.last for message in against.said if isinstance(message, Transfer)] == [False, True]
    assert len(_responses(against)) == 1


def test_a_side_that_has_much_to_store_reads_no_further() -> None:
    """IL-037: the machine says when the next part may be read."""
    against = Against(config(service=Service(unsettled_records_max=1)))
    against.to_transfer(records(3))
    against.holds_back = True
    against.say(delivered(record(0), last=False))
    assert against.machine.awaits is Awaits.TRANSFER
    against.say(delivered(record(1), last=False))
    assert [against.machine.awaits] == [Awaits.NOTHING]
    against.give(against.waiting.pop(0))
    assert [against.machine.awaits] == [Awaits.TRANSFER]

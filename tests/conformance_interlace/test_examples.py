"""The three examples at the end of the protocol page, from start to end, and policies that take back what they said."""

import pytest

from bobbin.interlace.limits import Service
from bobbin.interlace.messages import Advertise, Hello, Request, Setup, Transfer, Unavailable
from bobbin.policy.claims import Claims
from bobbin.policy.decide import Situation, decide
from bobbin.policy.modules import compile_query, compile_selector
from bobbin.policy.views import RecordFacts
from bobbin.records.record import Record, seal
from bobbin.records.signing import SigningKey
from bobbin.runtime.pair import Side
from bobbin.simulator.holdings import MemoryHoldings
from tests.policy_worlds import EVERYTHING
from tests.support.exchanges import Against, Changes, Meeting, Watched, config, delivered, hashes, meet, record, records

# ---- first follow ---------------------------------------------------------------------------------------------------

_LINKS = (
    "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'App',_,'ding'), "
    "AdvertisedField(P,S,'Group',_,'u'), AdvertisedField(P,S,'Name',_,N), StartsWith(N,'links/').\n"
    "SelectHave(P) :- Have(P), Field(P,'App',_,'ding'), Field(P,'Group',_,'u'), Field(P,'Name',_,N), "
    "StartsWith(N,'links/').\n"
)


def _server() -> tuple[list[Record], list[Record]]:
    links: list[Record] = [record(number, name=f"links/{number}") for number in range(20)]
    others: list[Record] = [
        record(30, name="notes/1"),
        record(31, name="links/x", app="dong"),
        record(32, name="links/x", group="v"),
    ]
    return links, others


def test_first_follow() -> None:
    """IL-290, IL-291, IL-292, IL-293, IL-002: selected links move, cursor included; nothing else does."""
    links, others = _server()
    app = Watched([links[0]])
    meeting = meet(app, Watched([*links, *others]), _LINKS, signed=True, service=Service(list_outright_max=1))
    left, right = meeting.run()
    assert left.fixed_point
    assert left.received == hashes(links[1:])
    assert set(app.records) == hashes(links)
    # Held hashes are not requested, and every non-empty partition of the server was reconciled.
    assert {name for names in meeting.requested("left") for name in names} == hashes(links[1:])
    assert right.sent == hashes(links[1:])
    assert left.link is not None
    assert left.cursor_updated
    assert {one.record for one in app.cursors[left.link].advertisements} == hashes(links)
    assert app.doings.index("persist") < app.doings.index("save")


def test_first_follow_with_the_views_of_each_side() -> None:
    """IL-290, IL-292: a record that the server withdraws before it is sent stays there."""
    links, _ = _server()
    query = compile_query("Queryable(P,O) :- OwnSelected(P), not Field(P,'Name',_,'links/3'), Viewer(O).\n")
    server = Watched(links, query=query)
    meeting = meet(Watched(), server, _LINKS, service=Service(request_records_max=5))
    withdrawn = max(hashes(links) - {links[3].hash})
    server.before_load = lambda _: server.remove(withdrawn)
    left, _ = meeting.run()
    assert left.fixed_point
    assert left.received == hashes(links) - {links[3].hash, withdrawn}


# ---- store one local record -----------------------------------------------------------------------------------------


def _store(one: Record) -> str:
    """What a wrapper contributes to have one record stored elsewhere."""
    return f"SelectHave('{one.hash}').\n"


_ACCEPT = (
    "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'App',_,'ding').\n"
    "SelectHave(P) :- Have(P), Field(P,'App',_,'ding').\n"
)


def _both(one: Record) -> str:
    return f"SelectAdvertised(P,S) :- Advertised(P,S), Eq(P,'{one.hash}').\n{_store(one)}"


def test_store_one_local_record() -> None:
    """IL-294, IL-295, IL-296: selected by its module, accepted by the server's, nothing else."""
    one, *others = records(5)
    meeting = meet([one, *others], [], _both(one), _ACCEPT)
    left, right = meeting.run()
    assert left.sent == right.received == {one.hash}
    assert set(meeting.there.records) == {one.hash}
    assert {name for block in meeting.advertised("left") for name in [claim.record for claim in block.records]} == {
        one.hash
    }
    # No command was needed: the messages are those of every exchange, the policy is the operand of the setup.
    assert {type(message) for _, message in meeting.said} == {Setup, Hello, Advertise, Request, Transfer}
    (setup,) = meeting.messages("left", Setup)
    assert isinstance(setup, Setup)
    assert setup.module == compile_selector(_both(one)).canonical


def test_a_record_that_the_server_does_not_accept_is_neither_advertised_nor_sent() -> None:
    """IL-295."""
    refused = record(1, app="dong")
    meeting = meet([refused], [], _both(refused), _ACCEPT)
    left, right = meeting.run()
    assert not left.sent
    assert not right.received
    assert not any(block.records for block in meeting.advertised("left"))


def test_a_record_that_is_no_longer_exposed_is_not_sent() -> None:
    """IL-296: the answer is that it is not available; bytes that are not the record are not stored."""
    one = record(1)
    holdings = Watched([one])
    holdings.before_load = holdings.remove
    meeting = meet(holdings, [], _both(one), _ACCEPT)
    _, right = meeting.run()
    assert right.not_available == {one.hash}
    assert right.fixed_point
    assert [part.responses for part in meeting.transferred("left")] == [(Unavailable(record=one.hash),)]
    against = Against(config(_ACCEPT), rules=_both(one))
    against.to_request([against.claim(one)])
    against.say(Request())
    against.say(Transfer(responses=delivered(record(2)).responses[:0], last=True))
    assert not against.holdings.records


# ---- evidence closure -----------------------------------------------------------------------------------------------

_EVIDENCE = """\
SelectHave(P) :- Have(P), Field(P,'Group',_,'u'), Field(P,'App',_,'member').
SelectHave(P) :- Have(P), Field(P,'Group',_,'u'), Field(P,'App',_,'ding'), Field(P,'Signed-By',_,V), ActiveMember(V).
SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'u'), AdvertisedField(P,S,'App',_,'member').
SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'u'), AdvertisedField(P,S,'App',_,'ding'), \
AdvertisedField(P,S,'Signed-By',_,V), ActiveMember(V).
ActiveMember(V) :- Have(P), Field(P,'Group',_,'u'), Field(P,'App',_,'member'), Field(P,'Name',_,V).
"""
_KEYS = [SigningKey.from_secret(bytes([number]) * 32) for number in (1, 2)]


def _evidence() -> tuple[list[Record], list[Record]]:
    """Who is a member, and what two members and one stranger have signed. Only the first is a member."""
    members: list[Record] = [record(1, app="member", name=str(_KEYS[0].verifier))]
    signed: list[Record] = [
        seal(record(number), _KEYS[number % 2], auxiliary=bytes([number + 1]) * 32) for number in range(10, 16)
    ]
    return members, signed


def test_the_five_rules_are_a_selector() -> None:
    """IL-297."""
    compiled = compile_selector(_EVIDENCE)
    assert {"SelectHave", "SelectAdvertised", "ActiveMember"} == set(compiled.program.heads())
    assert compiled.canonical.count(b"\n") == 5


def test_evidence_closure() -> None:
    """IL-002, IL-297, IL-299, IL-016, IL-221, IL-015: members first; a later loop selects what they have signed."""
    members, signed = _evidence()
    by_member = [one for number, one in enumerate(signed) if number % 2 == 0]
    meeting = meet([*members, *signed], [], _EVIDENCE)
    left, right = meeting.run()
    assert right.received == hashes([*members, *by_member])
    assert left.fixed_point
    lists = [names for names in meeting.requested("right") if names]
    assert [set(names) for names in lists] == [hashes(members), hashes(by_member)]


def test_a_claimed_member_is_no_evidence() -> None:
    """IL-299, IL-041, IL-042: until the member record is here and valid, nothing of his is selected."""
    members, signed = _evidence()
    against = Against(config(_EVIDENCE))
    request = against.to_request(map(against.claim, [*members, *signed]))
    assert set(request.records) == hashes(members)
    against.say(Request())
    against.say(Transfer(responses=(Unavailable(record=members[0].hash),), last=True))
    (again,) = against.say(Advertise())
    assert again == Request()


def test_the_peers_rules_see_only_its_view() -> None:
    """IL-298, IL-288, IL-023, IL-196: a member record outside of it makes nobody a member."""
    members, signed = _evidence()
    hides = compile_query("Queryable(P,O) :- Have(P), not Field(P,'App',_,'member'), Viewer(O).\n")
    shows = compile_query("Queryable(P,O) :- Have(P), Viewer(O).\n")
    everything = hashes([*members, *signed])
    for query, sent in ((hides, False), (shows, True)):
        meeting = meet(Watched([*members, *signed], query=query), [], EVERYTHING, _EVIDENCE)
        left, _ = meeting.run()
        assert bool(left.sent) is sent
        assert left.sent < everything


# ---- policies that take back what they said -------------------------------------------------------------------------

_ONE_OF_A_GROUP = (
    "SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,G), not Served(G).\n"
    "SelectHave(P) :- Have(P).\n"
    "Served(G) :- Have(P), Field(P,'Group',_,G).\n"
)
"""Of each group, whatever comes first."""


def _requestable(side: Side, holdings: MemoryHoldings, other: Side) -> set[str]:
    """What is permitted, advertised, missing and still sendable at this moment, evaluated from nothing."""
    epoch, peer = side.machine.epoch, other.machine.epoch
    assert epoch is not None
    assert peer is not None
    claims = {one.record: one.fields for one in epoch.learned.advertisements()}
    decision = decide(
        epoch.agreement.policy,
        Situation(
            facts=RecordFacts.of_records(holdings.records.values()),
            claims=Claims(epoch.agreement.policy.peer_origin, claims),
            runtime=epoch.runtime_facts(),
        ),
    )
    return {name for name in decision.may_request if name not in holdings.records and name in peer.offers}


def _is_correct(meeting: Meeting) -> bool:
    left, right = meeting.left.result, meeting.right.result
    assert left is not None
    assert right is not None
    open_ends = _requestable(meeting.left, meeting.here, meeting.right) | _requestable(
        meeting.right, meeting.there, meeting.left
    )
    return left.fixed_point and right.fixed_point and not open_ends


@pytest.mark.parametrize(("service", "accepted"), [(Service(request_records_max=1), 2), (Service(), 8)])
def test_different_schedules_may_end_differently_and_are_all_correct(service: Service, accepted: int) -> None:
    """IL-017, IL-200, IL-239, IL-240, IL-241, IL-242: every accepted record is valid, the end is a fixed point."""
    here = [*records(4), *records(4, first=10, group="v")]
    meeting = meet(here, [], EVERYTHING, _ONE_OF_A_GROUP, right=Changes(service=service), service=service)
    _, right = meeting.run()
    assert _is_correct(meeting)
    assert right.received <= hashes(here)
    assert len(right.received) == accepted


def test_a_send_set_that_shrinks_is_followed() -> None:
    """IL-239, IL-240, IL-195: the peer's claims shrink with it; nothing assumes growth or a direction."""
    rules = (
        "SelectAdvertised(P,S) :- Advertised(P,S).\n"
        "SelectHave(P) :- Have(P), not Closed(P).\n"
        "Closed(P) :- Have(P), Field(P,'Group',_,'u'), Have(Q), Field(Q,'App',_,'stop').\n"
    )
    stop = record(50, group="x", app="stop")
    meeting = meet(Watched(records(3)), Watched([stop]), rules, EVERYTHING)
    left, right = meeting.run()
    assert left.fixed_point
    assert right.received == hashes(records(3))
    assert meeting.right.machine.epoch is not None
    # The stop came here, so the three are no longer offered, and the peer knows.
    assert set(meeting.here.records) >= {stop.hash}
    assert [one.record for one in meeting.right.machine.epoch.learned.advertisements()] == [stop.hash]


def _schedules() -> list[Service]:
    return [
        Service(),
        Service(request_records_max=1),
        Service(serve_records_max=1),
        Service(list_outright_max=1, list_partition_max=1),
        Service(chunk_records_max=1, unsettled_records_max=1),
    ]


def test_a_monotonic_policy_gives_one_result_whatever_the_schedule() -> None:
    """IL-243, IL-241."""
    members, signed = _evidence()
    results = set()
    for service in _schedules():
        meeting = meet([*members, *signed[:3]], signed[3:], _EVIDENCE, service=service)
        meeting.run()
        assert _is_correct(meeting)
        results.add((frozenset(meeting.here.records), frozenset(meeting.there.records)))
    assert len(results) == 1


def test_ends_are_correct_after_every_way_to_go() -> None:
    """IL-017, IL-242, IL-228: over many small exchanges, nothing is requestable at the end that could still be sent."""
    for count in (0, 1, 2, 9):
        some: list[Record] = list(records(count))
        for here, there in ((some, []), ([], some), (some, list(records(count, first=count // 2)))):
            for service in _schedules():
                meeting = meet(here, there, service=service)
                meeting.run()
                assert _is_correct(meeting)
                assert set(meeting.here.records) == set(meeting.there.records)

"""The door: who comes in, how many, how fast, and the name of every refusal."""

from typing import Final

import pytest
from msgspec import structs

from bobbin.interlace.limits import SECOND_NS
from bobbin.runtime.admission import ADDRESSES_MAX, MINUTE_NS, Bucket, Door, Place, Refusal
from bobbin.runtime.introduction import Introduction, NotAdmitted
from bobbin.runtime.node_settings import LinkBounds
from bobbin.runtime.roster import ANONYMOUS, Roster
from bobbin.transport.base import Route
from bobbin.wire.elements import Elements
from tests.policy_worlds import ALICE, BOB
from tests.support.byte_streams import FAR, LOOPBACK, TLS, VERIFIED
from tests.support.nodes import peer

_BOB: Final = peer("bob", BOB)
_ROSTER: Final = Roster([_BOB])
_OPEN: Final = Roster([_BOB], anonymous=peer(ANONYMOUS, None))


class _Visitor:
    def __init__(self) -> None:
        self.has_given_way = False

    def give_way(self) -> None:
        self.has_given_way = True


class _Tenant:
    def __init__(self, heard_ns: int = 0) -> None:
        self.heard_ns = heard_ns
        self.has_made_room = False

    def make_room(self) -> None:
        self.has_made_room = True


def _introduction(verifier: object = BOB, route: Route = LOOPBACK, *, encrypted: bool = False) -> Introduction:
    assert verifier is None or isinstance(verifier, str)
    return Introduction(
        route=route,
        peer=verifier,  # type: ignore[arg-type]
        own=None,
        encrypted=encrypted,
        elements=Elements(has_preface=False),
    )


def _knock(door: Door, origin: str = "192.0.2.7", *, loopback: bool = False, now_ns: int = 0) -> Place:
    place = door.knock(origin, loopback=loopback, now_ns=now_ns)
    assert isinstance(place, Place)
    place.visitor = _Visitor()
    return place


def _gave_way(places: list[Place]) -> list[int]:
    """Which of them, by where they stand in the list."""
    visitors = [place.visitor for place in places]
    return [number for number, one in enumerate(visitors) if isinstance(one, _Visitor) and one.has_given_way]


def _own(door: Door, *places: Place) -> None:
    for place in places:
        door.admit(place, _introduction(), _ROSTER, _Tenant(), now_ns=0)


def _refusal(door: Door, introduction: Introduction, roster: Roster = _ROSTER) -> str:
    with pytest.raises(NotAdmitted) as caught:
        door.admit(_knock(door, loopback=True), introduction, roster, _Tenant(), now_ns=0)
    return caught.value.code


# ---- rates ----------------------------------------------------------------------------------------------------------


def test_a_bucket_lets_a_burst_through_and_then_so_many_a_minute() -> None:
    bucket = Bucket(per_minute=60, burst=3, now_ns=0)
    assert [bucket.take(0) for _ in range(4)] == [True, True, True, False]
    assert not bucket.take(SECOND_NS - 1)
    assert bucket.take(3 * SECOND_NS // 2)
    assert not bucket.take(3 * SECOND_NS // 2)


def test_a_bucket_says_how_long_the_next_one_waits() -> None:
    bucket = Bucket(per_minute=60, burst=3, now_ns=0)
    assert bucket.delay_ns(0) == 0
    bucket.charge(0, 3)
    assert bucket.delay_ns(0) == pytest.approx(SECOND_NS, abs=10)
    bucket.charge(0, 2)
    assert bucket.delay_ns(SECOND_NS) == pytest.approx(2 * SECOND_NS, abs=10)


def test_nobody_owes_a_bucket_more_than_its_burst() -> None:
    bucket = Bucket(per_minute=60, burst=10, now_ns=0)
    bucket.charge(0, 1_000_000)
    assert bucket.delay_ns(0) == pytest.approx(11 * SECOND_NS, abs=10)


def test_a_bucket_never_holds_more_than_its_burst() -> None:
    bucket = Bucket(per_minute=60, burst=2, now_ns=0)
    assert [bucket.take(100 * MINUTE_NS) for _ in range(3)] == [True, True, False]


def test_a_clock_that_goes_back_gives_nothing_and_takes_nothing() -> None:
    bucket = Bucket(per_minute=60, burst=1, now_ns=10 * MINUTE_NS)
    assert bucket.take(10 * MINUTE_NS)
    assert not bucket.take(0)
    assert bucket.take(11 * MINUTE_NS)


# ---- the first time: where from, how many ---------------------------------------------------------------------------


def test_links_in_all_are_bounded() -> None:
    door = Door(LinkBounds(total_max=2))
    first = _knock(door, "192.0.2.1")
    _own(door, first, _knock(door, "192.0.2.2"))
    assert door.knock("192.0.2.3", loopback=False, now_ns=0) is Refusal.TOO_MANY
    assert door.dial() is Refusal.TOO_MANY
    door.leave(first)
    door.leave(first)
    assert len(door) == 1
    _knock(door, "192.0.2.3")


def test_links_of_one_address_are_bounded_and_others_are_not_concerned() -> None:
    door = Door(LinkBounds(per_address_max=1, introducing_max=64))
    _knock(door)
    assert door.knock("192.0.2.7", loopback=False, now_ns=0) is Refusal.TOO_MANY_ADDRESS
    _knock(door, "192.0.2.8")


def test_new_links_of_one_address_are_bounded_by_the_minute() -> None:
    door = Door(LinkBounds(new_burst_max=2, new_per_minute_max=60))
    for _ in range(2):
        door.leave(_knock(door))
    assert door.knock("192.0.2.7", loopback=False, now_ns=0) is Refusal.TOO_FAST_ADDRESS
    _knock(door, "192.0.2.8")
    _knock(door, now_ns=2 * SECOND_NS)


def test_streams_that_have_not_said_who_they_are_are_bounded() -> None:
    door = Door(LinkBounds(introducing_max=2))
    first = _knock(door, "192.0.2.1")
    second = _knock(door, "192.0.2.2")
    _own(door, first)
    third = _knock(door, "192.0.2.3")
    assert _gave_way([first, second, third]) == []
    fourth = _knock(door, "192.0.2.4")
    assert _gave_way([first, second, third, fourth]) == [1], "the oldest of those who have not said who they are"
    with pytest.raises(NotAdmitted) as caught:
        door.admit(second, _introduction(), _ROSTER, _Tenant(), now_ns=0)
    assert caught.value.code == Refusal.TOO_MANY_INTRODUCING


def test_streams_that_have_not_said_who_they_are_make_room_where_links_are_bounded() -> None:
    door = Door(LinkBounds(total_max=2))
    first = _knock(door, "192.0.2.1")
    second = _knock(door, "192.0.2.2")
    _own(door, _knock(door, "192.0.2.3"))
    assert _gave_way([first, second]) == [0]
    assert isinstance(door.dial(), Place)
    assert _gave_way([first, second]) == [0, 1]
    assert door.dial() is Refusal.TOO_MANY


def test_one_address_cannot_take_all_places_of_those_who_have_not_said_who_they_are() -> None:
    door = Door(LinkBounds(introducing_max=16))
    other = _knock(door, "192.0.2.8")
    places = [_knock(door) for _ in range(4)]
    assert _gave_way(places) == [0, 1]
    assert _gave_way([other]) == []


@pytest.mark.parametrize("origins", [1, 4, 8, 15, 16, 200])
@pytest.mark.parametrize("each", [1, 8, 30])
def test_a_flood_from_any_number_of_addresses_keeps_no_newcomer_out(origins: int, each: int) -> None:
    """Nor does it take the newcomer's place from it, as long as the newcomer's own address has least."""
    door = Door(LinkBounds(introducing_max=16))
    for number in range(origins):
        for _ in range(each):
            _knock(door, f"198.51.100.{number}")
    for _ in range(100):
        _knock(door, "127.0.0.1", loopback=True)
    newcomer = _knock(door)
    for _ in range(100):
        _knock(door, "127.0.0.2", loopback=True)
    assert len(door) <= 16
    assert _gave_way([newcomer]) == []
    _own(door, newcomer)


def test_streams_of_this_machine_cannot_take_all_places_either() -> None:
    door = Door(LinkBounds(introducing_max=16))
    far = [_knock(door, f"192.0.2.{number}") for number in range(4)]
    near = [_knock(door, f"127.0.0.{number}", loopback=True) for number in range(20)]
    assert _gave_way(far) == []
    assert _gave_way(near) == list(range(8)), "it has three quarters"


def test_bounds_by_address_do_not_concern_this_machine() -> None:
    door = Door(LinkBounds(per_address_max=1, new_burst_max=1, new_per_minute_max=1))
    for _ in range(5):
        _knock(door, "127.0.0.1", loopback=True)


def test_a_door_that_is_closed_lets_nobody_in() -> None:
    door = Door(LinkBounds())
    door.is_closed = True
    assert door.knock("192.0.2.7", loopback=False, now_ns=0) is Refusal.STOPPING
    assert door.dial() is Refusal.STOPPING


def test_rates_of_many_addresses_take_bounded_memory() -> None:
    door = Door(LinkBounds(total_max=1_000_000, introducing_max=1_000_000))
    for number in range(ADDRESSES_MAX + 20):
        door.leave(_knock(door, f"address {number}"))
    assert len(door._rates) == ADDRESSES_MAX + 1
    _knock(door, "another", now_ns=10 * MINUTE_NS)
    assert len(door._rates) == 1, "what is as good as new is forgotten"


# ---- the second time: who -------------------------------------------------------------------------------------------


def test_a_known_peer_gets_its_terms() -> None:
    door = Door(LinkBounds())
    assert door.admit(_knock(door), _introduction(), _ROSTER, _Tenant(), now_ns=0) is _BOB


def test_an_unknown_key_is_refused() -> None:
    assert _refusal(Door(LinkBounds()), _introduction(ALICE)) == Refusal.UNKNOWN_KEY


def test_no_proof_is_refused_unless_there_are_terms_for_it() -> None:
    assert _refusal(Door(LinkBounds()), _introduction(None)) == Refusal.NO_PROOF
    door = Door(LinkBounds())
    assert door.admit(_knock(door), _introduction(None), _OPEN, _Tenant(), now_ns=0) is _OPEN.anonymous


def test_a_known_peer_whose_links_are_not_taken_is_refused() -> None:
    roster = Roster([structs.replace(_BOB, admit=False)])
    assert _refusal(Door(LinkBounds()), _introduction(), roster) == Refusal.NOT_SERVED


@pytest.mark.parametrize(
    ("introduction", "is_allowed"),
    [
        (_introduction(BOB, TLS, encrypted=True), True),
        (_introduction(BOB, TLS, encrypted=False), False),
        (_introduction(BOB, FAR), False),
        (_introduction(None, TLS, encrypted=True), False),
        (_introduction(BOB, LOOPBACK), True),
        (_introduction(None, LOOPBACK), True),
    ],
)
def test_off_this_machine_a_link_is_encrypted_and_proven(introduction: Introduction, is_allowed: bool) -> None:  # noqa: FBT001
    door = Door(LinkBounds())
    if is_allowed:
        door.admit(_knock(door), introduction, _OPEN, _Tenant(), now_ns=0)
    else:
        assert _refusal(door, introduction, _OPEN) == Refusal.INSECURE
    lax = Door(LinkBounds(), allow_insecure=True)
    lax.admit(_knock(lax), introduction, _OPEN, _Tenant(), now_ns=0)


def test_a_peer_with_all_its_links_gets_another_in_place_of_the_silent_one() -> None:
    door = Door(LinkBounds(per_peer_max=2, silent_seconds_min=60))
    tenants = [_Tenant(heard_ns) for heard_ns in (30, 10, 20)]
    for tenant in tenants:
        door.admit(_knock(door, loopback=True), _introduction(), _ROSTER, tenant, now_ns=MINUTE_NS + 10)
    assert [tenant.has_made_room for tenant in tenants] == [False, True, False]
    assert len(door) == 2


def test_links_that_are_alive_are_not_replaced_by_another_of_their_peer() -> None:
    door = Door(LinkBounds(per_peer_max=4, silent_seconds_min=60))
    tenants = [_Tenant(heard_ns) for heard_ns in (30, 10, 20, 40)]
    for tenant in tenants:
        door.admit(_knock(door, loopback=True), _introduction(), _ROSTER, tenant, now_ns=40)
    for _ in range(5):
        place = _knock(door, loopback=True)
        with pytest.raises(NotAdmitted) as caught:
            door.admit(place, _introduction(), _ROSTER, _Tenant(), now_ns=MINUTE_NS + 9)
        assert caught.value.code == Refusal.TOO_MANY_PEER
        door.leave(place)
    assert not any(tenant.has_made_room for tenant in tenants)
    assert len(door) == 4


def test_links_that_this_node_dials_do_not_count_against_the_peer() -> None:
    door = Door(LinkBounds(per_peer_max=1))
    dialled = door.dial()
    assert isinstance(dialled, Place)
    ours, theirs = _Tenant(), _Tenant()
    door.admit_dialled(dialled, _introduction(), _BOB, ours)
    door.admit(_knock(door, loopback=True), _introduction(), _ROSTER, theirs, now_ns=0)
    assert not ours.has_made_room
    assert len(door) == 2


def test_without_proof_nobody_is_replaced() -> None:
    door = Door(LinkBounds(anonymous_max=1))
    tenant = _Tenant()
    door.admit(_knock(door), _introduction(None), _OPEN, tenant, now_ns=0)
    assert _refusal(door, _introduction(None), _OPEN) == Refusal.TOO_MANY_ANONYMOUS
    assert not tenant.has_made_room


def test_another_key_at_a_dialled_address_is_refused() -> None:
    door = Door(LinkBounds())
    for found in (ALICE, None):
        place = door.dial()
        assert isinstance(place, Place)
        with pytest.raises(NotAdmitted) as caught:
            door.admit_dialled(place, _introduction(found), _BOB, _Tenant())
        assert caught.value.code == Refusal.WRONG_PEER


def test_a_dialled_peer_without_a_key_needs_a_certificate_that_was_checked() -> None:
    anybody = peer("site", None)
    for route, is_allowed in ((TLS, False), (VERIFIED, True), (LOOPBACK, True)):
        door = Door(LinkBounds())
        place = door.dial()
        assert isinstance(place, Place)
        introduction = _introduction(BOB, route, encrypted=route is not LOOPBACK)
        if is_allowed:
            assert door.admit_dialled(place, introduction, anybody, _Tenant()) is anybody
        else:
            with pytest.raises(NotAdmitted) as caught:
                door.admit_dialled(place, introduction, anybody, _Tenant())
            assert caught.value.code == Refusal.INSECURE


def test_new_bounds_hold_from_now_on() -> None:
    door = Door(LinkBounds(total_max=1))
    _own(door, _knock(door, loopback=True))
    assert door.knock("x", loopback=True, now_ns=0) is Refusal.TOO_MANY
    door.change(LinkBounds(total_max=2), allow_insecure=True)
    place = _knock(door, loopback=True)
    door.admit(place, _introduction(BOB, FAR), _ROSTER, _Tenant(), now_ns=0)

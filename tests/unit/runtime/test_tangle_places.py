"""Places for links of peers that have dialled: whose they are, and who gives way to whom."""

import pytest

from bobbin.errors import ResourceError
from bobbin.runtime.admission import Refusal
from bobbin.runtime.introduction import NotAdmitted
from bobbin.runtime.tangle_places import Place, PlaceBounds, Places
from tests.support.pzp_wire import ALICE, BOB, CAROL

HERE, THERE, ELSEWHERE = "192.0.2.1", "192.0.2.2", "192.0.2.3"


class _Link:
    def __init__(self, *, is_answering: bool = False, silent_seconds: float = 0.0, unfinished_bytes: int = 0) -> None:
        self.is_answering = is_answering
        self.silent_seconds = silent_seconds
        self.unfinished_bytes = unfinished_bytes
        self.is_aborted = False

    def abort(self) -> None:
        assert not self.is_aborted
        self.is_aborted = True


def _take(places: Places, link: _Link, origin: str = HERE, key: bytes = ALICE.public_bytes) -> Place:
    return places.take(key, origin, link, loopback=False)


def _key(number: int) -> bytes:
    return number.to_bytes(32)


def test_a_key_has_a_few_places_and_its_oldest_idle_link_goes() -> None:
    places = Places(PlaceBounds(per_peer_max=2))
    links = [_Link(is_answering=True), _Link(), _Link()]
    taken = [_take(places, link) for link in links]
    assert [link.is_aborted for link in links] == [False, True, False]
    assert len(places) == 2
    why = taken[1].why
    assert isinstance(why, NotAdmitted)
    assert why.code == Refusal.TOO_MANY_PEER
    assert taken[0].why is None
    assert taken[2].why is None
    _take(places, _Link(), key=BOB.public_bytes)
    assert len(places) == 3


def test_links_that_are_alive_stay_and_the_newcomer_is_refused() -> None:
    places = Places(PlaceBounds(per_peer_max=2, silent_seconds_min=60.0))
    alive = [_Link(is_answering=True, silent_seconds=59.0) for _ in range(2)]
    for link in alive:
        _take(places, link)
    with pytest.raises(NotAdmitted) as caught:
        _take(places, _Link())
    assert caught.value.code == Refusal.TOO_MANY_PEER
    assert not any(link.is_aborted for link in alive)
    alive[1].silent_seconds = 60.0
    _take(places, _Link())
    assert [link.is_aborted for link in alive] == [False, True]


def test_an_address_has_a_share_whatever_keys_it_has() -> None:
    places = Places(PlaceBounds(per_address_max=3, this_machine_max=4))
    links = [_Link() for _ in range(5)]
    for number, link in enumerate(links):
        _take(places, link, key=_key(number))
    assert [link.is_aborted for link in links] == [True, True, False, False, False]
    others = [_Link() for _ in range(5)]
    for number, link in enumerate(others):
        places.take(_key(number), f"127.0.0.{number}", link, loopback=True)
    assert [link.is_aborted for link in others] == [True, False, False, False, False]


def test_where_all_places_are_taken_the_address_with_most_idle_links_gives_way() -> None:
    places = Places(PlaceBounds(total_max=4))
    first, *crowd = _Link(), _Link(), _Link(), _Link()
    _take(places, first, HERE, CAROL.public_bytes)
    for link in crowd:
        _take(places, link, THERE)
    _take(places, _Link(), ELSEWHERE, BOB.public_bytes)
    assert not first.is_aborted
    assert [link.is_aborted for link in crowd] == [True, False, False]
    assert len(places) == 4


def test_every_bound_holds_at_once_and_a_refusal_costs_nobody_a_place() -> None:
    """A key that changes its address does not have more there than that address may have."""
    places = Places(PlaceBounds(per_peer_max=1, per_address_max=1))
    here, there = _Link(), _Link(is_answering=True)
    _take(places, here, HERE, ALICE.public_bytes)
    _take(places, there, THERE, BOB.public_bytes)
    with pytest.raises(NotAdmitted) as caught:
        _take(places, _Link(), THERE, ALICE.public_bytes)
    assert caught.value.code == Refusal.TOO_MANY_ADDRESS
    assert [link.is_aborted for link in (here, there)] == [False, False]
    there.is_answering = False
    _take(places, _Link(), THERE, ALICE.public_bytes)
    assert [link.is_aborted for link in (here, there)] == [True, True]
    assert len(places) == 1


def test_parts_of_frames_are_bounded_over_all_links() -> None:
    places = Places(PlaceBounds(unfinished_bytes_max=100))
    links = [_Link(is_answering=True, unfinished_bytes=size) for size in (40, 60, 0)]
    taken = [_take(places, link, key=_key(number)) for number, link in enumerate(links)]
    places.check_unfinished()
    assert len(places) == 3
    links[2].unfinished_bytes = 1
    places.check_unfinished()
    assert [link.is_aborted for link in links] == [False, True, False]
    assert isinstance(taken[1].why, ResourceError)


def test_a_place_that_is_left_is_free() -> None:
    places = Places(PlaceBounds(per_peer_max=1))
    link = _Link(is_answering=True)
    place = _take(places, link)
    places.leave(place)
    places.leave(place)
    _take(places, _Link())
    assert not link.is_aborted

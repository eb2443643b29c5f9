"""A channel that keeps no promise, and a calm one that keeps them all."""

from random import Random

from bobbin.simulator.clock import Timeline
from bobbin.simulator.reactive_channel import CALM, Channel, Parcel, Turmoil, draw_turmoil


class End:
    """One that only takes note."""

    def __init__(self) -> None:
        self.arrived: list[Parcel] = []
        self.lost = 0

    def arrive(self, parcel: Parcel) -> None:
        self.arrived.append(parcel)

    def lose(self) -> None:
        self.lost += 1


def channel(turmoil: Turmoil) -> tuple[Channel, Timeline, tuple[End, End]]:
    timeline, ends = Timeline(), (End(), End())
    made = Channel(timeline, turmoil, Random(1))
    for number, end in enumerate(ends):
        made.attach(number, end)
    return made, timeline, ends


def parcels(count: int = 200) -> list[Parcel]:
    return [Parcel("frame", number.to_bytes(4, "big")) for number in range(count)]


def exchange(turmoil: Turmoil) -> tuple[list[Parcel], int]:
    """What arrives at end 1, and how often end 0 was told that a frame is off its hands."""
    made, timeline, ends = channel(turmoil)
    taken: list[None] = []
    for parcel in parcels():
        made.send(0, parcel, lambda: taken.append(None))
    while timeline.step():
        pass
    assert ends[0].arrived == []
    return ends[1].arrived, len(taken)


def test_a_calm_channel_brings_everything_once_and_in_order() -> None:
    assert exchange(CALM) == (parcels(), 200)


def test_frames_are_lost_and_the_sender_does_not_know() -> None:
    arrived, taken = exchange(Turmoil(loss=0.5))
    assert 40 < len(arrived) < 160
    assert taken == 200


def test_frames_come_twice() -> None:
    arrived, _ = exchange(Turmoil(doubling=0.5))
    assert len(arrived) > len(set(arrived)) == 200


def test_frames_come_in_another_order() -> None:
    arrived, _ = exchange(Turmoil(is_ordered=False))
    assert arrived != parcels()
    assert sorted(arrived) == parcels()


def test_frames_are_cut_short() -> None:
    arrived, _ = exchange(Turmoil(cutting=0.5))
    assert {len(parcel.raw) for parcel in arrived} == {0, 1, 2, 3, 4}


def test_a_broken_channel_loses_what_is_on_its_way_and_both_ends_hear_of_it_once() -> None:
    made, timeline, ends = channel(CALM)
    made.send(0, Parcel("frame", b"x"))
    made.break_off()
    made.break_off()
    made.send(1, Parcel("frame", b"y"))
    while timeline.step():
        pass
    assert [end.arrived for end in ends] == [[], []]
    assert [end.lost for end in ends] == [1, 1]
    assert not made.is_up


def test_what_follows_a_greeting_seldom_overtakes_it() -> None:
    in_order = 0
    for _ in range(50):
        made, timeline, ends = channel(Turmoil(is_ordered=False, delay_ns_max=10**9))
        made.send(0, Parcel("greeting", b"g"))
        made.send(0, Parcel("frame", b"f"))
        while timeline.step():
            pass
        in_order += ends[1].arrived[0].kind == "greeting"
    assert in_order > 40


def test_every_kind_of_turmoil_is_drawn() -> None:
    drawn = [draw_turmoil(Random(seed)) for seed in range(200)]
    for name in ("loss", "doubling", "cutting", "breaking", "is_ordered"):
        assert {bool(getattr(one, name)) for one in drawn} == {True, False}, name

"""A link keeps the order, holds so much, ends in good order or breaks with what is on its way."""

from random import Random

from bobbin.simulator.clock import Timeline
from bobbin.simulator.network import Link, Weather


class End:
    """Remembers what it got."""

    def __init__(self) -> None:
        self.got: list[str] = []
        self.losses = 0

    def arrive(self, item: str) -> None:
        self.got.append(item)

    def lose(self) -> None:
        self.losses += 1


def connect(weather: Weather, seed: int = 0) -> tuple[Timeline, Link[str], End, End]:
    timeline = Timeline()
    link: Link[str] = Link(timeline, weather, Random(seed), lambda item, _: item[:1])
    ends = End(), End()
    for number, end in enumerate(ends):
        link.attach(number, end)
    return timeline, link, *ends


def run(timeline: Timeline) -> None:
    while timeline.step():
        pass


def test_items_arrive_in_order_whatever_their_delays() -> None:
    for seed in range(20):
        timeline, link, left, right = connect(Weather(delay_ns_max=100, drip_rate=0.3, drip_ns=500), seed)
        for number in range(9):
            link.directions[0].send(str(number))
            link.directions[1].send(f"-{number}")
        run(timeline)
        assert right.got == [str(number) for number in range(9)]
        assert left.got == [f"-{number}" for number in range(9)]


def test_an_end_in_good_order_comes_after_everything_and_once() -> None:
    timeline, link, left, right = connect(Weather())
    link.directions[0].send("last words")
    link.directions[0].close()
    link.directions[0].close()
    link.directions[0].send("too late")
    run(timeline)
    assert right.got == ["last words"]
    assert (left.losses, right.losses) == (0, 1)


def test_a_break_loses_what_is_on_its_way_and_both_ends_learn_of_it() -> None:
    timeline, link, left, right = connect(Weather())
    link.directions[0].send("lost")
    link.break_off()
    link.break_off()
    run(timeline)
    assert right.got == []
    assert (left.losses, right.losses) == (1, 1)


def test_a_link_that_breaks_at_an_item_brings_a_part_of_it() -> None:
    timeline, link, _, right = connect(Weather(break_rate=1.0))
    link.directions[0].send("truncated")
    link.directions[0].send("never")
    run(timeline)
    assert right.got == ["t"]
    assert right.losses == 1


def test_a_sender_is_told_when_there_is_room() -> None:
    timeline, link, _, _ = connect(Weather(items_max=2))
    way = link.directions[0]
    told: list[int] = []
    way.send("one")
    way.when_room(lambda: told.append(way.in_flight))
    assert told == [1]
    way.send("two")
    assert not way.has_room
    way.when_room(lambda: told.append(way.in_flight))
    assert told == [1]
    run(timeline)
    assert told == [1, 1]
    assert way.most_in_flight == 2

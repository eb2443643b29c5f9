"""Clients: what they ask for, what they conclude from answers, and what stays unknown."""

from collections.abc import Callable
from random import Random

import pytest
from msgspec.structs import replace

from bobbin.cluster.operations import CounterAdd, Put
from bobbin.cluster.shard.effects import Answer
from bobbin.cluster.shard.events import Begin, Commit, Event, Validate
from bobbin.cluster.shard.placing import shard_of
from bobbin.cluster.transactions.names import ShardId
from bobbin.cluster.transactions.phases import Ended
from bobbin.simulator.clock import Action, Timeline
from bobbin.simulator.transaction_clients import (
    ATTEMPTS_MAX,
    LOOK_NS_MAX,
    Client,
    Status,
    Wanted,
    account,
    read_list,
    twin,
    watch,
    written_list,
)
from bobbin.simulator.transaction_shape import WISHES, draw_shape
from bobbin.simulator.transaction_shard import Reading


class Shards:
    """Shards that hold what a test says, and answer what it says."""

    def __init__(self, *, shards: int = 2) -> None:
        self.timeline = Timeline()
        self.shape = replace(draw_shape(Random(1)), shards=shards, keys=2)
        self.is_troubled = False
        self.is_traced = False
        self.held: dict[bytes, bytes] = {}
        self.asked: list[tuple[ShardId, Event]] = []
        self.answers: list[Ended | None] = []
        """One after the other; None for nobody there. Without any there is no answer at all."""
        self.copies = 1
        self.ends: list[Wanted] = []

    def read(self, shard: ShardId, keys: list[bytes]) -> Reading | None:
        assert all(shard_of(key, self.shape.shards) == shard for key in keys)
        return Reading(tuple((self.held.get(key), 3 if key in self.held else 0) for key in keys), 7, 7)

    def ask(self, shard: ShardId, make: Callable[[int], Event], reply: Callable[[Answer], None]) -> bool:
        event = make(len(self.asked) + 1)
        self.asked.append((shard, event))
        if not self.answers:
            return True
        ended = self.answers.pop(0)
        if ended is None:
            return False
        tx = event.tx if isinstance(event, Begin) else event.transaction.id if isinstance(event, Commit) else b""
        reply(Answer(len(self.asked), ended, tx))  # type: ignore[arg-type]
        return True

    def carry(self, arrive: Action) -> int:
        for _ in range(self.copies):
            self.timeline.after(1, arrive)
        return self.copies

    def tell(self, line: str) -> None:
        assert line.startswith("client 0")

    def ended(self, wanted: Wanted) -> None:
        self.ends.append(wanted)


def acted(shards: Shards, wish: str, seed: int = 1) -> Wanted:
    """One transaction of a client, to its end."""
    book: list[Wanted] = []
    client = Client(0, shards, Random(seed), book)
    assert client.act(wish)
    assert not client.act(wish), "one thing after the other"
    while shards.timeline.step():
        pass
    assert shards.ends == book
    assert client.current is None
    return book[0]


@pytest.mark.parametrize("wish", WISHES)
def test_every_wish_becomes_parts_of_the_right_shards(wish: str) -> None:
    events = set()
    for seed in range(12):
        shards = Shards()
        shards.answers = [Ended.COMMITTED]
        wanted = acted(shards, wish, seed)
        assert wanted.status is Status.COMMITTED
        assert wanted.returned_ns == shards.timeline.now_ns or wanted.returned_ns is not None
        for shard, part in wanted.parts:
            assert part.since == 7
            assert {shard_of(read.key, 2) for read in part.reads} <= {shard}
        (to, event) = shards.asked[0]
        assert isinstance(event, Begin) == (len(wanted.parts) > 1)
        assert isinstance(event, Begin) or to == wanted.parts[0][0]
        events.add(type(event))
    assert events <= {Begin, Commit, Validate}
    assert (Validate in events) <= (wish in {"audit", "append"}), "only to look"


def test_money_moves_and_none_is_made() -> None:
    shards = Shards()
    shards.held = {account(0): b"40", account(1): b"60", account(2): b"7"}
    wanted = acted(shards, "transfer")
    before = sum(int(shards.held[key]) for key in wanted.seen)
    assert sum(int(one.data) for one in wanted.operations if isinstance(one, Put)) == before
    assert len(wanted.operations) == 2


def test_a_watch_ends_only_while_the_other_is_held() -> None:
    shards = Shards()
    shards.held = {watch(pair, place): b"off" if place else b"on" for pair in (0, 1) for place in (0, 1)}
    wanted = acted(shards, "skew")
    assert [one.data for one in wanted.operations if isinstance(one, Put)] == [b"on"]
    shards = Shards()
    wanted = acted(shards, "skew")
    assert [one.data for one in wanted.operations if isinstance(one, Put)] == [b"off"]


def test_counters_and_pairs_are_written_blindly() -> None:
    assert all(isinstance(one, CounterAdd) for one in acted(Shards(), "count").operations)
    wanted = acted(Shards(), "pair")
    assert len({one.data for one in wanted.operations if isinstance(one, Put)}) == 1
    assert {one.key for one in wanted.operations if isinstance(one, Put)} in (
        {twin(0, 0), twin(0, 1)},
        {twin(1, 0), twin(1, 1)},
    )
    assert wanted.seen == {}


def test_in_a_crowd_most_want_something_of_one_shard_and_all_of_them_at_once() -> None:
    wishes: list[str] = []
    for seed in range(40):
        shards = Shards()
        shards.answers = [Ended.COMMITTED]
        book: list[Wanted] = []
        assert Client(0, shards, Random(seed), book).act(crowded=ShardId(1))
        while shards.timeline.step():
            pass
        wishes.append(book[0].wish)
        returned_ns = book[0].returned_ns
        assert returned_ns is not None
        assert returned_ns - book[0].called_ns <= LOOK_NS_MAX + 2
        if book[0].wish == "plain":
            assert [shard for shard, _ in book[0].parts] == [ShardId(1)]
    assert len(wishes) // 3 < wishes.count("plain") < len(wishes)


def test_lists_are_stored_and_read_back() -> None:
    assert read_list(written_list((3, 1, 2))) == (3, 1, 2)
    assert read_list(None) == ()


def test_what_is_not_answered_is_asked_again_under_the_same_id_and_then_unknown() -> None:
    shards = Shards()
    wanted = acted(shards, "pair")
    assert wanted.status is Status.UNKNOWN
    assert wanted.returned_ns is None
    assert len(shards.asked) == ATTEMPTS_MAX
    assert len({repr(event).split("request=")[1].split(",", 1)[1] for _, event in shards.asked}) == 1


@pytest.mark.parametrize("ended", [Ended.CONFLICT, Ended.ABORTED, Ended.REFUSED])
def test_one_final_word_is_enough(ended: Ended) -> None:
    shards = Shards()
    shards.copies = 2
    shards.answers = [ended]
    assert acted(shards, "pair").status is Status.REFUSED


def test_that_it_is_busy_is_about_one_request() -> None:
    shards = Shards()
    shards.answers = [Ended.BUSY]
    assert acted(shards, "pair").status is Status.REFUSED, "there was only one"
    shards = Shards()
    shards.copies = 2
    shards.answers = [Ended.BUSY, Ended.COMMITTED]
    assert acted(shards, "pair").status is Status.COMMITTED, "the other one was still on its way"
    shards = Shards()
    shards.answers = [None, Ended.BUSY]
    wanted = acted(shards, "pair")
    assert wanted.status is Status.REFUSED, "nobody took the first one"
    assert wanted.attempts == 2


def test_that_nobody_took_a_request_counts_once_however_often_it_is_heard() -> None:
    """The other copy of the request may still come to something."""
    shards = Shards()
    shards.copies = 2
    shards.answers = [None, Ended.BUSY, None, Ended.COMMITTED]
    wanted = acted(shards, "pair")
    assert wanted.requests == 2 * wanted.attempts
    assert wanted.status is Status.REFUSED, "both copies of the first attempt came to nothing"
    shards = Shards()
    shards.copies = 3
    shards.answers = [None, Ended.BUSY, Ended.COMMITTED]
    assert acted(shards, "pair").status is Status.COMMITTED


def test_forgotten_is_neither() -> None:
    shards = Shards()
    shards.answers = [Ended.FORGOTTEN] * ATTEMPTS_MAX
    assert acted(shards, "pair").status is Status.UNKNOWN


def test_a_shard_without_a_leader_is_left_alone() -> None:
    shards = Shards()
    shards.read = lambda *_: None  # type: ignore[method-assign]
    assert not Client(0, shards, Random(1), []).act("transfer")

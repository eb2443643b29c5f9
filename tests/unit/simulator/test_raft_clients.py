"""The book of what clients may be told, and clients who try again and give up."""

from collections.abc import Callable
from random import Random
from typing import NoReturn

import pytest

from bobbin.cluster.key_value import Item, KeyValue, Kind, Outcome
from bobbin.cluster.names import Index, NodeId, Term
from bobbin.simulator.clock import Timeline
from bobbin.simulator.raft_clients import Answer, Book, Client, Request, Verb
from bobbin.simulator.world import Broken
from bobbin.wire.cluster.commands import encode_outcome, key_value

NODE = NodeId("n")


def fail(message: str) -> NoReturn:
    raise Broken(message)


class Desk:
    """A table that answers at once, or not at all."""

    def __init__(self, book: Book) -> None:
        self.table: KeyValue = key_value()
        self.index = 0
        self.is_silent = False
        self.refusals = 0
        self._book = book

    def propose(self, node: NodeId, payload: bytes, reply: Callable[[Answer, bytes, NodeId | None], None]) -> None:
        assert node == NODE
        if self.refusals:
            self.refusals -= 1
            reply(Answer.REFUSED, b"", NODE)
            return
        self.index += 1
        result = self.table.apply(Index(self.index), Term(1), payload)
        self._book.applied(self.index, payload, result)
        if not self.is_silent:
            reply(Answer.DONE, result, NODE)

    def read(self, node: NodeId, key: bytes, reply: Callable[[int | None, Item | None, NodeId | None], None]) -> None:
        assert node == NODE
        if not self.is_silent:
            reply(self.index, self.table.get(key), NODE)


def setting() -> tuple[Client, Desk, Book, Timeline]:
    timeline, book = Timeline(), Book(fail)
    desk = Desk(book)
    return Client("c", Random(1), timeline, desk, book, [NODE]), desk, book, timeline


def settle(timeline: Timeline) -> None:
    while timeline.step():
        pass


def test_a_client_that_is_answered_knows_what_came_of_it() -> None:
    client, desk, book, timeline = setting()
    for number in range(60):
        request = client.act()
        assert request is not None
        assert client.act() is None, "one thing after the other"
        settle(timeline)
        assert request.returned_ns is not None
        assert not client.is_busy
        assert len(book.requests) == number + 1
    assert {item.key: item.value for item in desk.table.scan()} == book.final()
    assert {request.verb for request in book.requests} == set(Verb)
    assert book.floor == desk.index


def test_a_client_repeats_itself_and_is_done_once_or_never_knows() -> None:
    client, desk, book, timeline = setting()
    desk.refusals = 2
    request = client.act(Verb.PUT)
    settle(timeline)
    assert request is not None
    assert (request.attempts, request.kind) == (3, Kind.WRITTEN)
    desk.is_silent = True
    lost = client.act(Verb.PUT)
    settle(timeline)
    assert lost is not None
    assert lost.returned_ns is None
    assert lost.attempts == client.attempts_max
    assert client.tally == {"requests answered": 1, "requests unknown": 1}
    assert book.value_at(lost.key, desk.index)[0] == lost.value, "it was done, and only once"
    assert book.value_at(lost.key, desk.index)[1] == 2


def request(book: Book, verb: Verb = Verb.PUT, payload: bytes = b"p", value: bytes | None = b"v") -> Request:
    made = Request(client="c", verb=verb, key=b"k", called_ns=0, floor=0, payload=payload, value=value)
    book.open(made)
    return made


def outcome(kind: Kind, version: int) -> bytes:
    return encode_outcome(Outcome(kind, version))


def test_an_answer_that_is_not_that_of_the_order_is_found() -> None:
    book = Book(fail)
    request(book)
    with pytest.raises(Broken, match="should have given WRITTEN"):
        book.applied(1, b"p", outcome(Kind.ABSENT, 0))
    with pytest.raises(Broken, match="nobody made"):
        book.applied(2, b"unknown", outcome(Kind.WRITTEN, 2))


def test_a_request_is_done_once() -> None:
    book = Book(fail)
    request(book)
    book.applied(1, b"p", outcome(Kind.WRITTEN, 1))
    book.applied(2, b"p", outcome(Kind.WRITTEN, 1))
    with pytest.raises(Broken, match="repeats entry 1"):
        book.applied(3, b"p", outcome(Kind.WRITTEN, 3))


def test_nobody_is_told_of_what_was_not_done_or_before_it_was_asked() -> None:
    book = Book(fail)
    early = request(book)
    with pytest.raises(Broken, match="None is known"):
        book.told_write(early, outcome(Kind.WRITTEN, 1), 5)
    book.applied(1, b"p", outcome(Kind.WRITTEN, 1))
    assert book.told_write(early, outcome(Kind.WRITTEN, 1), 5)
    late = request(book, payload=b"q")
    late.floor = 7
    book.applied(2, b"q", outcome(Kind.WRITTEN, 2))
    with pytest.raises(Broken, match="came after 7"):
        book.told_write(late, outcome(Kind.WRITTEN, 2), 6)


def test_reads_never_go_back_and_show_what_is_there() -> None:
    book = Book(fail)
    first = request(book)
    book.applied(1, b"p", outcome(Kind.WRITTEN, 1))
    book.told_write(first, outcome(Kind.WRITTEN, 1), 5)
    read = request(book, Verb.GET, b"", None)
    with pytest.raises(Broken, match="had been told of"):
        book.told_read(read, 0, None, 6)
    with pytest.raises(Broken, match="where it is"):
        book.told_read(read, 1, Item(b"k", b"other", 1), 6)
    book.told_read(read, 1, Item(b"k", b"v", 1), 6)
    assert read.value == b"v"


def test_a_refusal_is_void_only_if_nothing_was_done_before() -> None:
    book = Book(fail)
    one = request(book)
    one.attempts = 1
    book.applied(1, b"p", outcome(Kind.EXPIRED, 9))
    assert not book.told_write(one, outcome(Kind.EXPIRED, 9), 5)
    assert one.is_void
    other = request(book, payload=b"q")
    other.attempts = 2
    assert not book.told_write(other, outcome(Kind.EXPIRED, 9), 5)
    assert not other.is_void


def test_nonsense_is_refused_everywhere() -> None:
    book = Book(fail)
    book.nonsense.add(b"?")
    book.applied(1, b"?", outcome(Kind.NO_COMMAND, 0))
    with pytest.raises(Broken, match="no command"):
        book.applied(2, b"?", outcome(Kind.WRITTEN, 2))

"""Having commands committed: what comes back, and what can go wrong."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest

from bobbin.cluster.names import Index, NodeId, Term
from bobbin.errors import ResourceError, UsageError
from bobbin.runtime import replicated_proposing
from bobbin.runtime.cluster_client import ClusterClient, NotAccepted, OutcomeUnknown
from bobbin.runtime.replicated_commands import Answer, Lift, NotDone, PutRecords, Truth, decode_command, encode
from bobbin.runtime.replicated_machine import LaceMachine
from bobbin.runtime.replicated_proposing import (
    DistantNode,
    NoNodeHere,
    NotHereYet,
    NotTaken,
    PolledStore,
    Proposing,
    new_token,
)
from bobbin.store.sqlite import open_store
from bobbin.transport.base import TransportError
from bobbin.wire.cluster.client import Rejected
from tests.conformance.samples import plex

HERE = NodeId("here")


class Cluster:
    """A client and the store of a node: what is proposed is done here by what the test wants."""

    def __init__(self, propose: "Callable[[Cluster, bytes], Index]") -> None:
        self._propose = propose
        self.expected: dict[bytes, Future[bytes]] = {}
        self.settled: list[NodeId] = []

    async def propose(self, command: bytes) -> Index:
        await asyncio.sleep(0)
        return self._propose(self, command)

    async def settle(self, node: NodeId) -> None:
        self.settled.append(node)

    async def close(self) -> None: ...

    def expect(self, token: bytes) -> "Future[bytes]":
        return self.expected.setdefault(token, Future())

    def forget(self, token: bytes) -> None:
        self.expected.pop(token, None)

    def finish(self, command: bytes, answer: Answer) -> None:
        found = decode_command(command)
        assert isinstance(found, Lift)
        self.expected[found.token].set_result(encode(answer))


@contextmanager
def proposing(cluster: Cluster, seconds: float = 30.0) -> Iterator[Proposing]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield Proposing(loop, cluster, cluster, HERE, seconds=seconds)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def lift() -> Lift:
    return Lift(new_token(), plex(1).hash)


def test_it_returns_when_it_is_done_here() -> None:
    def commit(cluster: Cluster, command: bytes) -> Index:
        cluster.finish(command, Truth(value=True))
        return Index(5)

    cluster = Cluster(commit)
    with proposing(cluster) as one:
        assert one.begin([lift(), lift()])() == [Truth(value=True)] * 2
        one.settle()
    assert cluster.settled == [HERE]
    assert cluster.expected == {}, "nothing is left behind"


def test_what_is_done_here_needs_no_word_of_the_leader() -> None:
    def commit(cluster: Cluster, command: bytes) -> Index:
        cluster.finish(command, Truth(value=False))
        raise OutcomeUnknown("the leader died after it had committed it")

    with proposing(Cluster(commit)) as one:
        assert one.begin([lift()])() == [Truth(value=False)]


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (OutcomeUnknown("time is up"), OutcomeUnknown),
        (NotAccepted(Rejected(0, "no-quorum", "nobody leads")), NotTaken),
        (TransportError("refused", retry=True), NotTaken),
    ],
)
def test_failures_have_names(failure: ResourceError, expected: type[ResourceError]) -> None:
    def fail(_cluster: Cluster, _command: bytes) -> Index:
        raise failure

    cluster = Cluster(fail)
    with proposing(cluster) as one, pytest.raises(expected) as raised:
        one.begin([lift()])()
    assert raised.value.retry
    assert cluster.expected == {}


def test_a_node_that_lags_says_so() -> None:
    with proposing(Cluster(lambda _cluster, _command: Index(5)), seconds=0.01) as one, pytest.raises(NotHereYet):
        one.begin([lift()])()


def test_a_refusal_of_the_state_is_the_callers_fault() -> None:
    def refuse(cluster: Cluster, command: bytes) -> Index:
        cluster.finish(command, NotDone("no name"))
        return Index(5)

    with proposing(Cluster(refuse)) as one, pytest.raises(UsageError, match="no name"):
        one.begin([lift()])()


@pytest.fixture
def one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """One command under way."""
    monkeypatch.setattr(replicated_proposing, "UNDER_WAY_BYTES_MIN", 1)
    monkeypatch.setattr(replicated_proposing, "UNDER_WAY_BYTES_MAX", 1)


@pytest.mark.usefixtures("one_at_a_time")
@pytest.mark.parametrize("is_refused", [False, True])
def test_after_one_that_fails_no_more_of_a_call_are_sent_and_those_of_others_are(*, is_refused: bool) -> None:
    commands = [lift() for _ in range(6)]
    sent: list[bytes] = []

    def propose(cluster: Cluster, command: bytes) -> Index:
        sent.append(command)
        if command != encode(commands[1]):
            cluster.finish(command, Truth(value=True))
        elif is_refused:
            cluster.finish(command, NotDone("no name"))
        else:
            raise TransportError("refused", retry=True)
        return Index(5)

    with proposing(Cluster(propose)) as one:
        first, second = one.begin(commands[:4]), one.begin(commands[4:])
        with pytest.raises(UsageError if is_refused else NotTaken):
            first()
        assert second() == [Truth(value=True)] * 2
    assert sent == [encode(commands[at]) for at in (0, 1, 4, 5)]


@pytest.mark.usefixtures("one_at_a_time")
def test_what_is_stopped_sends_no_more_and_what_was_sent_is_waited_for() -> None:
    sent: list[bytes] = []
    is_sent = threading.Event()

    def propose(_cluster: Cluster, command: bytes) -> Index:
        sent.append(command)
        is_sent.set()
        return Index(5)

    cluster = Cluster(propose)
    commands = [lift() for _ in range(3)]
    with proposing(cluster) as one:
        begun = one.begin(commands)
        assert is_sent.wait(30)
        begun.stop()
        ending = threading.Thread(target=begun.abandon)
        ending.start()
        ending.join(0.05)
        assert ending.is_alive(), "the first one is still to come"
        cluster.finish(sent[0], Truth(value=True))
        ending.join(30)
        assert not ending.is_alive()
    assert sent == [encode(commands[0])]


_TAKEN = NotTaken("nobody leads")
_UNKNOWN = OutcomeUnknown("time is up")


@pytest.mark.parametrize(
    ("outcomes", "expected", "words"),
    [
        ((_TAKEN, _TAKEN), NotTaken, "has not taken this, since no"),
        ((None, _TAKEN), NotTaken, "has taken a part of this and no more"),
        ((_TAKEN, None), NotTaken, "has taken a part of this and no more"),
        ((None, _TAKEN, _UNKNOWN), OutcomeUnknown, "time is up"),
        ((_TAKEN, _UNKNOWN), OutcomeUnknown, "time is up"),
    ],
)
def test_of_several_commands_the_worst_is_said(
    outcomes: tuple[ResourceError | None, ...], expected: type[ResourceError], words: str
) -> None:
    commands = [lift() for _ in outcomes]
    of = dict(zip(map(encode, commands), outcomes, strict=True))

    def propose(cluster: Cluster, command: bytes) -> Index:
        error = of[command]
        if isinstance(error, OutcomeUnknown):
            raise error
        if error is not None:
            raise TransportError("nobody leads", retry=True)
        cluster.finish(command, Truth(value=True))
        return Index(5)

    with proposing(Cluster(propose)) as one, pytest.raises(expected, match=words) as raised:
        one.begin(commands)()
    assert raised.value.retry


def test_after_the_end_of_the_loop_nothing_is_proposed() -> None:
    with proposing(Cluster(lambda _cluster, _command: Index(5))) as one:
        pass
    with pytest.raises(ResourceError, match="stopped"):
        one.begin([lift()])()


def test_a_store_of_another_process_is_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    open_store(path, create=True, now=lambda: 0).close()
    machine = LaceMachine(path, now=lambda: 0)
    command = PutRecords(new_token(), [plex(1).raw])

    async def run() -> bytes:
        polled = PolledStore(open_store(path, now=lambda: 0, read_only=True))
        coming = polled.expect(command.token)
        await asyncio.to_thread(machine.apply, [(Index(1), Term(1), encode(command))], 1)
        answer = await asyncio.wrap_future(coming)
        polled.forget(command.token)
        await polled.close()
        return answer

    assert asyncio.run(run()) == machine.store.replica.answer(command.token)
    machine.close()


def test_without_a_node_in_the_folder_nothing_is_written(tmp_path: Path) -> None:
    def connect() -> tuple[ClusterClient, NodeId]:
        from bobbin.runtime.cluster_members import Directory, KnownMembers  # noqa: PLC0415

        known = KnownMembers(directory=Directory([], []))
        return ClusterClient(known, socket=tmp_path / "node.sock", here=HERE, seconds=1), HERE

    distant = DistantNode(tmp_path, connect, lambda: pytest.fail("there is nothing to look at"))
    for _ in range(2):
        with pytest.raises(NoNodeHere, match="bobbin serve"):
            distant.begin([lift()])()
    distant.close()
    distant.close()


def test_what_nobody_waits_for_any_more_is_dropped_by_the_end(tmp_path: Path) -> None:
    class Silent(Cluster):
        async def status(self, _node: NodeId) -> None: ...

    path = tmp_path / "a.db"
    open_store(path, create=True, now=lambda: 0).close()
    is_sent = threading.Event()

    def propose(_cluster: Cluster, _command: bytes) -> Index:
        is_sent.set()
        return Index(5)

    def connect() -> tuple[ClusterClient, NodeId]:
        return cast("ClusterClient", Silent(propose)), HERE

    distant = DistantNode(tmp_path, connect, lambda: open_store(path, now=lambda: 0, read_only=True))
    begun = distant.begin([lift()])
    assert is_sent.wait(30)
    heard: list[BaseException] = []

    def wait() -> None:
        try:
            begun()
        except CancelledError as error:
            heard.append(error)

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    distant.close()
    waiting.join(30)
    assert len(heard) == 1
    with pytest.raises(UsageError, match="closed"):
        distant.begin([lift()])

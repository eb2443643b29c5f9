"""Having commands committed: what comes back, and what can go wrong."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

import pytest

from bobbin.cluster.names import Index, NodeId, Term
from bobbin.errors import ResourceError, UsageError
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

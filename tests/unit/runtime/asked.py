"""A node whose raft machine only listens, and a client that asks it."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from bobbin.cluster.names import Index, NodeId, Term
from bobbin.cluster.raft.entries import Entry
from bobbin.cluster.raft.events import Event
from bobbin.runtime.cluster_members import Directory, KnownMembers, Rights
from bobbin.runtime.cluster_port import Port
from bobbin.runtime.cluster_requests import Requests
from bobbin.runtime.cluster_settings import ClientBounds
from bobbin.runtime.cluster_state import State
from bobbin.transport.flow import Flow
from bobbin.wire.cluster import client
from bobbin.wire.cluster.chain import ChainVerify
from bobbin.wire.cluster.client import Answer, Done, Request
from bobbin.wire.cluster.frame import Deframer


class Core:
    """A node whose raft machine only listens."""

    def __init__(self) -> None:
        self.state: Final = State(known=KnownMembers(directory=Directory()), checkpoint_entries=1_000_000)
        self.has_learnt = True
        self.heard: Final[list[Event]] = []
        self.operated: Final[list[object]] = []

    def feed(self, event: Event) -> None:
        self.heard.append(event)

    def address_of(self, node: NodeId | None) -> str | None:
        return None if node is None else "tls:h:1"

    def report(self, number: int) -> Answer:
        return Done(number, 77)

    def operate(self, port: Port, request: object) -> None:
        del port
        self.operated.append(request)

    def attend(self, port: Port, requests: Sequence[Request]) -> Sequence[Request]:
        """Something is attached that knows one of them."""
        for request in requests:
            if isinstance(request, ChainVerify):
                port.answer(Done(request.number, 88))
        return [request for request in requests if not isinstance(request, ChainVerify)]


class ClientFlow(Flow):
    """Takes frames apart again."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: Final[list[Answer]] = []
        self.frames = 0
        self.fills = False
        """Whether one frame is as much as the client takes for now."""
        self._deframer = Deframer()

    def put(self, data: bytes | memoryview) -> None:
        if self.fills:
            self.pause_writing()
        self._deframer.feed(bytes(data))
        for payload in self._deframer.drain():
            self.frames += 1
            self.answers.extend(client.decode_answers(payload))


class Scene:
    """What such a node answers to such a client; ``turn`` lets the event loop go on."""

    def __init__(self, bounds: ClientBounds = ClientBounds(), rights: Rights = Rights.OPERATOR) -> None:  # noqa: B008
        self.now = 0.0
        self.core: Final = Core()
        self.requests: Final = Requests(self.core, bounds, clock=lambda: self.now)
        self.flow: Final = ClientFlow()
        self.port: Final = Port(self.flow, rights, None, bounds)

    def take(self, *requests: client.Request) -> None:
        self.requests.take(self.port, requests)

    async def turn(self) -> None:
        for _ in range(3):
            await asyncio.sleep(0)

    def apply(self, first: int, term: int, *commands: bytes) -> None:
        entries = [Entry(Term(term), Index(first + at), command) for at, command in enumerate(commands)]
        self.requests.applied(entries, self.core.state.apply(entries))


def run(story: Callable[[], object]) -> None:
    async def run() -> None:
        outcome = story()
        if asyncio.iscoroutine(outcome):
            await outcome

    asyncio.run(run())


def put(number: int, key: bytes = b"k", value: bytes = b"v") -> client.Put:
    return client.Put(number, key, value, b"", 0)

"""One graph, and everybody who watches it: what each flush changed goes to each of them, as far as it may see it.

The host keeps all that is known of the graph as values, and has one publisher for each link. A change is taken in and
told to all publishers in the thread that made it, while that has the graph to itself (``ReactiveContext``); what they
want sent waits in their links, within the bounds of the publisher, until the link's own driver takes it. So a slow
observer holds up nobody.

Whoever changes the graph does so through the context. What observers write comes in the same way, in one batch for each
frame; their permissions were looked at before.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from secrets import token_hex
from typing import Final, TypeAlias

from bobbin.errors import BobbinError, PeerError, UsageError
from bobbin.reactive.change import Change
from bobbin.reactive.graph import Cell, Graph
from bobbin.reactive.handshake import Agreed
from bobbin.reactive.link_effects import (
    Behind,
    Close,
    Deliver,
    Denied,
    Fire,
    Greet,
    Notice,
    Notify,
    PublisherEffect,
    Refused,
    Send,
    Write,
)
from bobbin.reactive.link_events import Changed, PermissionsChanged, PublisherEvent
from bobbin.reactive.messages import CellSet, NodeId, PeerId, Snapshot
from bobbin.reactive.permissions import PeerPermissions
from bobbin.reactive.publisher import Publisher, PublisherConfig, PublisherPhase, take_change
from bobbin.reactive.replica import Replica
from bobbin.reactive.source import GraphSource
from bobbin.reactive.type_tags import TypeTags
from bobbin.runtime.graph_allowances import Allowance, Allowances
from bobbin.runtime.reactive_context import ReactiveContext

Tell: TypeAlias = Callable[[str, Mapping[str, str | int]], None]
"""Hears what happens: a word for it, and what belongs to it. Nothing that a peer chose is in the word."""

Outgoing: TypeAlias = Greet | Send | Close

NOTICES_MAX: Final = 64
"""That one link gives rise to. Who sends nothing but what is refused fills no log with it."""


def say_nothing(word: str, values: Mapping[str, str | int]) -> None:
    """For whoever wants to hear nothing."""
    del word, values


class HostedLink:
    """One observer's publisher, as its driver sees it. Every method may be called in any thread."""

    def __init__(self, host: "GraphHost", publisher: Publisher, wake: Callable[[], None]) -> None:
        self._host: Final = host
        self._publisher: Final = publisher
        self._wake: Final = wake
        self._waiting: Final[deque[Outgoing]] = deque()
        self._noticed = 0

    @property
    def peer(self) -> PeerId:
        return self._publisher.peer

    @property
    def agreed(self) -> Agreed | None:
        """What the handshake has settled."""
        return self._publisher.agreed

    @property
    def is_over(self) -> bool:
        """Whether there is nothing more to say, once what waits is said."""
        return self._publisher.phase is PublisherPhase.CLOSED

    def step(self, event: PublisherEvent) -> None:
        """Something has happened. What is to be sent waits for ``take`` afterwards; all else is done."""
        with self._host.context.entered():
            for effect in self._publisher.step(event):
                self._perform(effect)

    def take(self) -> Outgoing | None:
        """What is to be done next with the connection; None if there is nothing."""
        with self._host.context.entered():
            return self._waiting.popleft() if self._waiting else None

    def _perform(self, effect: PublisherEffect) -> None:
        match effect:
            case Write(writes):
                self._host.write(self.peer, writes)
            case Fire(node):
                self._host.fire(self.peer, node)
            case Deliver():
                # There is no plane of replicated cells here.
                self._note(Refused("replicated-cells", "there are none in this graph"))
            case Notify(notice):
                self._note(notice)
            case _:
                self._waiting.append(effect)
                self._wake()

    def _note(self, notice: Notice) -> None:
        self._noticed += 1
        if self._noticed < NOTICES_MAX:
            self._host.notice(self.peer, notice)
        elif self._noticed == NOTICES_MAX:
            self._host.notice(self.peer, Refused("too-many-notices", "what else this link does is not told"))


class GraphHost:
    """One graph that is served."""

    def __init__(
        self,
        graph: ReactiveContext | Graph,
        tags: TypeTags | None = None,
        *,
        allowed: Iterable[Allowance] = (),
        tell: Tell = say_nothing,
    ) -> None:
        """A graph by itself gets a context of its own, ``context``. ``tell`` may be called in any thread."""
        self.context: Final = graph if isinstance(graph, ReactiveContext) else ReactiveContext(graph)
        self.run: Final = token_hex(8)
        """As long as this is the same, an id means the same node."""
        self.tags: Final = tags or TypeTags.standard()
        self.tell: Tell = tell
        self.permissions: Final = PeerPermissions()
        self._allowances: Final = Allowances(self.permissions, allowed)
        self._triggers: Final[dict[NodeId, Callable[[], object]]] = {}
        self._links: Final[dict[HostedLink, None]] = {}
        self._truth: Final = Replica()
        with self.context.entered() as inner:
            self.graph: Final[Graph] = inner
            self._source: Final = GraphSource(inner, self.tags, wanted=self._is_wanted)
            wrong = self._truth.replace(self._source.snapshot())
            assert wrong is None, wrong
            for node in self._truth.nodes.values():
                self._allowances.welcome(node.id, node.key)
            self._source.on_change(self._follow)

    @property
    def allowed(self) -> tuple[Allowance, ...]:
        """Who may do what."""
        return tuple(self._allowances)

    @property
    def links(self) -> int:
        """How many observers there are."""
        return len(self._links)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Change the graph, in one batch."""
        with self.context.batch():
            yield

    def snapshot(self) -> Snapshot:
        """All of it, whoever may see it."""
        with self.context.entered():
            return self._source.snapshot()

    def allow(self, allowance: Allowance) -> None:
        """Allow more, from now on."""
        with self.context.entered():
            self._source.resolve(self._allowances.add(allowance, self._keys()))
            self._tell_links(allowance.peer)

    def forbid(self, allowance: Allowance) -> None:
        """Take back what was allowed."""
        with self.context.entered():
            self._allowances.remove(allowance, self._keys())
            self._tell_links(allowance.peer)

    def on_trigger(self, node: NodeId, run: Callable[[], object]) -> None:
        """What to run when a peer that may triggers this node. It has the graph to itself, and may change it."""
        with self.context.entered():
            if self.graph.node(node) is None:
                raise UsageError(f"there is no node {node}")
            self._triggers[node] = run

    def close(self) -> None:
        """Follow the graph no longer."""
        with self.context.entered():
            self._source.close()

    # ---- links ----------------------------------------------------------------------------------------------------

    def open(self, config: PublisherConfig, peer: PeerId, wake: Callable[[], None]) -> HostedLink:
        """A link to an observer. ``wake`` is called, in any thread, when there is something to take."""
        with self.context.entered():
            publisher = Publisher(config, peer=peer, truth=self._truth, permissions=self.permissions)
            link = HostedLink(self, publisher, wake)
            self._links[link] = None
        return link

    def forget(self, link: HostedLink) -> None:
        """A link is over."""
        with self.context.entered():
            self._links.pop(link, None)

    # ---- what observers do ----------------------------------------------------------------------------------------

    def write(self, peer: PeerId, writes: tuple[CellSet, ...]) -> None:
        """Set cells, which the peer may, in one batch. A value that is none is left out."""
        values: list[tuple[Cell[object], object]] = []
        for write in writes:
            node = self.graph.node(write.id)
            if not isinstance(node, Cell) or node.tag is None or not isinstance(write.value, bytes):
                self.notice(peer, Refused("not-a-value", f"node {write.id} takes no such value"))
                continue
            try:
                values.append((node, self.tags.decode(node.tag, write.value)))
            except PeerError as error:
                self.notice(peer, Refused(error.code, str(error)))
        try:
            with self.graph.batch():
                for cell, value in values:
                    cell.set(value)
        except BobbinError as error:
            # The cells are written. What followed from it went wrong here, and is not the peer's affair.
            self.tell("failed", {"peer": peer, "why": str(error)})

    def fire(self, peer: PeerId, node: NodeId) -> None:
        """Run what a node triggers, which the peer may."""
        run = self._triggers.get(node)
        if run is None:
            self.notice(peer, Refused("no-effect", f"node {node} triggers nothing"))
            return
        try:
            run()
        except BobbinError as error:
            self.tell("failed", {"peer": peer, "why": str(error)})

    def notice(self, peer: PeerId, notice: Notice) -> None:
        """Pass on what whoever looks after the links should know."""
        match notice:
            case Denied(op, reason):
                self.tell("denied", {"peer": peer, "kind": op.kind.value, "node": op.node, "why": reason})
            case Refused(code, detail):
                self.tell("refused", {"peer": peer, "reason": code, "why": detail})
            case Behind(dropped):
                self.tell("behind", {"peer": peer, "dropped": dropped})

    # ---- changes of the graph -------------------------------------------------------------------------------------

    def _follow(self, change: Change) -> None:
        take_change(self._truth, self.permissions, change)
        for id in change.removed:
            self._triggers.pop(id, None)
        for node in change.added:
            self._allowances.welcome(node.id, node.key)
        for link in tuple(self._links):
            link.step(Changed(change))

    def _is_wanted(self, id: NodeId) -> bool:
        node = self.graph.node(id)
        return node is not None and self._allowances.is_wanted(id, node.key)

    def _keys(self) -> list[tuple[NodeId, str | None]]:
        return [(node.id, node.key) for node in self._truth.nodes.values()]

    def _tell_links(self, peer: PeerId) -> None:
        for link in tuple(self._links):
            if link.peer == peer:
                link.step(PermissionsChanged())

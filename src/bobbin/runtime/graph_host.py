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
from contextlib import contextmanager, suppress
from functools import partial
from secrets import token_hex
from typing import Final, TypeAlias, assert_never

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
from bobbin.reactive.link_events import Changed, Lost, PermissionsChanged, PublisherEvent
from bobbin.reactive.messages import CellSet, NodeId, PeerId, Snapshot
from bobbin.reactive.outbox import TakenWrites
from bobbin.reactive.permissions import PeerPermissions
from bobbin.reactive.publisher import Publisher, PublisherConfig, PublisherPhase, take_change
from bobbin.reactive.replica import Replica
from bobbin.reactive.source import GraphSource
from bobbin.reactive.type_tags import TypeTags
from bobbin.runtime.graph_allowances import Allowance, Allowances
from bobbin.runtime.reactive_context import ReactiveContext
from bobbin.runtime.single_effects import Fate, OnceRecords

Values: TypeAlias = Mapping[str, str | int]
Tell: TypeAlias = Callable[[str, Values], None]
"""Hears what happens: a word for it, and what belongs to it. Nothing that a peer chose is in the word.

It is called while the graph is held, so it must not wait for anything.
"""

Outgoing: TypeAlias = Greet | Send | Close

NOTICES_MAX: Final = 64
"""That one link gives rise to. Who sends nothing but what is refused fills no log with it."""


def say_nothing(word: str, values: Values) -> None:
    """For whoever wants to hear nothing."""
    del word, values


def described(peer: PeerId, notice: Notice) -> tuple[str, Values]:
    """What whoever looks after the links should know, as it is told."""
    match notice:
        case Denied(op, reason):
            return "denied", {"peer": peer, "kind": op.kind.value, "node": op.node, "why": reason}
        case Refused(code, detail):
            return "refused", {"peer": peer, "reason": code, "why": detail}
        case Behind(dropped):
            return "behind", {"peer": peer, "dropped": dropped}
        case _:
            assert_never(notice)


def explained(error: Exception) -> str:
    """What went wrong. Errors that are not ours do not say by themselves what they are."""
    return str(error) if isinstance(error, BobbinError) else f"{type(error).__name__}: {error}"


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

    def follow(self, event: PublisherEvent) -> None:
        """What all links are told. One that fails at it has missed something, so it is ended; the others go on."""
        try:
            self.step(event)
        except Exception as error:  # noqa: BLE001 -- whatever it is, it is this link's alone
            with self._host.context.entered():
                self._publisher.step(Lost())
                self._waiting.append(Close("failed", explained(error)))
                with suppress(Exception):
                    self._wake()

    def take(self) -> Outgoing | None:
        """What is to be done next with the connection; None if there is nothing."""
        with self._host.context.entered():
            return self._waiting.popleft() if self._waiting else None

    def _perform(self, effect: PublisherEffect) -> None:
        match effect:
            case Write(writes):
                self._host.write(self.peer, writes, self._tell)
            case Fire(node):
                self._host.fire(self.peer, node, self._tell)
            case Deliver():
                # There is no plane of replicated cells here.
                self._tell(*described(self.peer, Refused("replicated-cells", "there are none in this graph")))
            case Notify(notice):
                self._tell(*described(self.peer, notice))
            case _:
                self._waiting.append(effect)
                self._wake()

    def _tell(self, word: str, values: Values) -> None:
        """Whatever this peer gives rise to is told this way."""
        self._noticed += 1
        if self._noticed < NOTICES_MAX:
            self._host.tell(word, values)
        elif self._noticed == NOTICES_MAX:
            last = Refused("too-many-notices", "what else this link does is not told")
            self._host.tell(*described(self.peer, last))


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
        """A graph by itself gets a context of its own, ``context``. ``tell`` may be called in any thread.

        What ``tell`` raises is dropped: whether somebody hears of it changes nothing for those who watch.
        """
        self.context: Final = graph if isinstance(graph, ReactiveContext) else ReactiveContext(graph)
        self.run: Final = token_hex(8)
        """As long as this is the same, an id means the same node."""
        self.tags: Final = tags or TypeTags.standard()
        self._hearer: Final = tell
        self.permissions: Final = PeerPermissions()
        self._allowances: Final = Allowances(self.permissions, allowed)
        self._triggers: Final[dict[NodeId, Callable[[], object]]] = {}
        self._guarded: Final[set[NodeId]] = set()
        self._links: Final[dict[HostedLink, None]] = {}
        self._taken: Final = TakenWrites(self.run)
        """What comes again over another link is not done again."""
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

    def guard(self, *nodes: NodeId) -> None:
        """Let no peer write these cells, whatever is allowed: they say how something else is."""
        with self.context.entered():
            self._guarded.update(nodes)

    def on_trigger(self, node: NodeId, run: Callable[[], object], *, once: OnceRecords | None = None) -> None:
        """What to run when a peer that may triggers this node. It has the graph to itself, and may change it.

        ``once``: the records by which it happens at most once ever, whoever triggers it and however often this process
        is started. It goes by the key of the node, which it must have. Whether it was done before, or nobody knows, is
        told as ``not-again``.
        """
        with self.context.entered():
            found = self.graph.node(node)
            if found is None:
                raise UsageError(f"there is no node {node}")
            if once is None:
                self._triggers[node] = run
                return
            if found.key is None:
                raise UsageError(f"node {node} has no key, by which an effect could be known again")
            self._triggers[node] = partial(self._run_once, once, found.key, run)

    def close(self) -> None:
        """Follow the graph no longer."""
        with self.context.entered():
            self._source.close()

    # ---- links ----------------------------------------------------------------------------------------------------

    def open(self, config: PublisherConfig, peer: PeerId, wake: Callable[[], None]) -> HostedLink:
        """A link to an observer. ``wake`` is called, in any thread, when there is something to take."""
        with self.context.entered():
            publisher = Publisher(
                config,
                peer=peer,
                truth=self._truth,
                permissions=self.permissions,
                taken=self._taken,
                is_cell=self._is_cell,
            )
            link = HostedLink(self, publisher, wake)
            self._links[link] = None
        return link

    def forget(self, link: HostedLink) -> None:
        """A link is over."""
        with self.context.entered():
            self._links.pop(link, None)

    # ---- what observers do ----------------------------------------------------------------------------------------

    def write(self, peer: PeerId, writes: tuple[CellSet, ...], tell: Tell | None = None) -> None:
        """Set cells, which the peer may, in one batch. A value that is none, or could not be shown, is left out."""
        tell = tell or self.tell
        values: list[tuple[Cell[object], object]] = []
        for write in writes:
            node = self.graph.node(write.id)
            if not isinstance(node, Cell) or node.tag is None or not isinstance(write.value, bytes):
                tell(*described(peer, Refused("not-a-value", f"node {write.id} takes no such value")))
                continue
            try:
                value = self.tags.decode(node.tag, write.value)
                # What cannot be written again would leave the cell without a value for everybody who watches.
                self.tags.encode(node.tag, value)
            except PeerError as error:
                tell(*described(peer, Refused(error.code, str(error))))
            except UsageError as error:
                tell(*described(peer, Refused("unwritable-value", str(error))))
            else:
                values.append((node, value))
        try:
            with self.graph.batch():
                for cell, value in values:
                    cell.set(value)
        except Exception as error:  # noqa: BLE001 -- what followed from it went wrong here, and is not the peer's affair
            # The cells are written.
            tell("failed", {"peer": peer, "why": explained(error)})

    def fire(self, peer: PeerId, node: NodeId, tell: Tell | None = None) -> None:
        """Run what a node triggers, which the peer may."""
        tell = tell or self.tell
        run = self._triggers.get(node)
        if run is None:
            tell(*described(peer, Refused("no-effect", f"node {node} triggers nothing")))
            return
        try:
            run()
        except Exception as error:  # noqa: BLE001 -- it is the program's own, and no reason to let the peer go
            tell("failed", {"peer": peer, "why": explained(error)})

    def _run_once(self, records: OnceRecords, key: str, run: Callable[[], object]) -> None:
        fate = records.once(key, run)
        if fate is not Fate.DONE:
            self.tell("not-again", {"key": key, "why": fate.value})

    def tell(self, word: str, values: Values) -> None:
        """Pass on what whoever looks after the links should know."""
        with suppress(Exception):
            self._hearer(word, values)

    # ---- changes of the graph -------------------------------------------------------------------------------------

    def _follow(self, change: Change) -> None:
        take_change(self._truth, self.permissions, change)
        for id in change.removed:
            self._triggers.pop(id, None)
            self._guarded.discard(id)
        for node in change.added:
            self._allowances.welcome(node.id, node.key)
        for link in tuple(self._links):
            link.follow(Changed(change))

    def _is_cell(self, id: NodeId) -> bool:
        return id not in self._guarded and isinstance(self.graph.node(id), Cell)

    def _is_wanted(self, id: NodeId) -> bool:
        node = self.graph.node(id)
        return node is not None and self._allowances.is_wanted(id, node.key)

    def _keys(self) -> list[tuple[NodeId, str | None]]:
        return [(node.id, node.key) for node in self._truth.nodes.values()]

    def _tell_links(self, peer: PeerId) -> None:
        for link in tuple(self._links):
            if link.peer == peer:
                link.follow(PermissionsChanged())

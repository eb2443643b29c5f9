"""The network between the nodes of a cluster, which promises nothing.

Each message is on its own. It may be lost, come twice, come late and overtake others, arrive spoilt, or come back to
whoever sent it; and each link, in each direction, can be cut. Every link has faults of its own beside those of the
whole. A broadcast is a message on each link, under the same faults.

In some worlds messages travel as the bytes of the real codec. A message that arrives spoilt is dropped, as the
signature around it would tell; its bytes are given to the decoder all the same, which must bear them.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import Final, Protocol

from msgspec import Struct

from bobbin.cluster.names import NodeId
from bobbin.cluster.raft.messages import RaftMessage
from bobbin.errors import PeerError
from bobbin.simulator.clock import Timeline


class Roughness(Struct, frozen=True, kw_only=True):
    """How messages fare."""

    delay_ns_min: int = 200_000
    delay_ns_max: int = 2_000_000
    loss: float = 0.0
    doubling: float = 0.0
    straggling: float = 0.0
    """Chance that a message takes up to ``straggle_ns_max`` instead."""
    straggle_ns_max: int = 0
    spoiling: float = 0.0
    echo: float = 0.0
    """Chance that a message comes back to its sender as well."""


SMOOTH: Final = Roughness()


class Coding(Protocol):
    """Messages as bytes, and back."""

    def encode(self, message: RaftMessage) -> tuple[int, bytes]: ...

    def decode(self, number: int, payload: bytes) -> RaftMessage:
        """Raises ``PeerError``, and nothing else."""
        ...


class RaftNetwork:
    """Links between all nodes."""

    def __init__(
        self,
        timeline: Timeline,
        random: Random,
        deliver: Callable[[NodeId, NodeId, RaftMessage], None],
        *,
        coding: Coding | None = None,
    ) -> None:
        """``deliver``: called with receiver, sender and message, when one arrives."""
        self.roughness = SMOOTH
        self.of_link: Final[dict[tuple[NodeId, NodeId], Roughness]] = {}
        """Instead of the above, from one node to another."""
        self.cuts: Final[set[tuple[NodeId, NodeId]]] = set()
        """From one node to another."""
        self.tally: Final[Counter[str]] = Counter()
        self._timeline: Final = timeline
        self._random: Final = random
        self._deliver: Final = deliver
        self._coding: Final = coding

    def send(self, sender: NodeId, to: NodeId, message: RaftMessage) -> None:
        """Put a message on its way, or lose it."""
        link = (sender, to)
        rough = self.of_link.get(link, self.roughness)
        draw = self._random.random
        if link in self.cuts or (rough.loss and draw() < rough.loss):
            self.tally["messages lost"] += 1
            return
        self._dispatch(link, message, rough)
        if rough.doubling and draw() < rough.doubling:
            self.tally["messages doubled"] += 1
            self._dispatch(link, message, rough)
        if rough.echo and draw() < rough.echo:
            self.tally["messages echoed"] += 1
            self._dispatch((sender, sender), message, rough)

    def broadcast(self, sender: NodeId, targets: Iterable[NodeId], message: RaftMessage) -> None:
        """The same to several, each on its own link."""
        for target in targets:
            self.send(sender, target, message)

    def cut(self, some: Iterable[NodeId], others: Iterable[NodeId], *, one_way: bool = False) -> None:
        """Nothing passes from some to others any more; nor back, unless it is one way."""
        others = tuple(others)
        for one in some:
            for other in others:
                self.cuts.add((one, other))
                if not one_way:
                    self.cuts.add((other, one))

    def heal(self) -> None:
        """Every link is whole again; how rough they are stays."""
        self.cuts.clear()

    def calm(self) -> None:
        """No faults any more. What is on its way arrives."""
        self.heal()
        self.of_link.clear()
        self.roughness = SMOOTH

    def _dispatch(self, link: tuple[NodeId, NodeId], message: RaftMessage, rough: Roughness) -> None:
        random = self._random
        delay = random.randint(rough.delay_ns_min, rough.delay_ns_max)
        if rough.straggling and random.random() < rough.straggling:
            delay = random.randint(rough.delay_ns_min, max(rough.straggle_ns_max, rough.delay_ns_min))
            self.tally["messages late"] += 1
        is_spoilt = bool(rough.spoiling) and random.random() < rough.spoiling
        if self._coding is None:
            if is_spoilt:
                self.tally["messages spoilt"] += 1
            else:
                self._timeline.after(delay, lambda: self._arrive(link, message))
            return
        type_number, payload = self._coding.encode(message)
        if is_spoilt:
            payload = _spoil(payload, random)
        self._timeline.after(delay, lambda: self._arrive_as_bytes(link, type_number, payload, is_spoilt=is_spoilt))

    def _arrive(self, link: tuple[NodeId, NodeId], message: RaftMessage) -> None:
        if link not in self.cuts:
            self._deliver(link[1], link[0], message)

    def _arrive_as_bytes(
        self, link: tuple[NodeId, NodeId], type_number: int, payload: bytes, *, is_spoilt: bool
    ) -> None:
        assert self._coding is not None
        try:
            message = self._coding.decode(type_number, payload)
        except PeerError as error:
            if not is_spoilt:
                raise AssertionError(f"an honest message was refused: {error}") from error
            self.tally["messages spoilt, and no message any more"] += 1
            return
        if is_spoilt:
            self.tally["messages spoilt"] += 1
        else:
            self._arrive(link, message)


def _spoil(payload: bytes, random: Random) -> bytes:
    """A flipped bit, a piece cut off, or bytes too many."""
    draw = random.random()
    if draw < 0.6 and payload:
        spoilt = bytearray(payload)
        spoilt[random.randrange(len(spoilt))] ^= 1 << random.randrange(8)
        return bytes(spoilt)
    if draw < 0.8:
        return payload[: random.randrange(len(payload) + 1)]
    return payload + random.randbytes(random.randint(1, 8))

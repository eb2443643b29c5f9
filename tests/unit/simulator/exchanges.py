"""Two nodes and an exchange between them, for tests of the parts of a world."""

from collections.abc import Iterable
from random import Random
from typing import NoReturn

from bobbin.interlace.choice import Strategy
from bobbin.interlace.config import Config
from bobbin.interlace.events import Started
from bobbin.interlace.machine import InterlaceMachine
from bobbin.interlace.setup import Party
from bobbin.records.record import Record, build_plex
from bobbin.simulator.clock import NodeClock, Timeline
from bobbin.simulator.decided import Decided
from bobbin.simulator.endpoint import Endpoint, Tamper
from bobbin.simulator.network import Link, Weather
from bobbin.simulator.node import MemoryVault, Node
from bobbin.simulator.oracle import Witness
from bobbin.simulator.policies import Choice
from bobbin.simulator.streams import ByteStream, Item, MessageStream, truncate
from bobbin.simulator.world import Broken

EVERYTHING = Choice(selector="SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S).\n")
NOBODY = Party(verifier=None)


def note(number: int) -> Record:
    return build_plex(group="u", app="note", name=f"n/{number}", tai_ns=number, data=b"x" * number)


def fail(message: str) -> NoReturn:
    raise Broken(message)


class Setting:
    """A world of two nodes."""

    def __init__(
        self, left: Iterable[Record], right: Iterable[Record], *, choice: Choice = EVERYTHING, is_bytes: bool = False
    ) -> None:
        self.timeline = Timeline()
        self.decided = Decided()
        self.is_bytes = is_bytes
        self.trace: list[str] = []
        self.nodes = [self._node("left", left, choice), self._node("right", right, choice)]
        self.everything: dict[str, Record] = {
            record.hash: record for node in self.nodes for record in node.records.values()
        }
        self.ends: list[Endpoint] = []
        self.link: Link[Item] | None = None

    def _node(self, name: str, records: Iterable[Record], choice: Choice) -> Node:
        node = Node(
            name, clock=NodeClock(self.timeline), vault=lambda _: MemoryVault(self.decided), choice=choice, key=None
        )
        for record in records:
            node.put(record)
        return node

    def connect(
        self,
        *,
        tamper: Tamper | None = None,
        weather: Weather = Weather(),  # noqa: B008 (frozen)
        strategy: Strategy = Strategy.AUTO,
        shares: tuple[int | None, int | None] = (None, None),
    ) -> None:
        """Begin an exchange; ``tamper`` twists what the right side says, which then has no witness.

        With ``shares`` of a key the sides may use sketches.
        """
        random = Random(1)
        self.ends = []
        self.link = Link(self.timeline, weather, random, truncate)
        for number, node in enumerate(self.nodes):
            config = Config(
                selector=node.selector,
                own=NOBODY,
                peer=NOBODY,
                initiator=number == 0,
                checking=True,
                cursor_key="k",
                strategy=strategy,
                share=shares[number],
            )
            holdings = node.vault.link(node.query)
            machine = InterlaceMachine(config, holdings)
            twisted = tamper if number == 1 else None
            witness = None if twisted else Witness(node, config, None, self.everything, fail, self.decided)
            end = Endpoint(
                machine,
                node,
                holdings,
                timeline=self.timeline,
                random=random,
                witness=witness,
                trace=self.trace.append,
                persist_ns_max=1_000,
                tamper=twisted,
            )
            end.attach(self.link, number, ByteStream(machine, random) if self.is_bytes else MessageStream(machine))
            self.ends.append(end)
        for one, another in (self.ends, self.ends[::-1]):
            if one.witness is not None:
                one.witness.peer = another.witness
        for end in self.ends:
            end.give(Started())

    def run(self) -> None:
        """Let everything happen that will."""
        while self.timeline.step():
            pass

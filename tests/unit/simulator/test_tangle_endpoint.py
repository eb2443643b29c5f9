"""A session at the end of a link: frames travel as bytes, commits take time, and all sessions hear of what came."""

from random import Random
from typing import NoReturn

import pytest

from bobbin.simulator.clock import Timeline
from bobbin.simulator.network import Link, Weather
from bobbin.simulator.tangle_endpoint import TangleEndpoint
from bobbin.simulator.tangle_hostile import encode
from bobbin.simulator.tangle_keepers import MemoryKeeper
from bobbin.simulator.tangle_node import TangleNode
from bobbin.simulator.tangle_people import FEED, Pen, Person
from bobbin.simulator.world import Broken
from bobbin.tangles.goals import parse_goal
from bobbin.tangles.message import MessageId
from bobbin.tangles.modern import ModernConfig, ModernSession
from bobbin.tangles.session import Session, SessionConfig
from bobbin.tangles.session_events import OpenRuns


def fail(message: str) -> NoReturn:
    raise Broken(message)


class Two:
    """Two nodes on one link; the first one has a feed that both want."""

    def __init__(self, *, modern: bool) -> None:
        self.timeline = Timeline()
        self.link: Link[bytes] = Link(self.timeline, Weather(), Random(0), lambda raw, _: raw[:3])
        self.person = Person("alice", Random(0))
        self.feed = self.person.feeds[FEED]
        self.trace: list[str] = []
        self.ends: list[TangleEndpoint] = []
        for at in (0, 1):
            node = TangleNode(f"node{at}", MemoryKeeper(), [self.person], fail)
            node.set_goal(self.feed, parse_goal("all"))
            session: Session | ModernSession = Session(SessionConfig(), node.keeper.library)
            if modern:
                config = ModernConfig(secret=bytes([at] * 32), dialler=not at)
                session = ModernSession(config, node.keeper.modern_library)
            end = TangleEndpoint(
                session,
                node,
                timeline=self.timeline,
                random=Random(at),
                say=lambda frame: [encode(frame)],
                spread=self.spread,
                on_failure=lambda node: fail(node.name),
                trace=self.trace.append,
                commit_ns_max=1_000,
            )
            end.attach(self.link, at)
            self.ends.append(end)
        node = self.ends[0].node
        node.put(self.person.root, self.person.account)
        self.pen = Pen(Random(1), node.keeper, lambda message, tangle: self.put(message.id, node.put(message, tangle)))
        for _ in range(6):
            self.pen._append(self.person, self.person.keys[0], FEED, {"text": "x"})

    def put(self, id: MessageId, refused: str | None) -> None:
        assert refused is None
        self.spread(self.ends[0].node, (id,))

    def spread(self, node: TangleNode, messages: tuple[MessageId, ...]) -> None:
        for end in self.ends:
            if end.node is node:
                end.hear(messages)

    def settle(self) -> None:
        while self.timeline.step():
            pass


@pytest.fixture(params=[True, False], ids=["modern", "nine phases"])
def two(request: pytest.FixtureRequest) -> Two:
    return Two(modern=request.param)


def test_a_run_brings_everything_and_news_follow(two: Two) -> None:
    two.ends[1].give(OpenRuns((two.feed,)))
    two.settle()
    first, second = two.ends
    assert second.node.ledger.keys() == first.node.ledger.keys()
    assert [end.session.is_idle for end in two.ends] == [True, True]
    assert (second.added, second.useless, len(second.finished)) == (8, [], 1)
    assert not second.ignored
    two.pen._append(two.person, two.person.keys[0], FEED, {"text": "later"})
    two.settle()
    assert second.node.ledger.keys() == first.node.ledger.keys()
    assert two.trace


def test_half_a_frame_is_no_frame(two: Two) -> None:
    two.ends[0].arrive(b"{")
    assert sum(two.ends[0].ignored.values()) == 1


def test_after_a_crash_nothing_happens_any_more(two: Two) -> None:
    two.ends[0].crash()
    two.settle()
    assert all(end.is_over for end in two.ends)
    two.ends[1].give(OpenRuns((two.feed,)))
    two.settle()
    assert two.ends[1].node.ledger == {}

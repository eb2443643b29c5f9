"""One session at one end of a simulated link: frames go in as bytes, and what it wants done is done, later.

A commit takes time, and a crash may come before it, or between it and the word that it is done. What one session has
stored, all sessions of the node hear of.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random
from typing import Final

from bobbin.errors import PeerError, ResourceError
from bobbin.simulator.clock import Timeline
from bobbin.simulator.network import Direction, Link
from bobbin.simulator.tangle_node import TangleNode
from bobbin.tangles import modern_frames, phases
from bobbin.tangles.bloom import Bloom
from bobbin.tangles.errors import InvalidMessage
from bobbin.tangles.goals import GoalKind
from bobbin.tangles.message import MessageId, decode
from bobbin.tangles.modern import ModernSession
from bobbin.tangles.modern_frames import ModernFrame, ModernLimits, Parcel, id_text
from bobbin.tangles.phases import Frame, FrameLimits, IdsAndFilter, MessagesAndFilter, WantAndFilter
from bobbin.tangles.session import Session
from bobbin.tangles.session_effects import Commit, Effect, Finished, Ignored, Notify, Send
from bobbin.tangles.session_events import Added, Committed, Event, Received, Undecodable
from bobbin.tangles.session_state import ROUND_OF

Say = Callable[[Frame | ModernFrame], list[bytes]]
"""What goes on the link for a frame."""


class TangleEndpoint:
    """A session, its node and its end of a link."""

    def __init__(
        self,
        session: Session | ModernSession,
        node: TangleNode,
        *,
        timeline: Timeline,
        random: Random,
        say: Say,
        spread: Callable[[TangleNode, tuple[MessageId, ...]], None],
        on_failure: Callable[[TangleNode], None],
        trace: Callable[[str], None] | None,
        commit_ns_max: int,
    ) -> None:
        """``spread`` tells all sessions of a node what has come; ``on_failure``: the node's disk has failed."""
        self.session: Final = session
        self.node: Final = node
        self.is_over = False
        self.finished: Final[list[Finished]] = []
        self.ignored: Final[Counter[str]] = Counter()
        self.refused: Final[dict[MessageId, str]] = {}
        self.added = 0
        self.useless: Final[list[MessageId]] = []
        """Messages of a tangle that came although they were held."""
        self.came_along: Final[Counter[MessageId]] = Counter()
        """Account messages that came with news of other tangles, in the modern mode, and how often."""
        self.along_bytes = 0
        """Of those that came with one message, at most."""
        self.filters: Final[dict[tuple[MessageId, int], Bloom]] = {}
        """What this side has said that it holds, by tangle and round."""
        self._timeline: Final = timeline
        self._random: Final = random
        self._say: Final = say
        self._spread: Final = spread
        self._on_failure: Final = on_failure
        self._trace: Final = trace
        self._commit_ns_max: Final = commit_ns_max
        self._out: Direction[bytes] | None = None
        self._link: Link[bytes] | None = None

    def attach(self, link: Link[bytes], end: int) -> None:
        """Take an end of a link."""
        self._link, self._out = link, link.directions[end]
        link.attach(end, self)

    def arrive(self, item: bytes) -> None:
        """Bytes came over the link: one frame, or what is left of it."""
        try:
            frame = (
                modern_frames.decode(item, ModernLimits())
                if isinstance(self.session, ModernSession)
                else phases.decode(item, FrameLimits())
            )
        except PeerError as error:
            self.give(Undecodable(error.code, str(error)))
            return
        if isinstance(frame, Parcel) and not frame.run:
            self._note_along(frame)
        self.give(Received(frame))

    def _note_along(self, news: Parcel) -> None:
        size = 0
        for text in news.messages:
            with suppress(InvalidMessage):
                message = decode(text)
                if message.is_account and message.depth_in(id_text(news.tangle)) is None:
                    self.came_along[message.id] += 1
                    size += len(text)
        self.along_bytes = max(self.along_bytes, size)

    def wrong_news(self, other: "TangleEndpoint") -> Iterator[str]:
        """What news came that the other end, which is honest, should not have told like that."""
        again = [id for id, times in self.came_along.items() if times > 1]
        if again:
            yield f"{self.node.name} was told {again[:3]} more than once on one stream"
        if isinstance(other.session, ModernSession) and self.along_bytes > other.session.config.news_bytes_max:
            yield f"{self.node.name} was sent {self.along_bytes} bytes of accounts with one message"

    def lose(self) -> None:
        """Nothing more will come: a session lives as long as its link."""
        self.is_over = True

    def crash(self) -> None:
        """The process is gone, and the link with it."""
        self.is_over = True
        assert self._link is not None
        self._link.break_off()

    def give(self, event: Event) -> None:
        """Something happened here."""
        if self.is_over:
            return
        try:
            effects = self.session.step(event)
        except ResourceError:
            self._on_failure(self.node)
            return
        if self._trace is not None:
            self._trace(_outline(self.node.name, event, effects))
        for effect in effects:
            match effect:
                case Commit():
                    delay = self._random.randrange(self._commit_ns_max + 1)
                    self._timeline.after(delay, lambda effect=effect: self._commit(effect))  # type: ignore[misc]
                case Send(frame):
                    self._send(frame)
                case Notify(notice):
                    if isinstance(notice, Finished):
                        self.finished.append(notice)
                        self.refused.update((one.message, one.detail or str(one.rule)) for one in notice.refused)
                    elif isinstance(notice, Ignored):
                        self.ignored[notice.reason] += 1

    def _send(self, frame: Frame | ModernFrame) -> None:
        assert self._out is not None
        if isinstance(frame, WantAndFilter | IdsAndFilter | MessagesAndFilter):
            self.filters[frame.id, ROUND_OF[frame.phase]] = frame.bloom
        for raw in self._say(frame):
            self._out.send(raw)

    def _commit(self, commit: Commit) -> None:
        if self.is_over:
            return
        keeper = self.node.keeper
        self.useless.extend(self._held_already(commit))
        try:
            done = self.node.perform(commit)
        except ResourceError:
            self._on_failure(self.node)
            return
        if keeper.is_down:
            self._on_failure(self.node)
            return
        self.added += len(done.added)
        # The word that it is done may come later than the deed.
        delay = self._random.randrange(2) * self._random.randrange(self._commit_ns_max + 1)
        self._timeline.after(delay, lambda: self._settle(done))

    def _held_already(self, commit: Commit) -> list[MessageId]:
        """What has come for nothing.

        Of a tangle without its root nothing counts as held, nor what the modern mode does not see. And who wants only a
        part of a tangle has not said what else it has, so what leads from there to the root may come again, without
        data.
        """
        keeper = self.node.keeper
        if keeper.tangle(commit.tangle).root is None:
            return []
        goal = keeper.goal(commit.tangle)
        wants_all = goal is not None and goal.kind is GoalKind.ALL
        structure = (keeper.modern_library if commit.modern else keeper.library).tangle(commit.tangle)
        found: list[MessageId] = []
        for message in commit.messages:
            held = keeper.message(message.id) if structure is not None and message.id in structure else None
            if held is None or message.is_account or not (message.has_data or wants_all):
                continue
            if held.has_data or not message.has_data:
                found.append(message.id)
        return found

    def _settle(self, done: Committed) -> None:
        if not self.is_over:
            self.give(done)
            if done.added:
                self._spread(self.node, done.added)

    def hear(self, messages: tuple[MessageId, ...]) -> None:
        """Messages have come into the store of the node."""
        self.give(Added(messages))


def _outline(name: str, event: Event, effects: tuple[Effect, ...]) -> str:
    """One step in one line."""
    return f"{name} {_brief(event)} → {', '.join(map(_brief, effects)) or 'nothing'}"


def _brief(thing: object) -> str:
    fields: tuple[str, ...] = getattr(thing, "__struct_fields__", ())
    parts = [_value(name, getattr(thing, name)) for name in fields]
    return f"{type(thing).__name__}({' '.join(part for part in parts if part)})"


def _value(name: str, value: object) -> str:
    if value is None or value == () or value is False or value == b"":
        return ""
    if isinstance(value, bytes):
        return f"{name}={value[:4].hex()}×{len(value)}"
    if isinstance(value, tuple) and value and not isinstance(value[0], int):
        return f"{name}=[{' '.join(_item(one) for one in value[:12])}{' …' if len(value) > 12 else ''}]"
    if hasattr(value, "__struct_fields__"):
        return _brief(value)
    return "" if isinstance(value, Bloom) else f"{name}={str(value)[:60]}"


def _item(value: object) -> str:
    if isinstance(value, str):
        return value[:8]
    if isinstance(value, bytes):
        return f"{len(value)}B"
    id = getattr(value, "id", None) or getattr(value, "message", None)
    return str(id)[:8] if isinstance(id, str) else _brief(value)

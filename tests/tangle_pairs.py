"""Two sides of a tangle exchange in one process: the sessions, their stores, and a wire that counts what it carries.

Frames go through their encoding, so what a test sees is what a peer would. Nothing is lost or reordered here; the
simulator does that.
"""

import json
from collections import deque
from collections.abc import Iterable
from typing import Any

from bobbin.tangles import modern_frames, phases
from bobbin.tangles.goals import parse_goal
from bobbin.tangles.memory import MemoryStore
from bobbin.tangles.message import Message, MessageId, decode
from bobbin.tangles.modern import ModernConfig, ModernSession
from bobbin.tangles.modern_frames import ModernFrame, ModernLimits, Parcel
from bobbin.tangles.modern_turns import SpanLimits
from bobbin.tangles.phases import Frame, FrameLimits
from bobbin.tangles.session import Session, SessionConfig
from bobbin.tangles.session_effects import Commit, Finished, Ignored, Notice, Notify, Send
from bobbin.tangles.session_events import Added, Event, OpenRuns, Received
from bobbin.tangles.session_memory import ModernView, perform
from bobbin.tangles.structures import SPAN_DEFAULT


class Side:
    """One side: a store, a session on it, and what the session has told."""

    def __init__(self, store: MemoryStore, session: Session | ModernSession) -> None:
        self.store = store
        self.session = session
        self.notices: list[Notice] = []

    @property
    def finished(self) -> list[Finished]:
        return [notice for notice in self.notices if isinstance(notice, Finished)]

    @property
    def ignored(self) -> list[Ignored]:
        return [notice for notice in self.notices if isinstance(notice, Ignored)]


class Pair:
    """Two sides and the wire between them. The first one dials."""

    def __init__(self, dialler: Side, listener: Side) -> None:
        self.sides = (dialler, listener)
        self.wire: deque[tuple[int, bytes]] = deque()
        self.log: list[tuple[int, bytes]] = []
        """Who has said what."""
        self.metadata_bytes = 0
        self.message_texts = 0
        """How many messages went over the wire."""

    def step(self, number: int, event: Event) -> None:
        """One step of one side, and everything that it wants done."""
        side = self.sides[number]
        for effect in side.session.step(event):
            match effect:
                case Send(frame):
                    self._send(number, frame)
                case Notify(notice):
                    side.notices.append(notice)
                case Commit():
                    done = perform(side.store, effect)
                    self.step(number, done)
                    self.step(number, Added(done.added))

    def open(self, number: int, *tangles: MessageId) -> None:
        self.step(number, OpenRuns(tangles))

    def run(self, frames_max: int = 10_000) -> None:
        """Carry frames until there are none."""
        for _ in range(frames_max):
            if not self.wire:
                return
            number, raw = self.wire.popleft()
            self.deliver(1 - number, raw)
        raise AssertionError("the two sides do not come to an end")

    def deliver(self, number: int, raw: bytes) -> None:
        if isinstance(self.sides[number].session, Session):
            self.step(number, Received(phases.decode(raw, FrameLimits())))
        else:
            self.step(number, Received(modern_frames.decode(raw, ModernLimits())))

    def add(self, number: int, message: Message, tangle: MessageId) -> None:
        """A message that one side writes itself."""
        self.sides[number].store.add(message, tangle)
        self.step(number, Added((message.id,)))

    def _send(self, number: int, frame: Frame | ModernFrame) -> None:
        raw = modern_frames.encode(frame) if isinstance(frame, ModernFrame) else phases.encode(frame)
        self.wire.append((number, raw))
        self.log.append((number, raw))
        messages = frame.messages if isinstance(frame, Parcel | phases.Messages | phases.MessagesAndFilter) else ()
        self.metadata_bytes += len(raw) - sum(map(len, messages))
        self.message_texts += len(messages)


def phase_pair(first: MemoryStore, second: MemoryStore, config: SessionConfig | None = None) -> Pair:
    """Two sides that speak in nine phases."""
    config = config or SessionConfig(checking=True)
    return Pair(Side(first, Session(config, first)), Side(second, Session(config, second)))


def modern_pair(
    first: MemoryStore, second: MemoryStore, *, seed: int = 0, spans: SpanLimits | None = None, turns_max: int = 16
) -> Pair:
    """Two sides that speak the modern mode."""

    def session(store: MemoryStore, *, dialler: bool) -> ModernSession:
        config = ModernConfig(
            secret=(2 * seed + dialler).to_bytes(32, "big"),
            dialler=dialler,
            spans=spans or SpanLimits(),
            turns_max=turns_max,
            checking=True,
        )
        return ModernSession(config, ModernView(store))

    return Pair(Side(first, session(first, dialler=True)), Side(second, session(second, dialler=False)))


def store_of(messages: Iterable[Message], goals: dict[MessageId, str]) -> MemoryStore:
    """A store with messages that are known to be valid."""
    store = MemoryStore()
    store.load(messages)
    for tangle, goal in goals.items():
        store.set_goal(tangle, parse_goal(goal))
    return store


def held(store: MemoryStore, tangle: MessageId) -> dict[MessageId, bool]:
    """Which messages of a tangle are held, and whether with their data."""
    structure = store.tangle(tangle)
    return {id: structure.has_data(id) for id in structure}


def sync(pair: Pair, tangle: MessageId, opener: int = 0) -> None:
    """One run and whatever follows from it."""
    pair.open(opener, tangle)
    pair.run()


def recorded_store(recorded: dict[str, Any], name: str) -> MemoryStore:
    """The store that a peer of a recorded session had at its beginning."""
    peer = recorded["peers"][name]
    span = next((value for key, value in peer["config"].items() if key.endswith("ghostSpan")), SPAN_DEFAULT)
    store = MemoryStore(span=span)
    store.load(recorded_messages(recorded["messages"], peer["records_before"]))
    for tangle, goal in peer["goals"]:
        store.set_goal(tangle, parse_goal(goal))
    for tangle, ghosts in peer["ghosts_before"].items():
        for id, depth in ghosts:
            store.save_ghost(tangle, id, depth)
    return store


def recorded_messages(messages: dict[str, Any], records: Iterable[tuple[str, str]]) -> list[Message]:
    """Recorded messages, each as it was held."""
    found = []
    for id, form in records:
        message = decode(json.dumps(messages[id], ensure_ascii=False))
        assert message.id == id
        found.append(message if form == "dataful" else message.erased())
    return found


def records_of(store: MemoryStore) -> list[list[str]]:
    """What a store holds, in the form of the recorded sessions."""
    return [[message.id, "dataful" if message.has_data else "dataless"] for message in store]

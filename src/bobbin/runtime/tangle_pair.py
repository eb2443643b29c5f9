"""Two stores of tangles in one process converge: the same sessions as over a link, frame by frame, without one."""

import secrets
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from msgspec import Struct

from bobbin.errors import ResourceError
from bobbin.runtime.tangle_library import StoreKeeper
from bobbin.runtime.tangle_store import TangleStore
from bobbin.tangles import modern_frames, phases
from bobbin.tangles.message import MessageId
from bobbin.tangles.modern import ModernConfig, ModernSession
from bobbin.tangles.modern_frames import ModernFrame, ModernLimits
from bobbin.tangles.phases import Frame, FrameLimits
from bobbin.tangles.session import Session, SessionConfig
from bobbin.tangles.session_effects import Commit, Effect, Notice, Notify, Send
from bobbin.tangles.session_events import Added, Event, OpenRuns, Received

SECRET_BYTES: Final = 32
STEPS_MAX: Final = 1_000_000
"""Steps of one pair, far above what any exchange takes."""


class Passed(Struct, kw_only=True):
    """What frames of one kind passed, as the opening side sees it."""

    frames_in: int = 0
    frames_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


class PairReport(Struct, frozen=True, kw_only=True):
    """What came of it."""

    modern: bool
    notices: tuple[Notice, ...]
    """Of the side that opened."""
    peer_notices: tuple[Notice, ...]
    traffic: dict[str, Passed]


class _Machine(Protocol):
    def step(self, event: Event) -> Sequence[Effect]: ...


def frame_name(frame: Frame | ModernFrame) -> str:
    """What a kind of frame is called: its phase, or its name in the modern mode."""
    phase = getattr(frame, "phase", None)
    return type(frame).__name__.lower() if phase is None else f"phase {phase}"


def sync_pair(
    own: TangleStore,
    other: TangleStore,
    tangles: Sequence[MessageId],
    *,
    modern: bool = True,
    watch: Callable[[Notice], None] = lambda notice: None,  # noqa: ARG005 - nobody watches
) -> PairReport:
    """Bring tangles of two stores up to date with each other, each by its own goals; the first one opens."""
    own.refresh()
    other.refresh()
    keepers = StoreKeeper(own), StoreKeeper(other)
    machines = tuple(_machine(keeper, modern=modern, dialler=not at) for at, keeper in enumerate(keepers))
    notices: tuple[list[Notice], list[Notice]] = ([], [])
    traffic: dict[str, Passed] = {}
    events: deque[tuple[int, Event]] = deque([(0, OpenRuns(tuple(tangles)))])
    for _ in range(STEPS_MAX):
        if not events:
            return PairReport(modern=modern, notices=tuple(notices[0]), peer_notices=tuple(notices[1]), traffic=traffic)
        side, event = events.popleft()
        for effect in machines[side].step(event):
            match effect:
                case Commit():
                    committed = keepers[side].commit(effect)
                    events.append((side, committed))
                    if committed.added:
                        events.append((side, Added(committed.added)))
                case Send(frame):
                    events.append((1 - side, Received(_passed(frame, side, traffic))))
                case Notify(notice):
                    notices[side].append(notice)
                    if side == 0:
                        watch(notice)
    raise ResourceError(f"the two sides have not come to an end in {STEPS_MAX} steps", retry=False)


def _machine(keeper: StoreKeeper, *, modern: bool, dialler: bool) -> _Machine:
    if not modern:
        return Session(SessionConfig(), keeper.library)
    config = ModernConfig(secret=secrets.token_bytes(SECRET_BYTES), dialler=dialler)
    return ModernSession(config, keeper.modern_library)


def _passed(frame: Frame | ModernFrame, side: int, traffic: dict[str, Passed]) -> Frame | ModernFrame:
    """A frame as the other side gets it: written, counted and read."""
    count = traffic.setdefault(frame_name(frame), Passed())
    data = modern_frames.encode(frame) if isinstance(frame, ModernFrame) else phases.encode(frame)
    if side == 0:
        count.frames_out += 1
        count.bytes_out += len(data)
    else:
        count.frames_in += 1
        count.bytes_in += len(data)
    if isinstance(frame, ModernFrame):
        return modern_frames.decode(data, ModernLimits())
    return phases.decode(data, FrameLimits())

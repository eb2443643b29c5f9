"""The modern mode from a peer's side: any frames end in effects. Each begins with two bytes that say how long it is.

What is no frame is refused with a code; a frame is written alike. Two sessions take them, one that has opened a run and
one that waits to be asked. They never raise, and store nothing but messages that are valid.
"""

from bobbin.errors import PeerError
from bobbin.tangles import modern_frames
from bobbin.tangles.modern import ModernConfig, ModernSession
from bobbin.tangles.modern_frames import ModernLimits
from bobbin.tangles.modern_turns import SpanLimits
from bobbin.tangles.session_effects import Commit
from bobbin.tangles.session_events import Added, Event, OpenRuns, Received, Undecodable
from bobbin.tangles.session_memory import ModernView, perform
from tests.fuzz.target_tangle_phases import world
from tests.tangle_pairs import store_of

_LIMITS = ModernLimits(frame_bytes_max=1 << 16, ids_max=500, messages_max=100)
_SPANS = SpanLimits(first_symbols=2, symbols_max=512, listed_max=100)


def one_input(data: bytes) -> None:
    events = [_event(raw) for raw in _cut(data)]
    for dialler in (True, False):
        _take(events, dialler=dialler)


def _take(events: list[Event], *, dialler: bool) -> None:
    account, *feed = world()
    store = store_of([account, *feed[:4]], {feed[0].id: "all"})
    config = ModernConfig(
        secret=bytes(32), dialler=dialler, tangles_max=3, told_max=10, turns_max=6, spans=_SPANS, checking=True
    )
    session = ModernSession(config, ModernView(store))
    opening: list[Event] = [OpenRuns((feed[0].id,))] if dialler else []
    for event in opening + events:
        for effect in session.step(event):
            if isinstance(effect, Commit):
                done = perform(store, effect)
                session.step(done)
                session.step(Added(done.added))
    assert {message.id for message in feed[:4]} <= {message.id for message in store}
    assert {message.id for message in store} <= {message.id for message in world()}, "no forgery was stored"


def _cut(data: bytes) -> list[bytes]:
    frames: list[bytes] = []
    while len(data) > 2 and len(frames) < 20:
        size = int.from_bytes(data[:2], "big")
        frames.append(data[2 : 2 + size])
        data = data[2 + size :]
    return frames


def _event(raw: bytes) -> Event:
    try:
        frame = modern_frames.decode(raw, _LIMITS)
    except PeerError as refused:
        assert refused.code == "malformed-frame"  # noqa: PT017 -- no test of pytest's
        return Undecodable(refused.code, str(refused))
    assert modern_frames.decode(modern_frames.encode(frame), _LIMITS) == frame
    return Received(frame)

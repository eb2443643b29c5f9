"""The nine phases from a peer's side: any lines, taken as frames one after the other, end in effects.

A line that is no frame is refused with a code; one that is a frame is written alike. A session that has just opened a
run takes them all. It never raises, and stores nothing but messages that are valid.
"""

from functools import cache

from bobbin.errors import PeerError
from bobbin.tangles import phases
from bobbin.tangles.bloom import FilterLimits
from bobbin.tangles.message import Message
from bobbin.tangles.phases import Frame, FrameLimits
from bobbin.tangles.session import Session, SessionConfig
from bobbin.tangles.session_effects import Commit
from bobbin.tangles.session_events import Added, Event, OpenRuns, Received, Undecodable
from bobbin.tangles.session_memory import perform
from tests.support.tangle_messages import Author
from tests.tangle_pairs import store_of

_LIMITS = FrameLimits(filter=FilterLimits(bits_max=1 << 16), ids_max=500, messages_max=100)
_CODES = {"malformed-phase", "malformed-filter"}


@cache
def world() -> tuple[Message, ...]:
    """An account and a feed of it."""
    author = Author()
    return (*author.account_messages, *author.line(6))


def one_input(data: bytes) -> None:
    account, *feed = world()
    store = store_of([account, *feed[:4]], {feed[0].id: "all"})
    session = Session(SessionConfig(tangles_max=3, promised_max=100, told_max=10, checking=True), store)
    events: list[Event] = [OpenRuns((feed[0].id,)), *(_event(line) for line in data.split(b"\n")[:20])]
    for event in events:
        for effect in session.step(event):
            if isinstance(effect, Commit):
                done = perform(store, effect)
                session.step(done)
                session.step(Added(done.added))
    assert {message.id for message in feed[:4]} <= {message.id for message in store}
    assert {message.id for message in store} <= {message.id for message in world()}, "no forgery was stored"


def _event(line: bytes) -> Event:
    try:
        frame: Frame = phases.decode(line, _LIMITS)
    except PeerError as refused:
        assert refused.code in _CODES  # noqa: PT017 -- no test of pytest's
        return Undecodable(refused.code, str(refused))
    assert phases.encode(phases.decode(phases.encode(frame), _LIMITS)) == phases.encode(frame)
    return Received(frame)

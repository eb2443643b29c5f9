"""How often the modern mode needs more than it usually does: its sketches are salted, so no two sessions are alike.

    python -m benchmarks.tangles_chance WRITER READER TANGLE SESSIONS

Both stores are read in this process and stay as they are: each session goes on until the first messages go out. Prints
for each of them how many bytes were said up to there, and how often the reader waited for an answer.
"""

import json
import secrets
import sys
from collections import deque
from contextlib import ExitStack
from pathlib import Path

from benchmarks.network_processes import PeerFailedError
from bobbin.runtime.tangle_library import StoreKeeper
from bobbin.runtime.tangle_store import TangleStore
from bobbin.store.sqlite import open_store
from bobbin.tangles import modern_frames
from bobbin.tangles.message import MessageId
from bobbin.tangles.modern import ModernConfig, ModernSession
from bobbin.tangles.modern_frames import ModernFrame, Parcel
from bobbin.tangles.session_effects import Send
from bobbin.tangles.session_events import Event, OpenRuns, Received


def session(reader: StoreKeeper, writer: StoreKeeper, tangle: MessageId) -> tuple[int, int]:
    """One session up to its first messages: the bytes of everything before, and the answers to the reader."""
    machines = [
        ModernSession(ModernConfig(secret=secrets.token_bytes(32), dialler=keeper is reader), keeper.modern_library)
        for keeper in (reader, writer)
    ]
    said = answers = 0
    events: deque[tuple[int, Event]] = deque([(0, OpenRuns((tangle,)))])
    while events:
        side, event = events.popleft()
        frames = [effect.frame for effect in machines[side].step(event) if isinstance(effect, Send)]
        for frame in frames:
            if isinstance(frame, Parcel):
                return said, answers
            assert isinstance(frame, ModernFrame), "it is a session of the modern mode"
            said += len(modern_frames.encode(frame))
            answers += side
            events.append((1 - side, Received(frame)))
    raise PeerFailedError("a session ended without messages")


def main(writer: str, reader: str, tangle: str, sessions: str) -> None:
    """As the command line says."""
    with ExitStack() as stack:
        keepers = []
        for path in (reader, writer):
            store = TangleStore(stack.enter_context(open_store(Path(path), create=False, now=lambda: 0)).tangles)
            store.refresh()
            keepers.append(StoreKeeper(store))
        print(json.dumps([session(keepers[0], keepers[1], tangle) for _ in range(int(sessions))]))


if __name__ == "__main__":
    main(*sys.argv[1:])

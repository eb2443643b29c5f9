"""Pairs of sides in the modern mode, and what was said between them: for tests of what it does and what it costs."""

from functools import cache

from bobbin.tangles import modern_frames
from bobbin.tangles.memory import MemoryStore
from bobbin.tangles.message import Message, MessageId, decode
from bobbin.tangles.modern_frames import ModernFrame, ModernLimits, Parcel
from tests.support.tangle_messages import Author
from tests.tangle_pairs import Pair, held, modern_pair, store_of

AUTHOR = Author()
ACCOUNT = AUTHOR.account_messages


@cache
def long_feed() -> list[Message]:
    return AUTHOR.line(1000)


def pair_of(
    first: list[Message], second: list[Message], goals: tuple[str, str] = ("all", "all"), *, seed: int = 0
) -> Pair:
    tangle = (first or second)[0].id

    def store(messages: list[Message], goal: str) -> MemoryStore:
        return store_of([*ACCOUNT, *messages] if messages else [], {tangle: goal})

    return modern_pair(store(first, goals[0]), store(second, goals[1]), seed=seed)


def frames_of(pair: Pair) -> list[tuple[int, ModernFrame]]:
    return [(number, modern_frames.decode(raw, ModernLimits())) for number, raw in pair.log]


def sent_by(pair: Pair, number: int) -> list[Message]:
    parcels = [frame for who, frame in frames_of(pair) if who == number and isinstance(frame, Parcel)]
    return [decode(text) for parcel in parcels for text in parcel.messages]


def round_trips(pair: Pair) -> float:
    """Until the last message was there: half of how often the side that speaks changed."""
    speakers = [number for number, _ in frames_of(pair)]
    last = max((at for at, (_, frame) in enumerate(frames_of(pair)) if isinstance(frame, Parcel)), default=0)
    return (1 + sum(speakers[at] != speakers[at - 1] for at in range(1, last + 1))) / 2


def assert_converged(pair: Pair, tangle: MessageId, count: int) -> None:
    assert held(pair.sides[0].store, tangle) == held(pair.sides[1].store, tangle)
    assert len(held(pair.sides[0].store, tangle)) == count
    for side in pair.sides:
        assert side.finished[-1].agreed is True
        assert side.finished[-1].missing == 0
        assert side.finished[-1].refused == ()
        assert side.session.is_idle
        assert not side.ignored

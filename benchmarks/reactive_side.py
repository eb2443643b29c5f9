"""What the sides of the reactive benchmark have in common: the sizes, the clock, and questions on standard input.

Each library runs in a process of its own, in an environment that has nothing of ours, so only the standard library is
imported here. A question is one line, ``{"question": …, "count": …}``; the answer is one line with the seconds of
processor time that one of ``count`` repetitions took, and perhaps more figures.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

CHAIN: Final = 100
FAN: Final = 256
BATCH: Final = 64
BEHIND: Final = 32
"""Nodes with an effect each behind one that never changes."""
NODES: Final = 10_000
FRAME_OPERATIONS: Final = 1_000
CELLS: Final = 1_000
"""Cells that operations write over and over."""
BLOB_BYTES: Final = 64 * 1024
ARENA_BYTES: Final = 4 * 1024 * 1024
WALL_US: Final = 1_000_000

Figures: TypeAlias = dict[str, float]
Question: TypeAlias = Callable[[int], Figures]


class WrongAnswerError(AssertionError):
    """A library did not come to the result that it was to come to, so its time means nothing."""


def check(found: object, expected: object) -> None:
    """Refuse a wrong result."""
    if found != expected:
        raise WrongAnswerError(f"expected {str(expected)[:200]}, found {str(found)[:200]}")


def timed(work: Callable[[], object], count: int) -> Figures:
    """Processor seconds for one of ``count`` repetitions, which ``work`` makes."""
    start = time.process_time()
    work()
    return {"seconds": (time.process_time() - start) / count}


def payload(number: int) -> bytes:
    """The value of a node of the snapshot."""
    return number.to_bytes(8, "little")


def state(number: int) -> bytes:
    """What an operation writes."""
    return b"state %d" % number


def answer(questions: Mapping[str, Question]) -> None:
    """Answer until the input ends."""
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(questions[asked["question"]](int(asked["count"]))), flush=True)

"""Jobs that make many objects at once, without a search for garbage in the midst of them.

Python looks for circles of objects that nobody holds any more whenever enough has been made. A step of an exchange may
make hundreds of thousands of objects, all of which are needed: then everything is looked through again and again, and
nothing is found. So that search waits until the job is done. What is in no circle goes at once, as ever.

Several threads may be at it: the search waits for all of them. A program that wants no search at all gets none.
"""

import gc
import threading
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")


class _Pause:
    """How many jobs are being done, and whether there is something to go on with after them."""

    def __init__(self) -> None:
        self._lock: Final = threading.Lock()
        self._jobs = 0
        self._goes_on = False

    def begin(self) -> None:
        with self._lock:
            self._jobs += 1
            if self._jobs == 1:
                self._goes_on = gc.isenabled()
                gc.disable()

    def end(self) -> None:
        with self._lock:
            self._jobs -= 1
            if self._jobs == 0 and self._goes_on:
                gc.enable()


_PAUSE: Final = _Pause()


def undisturbed(job: Callable[[], T]) -> T:
    """Do a job of bounded length; returns what it returns."""
    _PAUSE.begin()
    try:
        return job()
    finally:
        _PAUSE.end()

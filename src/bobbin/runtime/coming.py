"""Something that was begun and goes on by itself: whoever began it waits for it, or gives it up, before leaving."""

from collections.abc import Callable
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Final, Generic, TypeVar

T = TypeVar("T")
U = TypeVar("U")


def _nothing() -> None: ...


class Coming(Generic[T]):
    """Called, it waits for the end: it returns what came of it, or raises what went wrong."""

    def __init__(
        self, wait: Callable[[], T], stop: Callable[[], None] = _nothing, *, end: Callable[[], object] | None = None
    ) -> None:
        """``end``: waits as well, and makes nothing of the answer."""
        self._wait: Final = wait
        self._end: Final = wait if end is None else end
        self.stop: Final = stop
        """Begin no more of it. What was begun goes on. Waits for nothing."""

    def __call__(self) -> T:
        return self._wait()

    def then(self, work: Callable[[T], U]) -> "Coming[U]":
        """The same, and what ``work`` makes of the answer."""
        return Coming(lambda: work(self._wait()), self.stop, end=self._end)

    def abandon(self) -> None:
        """For whoever wants no answer, or has had it: stop it, and wait until nothing of it is still to happen."""
        self.stop()
        with suppress(Exception, CancelledError):
            self._end()

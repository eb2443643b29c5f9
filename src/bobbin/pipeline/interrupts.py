"""What Ctrl-C does while a session of Spark is open.

PySpark puts in a handler of its own that asks Java to cancel all jobs, from within the signal. But the thread that the
signal has stopped may be in the middle of another question, and a thread has one connection to Java: the handler then
reads the answer of that question, or the gateway, cleaning up, fails on a connection that is closed already, and this
failure takes the place of the interrupt.

So here the handler says nothing to Java. It counts, hands the wish to cancel to a thread of its own, which has a
connection of its own, and raises ``KeyboardInterrupt``. Whoever sees Spark fail can ask whether an interrupt has come
meanwhile; then it is the reason, whatever the failure says.

A handler runs wherever the main thread happens to be, and what it raises there need not go far: in the callback of a
weak reference, of which the gateway has one for each object of Java, Python drops it. Then the job would go on and
commit, as if nobody had wanted it to end. So inside of ``noticed`` an interrupt counts until somebody has been told of
it: each step of a job, and whatever is about to change a lake, asks by ``check``, which raises it once more.
"""

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

PENDING_SECONDS: Final = 0.3
"""How long a signal that was sent to Java and to us may take to come here after Java has died of it."""

_seen: list[int] = [0]
_told: list[int] = [0]
"""How many of them somebody has been told of by ``KeyboardInterrupt``, as far as is known here."""
_depth: list[int] = [0]
"""How many blocks of ``noticed`` the main thread is in."""


def count() -> int:
    """How many interrupts have come in this process while a session was open."""
    return _seen[0]


@contextmanager
def noticed() -> Iterator[None]:
    """Work of the main thread in which no interrupt is overlooked: at the latest, it is raised at the end."""
    if not _is_main():
        yield
        return
    if not _depth[0]:
        acknowledge()  # what came before was the end of other work
    _depth[0] += 1
    try:
        yield
        check()
    except KeyboardInterrupt:
        acknowledge()
        raise
    finally:
        _depth[0] -= 1


def check() -> None:
    """Raise an interrupt that has come during ``noticed`` work, and of which nobody has been told."""
    if _depth[0] and _is_main() and _seen[0] != _told[0]:
        acknowledge()
        raise KeyboardInterrupt


def acknowledge() -> None:
    """Whoever is to know of the interrupts that have come so far does."""
    _told[0] = _seen[0]


def wait_pending() -> None:
    """Let a signal that is on its way arrive. Its handler, which raises, runs in the main thread and there only."""
    time.sleep(PENDING_SECONDS)


def restore(before: "signal._HANDLER") -> None:
    """Let Ctrl-C do what it did before; None stands for a handler that is not Python's."""
    if before is not None and _is_main():
        signal.signal(signal.SIGINT, before)


class Interrupts:
    """The handler of one session, from ``begin`` to ``end``, in the main thread; in others Ctrl-C is not ours."""

    def __init__(self, cancel: Callable[[], None]) -> None:
        self._cancel: Final = cancel
        # Its ``put`` may be interrupted by another of its own: the only kind of queue that a handler can use.
        self._wishes: Final[SimpleQueue[Callable[[], None] | None]] = SimpleQueue()
        self._before: signal._HANDLER = None
        self._tell_dropped: Final = sys.unraisablehook
        self._thread: threading.Thread | None = None

    def begin(self, before: "signal._HANDLER") -> None:
        """Put the handler in. ``before`` is what there was before Spark began; a signal that was ignored stays so."""
        if not _is_main():
            return
        self._before = before
        if before is signal.SIG_IGN:
            restore(before)
            return
        self._thread = threading.Thread(target=self._cancel_when_asked, name="spark-cancel", daemon=True)
        self._thread.start()
        sys.unraisablehook = self._dropped
        signal.signal(signal.SIGINT, self._interrupt)

    def end(self) -> None:
        """Put back what there was. A wish that is being fulfilled is not waited for: its Java is about to end."""
        restore(self._before)
        if sys.unraisablehook == self._dropped:
            sys.unraisablehook = self._tell_dropped
        self._wishes.put(None)

    def _interrupt(self, _number: int, _frame: FrameType | None) -> NoReturn:
        _seen[0] += 1
        self._wishes.put(self._cancel)
        raise KeyboardInterrupt

    def _dropped(self, what: "UnraisableHookArgs") -> None:
        """Python has dropped an exception where none can be raised. Of an interrupt that is noted nothing is said."""
        if not _depth[0] or not issubclass(what.exc_type, KeyboardInterrupt):
            self._tell_dropped(what)

    def _cancel_when_asked(self) -> None:
        while (cancel := self._wishes.get()) is not None:
            try:
                cancel()
            except Exception:  # noqa: BLE001, S112 -- Java may be gone, in many ways, and then there is nothing to cancel
                continue


def _is_main() -> bool:
    return threading.current_thread() is threading.main_thread()

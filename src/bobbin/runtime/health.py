"""Whether a node is well, and what that means.

Healthy is a node whose process answers, whose thread for the store gets on, and whose store can be written. That is all
that a restart could mend, so nothing else makes it ``failing``. A node that is healthy and does not do all that it is
told to do is ``degraded``: a peer that is to be followed has no link, the store takes nothing for now (another process
holds it, or no majority of its nodes answers), or the files on disk are not in force. Peers are counted here and never
named, since these words are also for those who may not know who the peers are.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from enum import StrEnum
from time import monotonic_ns
from typing import Final

from msgspec import Struct

from bobbin.errors import ResourceError
from bobbin.interlace.limits import SECOND_NS
from bobbin.records import tai
from bobbin.runtime.clock import tai_now
from bobbin.runtime.steps import StepsClosed, Turn
from bobbin.store.base import Store

STUCK_SECONDS: Final = 60.0
"""A step that takes longer is not healthy."""
FAILURE_SECONDS: Final = 60.0
"""For how long a failure of the store is shown; a small write may go through where a large one does not.

One that may pass is over as soon as records have come or gone."""
PROBE_SECONDS: Final = 60.0
"""How often the store is written to see whether it can be, while nothing is known to be wrong with it."""
_KIND: Final = "health"
_KEY: Final = "written"


class Condition(StrEnum):
    """How a node is, in one word."""

    OK = "ok"
    DEGRADED = "degraded"
    """It serves, and something that it is told to do does not come about."""
    FAILING = "failing"
    """Its store cannot be written, or its thread is stuck."""
    STOPPING = "stopping"


class Health(Struct, frozen=True, kw_only=True):
    """How a node is at one moment, and why."""

    condition: Condition
    reasons: tuple[str, ...] = ()
    """The worst first. None where it is ``ok`` or ``stopping``."""

    @property
    def text(self) -> str:
        """``ok``, or what is wrong."""
        return "; ".join(self.reasons) or self.condition.value

    @property
    def is_healthy(self) -> bool:
        """Whether the process is alive and its store can be written."""
        return self.condition in (Condition.OK, Condition.DEGRADED)


class Writable:
    """Whether the store can be written: by what links have met, and by a small write now and then."""

    def __init__(self, store: Store, turn: Turn, *, clock: Callable[[], int] = monotonic_ns) -> None:
        self._store: Final = store
        self._turn: Final = turn
        self._clock: Final = clock
        self._tried_ns = clock()
        self._failure: tuple[int, str] | None = None
        self._passing: tuple[int, str] | None = None
        """A failure of a link that may pass. A probe that succeeds does not end it: it asks no majority of nodes."""
        self._held: str | None = None
        """What a probe has met that may pass."""

    def note_failure(self, detail: str, *, may_pass: bool = False) -> None:
        """A link could not store what came."""
        if may_pass:
            self._passing = self._clock(), detail
        else:
            self._failure = self._clock(), detail

    def note_success(self) -> None:
        """Records have come or gone, by whoever's doing: what links have met has passed.

        What a probe has met ends with a probe: records that another process stores do not tell that it lets go.
        """
        self._passing = None

    @property
    def held(self) -> str | None:
        """What keeps it from being written for a time: another process, or that no majority of its nodes answers."""
        return self._held if self._passing is None else self._passing[1]

    @property
    def failure(self) -> str | None:
        return None if self._failure is None else self._failure[1]

    async def look(self) -> None:
        """Write something, if it is time for that. Whoever has this calls it at intervals."""
        now_ns = self._clock()
        is_wrong = self._failure is not None or self.held is not None
        if not is_wrong and now_ns - self._tried_ns < PROBE_SECONDS * SECOND_NS:
            return
        self._tried_ns = now_ns
        written = tai.render(tai_now()).encode()
        try:
            await self._turn(lambda: self._store.keep(_KIND, _KEY, written))
        except StepsClosed:
            return
        except ResourceError as error:
            if error.retry:
                self._held = str(error)
            else:
                self._failure = self._clock(), str(error)
            return
        self._held = None
        self._failure = self._lasting(self._failure)
        self._passing = self._lasting(self._passing)

    def _lasting(self, failure: tuple[int, str] | None) -> tuple[int, str] | None:
        """A failure, if it is still to be shown after a probe has gone through."""
        is_over = failure is None or self._clock() - failure[0] >= FAILURE_SECONDS * SECOND_NS
        return None if is_over else failure


def judge(
    *,
    stopping: bool,
    busy_seconds: float,
    writable: Writable,
    followed: int,
    unlinked: Mapping[str, int],
    reload_failed: bool,
) -> Health:
    """How a node is. ``unlinked``: how many of the followed peers have no link, by why the last one ended."""
    if stopping:
        return Health(condition=Condition.STOPPING)
    failing: list[str] = []
    if busy_seconds > STUCK_SECONDS:
        failing.append(f"one step has been going on for {busy_seconds:.0f} seconds")
    if writable.failure is not None:
        failing.append(f"the store failed: {writable.failure}")
    degraded: list[str] = []
    if writable.held is not None:
        degraded.append(f"the store cannot be written now: {writable.held}")
    if unlinked:
        whys = ", ".join(f"{why} {count}" for why, count in sorted(unlinked.items()))
        degraded.append(f"{Counter(unlinked).total()} of {followed} followed peers without a link ({whys})")
    if reload_failed:
        degraded.append("the files on disk are not in force")
    condition = Condition.FAILING if failing else Condition.DEGRADED if degraded else Condition.OK
    return Health(condition=condition, reasons=(*failing, *degraded))

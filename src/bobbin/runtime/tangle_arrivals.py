"""Messages that reach a running node as records: taken in after the commit that brought them, a few at a time.

Links know nothing of tangles, and commit Plexes like any other record. After each change of the store the records that
are new and may be messages are looked at here, in the thread of the steps, as a link of its own among the links, with
the steps of other links in between. What this stores wakes everybody once more; that look finds nothing new and writes
nothing, so it ends there.

A step looks at ``RECORDS_MAX`` new records at most, and tries again as many at most of those that have waited for what
came; what is left of either is for the next steps. Nothing that a peer leaves here makes a step longer: of the records
that wait, only the newest are kept in mind (``profile.TANGLE_WAITING_KNOWN_MAX``), and when more than ``TANGLES_MAX``
tangles are in memory, all of them are let go after the step. What a step does cost is reading the tangles that its
records name, as far as they are not in memory: as much as was taken into these by the rules of the node.

Whatever fails is told and counted, and ends nothing but this look. The next one comes after a pause: by itself where
trying again may help, else with the next change of the store. Where the node stops in the middle, the rest is left to
the next command of tangles that writes, or the next node. That holds for what is not kept in mind as well: the log says
how much it is, and ``bobbin stat`` how much waits in all.
"""

import asyncio
from typing import TYPE_CHECKING, Final

from structlog.typing import FilteringBoundLogger

from bobbin.errors import BobbinError, ResourceError
from bobbin.profile import TANGLE_WAITING_KNOWN_MAX
from bobbin.runtime.log import Repeats
from bobbin.runtime.metrics import Meter
from bobbin.runtime.steps import Steps, StepsClosed
from bobbin.runtime.tangle_store import Taken, TangleStore
from bobbin.runtime.wakes import Wakes
from bobbin.store.base import Store

if TYPE_CHECKING:
    from collections.abc import Callable

    from bobbin.store.tangles import TangleTables

RECORDS_MAX: Final = 200
"""That may be messages and are looked at in one step: each costs a signature, and links wait meanwhile."""
TANGLES_MAX: Final = 4_000
"""In memory after a step: some 10 kB each, if it is small."""
PAUSE_SECONDS: Final = 10.0
"""After a look that failed."""


class TangleArrivals:
    """Takes in what comes to one store while a node runs over it. A store without tangles is left alone."""

    def __init__(
        self,
        store: Store,
        steps: Steps,
        wakes: Wakes,
        meter: Meter,
        *,
        log: FilteringBoundLogger,
        pause_seconds: float = PAUSE_SECONDS,
    ) -> None:
        self._store: Final = store
        self._turn: Final = steps.turn()
        self._wakes: Final = wakes
        self._meter: Final = meter
        self._log: Final = log
        self._repeats: Final = Repeats(log)
        self._pause_seconds: Final = pause_seconds
        self._tangles: TangleStore | None = None
        self._changed: Final = asyncio.Event()
        self._undo: Callable[[], None] | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Look at what has come while no node ran, and from then on after every change."""
        tables: TangleTables | None = getattr(self._store, "tangles", None)
        if tables is None:
            return
        self._tangles = TangleStore(tables, waiting_max=TANGLE_WAITING_KNOWN_MAX)
        self._changed.set()
        self._undo = self._wakes.subscribe(self._changed.set)
        self._task = asyncio.create_task(self._run(self._tangles))

    async def stop(self) -> None:
        """Look no more. A step that has begun is done."""
        if self._undo is not None:
            self._undo()
            self._undo = None
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            self._task = None
        self._repeats.flush()

    async def _run(self, tangles: TangleStore) -> None:
        while True:
            await self._changed.wait()
            # Before the look: what is committed from here on is another change.
            self._changed.clear()
            try:
                await self._look(tangles)
            except StepsClosed:
                return
            except BobbinError as error:
                self._meter.arrivals_failed.inc()
                self._repeats.warning("messages-not-taken-in", type(error).__name__, detail=str(error))
                await self._pause(again=isinstance(error, ResourceError) and error.retry)
            except Exception:  # noqa: BLE001 - a mistake of ours, which must not end the node
                self._meter.arrivals_failed.inc()
                self._log.exception("taking-in-crashed")
                await self._pause(again=False)

    async def _look(self, tangles: TangleStore) -> None:
        taken = Taken()
        while not taken.is_all:
            taken = await self._turn(lambda: _step(tangles))
            self._meter.arrivals.inc(len(taken.came))
        if taken.unknown:
            self._repeats.warning("too-much-waits", "not-kept-in-mind", records=taken.unknown)

    async def _pause(self, *, again: bool) -> None:
        await asyncio.sleep(self._pause_seconds)
        if again:
            self._changed.set()


def _step(tangles: TangleStore) -> Taken:
    taken = tangles.take_in_some(RECORDS_MAX)
    tangles.let_go(TANGLES_MAX)
    return taken

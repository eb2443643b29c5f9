"""Waking every link of a node when its store has changed.

The store tells of its own commits in the thread that made them; what other processes commit is looked for at an
interval, once for all links, since the store tells of it only once. Commits that follow each other closely wake the
links once.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from bobbin.errors import ResourceError
from bobbin.runtime.steps import Steps, StepsClosed
from bobbin.store.base import Store, StoreRecordId

POLL_SECONDS: Final = 1.0
"""How often other processes' commits are looked for."""


class Wakes:
    """Who wants to hear of changes of one store."""

    def __init__(self, store: Store, steps: Steps, *, poll_seconds: float = POLL_SECONDS) -> None:
        self._store: Final = store
        self._turn: Final = steps.turn()
        self._poll_seconds: Final = poll_seconds
        self._lock: Final = threading.Lock()
        self._sleepers: Final[dict[int, Callable[[], None]]] = {}
        self._next = 0
        self._is_due = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._undo: Callable[[], None] | None = None
        self._poller: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen to the store from now on."""
        self._loop = asyncio.get_running_loop()
        self._undo = await self._turn(lambda: self._store.subscribe(self._note))
        self._poller = asyncio.create_task(self._poll())

    async def stop(self) -> None:
        """Listen no more."""
        if self._poller is not None:
            self._poller.cancel()
            await asyncio.wait({self._poller})
        if self._undo is not None:
            await self._turn(self._undo)
            self._undo = None

    def subscribe(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call ``wake`` in the event loop after changes; returns the undo. May be called in any thread."""
        with self._lock:
            number, self._next = self._next, self._next + 1
            self._sleepers[number] = wake

        def undo() -> None:
            with self._lock:
                self._sleepers.pop(number, None)

        return undo

    def __len__(self) -> int:
        return len(self._sleepers)

    def _note(self, high_water: StoreRecordId | None = None) -> None:
        """The store has changed. In any thread; ``subscribe`` of a store must not raise."""
        del high_water
        if self._is_due or self._loop is None:
            return
        self._is_due = True
        with suppress(RuntimeError):  # the event loop has been closed
            self._loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        # Before anybody is woken: what is committed from here on is another change.
        self._is_due = False
        with self._lock:
            sleepers = list(self._sleepers.values())
        for wake in sleepers:
            wake()

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(self._poll_seconds)
            with suppress(ResourceError):
                try:
                    if await self._turn(self._store.changed_elsewhere):
                        self._note()
                except StepsClosed:
                    return

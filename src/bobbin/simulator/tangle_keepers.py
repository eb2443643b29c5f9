"""Where the nodes of a world of tangles keep their messages: in memory, or in the real store on a disk that fails.

Both answer the same questions, so that whoever watches need not know which one it is. A keeper in memory loses nothing
in a crash. One on a disk keeps what the platter held, and opens again.
"""

from collections.abc import Collection
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final, Protocol

from bobbin.errors import BobbinError
from bobbin.runtime.tangle_library import StoreLibrary
from bobbin.runtime.tangle_store import TangleStore
from bobbin.simulator.disk import FaultyDisk
from bobbin.store.sqlite.config import Config
from bobbin.store.sqlite.opening import open_store
from bobbin.store.tangles import Level
from bobbin.tangles.admission import Admission
from bobbin.tangles.errors import InvalidMessage
from bobbin.tangles.exchange import Library
from bobbin.tangles.goals import Goal, GoalKind
from bobbin.tangles.judgement import Mark
from bobbin.tangles.memory import MemoryStore
from bobbin.tangles.message import Message, MessageId
from bobbin.tangles.modern_turns import ModernLibrary
from bobbin.tangles.session_effects import Commit
from bobbin.tangles.session_events import Committed
from bobbin.tangles.session_memory import ModernView, perform
from bobbin.tangles.tangle import Tangle
from bobbin.tangles.upkeep import Sweep, sweep

SPAN: Final = 4
"""How far below what a set needs its ghosts are remembered: little, so that small worlds have both kinds."""


class Keeper(Protocol):
    """Whoever keeps the messages of a node."""

    @property
    def is_down(self) -> bool: ...

    @property
    def library(self) -> Library:
        """What a session of the nine phases reads."""
        ...

    @property
    def modern_library(self) -> ModernLibrary: ...

    def perform(self, commit: Commit) -> Committed: ...

    def put(self, message: Message, tangle: MessageId) -> str | None:
        """Store a message by modern rules; gives the reason where it is refused."""
        ...

    def set_goal(self, tangle: MessageId, goal: Goal | None) -> None: ...

    def goal(self, tangle: MessageId) -> Goal | None: ...

    def plan(self) -> Sweep:
        """What the goals would let go now."""
        ...

    def collect(self) -> None:
        """Let it go."""
        ...

    def message(self, id: MessageId) -> Message | None: ...

    def tangle(self, id: MessageId) -> Tangle: ...

    def proven(self, id: MessageId) -> Tangle: ...

    def mark(self, tangle: MessageId, message: MessageId) -> Mark | None: ...

    def ghosts(self, tangle: MessageId) -> Collection[MessageId]: ...

    def snapshot(self) -> dict[MessageId, bytes]:
        """Every message that is held, as it is held, read back from where it rests."""
        ...

    def findings(self) -> list[str]:
        """What is wrong with the store itself."""
        ...

    def set_faults(self, error_rate: float, crash_rate: float) -> None: ...

    def restart(self) -> None:
        """The process is gone, and begins again with what was durable."""
        ...

    def close(self) -> None: ...


class MemoryKeeper:
    """Messages in memory."""

    def __init__(self) -> None:
        self.store: Final = MemoryStore(span=SPAN)
        self._view: Final = ModernView(self.store)

    @property
    def is_down(self) -> bool:
        return False

    @property
    def library(self) -> Library:
        return self.store

    @property
    def modern_library(self) -> ModernLibrary:
        return self._view

    def perform(self, commit: Commit) -> Committed:
        return perform(self.store, commit)

    def put(self, message: Message, tangle: MessageId) -> str | None:
        try:
            return None if self.store.add_modern(message, tangle) is not Admission.KNOWN else "known"
        except InvalidMessage as error:
            return str(error)

    def set_goal(self, tangle: MessageId, goal: Goal | None) -> None:
        self.store.set_goal(tangle, goal)

    def goal(self, tangle: MessageId) -> Goal | None:
        return self.store.goal(tangle)

    def plan(self) -> Sweep:
        return planned(self.store)

    def collect(self) -> None:
        swept = planned(self.store)
        for id in swept.deleted:
            self.store.delete(id)
        for id in swept.erased:
            self.store.erase(id)
        for ghost in swept.ghosts:
            self.store.save_ghost(ghost.tangle, ghost.id, ghost.depth)

    def message(self, id: MessageId) -> Message | None:
        return self.store.message(id)

    def tangle(self, id: MessageId) -> Tangle:
        return self.store.tangle(id)

    def proven(self, id: MessageId) -> Tangle:
        return self.store.standing.full_tangle(id)

    def mark(self, tangle: MessageId, message: MessageId) -> Mark | None:
        found = self.store.standing.judgement(tangle, message)
        return None if found is None else found.mark

    def ghosts(self, tangle: MessageId) -> Collection[MessageId]:
        return self.store.ghosts(tangle)

    def snapshot(self) -> dict[MessageId, bytes]:
        return {message.id: message.raw for message in self.store}

    def findings(self) -> list[str]:
        return []

    def set_faults(self, error_rate: float, crash_rate: float) -> None:
        """Memory does not fail."""

    def restart(self) -> None:
        """Nothing is lost."""

    def close(self) -> None:
        """Nothing is open."""


def planned(store: MemoryStore) -> Sweep:
    """What the goals of a store in memory let go; what stands in a tangle without a goal is kept, as in a lace."""
    goals: dict[MessageId, Goal] = {}
    for message in store:
        for root in (message.id,) if message.is_root else message.places:
            goals[root] = store.goal(root) or Goal(GoalKind.ALL)
    return sweep(store, store, goals, span=SPAN)


class DiskKeeper:
    """Messages in the real store."""

    def __init__(self, name: str, random: Random) -> None:
        """``name`` is like no other in this process."""
        self._folder: Final = TemporaryDirectory(prefix="bobbin-world-")
        self._disk: Final = FaultyDisk(name, random)
        self._rates = (0.0, 0.0)
        self._begin()

    @property
    def folder(self) -> str:
        """Where the files are, which is another place each time."""
        return self._folder.name

    @property
    def is_down(self) -> bool:
        return self._disk.down

    @property
    def library(self) -> Library:
        return self._library

    @property
    def modern_library(self) -> ModernLibrary:
        return self._modern_library

    def perform(self, commit: Commit) -> Committed:
        return self.tangles.perform(commit)

    def put(self, message: Message, tangle: MessageId) -> str | None:
        done = self.tangles.commit([message], tangle=tangle, level=Level.MODERN)
        return done.refused[0].detail if done.refused else "known" if done.known else None

    def set_goal(self, tangle: MessageId, goal: Goal | None) -> None:
        self.tangles.set_goal(tangle, goal)

    def goal(self, tangle: MessageId) -> Goal | None:
        return self.tangles.shelf.goal(tangle)

    def plan(self) -> Sweep:
        return self.tangles.collect(dry_run=True)

    def collect(self) -> None:
        self.tangles.collect()

    def message(self, id: MessageId) -> Message | None:
        return self.tangles.message(id)

    def tangle(self, id: MessageId) -> Tangle:
        return self.tangles.tangle(id)

    def proven(self, id: MessageId) -> Tangle:
        return self.tangles.proven(id)

    def mark(self, tangle: MessageId, message: MessageId) -> Mark | None:
        found = self.tangles.judgement(tangle, message)
        return None if found is None else found.mark

    def ghosts(self, tangle: MessageId) -> Collection[MessageId]:
        return self.tangles.shelf.ghosts(tangle).depths.keys()

    def snapshot(self) -> dict[MessageId, bytes]:
        return {row.id: row.raw for row in self.tangles.kept()}

    def findings(self) -> list[str]:
        return [str(finding) for finding in self._store.check()]

    def set_faults(self, error_rate: float, crash_rate: float) -> None:
        """From now on."""
        self._rates = self._disk.error_rate, self._disk.crash_rate = error_rate, crash_rate

    def restart(self) -> None:
        if not self._disk.down:
            self._disk.crash()
        self._close_store()
        self._begin()

    def close(self) -> None:
        self.set_faults(0.0, 0.0)
        self._close_store()
        self._disk.unregister()
        self._folder.cleanup()

    def _begin(self) -> None:
        self._disk.restart()
        self._disk.error_rate = self._disk.crash_rate = 0.0
        config = Config(vfs=self._disk.name, wal_bytes=1 << 18)
        self._store = open_store(Path(self._folder.name) / "records.db", create=True, now=lambda: 0, config=config)
        self.tangles = TangleStore(self._store.tangles, span=SPAN)
        self.tangles.refresh()
        self._library = StoreLibrary(self.tangles)
        self._modern_library = StoreLibrary(self.tangles, modern=True)
        self._disk.error_rate, self._disk.crash_rate = self._rates

    def _close_store(self) -> None:
        self._disk.error_rate = self._disk.crash_rate = 0.0
        try:
            self._store.close()
        except BobbinError:
            if not self._disk.down:
                raise

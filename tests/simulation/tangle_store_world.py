"""The tangles of a store on a disk that fails, beside a twin on a disk that does not.

Every operation is done to the twin once it is known to have happened. After a failure or a power cut the store must be
in one of the states that the twin passes through during the operation: before it, after records were taken in for it,
or after it. Nothing between, and nothing else.
"""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from msgspec import Struct

from bobbin.errors import BobbinError, UsageError
from bobbin.runtime.tangle_store import TangleStore
from bobbin.simulator.disk import FaultyDisk
from bobbin.simulator.world import Broken
from bobbin.store.sqlite import SqliteStore, open_store
from bobbin.store.tangles import Level
from bobbin.tangles.message import Message
from bobbin.tangles.plex import plex_of
from tests.support.tangle_messages import Author

LIVES = 4
STEPS_PER_LIFE = 16
ERROR_RATE = 0.004
CRASH_RATE = 0.003

Work = Callable[[SqliteStore, TangleStore], object]
OpenTangles = Callable[[Path, FaultyDisk], SqliteStore]


class Operation(Struct, frozen=True):
    """Something that is done to a store."""

    work: Work
    on_tangles: bool = True
    """It looks first for records that have become messages."""

    def __call__(self, store: SqliteStore, tangles: TangleStore) -> object:
        return self.work(store, tangles)


class Tally(Struct):
    """What happened in one world."""

    operations: int = 0
    failures: int = 0
    crashes: int = 0
    messages: int = 0


class State(Struct, frozen=True):
    """All that a store promises about its tangles, without numbers."""

    messages: frozenset[tuple[str, bytes, int]]
    records: frozenset[str]
    refusals: frozenset[tuple[str, str]]
    goals: frozenset[tuple[str, str]]
    ghosts: frozenset[tuple[str, str]]
    waiting: frozenset[str]


def observe(store: SqliteStore) -> State:
    with store.tangles.reading() as view:
        return State(
            messages=frozenset((row.id, row.raw, int(row.level)) for row in view.after(0)),
            records=frozenset(record.hash for record in store.scan()),
            refusals=frozenset((refusal.hash, refusal.reason) for refusal in store.refusals()),
            goals=frozenset(view.goals().items()),
            ghosts=frozenset(view.ghosts().items()),
            waiting=frozenset(record.hash for record, _ in view.waiting()),
        )


class TangleWorld:
    """One seeded history."""

    def __init__(self, seed: int, folder: Path, open_faulty: OpenTangles) -> None:
        self.seed = seed
        self.tally = Tally()
        self._random = Random(seed)
        self._folder = folder
        self._open = open_faulty
        self._disk = FaultyDisk(f"bobbin-tangles-{seed}", self._random)
        self._population = population(self._random)
        (folder / "twin").mkdir()
        self._twin = open_store(folder / "twin" / "records.db", create=True, now=lambda: 0)
        self._doubtful: Operation | None = None
        """What was under way when the power went."""

    def run(self) -> Tally:
        try:
            for _ in range(LIVES):
                self._live()
        finally:
            self._twin.close()
            self._disk.unregister()
        return self.tally

    def _live(self) -> None:
        self._disk.restart()
        self._disk.error_rate = self._disk.crash_rate = 0.0
        try:
            store = self._open(self._folder, self._disk)
            self._settle(store)
            self._audit(store)
        except BobbinError as error:
            raise Broken(f"seed {self.seed}: a sound disk, and the store cannot be read: {error}") from error
        tangles = TangleStore(store.tangles)
        self._disk.error_rate, self._disk.crash_rate = ERROR_RATE, CRASH_RATE
        for _ in range(STEPS_PER_LIFE):
            operation = self._draw()
            self.tally.operations += 1
            try:
                operation(store, tangles)
                self._doubtful = None
                self._on_twin(operation)
            except UsageError as error:
                raise Broken(f"seed {self.seed}: {error}") from error
            except BobbinError:
                self.tally.failures += 1
                self._doubtful = operation
            if self._disk.down:
                break
            if self._doubtful is not None:
                self._see(store, tangles)
        self._end(store)

    def _see(self, store: SqliteStore, tangles: TangleStore) -> None:
        """An operation has failed and the power is on: what the store says now is what is."""
        rates, self._disk.error_rate, self._disk.crash_rate = self._disk.error_rate, 0.0, 0.0
        self._settle(store)
        self._audit(store)
        # What failed while it was being written may still come to light at a power cut, until something is written
        # over it: that is how a log is. Here the next operation is to be looked at by itself.
        store.keep("simulated", "failure", b"")
        tangles.refresh()
        TangleStore(self._twin.tangles).refresh()
        fresh = TangleStore(store.tangles)
        for row in fresh.rows():
            same = tangles.proven(row.root).topological() == fresh.proven(row.root).topological()
            self._expect(same, f"after a failure the tangle {row.root} is not what is stored")
        self._disk.error_rate, self._disk.crash_rate = rates, CRASH_RATE

    def _end(self, store: SqliteStore) -> None:
        if not self._disk.down and self._random.random() < 0.5:
            self._disk.crash()
        self.tally.crashes += self._disk.down
        self._disk.error_rate = self._disk.crash_rate = 0.0
        try:
            store.close()
        except BobbinError:
            if not self._disk.down:
                raise

    # ---- the twin -------------------------------------------------------------------------------------------------

    def _on_twin(self, operation: Operation) -> None:
        operation(self._twin, TangleStore(self._twin.tangles))

    def _settle(self, store: SqliteStore) -> None:
        """Let the twin do as much of what was under way as the store has done."""
        found = observe(store)
        operation, self._doubtful = self._doubtful, None
        if operation is None or found == observe(self._twin):
            return
        if operation.on_tangles:
            TangleStore(self._twin.tangles).refresh()
            if found == observe(self._twin):
                return
        self._on_twin(operation)

    def _audit(self, store: SqliteStore) -> None:
        found, expected = observe(store), observe(self._twin)
        for field in State.__struct_fields__:
            ours: frozenset[Any] = getattr(found, field)
            theirs: frozenset[Any] = getattr(expected, field)
            self._expect(ours == theirs, f"{field} differ: {sorted(map(str, ours ^ theirs))[:2]}")
        findings = list(store.check())
        self._expect(not findings, f"check found {findings[:2]}")
        self.tally.messages = len(found.messages)

    def _expect(self, condition: bool, message: str) -> None:  # noqa: FBT001 - reads like an assertion
        if not condition:
            raise Broken(f"seed {self.seed}: {message}")

    # ---- operations -----------------------------------------------------------------------------------------------

    def _draw(self) -> Operation:
        draw = self._random.choices(
            [self._commit, self._put, self._remove, self._lift, self._goal, self._collect, self._erase],
            weights=[8, 3, 2, 1, 2, 2, 2],
        )[0]
        return draw()

    def _commit(self) -> Operation:
        some = sorted(self._random.sample(range(len(self._population)), self._random.randrange(1, 20)))
        chosen = [self._population[at] for at in some]
        if self._random.random() < 0.3:
            chosen = [message.erased() if self._random.random() < 0.5 else message for message in chosen]
        level = self._random.choice([Level.INTEROP, Level.MODERN])
        return Operation(lambda _, tangles: tangles.commit(chosen, level=level))

    def _put(self) -> Operation:
        chosen = self._random.sample(self._population, 8)
        plexes = [plex for message in chosen if (plex := plex_of(message)) is not None]
        return Operation(lambda store, _: store.put_records(plexes), on_tangles=False)

    def _remove(self) -> Operation:
        plex = plex_of(self._random.choice(self._population))
        assert plex is not None
        return Operation(lambda store, _: store.remove(plex.hash, reason="simulated"), on_tangles=False)

    def _lift(self) -> Operation:
        plex = plex_of(self._random.choice(self._population))
        assert plex is not None
        return Operation(lambda store, _: store.lift(plex.hash), on_tangles=False)

    def _goal(self) -> Operation:
        root = self._random.choice([message.id for message in self._population if message.is_root])
        goal = self._random.choice(["all", "none", "newest-2", "newest-5", "set", None])
        return Operation(lambda _, tangles: tangles.set_goal(root, goal))

    def _collect(self) -> Operation:
        strict = self._random.random() < 0.2
        return Operation(lambda _, tangles: tangles.collect(strict=strict))

    def _erase(self) -> Operation:
        id = self._random.choice(self._population).id
        forget = self._random.random() < 0.3
        return Operation(lambda _, tangles: tangles.forget(id) if forget else tangles.erase(id))


def population(random: Random) -> list[Message]:
    """Messages of two authors, each after what it builds on: feeds, a set, and a thread with forks."""
    authors = [Author("alice"), Author("bob")]
    messages = [author.account for author in authors]
    feeds = [author.moot() for author in authors]
    sets = authors[0].moot("set_v1__names")
    thread = authors[0].root({"text": "topic"}, "thread")
    messages += [*feeds, sets, thread]
    authors[1].sees(thread)
    gone: list[str] = []
    for number in range(36):
        at = random.randrange(2)
        author, feed = authors[at], feeds[at]
        kind = random.random()
        if kind < 0.2:
            data = {"add": [f"{number}"], "del": [], "supersedes": [*gone]}
            message = authors[0].post(sets.id, data, "set_v1__names")  # type: ignore[arg-type]
            gone = [message.id]
        elif kind < 0.5:
            message = author.post([feed.id, thread.id], {"text": f"reply {number}"})
            if random.random() < 0.5:
                authors[1 - at].sees(message)
        else:
            message = author.post(feed.id, {"text": f"post {number}"})
        messages.append(message)
    return messages

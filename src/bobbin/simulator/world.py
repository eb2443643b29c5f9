"""A store, a disk that fails, and a model that remembers every promise.

One world is one seed. It lives through several lives of a store on one disk: operations drawn at random, errors and
power cuts at any write, then a restart and an audit. The model knows what was acknowledged, what was refused and what
was in flight when the power went; the audit holds the store to it:

* everything acknowledged is there, bit for bit, and nothing that nobody put;
* an operation that failed happened wholly or not at all;
* ids rise and are never given twice, over restarts and removals;
* what was removed stays away until it is lifted, and what was rejected is in the quarantine;
* counts, facts and indexes agree with the records (``Store.check``).
"""

from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final, Protocol

from msgspec import Struct

from bobbin.errors import BobbinError
from bobbin.facts.extract import extract
from bobbin.facts.relations import ARITY
from bobbin.records.ids import HashText
from bobbin.records.record import Record, build_blob, build_plex, seal
from bobbin.records.signing import SigningKey
from bobbin.simulator.disk import FaultyDisk
from bobbin.store.base import Outcome, Put, Store

LIVES: Final = 4
STEPS_PER_LIFE: Final = 30
POPULATION: Final = 60
ERROR_RATE: Final = 0.004
CRASH_RATE: Final = 0.002


class Broken(AssertionError):
    """A promise was broken. The message has the seed, so that anyone can replay the world."""


class OpenStore(Protocol):
    """Opens the store of a world through a disk, made on the first call; called once per life."""

    def __call__(self, folder: Path, disk: FaultyDisk) -> Store: ...


class Tally(Struct, kw_only=True):
    """What happened in one world."""

    puts: int = 0
    acknowledged: int = 0
    failures: int = 0
    crashes: int = 0
    removals: int = 0
    audits: int = 0


class _Promised(Struct, frozen=True, kw_only=True):
    """What a store must hold."""

    present: frozenset[HashText]
    refused: frozenset[HashText]
    rejected: frozenset[bytes]
    """Bytes in the quarantine."""


class World:
    """One seeded history of a store."""

    def __init__(self, seed: int, folder: Path, open_store: OpenStore) -> None:
        """``folder`` is empty, and the world's own."""
        self.seed = seed
        self._folder = folder
        self.tally = Tally()
        self._random = Random(seed)  # noqa: S311 (a seed is the point)
        self._open = open_store
        self._disk = FaultyDisk(f"bobbin-simulated-{seed}", self._random)
        self._population = _population(self._random)
        self._present: set[HashText] = set()
        self._refused: set[HashText] = set()
        self._ids: dict[int, HashText] = {}
        """Every id ever acknowledged, with the record that got it."""
        self._rejected: set[bytes] = set()
        self._doubtful: list[_Promised] = []
        """The states that an operation in flight may have left, once one was."""

    def run(self) -> Tally:
        """Live through all lives; raises ``Broken`` at the first broken promise."""
        for _ in range(LIVES):
            self._live()
        return self.tally

    def _live(self) -> None:
        self._disk.restart()
        self._disk.error_rate = self._disk.crash_rate = 0.0
        try:
            store = self._open(self._folder, self._disk)
            self._audit(store)
        except BobbinError as error:
            raise Broken(f"seed {self.seed}: a sound disk, and the store does not open: {error}") from error
        self._disk.error_rate, self._disk.crash_rate = ERROR_RATE, CRASH_RATE
        for _ in range(STEPS_PER_LIFE):
            self._act(store)
            if self._disk.down:
                break
        self._end(store)

    def _end(self, store: Store) -> None:
        """Close in good order, or pull the plug."""
        if not self._disk.down and self._random.random() < 0.5:
            self._disk.crash()
        self.tally.crashes += self._disk.down
        self._disk.error_rate = self._disk.crash_rate = 0.0
        try:
            store.close()
        except BobbinError:
            if not self._disk.down:
                raise

    # ---- operations -----------------------------------------------------------------------------------------------

    def _act(self, store: Store) -> None:
        before = self._promised()
        action = self._random.choices([self._put, self._put_noise, self._remove, self._lift], weights=[6, 1, 2, 1])[0]
        try:
            action(store)
        except BobbinError:
            self.tally.failures += 1
            self._doubtful = [before, self._promised()]
            self._settle(store)

    def _settle(self, store: Store) -> None:
        """After a failed operation: when the store still answers, see at once what became of it."""
        if self._disk.down:
            return
        try:
            self._audit(store)
        except BobbinError:
            if not self._disk.down:
                self._disk.crash()

    def _put(self, store: Store) -> None:
        batch = self._random.sample(self._population, self._random.randrange(1, 12))
        wanted = [record for record in batch if record.hash not in self._refused]
        known = set(self._present)
        self._present |= {record.hash for record in wanted}
        self.tally.puts += len(batch)
        answers = store.put_records(batch)
        self.tally.acknowledged += len(answers)
        self._check_answers(batch, answers, known)

    def _check_answers(self, batch: list[Record], answers: list[Put], known: set[HashText]) -> None:
        for record, answer in zip(batch, answers, strict=True):
            refused = record.hash in self._refused
            expected = Outcome.REFUSED if refused else Outcome.DUPLICATE if record.hash in known else Outcome.STORED
            self._expect(answer.outcome is expected, f"{record.hash} was {answer.outcome}, not {expected}")
            if answer.outcome is Outcome.STORED:
                assert answer.id is not None
                fresh = answer.id > max(self._ids, default=0)
                self._expect(fresh, f"id {answer.id} does not rise above every id given before")
                self._ids[answer.id] = record.hash

    def _put_noise(self, store: Store) -> None:
        noise = self._random.randbytes(self._random.randrange(200))
        self._rejected.add(noise)
        (answer,) = store.put_many([noise], source="noise")
        self._expect(answer.outcome is Outcome.REJECTED, f"noise was {answer.outcome}")

    def _remove(self, store: Store) -> None:
        target = self._random.choice(self._population).hash
        was_there = target in self._present
        self._present.discard(target)
        self._refused.add(target)
        self.tally.removals += 1
        self._expect(store.remove(target, reason="simulated") is was_there, f"removal of {target} misjudged")

    def _lift(self, store: Store) -> None:
        target = self._random.choice(self._population).hash
        was_refused = target in self._refused
        self._refused.discard(target)
        self._expect(store.lift(target) is was_refused, f"lifting {target} misjudged")

    # ---- audit ----------------------------------------------------------------------------------------------------

    def _audit(self, store: Store) -> None:
        """Hold the store to every promise made so far."""
        self.tally.audits += 1
        by_hash = {record.hash: record for record in self._population}
        stored = {item.hash: item for item in store.scan()}
        refused = frozenset(refusal.hash for refusal in store.refusals())
        rejected = frozenset(row.raw for row in store.quarantined() if row.raw is not None)
        found = _Promised(present=frozenset(stored), refused=refused, rejected=rejected)
        possible = self._doubtful or [self._promised()]
        self._expect(found in possible, self._difference(found, possible))
        self._doubtful = []
        self._present, self._refused, self._rejected = set(found.present), set(refused), set(rejected)
        for name, item in stored.items():
            self._expect(item.raw == by_hash[name].raw, f"{name} came back with other bytes")
            owner = self._ids.setdefault(item.id, name)
            self._expect(owner == name, f"id {item.id} was {owner}'s and is now {name}'s")
        self._expect(store.high_water() >= max(self._ids, default=0), "the high-water mark fell")
        facts = {fact for name in stored for fact in extract(by_hash[name])}
        told = {(predicate, row) for predicate in ARITY for row in store.facts.enumerate(predicate)}
        self._expect(facts == told, f"facts differ: {sorted(facts ^ told)[:3]}")
        findings = list(store.check())
        self._expect(not findings, f"check found {findings[:3]}")

    def _promised(self) -> _Promised:
        return _Promised(
            present=frozenset(self._present), refused=frozenset(self._refused), rejected=frozenset(self._rejected)
        )

    @staticmethod
    def _difference(found: _Promised, possible: list[_Promised]) -> str:
        lost = [sorted(state.present - found.present)[:3] for state in possible]
        extra = [sorted(found.present - state.present)[:3] for state in possible]
        quarantine = [len(state.rejected - found.rejected) for state in possible]
        return (
            f"the store holds another set than any allowed: lost {lost}, unexpected {extra}, "
            f"lost from the quarantine {quarantine}"
        )

    def _expect(self, condition: bool, message: str) -> None:  # noqa: FBT001 (reads like an assertion)
        if not condition:
            raise Broken(f"seed {self.seed}: {message}")


def _population(random: Random) -> list[Record]:
    """Records of every kind, some sharing coordinates, headers and links."""
    key = SigningKey.from_secret(random.randbytes(32))
    records: list[Record] = []
    for number in range(POPULATION):
        data = random.randbytes(random.randrange(2000))
        if number % 5 == 0:
            records.append(build_blob(data))
            continue
        extras = [("X-Number", str(number % 7))] * random.randrange(3)
        if records and random.random() < 0.5:
            extras.append(("+Link", f"see {random.choice(records).hash}"))
        plex = build_plex(
            group=random.choice(["u", "team/one"]),
            app="ding",
            name=f"links/{random.randrange(20)}",
            tai_ns=random.randrange(10**19),
            data=data,
            extras=extras,
        )
        records.append(seal(plex, key, auxiliary=random.randbytes(32)) if number % 5 == 1 else plex)
    return records


def run_worlds(seeds: range, open_store: OpenStore, *, report: Callable[[int, Tally], None] | None = None) -> Tally:
    """Run many worlds; returns the sums."""
    total = Tally()
    for seed in seeds:
        with TemporaryDirectory(prefix="bobbin-world-") as folder:
            tally = World(seed, Path(folder), open_store).run()
        for field in tally.__struct_fields__:
            setattr(total, field, getattr(total, field) + getattr(tally, field))
        if report is not None:
            report(seed, tally)
    return total

"""Seeded worlds: the tangles of a real store on a disk that fails. A failure names its seed."""

from pathlib import Path

import pytest

from bobbin.simulator.disk import FaultyDisk
from bobbin.simulator.disk_vault import open_simulated
from bobbin.simulator.world import Broken
from bobbin.store.sqlite import SqliteStore
from bobbin.store.tangles import TangleBatch, TangleState
from tests.simulation.tangle_store_world import OpenTangles, Tally, TangleWorld


def open_tangles(folder: Path, disk: FaultyDisk) -> SqliteStore:
    store = open_simulated(folder, disk)
    assert isinstance(store, SqliteStore)
    return store


def run_worlds(seeds: range, folder: Path, opening: OpenTangles = open_tangles) -> Tally:
    total = Tally()
    for seed in seeds:
        own = folder / str(seed)
        own.mkdir()
        tally = TangleWorld(seed, own, opening).run()
        for field in Tally.__struct_fields__:
            setattr(total, field, getattr(total, field) + getattr(tally, field))
    return total


@pytest.mark.slow
# A cursor that was reading when the power went says so once more when it is collected.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("first", [0, 8, 16])
def test_tangles_survive_power_cuts_and_errors(first: int, tmp_path: Path) -> None:
    tally = run_worlds(range(first, first + 8), tmp_path)
    assert tally.crashes > 5, "a simulation without power cuts shows nothing"
    assert tally.failures > 5, "a simulation without failed operations shows nothing"
    assert tally.messages > 50


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_one_world(tmp_path: Path) -> None:
    assert run_worlds(range(100, 101), tmp_path).operations > 10


def open_careless(folder: Path, disk: FaultyDisk) -> SqliteStore:
    """A store that acknowledges before its bytes are durable."""
    store = open_tangles(folder, disk)
    store._connection.pragma("synchronous", "OFF")
    return store


class InTwoSteps(SqliteStore):
    """A store that writes what goes and what comes in two commits, as real peers do."""

    @property
    def tangles(self) -> "Halved":  # type: ignore[override]
        return Halved(super().tangles)


class Halved:
    """Its tables."""

    def __init__(self, whole: object) -> None:
        self._whole = whole
        self.read_only = False
        self.reading = whole.reading  # type: ignore[attr-defined]

    def write(self, batch: TangleBatch) -> TangleState:
        first = TangleBatch(version=batch.version, messages=batch.messages[: len(batch.messages) // 2])
        if not first.messages:
            return self._whole.write(batch)  # type: ignore[attr-defined, no-any-return]
        state = self._whole.write(first)  # type: ignore[attr-defined]
        rest = TangleBatch(
            version=state.version,
            deleted=batch.deleted,
            erased=batch.erased,
            messages=batch.messages[len(first.messages) :],
            promoted=batch.promoted,
            goals=batch.goals,
            ghosts=batch.ghosts,
            waiting=batch.waiting,
            settled=batch.settled,
            seen=batch.seen,
        )
        return self._whole.write(rest)  # type: ignore[attr-defined, no-any-return]


def open_halved(folder: Path, disk: FaultyDisk) -> SqliteStore:
    store = open_tangles(folder, disk)
    store.__class__ = InTwoSteps
    return store


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("open_mutant", [open_careless, open_halved])
def test_the_worlds_find_a_store_that_breaks_its_promises(open_mutant: OpenTangles, tmp_path: Path) -> None:
    with pytest.raises(Broken, match=r"seed \d+: "):
        run_worlds(range(60), tmp_path, open_mutant)

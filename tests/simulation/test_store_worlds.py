"""Seeded worlds: a real store on a disk that fails. A failure names its seed; ``make simulate SEED=n`` replays it."""

from pathlib import Path

import pytest

from bobbin.simulator.disk import FaultyDisk
from bobbin.simulator.disk_vault import open_simulated
from bobbin.simulator.world import Broken, run_worlds
from bobbin.store.base import Store
from bobbin.store.sqlite.store import SqliteStore


@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.slow) for first in (10, 20, 30))])
def test_every_promise_is_kept(first: int) -> None:
    tally = run_worlds(range(first, first + 10), open_simulated)
    assert tally.crashes > 10, "a simulation without power cuts shows nothing"
    assert tally.failures > 20, "a simulation without failed operations shows nothing"
    assert tally.acknowledged > 1000


def test_a_world_is_its_seed() -> None:
    assert run_worlds(range(7, 8), open_simulated) == run_worlds(range(7, 8), open_simulated)


def open_careless(folder: Path, disk: FaultyDisk) -> Store:
    """A store that acknowledges before its bytes are durable."""
    store = open_simulated(folder, disk)
    assert isinstance(store, SqliteStore)
    store._connection.pragma("synchronous", "OFF")
    return store


class ForgetfulRefusals(SqliteStore):
    """A store that forgets what was removed on purpose."""

    def remove(self, hash: str, *, reason: str) -> bool:
        removed = super().remove(hash, reason=reason)  # type: ignore[arg-type]
        super().lift(hash)  # type: ignore[arg-type]
        return removed


def open_forgetful(folder: Path, disk: FaultyDisk) -> Store:
    store = open_simulated(folder, disk)
    store.__class__ = ForgetfulRefusals
    return store


@pytest.mark.parametrize("open_mutant", [open_careless, open_forgetful])
def test_the_worlds_find_a_store_that_breaks_its_promises(open_mutant: object) -> None:
    with pytest.raises(Broken, match=r"seed \d+: "):
        run_worlds(range(30), open_mutant)  # type: ignore[arg-type]

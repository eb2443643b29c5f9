"""The model of a world: it accepts a store that keeps its promises and names the seed of one that does not."""

from pathlib import Path

import pytest

from bobbin.simulator.disk import FaultyDisk
from bobbin.simulator.disk_vault import open_simulated
from bobbin.simulator.world import Broken, World
from bobbin.store.base import Store


def test_a_sound_store_lives_through_a_world(tmp_path: Path) -> None:
    tally = World(1, tmp_path, open_simulated).run()
    assert tally.audits >= 4
    assert tally.acknowledged > 0


def test_a_store_that_loses_a_record_is_found_out(tmp_path: Path) -> None:
    lives = 0

    def open_lossy(folder: Path, disk: FaultyDisk) -> Store:
        nonlocal lives
        store = open_simulated(folder, disk)
        lives += 1
        if lives > 1 and (first := next(iter(store.scan()), None)) is not None:
            store.remove(first.hash, reason="a bug")
            store.lift(first.hash)
        return store

    with pytest.raises(Broken, match=r"seed 1: .* lost"):
        World(1, tmp_path, open_lossy).run()

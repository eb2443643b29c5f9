"""The real store under a node: what is acknowledged survives, and what a witness is shown is what the store holds."""

from random import Random

import pytest

from bobbin.errors import ResourceError
from bobbin.interlace.cursor import Cursor
from bobbin.interlace.effects import Persist, SaveCursor
from bobbin.interlace.events import Fate
from bobbin.interlace.messages import Delivered
from bobbin.interlace.schema import Schema
from bobbin.simulator.disk_vault import DiskVault
from tests.unit.simulator.exchanges import note


def test_what_is_put_survives_a_crash_and_what_is_removed_stays_away() -> None:
    vault = DiskVault("vault-survives", Random(1), None)
    try:
        assert vault.put(note(1))
        assert vault.put(note(2))
        vault.remove(note(2).hash)
        vault.crash()
        assert dict(vault.records) == {note(1).hash: note(1)}
        assert vault.refused == {note(2).hash}
        assert not vault.put(note(2))
        vault.lift(note(2).hash)
        assert vault.put(note(2))
    finally:
        vault.close()


def test_what_a_machine_stores_is_seen_at_once() -> None:
    vault = DiskVault("vault-link", Random(1), None)
    try:
        holdings = vault.link(None)
        record = note(1)
        (settled,) = holdings.persist(Persist((Delivered(record=record.hash, raw=record.raw),)))
        assert settled.fate is Fate.STORED
        assert set(vault.records) == {record.hash}
        assert vault.cursor("nobody") is None
        assert not holdings.has_recalled
    finally:
        vault.close()


def test_a_failing_disk_raises_and_loses_nothing_acknowledged() -> None:
    vault = DiskVault("vault-fails", Random(3), None)
    try:
        kept = [number for number in range(1, 4) if vault.put(note(number))]
        vault.set_faults(1.0, 0.0)
        with pytest.raises(ResourceError):
            vault.put(note(9))
        vault.set_faults(0.0, 0.0)
        vault.crash()
        assert {note(number).hash for number in kept} <= set(vault.records)
    finally:
        vault.close()


def test_a_power_cut_is_known_even_if_the_store_takes_it_lightly() -> None:
    vault = DiskVault("vault-cut", Random(1), None)
    try:
        holdings = vault.link(None)
        cursor = Cursor(key="k", plan="E.x", source="source:1", schema=Schema(), advertisements=())
        vault.set_faults(0.0, 1.0)
        holdings.save(SaveCursor(cursor))
        was_down = vault.is_down
        vault.set_faults(0.0, 0.0)
        vault.crash()
        assert (was_down, vault.is_down) == (True, False)
        assert vault.cursor("k") is None
    finally:
        vault.close()

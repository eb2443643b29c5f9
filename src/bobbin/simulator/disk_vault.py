"""A node's records in the real store, on a disk that fails.

What a witness is shown is read back from the store after every change. When the disk fails, the node goes down with it;
``crash`` leaves what the platter holds and opens the store again. Decisions that only save work are lost with the
process, as they would be.
"""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Final

from bobbin.errors import BobbinError
from bobbin.interlace.cursor import Cursor
from bobbin.interlace.effects import Persist
from bobbin.interlace.events import Settled
from bobbin.interlace.ports import Memory
from bobbin.interlace.schema import Schema
from bobbin.policy.executables import LocalPolicy
from bobbin.policy.modules import Query
from bobbin.records.ids import HashText
from bobbin.records.record import Record, validate
from bobbin.runtime.decisions import Decisions
from bobbin.runtime.holdings import StoreHoldings
from bobbin.simulator.disk import FaultyDisk
from bobbin.store.base import Outcome, Store
from bobbin.store.sqlite.config import Config
from bobbin.store.sqlite.opening import open_store


def open_simulated(folder: Path, disk: FaultyDisk) -> Store:
    """The real store on a disk that fails, with a clock that stands still."""
    config = Config(vfs=disk.name, wal_bytes=1 << 18)
    return open_store(folder / "records.db", create=True, now=lambda: 0, config=config)


class DiskVault:
    """Records, refusals and cursors in a store."""

    def __init__(self, name: str, random: Random, query: Query | None) -> None:
        """``name`` is like no other in this process."""
        self._folder: Final = TemporaryDirectory(prefix="bobbin-world-")
        self._query: Final = query
        self._disk: Final = FaultyDisk(name, random)
        self.rates = (0.0, 0.0)
        """Of errors and of power cuts, from the next life on."""
        self.records: Mapping[str, Record] = {}
        self.refused: AbstractSet[str] = frozenset()
        self._store: Store = self._begin()
        self._decisions = Decisions(self._store, query=query)

    @property
    def is_down(self) -> bool:
        return self._disk.down

    @property
    def folder(self) -> str:
        """Where the files are, which is another place each time."""
        return self._folder.name

    def cursor(self, key: str) -> Cursor | None:
        return StoreHoldings(self._decisions).cursor(key)

    def link(self, query: Query | None) -> "DiskHoldings":
        assert (query is None) == (self._query is None), "a node has one query policy"
        return DiskHoldings(self._decisions, self._read_back)

    def put(self, record: Record) -> bool:
        (answer,) = self._store.put_records([record])
        self._read_back()
        return answer.outcome is not Outcome.REFUSED

    def remove(self, record: str) -> None:
        self._store.remove(HashText(record), reason="simulated")
        self._read_back()

    def lift(self, record: str) -> None:
        self._store.lift(HashText(record))
        self._read_back()

    def crash(self) -> None:
        """Cut the power, if it is not off already, and start again."""
        if not self._disk.down:
            self._disk.crash()
        self._close_store()
        self._store = self._begin()
        self._decisions = Decisions(self._store, query=self._query)

    def set_faults(self, error_rate: float, crash_rate: float) -> None:
        """From now on."""
        self.rates = self._disk.error_rate, self._disk.crash_rate = error_rate, crash_rate

    def close(self) -> None:
        """The world is over."""
        self.set_faults(0.0, 0.0)
        self._close_store()
        self._disk.unregister()
        self._folder.cleanup()

    def _begin(self) -> Store:
        self._disk.restart()
        self._disk.error_rate = self._disk.crash_rate = 0.0
        self._store = open_simulated(Path(self._folder.name), self._disk)
        self._read_back()
        self._disk.error_rate, self._disk.crash_rate = self.rates
        return self._store

    def _close_store(self) -> None:
        self._disk.error_rate = self._disk.crash_rate = 0.0
        try:
            self._store.close()
        except BobbinError:
            if not self._disk.down:
                raise

    def _read_back(self) -> None:
        known = self.records
        found: dict[str, Record] = {}
        for item in self._store.scan():
            same = known.get(item.hash)
            found[item.hash] = same if same is not None and same.raw == item.raw else validate(item.raw)
        self.records = found
        self.refused = frozenset(refusal.hash for refusal in self._store.refusals())


class DiskHoldings(StoreHoldings):
    """What one machine reads of the store, with a look at what it wrote."""

    def __init__(self, decisions: Decisions, read_back: Callable[[], None]) -> None:
        super().__init__(decisions)
        self._read_back: Final = read_back
        self.has_recalled = False
        """Whether this exchange goes on from what the last one on its link knew."""

    def begin(self, policy: LocalPolicy, schema: Schema, key: str | None) -> Memory | None:
        memory = super().begin(policy, schema, key)
        self.has_recalled = memory is not None
        return memory

    def persist(self, effect: Persist) -> tuple[Settled, ...]:
        settled = super().persist(effect)
        self._read_back()
        return settled

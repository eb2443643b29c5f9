"""A coherent view of one moment: everything that can be read, on a connection of its own."""

from collections.abc import Collection, Iterator, Sequence
from types import TracebackType
from typing import Self

import apsw

from bobbin.facts.extract import Fact
from bobbin.records.coordinate import Coordinate, Prefix
from bobbin.records.ids import HashText
from bobbin.store.base import Fields, Listed, Mark, StoreChanges, StoredRecord, StoreRecordId
from bobbin.store.sqlite import bulk, changes, facts, faults, keeping, listing, lookup
from bobbin.store.sqlite.facts import SqliteFacts
from bobbin.store.sqlite.readers import Moment


class SqliteSnapshot:
    """One moment of a store, on a connection of its own. It may be used in another thread than the store."""

    def __init__(self, moment: Moment) -> None:
        self._moment = moment
        self._point = moment.connection.cursor()
        self._facts = SqliteFacts(moment)

    def get(self, hash: HashText) -> bytes | None:
        """The bytes of a record, or None."""
        self._moment.require_open()
        try:
            return lookup.get(self._point, hash)
        except apsw.Error as error:
            raise faults.translate(error, self._moment.path) from error

    def have(self, hash: HashText) -> bool:
        """Whether a record is stored."""
        self._moment.require_open()
        try:
            return lookup.locate(self._moment.connection, hash) is not None
        except apsw.Error as error:
            raise faults.translate(error, self._moment.path) from error

    def scan(self, *, after: StoreRecordId = lookup.START, limit: int | None = None) -> Iterator[StoredRecord]:
        """Records in commit order, those with an id above ``after``."""
        lookup.check_limit(limit)
        return self._moment.walk(lambda connection: lookup.scan(connection, after=after, limit=limit))

    def list(self, place: Coordinate | Prefix, *, tips: bool = False, limit: int | None = None) -> Iterator[Listed]:
        """Records at a place, by (group, app, name), within one coordinate the newest (TAI, hash text) first."""
        lookup.check_limit(limit)
        return self._moment.walk(lambda connection: listing.walk(connection, place, tips=tips, limit=limit))

    def high_water(self) -> StoreRecordId:
        """The id of the newest record that this view can have seen (0 for none ever)."""
        return self._moment.high_water

    @property
    def facts(self) -> SqliteFacts:
        """What the records of this moment say."""
        return self._facts

    def absent(self, records: Collection[str]) -> frozenset[str]:
        """Those that are neither stored nor refused."""
        self._moment.require_open()
        with faults.translated(self._moment.path):
            return bulk.absent(self._moment.connection, records)

    def fields(self, records: Sequence[str], names: frozenset[str] | None = None) -> Fields:
        """For each record its fields of these names (without names: all), by name and then by index as a number."""
        self._moment.require_open()
        with faults.translated(self._moment.path):
            return bulk.fields(self._moment.connection, records, names)

    def mark(self) -> Mark:
        """This moment, for asking later what has changed since."""
        self._moment.require_open()
        with faults.translated(self._moment.path):
            return changes.mark(self._moment.connection)

    def changes(self, after: Mark) -> StoreChanges:
        """What has happened since a mark of this store."""
        self._moment.require_open()
        with faults.translated(self._moment.path):
            return changes.since(self._moment.connection, after)

    def facts_after(self, after: StoreRecordId, fields: frozenset[str] | None = None) -> Iterator[Fact]:
        """Every fact of the records with an id above ``after``; with ``fields``, of their fields only these."""
        return self._moment.walk(lambda connection: facts.after(connection, after, fields))

    def kept(self, kind: str, key: str) -> bytes | None:
        """What was kept last under this name, or None."""
        self._moment.require_open()
        with faults.translated(self._moment.path):
            return keeping.get(self._moment.connection, kind, key)

    def close(self) -> None:
        """End the moment. Iterators that are still open fail when they are used again."""
        self._moment.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

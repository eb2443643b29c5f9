"""A coherent view of one moment of a lake. It costs nothing: files of a lake never change."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Self, TypeVar

from bobbin.errors import UsageError
from bobbin.facts.extract import Fact
from bobbin.records.coordinate import Coordinate, Prefix
from bobbin.records.ids import HashText
from bobbin.store.base import Fields, Listed, Mark, StoreChanges, StoredRecord, StoreRecordId
from bobbin.store.lake import listing, lookup
from bobbin.store.lake.facts import LakeFacts
from bobbin.store.lake.moment import Moment

Item = TypeVar("Item")
START = StoreRecordId(0)


class LakeSnapshot:
    """One moment. It may be used in another thread than the store, and outlives it."""

    def __init__(self, moment: Moment, kept: Mapping[tuple[str, str], bytes], *, let_go: Callable[[], None]) -> None:
        self._moment = moment
        self._kept = kept
        self._let_go = let_go
        self._is_closed = False
        self._facts = LakeFacts(moment.rows, moment.records, self._require_open)

    def get(self, hash: HashText) -> bytes | None:
        """The bytes of a record, or None."""
        return self._opened().get(hash)

    def have(self, hash: HashText) -> bool:
        """Whether a record is here."""
        return self._opened().have(hash)

    def scan(self, *, after: StoreRecordId = START, limit: int | None = None) -> Iterator[StoredRecord]:
        """Records in the order of their numbers, those above ``after``."""
        lookup.check_limit(limit)
        return self._walk(lambda: self._moment.records.scan(after=after, limit=limit))

    def list(self, place: Coordinate | Prefix, *, tips: bool = False, limit: int | None = None) -> Iterator[Listed]:
        """Records at a place, by (group, app, name), within one coordinate the newest (TAI, hash text) first."""
        lookup.check_limit(limit)
        moment = self._moment
        return self._walk(lambda: listing.walk(moment.rows, moment.records, place, tips=tips, limit=limit))

    def high_water(self) -> StoreRecordId:
        """How many records there are."""
        return self._opened().high_water()

    @property
    def facts(self) -> LakeFacts:
        """What the records of this moment say."""
        return self._facts

    def absent(self, records: Collection[str]) -> frozenset[str]:
        """Those that are not here."""
        return self._opened().absent(records)

    def fields(self, records: Sequence[str], names: frozenset[str] | None = None) -> Fields:
        """For each record its fields of these names (without names: all), by name and then by index as a number."""
        return self._opened().fields(records, names)

    def mark(self) -> Mark:
        """This moment, for asking later what has changed since."""
        return self._opened().mark()

    def changes(self, after: Mark) -> StoreChanges:
        """What has come since a mark of this lake."""
        return self._opened().changes(after)

    def facts_after(self, after: StoreRecordId, fields: frozenset[str] | None = None) -> Iterator[Fact]:
        """Every fact of the records with a number above ``after``; with ``fields``, of their fields only these."""
        return self._walk(lambda: self._facts.after(after, fields))

    def kept(self, kind: str, key: str) -> bytes | None:
        """What was kept last under this name, or None."""
        self._require_open()
        return self._kept.get((kind, key))

    def close(self) -> None:
        """End the moment. Iterators that are still open fail when they are used again."""
        if not self._is_closed:
            self._is_closed = True
            self._let_go()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _opened(self) -> Moment:
        self._require_open()
        return self._moment

    def _require_open(self) -> None:
        if self._is_closed:
            raise UsageError(f"the snapshot of the lake {self._moment.lake.location} is closed")

    def _walk(self, begin: Callable[[], Iterator[Item]]) -> Iterator[Item]:
        self._require_open()
        for one in begin():
            yield one
            self._require_open()

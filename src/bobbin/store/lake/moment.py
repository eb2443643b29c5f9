"""One state of a lake: the manifests of its records and facts, and everything that is read through them."""

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from bobbin.errors import UsageError
from bobbin.facts.extract import fields as fields_of
from bobbin.facts.extract import index_headers
from bobbin.records import ids
from bobbin.records.ids import HashText
from bobbin.records.record import Blob, Record, read_trusted
from bobbin.store.base import Fields, FieldValue, LostMark, Mark, StoreChanges, StoreRecordId
from bobbin.store.lake import commit
from bobbin.store.lake.facts import FactRows
from bobbin.store.lake.lake import Lake
from bobbin.store.lake.lookup import Records
from bobbin.store.lake.manifest import CONTENT, DataFile, Manifest, number_in, order_of
from bobbin.store.lake.tables import FACTS, RECORDS

_CHUNK: Final = 8_192


class Moment:
    """What one manifest of the records names, with the facts that belong to it."""

    def __init__(self, lake: Lake, records: Manifest, facts: Manifest) -> None:
        self.lake: Final = lake
        self.manifest: Final = records
        self.facts_manifest: Final = facts
        self.records: Final = Records(lake.files, records)
        table, uncovered = _covered(lake, records, facts)
        self.rows: Final = FactRows(lake.files, table, uncovered)
        self.has_all_facts: Final = not uncovered
        self._record_bytes: int | None = None

    def high_water(self) -> StoreRecordId:
        """How many records there are."""
        return StoreRecordId(self.manifest.rows)

    def get(self, name: HashText) -> bytes | None:
        """The bytes of a record, or None. A text that is no name is an ``IdentifierError``."""
        found = self.records.get(name)
        if found is None:
            ids.parse_hash(name)
        return found

    def have(self, name: HashText) -> bool:
        """Whether a record is here."""
        if self.records.locate(name) is not None:
            return True
        ids.parse_hash(name)
        return False

    def get_many(self, names: Sequence[str], *, bytes_max: int) -> dict[str, bytes]:
        """The bytes of those records that are here, in their order, until so many bytes are together."""
        found: dict[str, bytes] = {}
        size = 0
        for name in names:
            raw = self.records.get(name)
            if raw is not None:
                found[name] = raw
                size += len(raw)
                if size >= bytes_max:
                    break
        return found

    def absent(self, names: Collection[str]) -> frozenset[str]:
        """Those that are not here. A lake refuses nothing."""
        asked = list(names)
        away: set[str] = set()
        for start in range(0, len(asked), _CHUNK):
            chunk = asked[start : start + _CHUNK]
            numbers = self.records.locate_many(chunk).tolist()
            away.update(name for name, number in zip(chunk, numbers, strict=True) if not number)
        return frozenset(away)

    def fields(self, names: Sequence[str], wanted: frozenset[str] | None) -> Fields:
        """For each record its fields of these names, by name and then by index as a number."""
        told: Fields = [None] * len(names)
        numbers = self.records.locate_many(names)
        # By number: neighbours in the lake are then read together.
        for place in numbers.argsort(kind="stable").tolist():
            if number := int(numbers[place]):
                told[place] = _fields(read_trusted(self.records.raw(number)), wanted)
        return told

    def record_bytes(self) -> int:
        """The bytes of all records together, counted once."""
        if self._record_bytes is None:
            total = 0
            for _, _, raws in self.records.pieces():
                total += sum(map(len, raws.to_pylist()))
            self._record_bytes = total
        return self._record_bytes

    # ---- what has changed -----------------------------------------------------------------------------------------

    def mark(self) -> Mark:
        """How many records there are, and since which manifest they have had their places."""
        return Mark(self.high_water(), order_of(self.manifest))

    def changes(self, after: Mark) -> StoreChanges:
        """What has come since a mark. ``LostMark`` where records have got other places since and more have come."""
        now = self.mark()
        self._check(after, now)
        stored = tuple(self._names_after(after.high_water)) if after.high_water < now.high_water else ()
        return StoreChanges(mark=now, stored=stored)

    def _check(self, after: Mark, now: Mark) -> None:
        if after.high_water > now.high_water or after.removal > now.removal:
            raise UsageError(f"the mark {after.high_water}/{after.removal} is not of this lake, or of a later moment")
        reached = self.manifest
        while order_of(reached) != after.removal:
            if not after.high_water:
                return  # Whatever came since came after nothing.
            number = order_of(reached)
            rewritten = _find(self.lake, number)
            earlier = _find(self.lake, number - 1)
            if (
                rewritten is None
                or earlier is None
                or CONTENT not in rewritten.properties
                or rewritten.rows != after.high_water
            ):
                raise LostMark(
                    f"records of the lake {self.lake.location} have got other places since the mark "
                    f"{after.high_water}/{after.removal}, and which came since cannot be told"
                )
            reached = earlier

    def _names_after(self, number: int) -> Iterator[HashText]:
        for _, names, _ in self.records.pieces(number):
            yield from names.to_pylist()


def open_moment(lake: Lake) -> Moment:
    """The present of a lake."""
    return Moment(lake, lake.manifest(RECORDS.name), lake.manifest(FACTS.name))


def _covered(lake: Lake, records: Manifest, facts: Manifest) -> tuple[tuple[DataFile, ...], tuple[DataFile, ...]]:
    """The files of facts that are about these records, and the files of records that they say nothing about."""
    number = number_in(facts, RECORDS.name, 0)
    if not 0 < number <= records.number:
        return (), records.files
    made_from = records if number == records.number else _find(lake, number)
    if made_from is None or facts.rows != made_from.rows:
        return (), records.files
    if made_from.files == records.files[: len(made_from.files)]:
        return facts.files, records.files[len(made_from.files) :]
    rewritten = _same_rows(lake, records, number)
    return ((), records.files) if rewritten is None else (facts.files, records.files[rewritten:])


def _same_rows(lake: Lake, records: Manifest, number: int) -> int | None:
    """How many files of a manifest hold the rows of an earlier one, if its first ones hold just those."""
    order = order_of(records)
    if order <= number:
        return None
    rewritten, earlier = _find(lake, order), _find(lake, number)
    if rewritten is None or earlier is None:
        return None
    first = number_in(rewritten, CONTENT, rewritten.number)
    is_same = first == number_in(earlier, CONTENT, earlier.number)
    return len(rewritten.files) if is_same and rewritten.files == records.files[: len(rewritten.files)] else None


def _find(lake: Lake, number: int) -> Manifest | None:
    return commit.find_history(lake.files, RECORDS.name, number) if number > 0 else None


def _fields(record: Record, wanted: frozenset[str] | None) -> tuple[FieldValue, ...]:
    extras = () if isinstance(record, Blob) else tuple(index_headers(record.extras))
    repeated = {header.name for header in extras}
    found = [(name, 0, value) for name, value in fields_of(record) if name not in repeated]
    found += [(header.name, header.index, header.value) for header in extras]
    chosen = sorted(field for field in found if wanted is None or field[0] in wanted)
    return tuple([(name, str(index), value) for name, index, value in chosen])

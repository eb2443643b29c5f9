"""What a store of records promises, whatever it is made of.

* A record that is acknowledged is durable: it survives ``kill -9`` and power loss.
* ``put`` is idempotent, and atomic per call: either every record of the call is in the store afterwards or none is.
* ``StoreRecordId`` numbers the records in commit order. Numbers rise strictly and are never used again, also over
  restarts and removals. They are this store's own business and never travel.
* A snapshot is a coherent view: it sees one moment, whatever is written meanwhile, by whichever process.
* Removed means gone and unwanted: the refusal is durable, and no later put brings the record back until it is lifted.
* Bytes that are refused go to the quarantine with the reason and are never taken for records.

One conformance kit (``tests/conformance``) holds every implementation to these promises.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from enum import StrEnum
from pathlib import Path
from typing import NewType, Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from bobbin.errors import ResourceError, UsageError
from bobbin.facts.extract import Fact
from bobbin.facts.relations import FactSource
from bobbin.interlace.built import Built
from bobbin.interlace.schema import Schema
from bobbin.policy.executables import LocalPolicy
from bobbin.records.coordinate import Coordinate, Prefix
from bobbin.records.ids import HashText, Kind
from bobbin.records.record import Record

StoreRecordId = NewType("StoreRecordId", int)
"""A record's place in the commit order of one store: 1, 2, 3, … with gaps where records were removed."""

FieldValue: TypeAlias = tuple[str, str, str]
"""Name, index and value of one field of a record."""

Fields: TypeAlias = list[tuple[FieldValue, ...] | None]
"""The fields of many records, record by record; None for one that is not stored."""

KEPT_BYTES_MAX = 256 * 1024 * 1024
"""The longest value that ``keep`` takes."""

Progress = Callable[[int, int], None]
"""Called now and then with (done, total) during long work."""


class StoreError(ResourceError):
    """The store cannot do its work. What was acknowledged before is intact."""


class FullStore(StoreError):
    """There is no space left. It may be tried again when somebody has made some."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retry=True)


class DamagedStore(StoreError):
    """Something in the store is not what was put there. ``check`` says what; nothing is repaired by itself."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retry=False)


class LostMark(UsageError):
    """The store can no longer say what has happened since a mark. Whoever follows it starts from nothing."""


class Outcome(StrEnum):
    """What became of one record that was put."""

    STORED = "stored"
    DUPLICATE = "duplicate"
    REFUSED = "refused"
    """A valid record that was removed on purpose earlier; it is not stored until the refusal is lifted."""
    REJECTED = "rejected"
    """Not a valid record; its bytes are in the quarantine."""


class Put(Struct, frozen=True, gc=False):
    """The answer for one record of a put."""

    outcome: Outcome
    hash: HashText | None
    """The record's name; None for rejected bytes."""
    id: StoreRecordId | None = None
    """Where it stands in the store; None unless stored or a duplicate."""
    reason: str | None = None
    """Why it was rejected or refused: a reason code for rejected bytes."""
    detail: str | None = None


class Rejected(Struct, frozen=True, kw_only=True):
    """Bytes on their way to the quarantine."""

    raw: bytes
    reason: str
    detail: str
    source: str = ""
    """Where they came from: a file name, a peer."""
    offset: int | None = None
    """Where in the source they began."""


class Quarantined(Struct, frozen=True, kw_only=True):
    """One row of the quarantine. ``raw`` is None where the bytes were too many to keep; ``size`` always says."""

    id: int
    raw: bytes | None
    size: int
    reason: str
    detail: str
    source: str
    offset: int | None
    tai: int
    """When it was put there, in TAI nanoseconds."""
    kept: bool = True
    """Whether the store has the bytes, asked for or not."""


class Refusal(Struct, frozen=True, kw_only=True):
    """One removed record that must not come back."""

    hash: HashText
    reason: str
    tai: int


class Mark(Struct, frozen=True):
    """A moment of one store, for asking later what has changed since. It means nothing to another store."""

    high_water: StoreRecordId = StoreRecordId(0)
    removal: int = 0
    """How many removals, refusals and lifted refusals have been written down."""


class StoreChanges(Struct, frozen=True, kw_only=True):
    """What has happened between a mark and now. A record that came and went in between is told of all the same."""

    mark: Mark
    """Now."""
    stored: tuple[HashText, ...] = ()
    """Records that were stored since and are still there, in commit order."""
    removed: frozenset[HashText] = frozenset()
    """Records that were stored and then taken out; some may be stored again."""
    refused: frozenset[HashText] = frozenset()
    """Records that were refused without being stored."""
    lifted: frozenset[HashText] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.stored or self.removed or self.refused or self.lifted)


class StoredRecord(Struct, frozen=True):
    """A record as a scan or listing yields it."""

    id: StoreRecordId
    hash: HashText
    raw: bytes


class Listed(Struct, frozen=True, kw_only=True):
    """One line of a listing: enough to show a record without reading its bytes."""

    id: StoreRecordId
    hash: HashText
    group: str
    app: str
    name: str
    tai: int
    verifier: str | None
    data_length: int


class Stat(Struct, frozen=True, kw_only=True):
    """Sizes and counts, kept up to date by every write, so that asking costs nothing."""

    records: dict[Kind, int]
    record_bytes: int
    """Bytes of all stored records together."""
    quarantined: int
    quarantine_overflow: int = 0
    """Rejections that found the quarantine full and were only counted."""
    refused: int
    high_water: StoreRecordId
    """The highest id ever given; 0 for a store that never held a record."""
    file_bytes: int
    schema_version: int
    messages: int = 0
    """Messages of tangles, which are not records; most are records as well."""
    messages_erased: int = 0
    messages_interop: int = 0
    """Messages that only the rules of a pzp peer accept, and that are no records therefore."""
    messages_lacking: int = 0
    """Messages that wait in some tangle for others, to be proven there."""
    messages_waiting: int = 0
    """Records that are messages in form and cannot be accepted yet."""
    message_bytes: int = 0


class Finding(Struct, frozen=True):
    """One thing that ``check`` found wrong."""

    where: str
    what: str


@runtime_checkable
class Builds(Protocol):
    """A store for which jobs compute, beforehand, what exchanges over it will want to know."""

    def built(self, policy: LocalPolicy, schema: Schema, records: Collection[str], length: int) -> Built:
        """What there is of advertisements of these records, and of partitions whose prefixes have this length."""
        ...


def takes_records(store: "Store") -> bool:
    """Whether records can be put into a store at all. A lake is only read."""
    return not getattr(store, "read_only", False)


class View(Protocol):
    """Reading. A store reads the present; a snapshot reads one moment."""

    def get(self, hash: HashText) -> bytes | None:
        """The bytes of a record, or None."""
        ...

    def have(self, hash: HashText) -> bool: ...

    def scan(self, *, after: StoreRecordId = StoreRecordId(0), limit: int | None = None) -> Iterator[StoredRecord]:
        """Records in commit order, those with an id above ``after``."""
        ...

    def list(self, place: Coordinate | Prefix, *, tips: bool = False, limit: int | None = None) -> Iterator[Listed]:
        """Records at a place, by (group, app, name), within one coordinate the newest (TAI, hash text) first.

        With ``tips`` only the first of each coordinate. A store that keeps tangles puts the record of a message before
        whatever else somebody has written in its place.
        """
        ...

    def high_water(self) -> StoreRecordId:
        """The id of the newest record that this view can have seen (0 for none ever)."""
        ...

    @property
    def facts(self) -> FactSource: ...

    def absent(self, records: Collection[str]) -> frozenset[str]:
        """Those that are neither stored nor refused. A text that is no name of a record is absent too."""
        ...

    def fields(self, records: Sequence[str], names: frozenset[str] | None = None) -> Fields:
        """For each record its fields of these names (without names: all), by name and then by index as a number."""
        ...

    def mark(self) -> Mark:
        """This moment, for asking later what has changed since."""
        ...

    def changes(self, after: Mark) -> StoreChanges:
        """What has happened since a mark of this store.

        Raises ``UsageError`` for a mark that lies ahead, ``LostMark`` for one too long ago to tell from.
        """
        ...

    def facts_after(self, after: StoreRecordId, fields: frozenset[str] | None = None) -> Iterator[Fact]:
        """Every fact of the records with an id above ``after``; with ``fields``, of their fields only these."""
        ...

    def kept(self, kind: str, key: str) -> bytes | None:
        """What was kept last under this name, or None."""
        ...


class Snapshot(View, AbstractContextManager["Snapshot"], Protocol):
    """A coherent view of one moment. Close it soon: an open snapshot keeps old pages alive."""

    def close(self) -> None: ...


class Store(View, AbstractContextManager["Store"], Protocol):
    """A durable set of valid records."""

    def get_many(self, records: Sequence[str], *, bytes_max: int) -> dict[str, bytes]:
        """The bytes of those records that are stored and undamaged, in one reading, until so many bytes are together.

        What is not among the answers may be stored all the same: ``get`` says it of each.
        """
        ...

    def put_many(self, raws: Iterable[bytes], *, source: str = "") -> list[Put]:
        """Validate and store. One answer per item, in order; rejected bytes go to the quarantine."""
        ...

    def put_records(self, records: Sequence[Record], *, rejected: Sequence[Rejected] = ()) -> list[Put]:
        """Store records that exist as values (and so are valid), and quarantine rejected bytes, in one commit.

        The same bytes from the same place of the same source are in the quarantine once, however often they come.
        """
        ...

    def remove(self, hash: HashText, *, reason: str) -> bool:
        """Take a record and its facts out and refuse it from now on. False if it was not there (still refused).

        With it goes everything that was kept to save work: what the record says may stand there too.
        """
        ...

    def lift(self, hash: HashText) -> bool:
        """End a refusal. False if there was none."""
        ...

    def refusals(self) -> Iterator[Refusal]: ...

    def quarantined(self, *, with_bytes: bool = True) -> Iterator[Quarantined]:
        """Every row of the quarantine, the oldest first; without their bytes, listing many costs little."""
        ...

    def quarantined_row(self, id: int) -> Quarantined | None:
        """One row of the quarantine, or None."""
        ...

    def release(self, id: int) -> bool:
        """Forget one row of the quarantine. False if there was none."""
        ...

    def release_all(self) -> int:
        """Forget every row of the quarantine, and what was only counted; how many rows there were."""
        ...

    def snapshot(self) -> Snapshot: ...

    def keep(self, kind: str, key: str, value: bytes | None) -> None:
        """Keep a value under a name, in place of what was there; None takes it out.

        For what can be made again and only saves work: caches, and where an exchange left off. The next removal takes
        all of it out. Nobody is woken. A value of more than ``KEPT_BYTES_MAX`` bytes is a ``UsageError``.
        """
        ...

    def kept_rows(self, kind: str) -> Iterator[tuple[str, int]]:
        """The keys of everything that is kept under a kind, with sizes in bytes, what was kept longest ago first."""
        ...

    def subscribe(self, wake: Callable[[StoreRecordId], None]) -> Callable[[], None]:
        """Call ``wake`` with the new high-water mark after each commit of this store object; returns the undo.

        ``wake`` must not raise: what it raises becomes a warning, since the commit has happened.
        """
        ...

    def changed_elsewhere(self) -> bool:
        """Whether another connection or process has committed since the last call."""
        ...

    def backup(self, target: Path, *, progress: Progress | None = None) -> None:
        """A copy of this moment as a store of its own, while others go on reading and writing."""
        ...

    def check(self, *, progress: Progress | None = None) -> Iterator[Finding]:
        """Verify every stored byte again, and that facts, counts and indexes agree with it."""
        ...

    def compact(self) -> None:
        """Give unused space back to the file system."""
        ...

    def stat(self) -> Stat: ...

    def close(self) -> None: ...

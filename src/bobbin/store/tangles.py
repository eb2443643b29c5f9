"""What a store keeps of tangles: PZP messages beside the records, in the same file and the same commits.

* A message is kept as the bytes in which it came, in the order of arrival, under its id.
* A message that is proven (``Level.MODERN``) and that has its data is also a Plex, byte for byte the same on every node
  (``tangles.plex``). It is stored in the commit that stores the message, and goes in the commit that erases
  or deletes the message. So whoever reads records sees exactly the messages that may be believed.
* A message that is not proven (``Level.INTEROP``) has no Plex. When it is proven it is promoted.
* What a goal has taken out is refused as a record, with the reason ``TAKEN_OUT``, so that no exchange of records brings
  it back. Only storing the message again lifts such a refusal; one with another reason is somebody's will and stands.
* A Plex that came as a record and is a message in form is *waiting* until somebody has validated it as a message.

Validating is not the store's part: it takes what was decided at a *version* of the tangles, and refuses what was
decided at another one (``StaleTangles``), so that no commit rests on what another process has changed meanwhile.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import IntEnum
from typing import Final, Protocol

from msgspec import Struct

from bobbin.records.ids import HashText
from bobbin.records.record import Plex
from bobbin.store.base import StoredRecord, StoreError, StoreRecordId

TAKEN_OUT: Final = "tangle goal"
"""The reason of a refusal that a goal has caused, and that the message itself lifts when it is stored again."""


class StaleTangles(StoreError):
    """The tangles have changed since the commit was decided. Nothing was written; look again and decide anew."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retry=True)


class Level(IntEnum):
    """How far a message counts."""

    INTEROP = 1
    """It was let in, as a pzp peer would, and is not proven: it is passed on, and nothing else rests on it."""
    MODERN = 2
    """It is proven down to the root, by the rules of the modern mode."""


class StoredMessage(Struct, frozen=True, kw_only=True):
    """One message as it is kept."""

    number: int
    """Its place in the order of arrival. Data that comes later for an erased message is a new arrival."""
    id: str
    raw: bytes
    is_erased: bool
    """Whether its data is missing that it once had. A moot never had any and is whole."""
    level: Level
    record: StoreRecordId | None
    """Where its Plex is; None where it has none."""
    is_provisional: bool = False
    """It came by modern rules, which take what waits for its proof; if it turns out wrong, it goes."""


class StoredPlace(Struct, frozen=True):
    """That a message stands in a tangle, how deep by its own words, and by which rules it was accepted there."""

    tangle: str
    depth: int
    level: Level


class NewMessage(Struct, frozen=True, kw_only=True):
    """A message to store: a new id, the data of one that is kept erased, or another copy of one that is deleted."""

    id: str
    raw: bytes
    is_erased: bool
    level: Level
    """The highest one of its places; of a root, the level in its own tangle."""
    places: tuple[StoredPlace, ...]
    """One for each tangle that it names."""
    plex: Plex | None
    """Its Plex, exactly where it is whole and ``MODERN``."""
    is_provisional: bool = False
    """It came by modern rules and waits for its proof. Being promoted ends that."""


class Promotion(Struct, frozen=True):
    """A message that interop let in, in some tangle at least, and that modern rules accept there by now."""

    id: str
    tangles: tuple[str, ...]
    """Where it is accepted now. Empty for a root in its own tangle."""
    plex: Plex | None
    """None where it is erased, or has its Plex already."""


class TangleBatch(Struct, frozen=True, kw_only=True):
    """Everything that one commit does to tangles. It is done in the order of the fields."""

    version: int
    """The version that this was decided at."""
    deleted: Sequence[str] = ()
    erased: Sequence[tuple[str, bytes]] = ()
    """Ids, with the bytes that are left of each."""
    messages: Sequence[NewMessage] = ()
    promoted: Sequence[Promotion] = ()
    lacking: Mapping[str, Collection[str]] = {}
    """For each of these messages the ids of all that it lacks to be proven; nothing, if it lacks nothing any more."""
    goals: Mapping[str, str | None] = {}
    """The new goals of these tangles; None for no goal."""
    ghosts: Mapping[str, str] = {}
    """The new ghost registries of these tangles, as text."""
    waiting: Mapping[StoreRecordId, str] = {}
    """Records that are messages in form, with what keeps them from being accepted."""
    settled: Sequence[StoreRecordId] = ()
    """Records that no longer wait."""
    seen: StoreRecordId | None = None
    """Every record up to here has been looked at."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do. To have seen more records without consequence is nothing."""
        return not (
            self.deleted
            or self.erased
            or self.messages
            or self.promoted
            or self.lacking
            or self.goals
            or self.ghosts
            or self.waiting
            or self.settled
        )


class TangleState(Struct, frozen=True, kw_only=True):
    """What tells one state of the tangles from another, and their counts."""

    version: int
    """Rises with every commit that changes a tangle."""
    rewrites: int
    """Rises with every commit that erases, deletes or promotes. While it stays, numbers tell what is new."""
    messages: int
    erased: int
    interop: int
    """Messages that only interop rules accept."""
    message_bytes: int
    waiting: int
    seen: StoreRecordId
    """Every record up to here has been looked at for messages."""
    messages_highest: int = 0
    """The highest number that a message was ever given."""


class TangleRow(Struct, frozen=True, kw_only=True):
    """One tangle in a listing."""

    root: str
    goal: str | None
    members: int
    """Messages that name it; its root does not."""
    depth_max: int
    ghosts: int


class TangleView(Protocol):
    """The tangles of one moment."""

    def state(self) -> TangleState: ...

    def high_water(self) -> StoreRecordId:
        """The newest record of this moment."""
        ...

    def find(self, ids: Iterable[str]) -> dict[str, StoredMessage]:
        """Those of these messages that are kept."""
        ...

    def named(self, ids: Iterable[str]) -> frozenset[str]:
        """Those of these ids that are tangles in which somebody stands, or that have a goal or ghosts."""
        ...

    def members(self, root: str) -> Iterator[tuple[StoredMessage, Level]]:
        """The root, if it is kept, and every message that names this tangle, in the order of arrival.

        With each, by which rules it was accepted there.
        """
        ...

    def places(self, number: int) -> list[StoredPlace]:
        """Where a message stands."""
        ...

    def after(self, number: int) -> Iterator[StoredMessage]:
        """Every message that arrived after this number, in order."""
        ...

    def roots(self) -> Iterator[StoredMessage]:
        """Every message that names no tangle, in the order of arrival."""
        ...

    def marked(self) -> Iterator[StoredMessage]:
        """Every message that only interop rules accept in some tangle, in the order of arrival."""
        ...

    def lacking(self, ids: Iterable[str]) -> dict[str, frozenset[str]]:
        """The messages that lack any of these to be proven, with the tangles in which they are not."""
        ...

    def tangles(self) -> Iterator[TangleRow]:
        """Every tangle that has a member, a goal or a ghost, by its root."""
        ...

    def beginning(self, text: str, limit: int) -> list[str]:
        """Ids of messages and tangles that begin with a text, in order, at most so many."""
        ...

    def goals(self) -> dict[str, str]:
        """Every tangle that has a goal, with the goal."""
        ...

    def ghosts(self) -> dict[str, str]:
        """Every tangle that has ghosts, with its registry as text."""
        ...

    def plexes(self, after: StoreRecordId, last: StoreRecordId) -> Iterator[StoredRecord]:
        """The records above one number, up to another, that may be messages and are not yet, in commit order."""
        ...

    def waiting(self, *, newest_first: bool = False) -> Iterator[tuple[StoredRecord, str]]:
        """The records that wait, in commit order or the other way round, with the reason of each."""
        ...

    def refused(self, records: Sequence[HashText]) -> dict[HashText, str]:
        """Those of these records that are refused for another reason than ``TAKEN_OUT``, with the reason."""
        ...


class TangleTables(Protocol):
    """The tangles of a store."""

    @property
    def read_only(self) -> bool:
        """Whether nothing can be written."""
        ...

    def reading(self) -> AbstractContextManager[TangleView]:
        """One moment of them."""
        ...

    def write(self, batch: TangleBatch) -> TangleState:
        """Do all of it in one durable commit, or nothing; returns the state afterwards.

        Raises ``StaleTangles`` where the version is another one, or where a Plex is refused on purpose.
        """
        ...

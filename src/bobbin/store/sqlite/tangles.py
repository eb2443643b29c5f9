"""The tangles of a store on SQLite: reading one moment of them, and writing a batch in one commit with its records."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Final, Generic, Protocol, TypeVar

import apsw
from msgspec import structs

from bobbin.errors import UsageError
from bobbin.records.ids import HashText
from bobbin.records.record import Plex, Record, read_trusted
from bobbin.store.base import DamagedStore, Outcome, Put, StoredRecord, StoreRecordId
from bobbin.store.sqlite import changes, coding, faults, refusals, tangle_rows
from bobbin.store.sqlite.readers import Moment, Readers
from bobbin.store.sqlite.tally import Tally
from bobbin.store.sqlite.tangle_rows import TangleTally
from bobbin.store.tangles import (
    TAKEN_OUT,
    Level,
    NewMessage,
    Promotion,
    StaleTangles,
    StoredMessage,
    StoredPlace,
    TangleBatch,
    TangleRow,
    TangleState,
)


class _Counting(Protocol):
    """As much of a write transaction as is needed here."""

    counts: Tally


Write = TypeVar("Write", bound=_Counting)


class SqliteTangleView:
    """The tangles of one moment."""

    def __init__(self, moment: Moment) -> None:
        self._moment: Final = moment
        self._connection: Final = moment.connection

    def state(self) -> TangleState:
        """Version and counts."""
        return self._now(lambda: tangle_rows.state_of(self._connection, tangle_rows.read_tally(self._connection)))

    def high_water(self) -> StoreRecordId:
        """The newest record of this moment."""
        return self._moment.high_water

    def find(self, ids: Iterable[str]) -> dict[str, StoredMessage]:
        """Those of these messages that are kept."""
        return self._now(lambda: tangle_rows.find(self._connection, ids))

    def named(self, ids: Iterable[str]) -> frozenset[str]:
        """Those of these ids that are tangles in which somebody stands, or that have a goal or ghosts."""
        return self._now(lambda: tangle_rows.named(self._connection, ids))

    def members(self, root: str) -> Iterator[tuple[StoredMessage, Level]]:
        """The root, if it is kept, and every message that names this tangle, in the order of arrival."""
        if not coding.can_be_stored(root):
            return iter(())
        return self._moment.walk(lambda connection: tangle_rows.members(connection, root))

    def places(self, number: int) -> list[StoredPlace]:
        """Where a message stands."""
        return self._now(lambda: tangle_rows.places(self._connection, number))

    def after(self, number: int) -> Iterator[StoredMessage]:
        """Every message that arrived after this number, in order."""
        return self._moment.walk(lambda connection: tangle_rows.after(connection, number))

    def roots(self) -> Iterator[StoredMessage]:
        """Every message that names no tangle, in the order of arrival."""
        return self._moment.walk(tangle_rows.roots)

    def marked(self) -> Iterator[StoredMessage]:
        """Every message that only interop rules accept in some tangle, in the order of arrival."""
        return self._moment.walk(tangle_rows.marked)

    def lacking(self, ids: Iterable[str]) -> dict[str, frozenset[str]]:
        """The messages that lack any of these to be proven, with the tangles in which they are not."""
        return self._now(lambda: tangle_rows.lacking(self._connection, ids))

    def tangles(self) -> Iterator[TangleRow]:
        """Every tangle that has a member, a goal or a ghost, by its root."""
        return self._moment.walk(tangle_rows.tangles)

    def beginning(self, text: str, limit: int) -> list[str]:
        """Ids of messages and tangles that begin with a text, in order, at most so many."""
        return self._now(lambda: tangle_rows.beginning(self._connection, text, limit))

    def goals(self) -> dict[str, str]:
        """Every tangle that has a goal, with the goal."""
        return self._now(lambda: tangle_rows.goals(self._connection))

    def ghosts(self) -> dict[str, str]:
        """Every tangle that has ghosts, with its registry as text."""
        return self._now(lambda: tangle_rows.ghosts(self._connection))

    def plexes(self, after: StoreRecordId, last: StoreRecordId) -> Iterator[StoredRecord]:
        """The records above one number, up to another, that may be messages, in commit order."""
        return self._moment.walk(lambda connection: tangle_rows.plexes(connection, after, last))

    def waiting(self, *, newest_first: bool = False) -> Iterator[tuple[StoredRecord, str]]:
        """The records that wait, in commit order or the other way round, with the reason of each."""
        return self._moment.walk(lambda connection: tangle_rows.waiting(connection, newest_first=newest_first))

    def refused(self, records: Sequence[HashText]) -> dict[HashText, str]:
        """Those of these records that somebody has refused on purpose, with the reason."""
        return self._now(lambda: tangle_rows.refused(self._connection, records))

    def _now(self, read: Callable[[], "Answer"]) -> "Answer":
        self._moment.require_open()
        with faults.translated(self._moment.path):
            return read()


Answer = TypeVar("Answer")


class SqliteTangles(Generic[Write]):
    """The tangles of a store that is open. The store lends what it writes with."""

    def __init__(
        self,
        connection: apsw.Connection,
        readers: Readers,
        *,
        writing: Callable[[], AbstractContextManager[Write]],
        put: Callable[[Sequence[Record], Write], list[Put]],
        take_out: Callable[[HashText, Write, str], bool],
        read_only: bool,
    ) -> None:
        self._connection: Final = connection
        self._readers: Final = readers
        self._writing: Final = writing
        self._put: Final = put
        self._take_out: Final = take_out
        self.read_only: Final = read_only

    @contextmanager
    def reading(self) -> Iterator[SqliteTangleView]:
        """One moment of them."""
        with self._readers.lend() as moment:
            yield SqliteTangleView(moment)

    def write(self, batch: TangleBatch) -> TangleState:
        """Do all of it in one durable commit, or nothing; returns the state afterwards."""
        with self._writing() as write:
            tally = tangle_rows.read_tally(self._connection)
            if tally.version != batch.version:
                raise StaleTangles(f"the tangles are at version {tally.version} by now, not at {batch.version}")
            self._shrink(batch, tally, write)
            kept = self._grow(batch, tally, write)
            self._note(batch, tally)
            if tally.waiting:
                # Whoever decided this need not know of all that waits.
                for record in kept:
                    tangle_rows.settle(self._connection, tally, record)
            if not batch.is_empty:
                tally.version += 1
            tangle_rows.write_tally(self._connection, tally)
            return tangle_rows.state_of(self._connection, tally)

    def _shrink(self, batch: TangleBatch, tally: TangleTally, write: Write) -> None:
        """Delete and erase, and take the records out that said the same."""
        if not batch.deleted and not batch.erased:
            return
        known = tangle_rows.find(self._connection, [*batch.deleted, *(id for id, _ in batch.erased)])
        for id in batch.deleted:
            self._withdraw(_required(known, id), tally, write)
            tangle_rows.delete(self._connection, tally, known[id])
        for id, raw in batch.erased:
            self._withdraw(_required(known, id), tally, write)
            tangle_rows.erase(self._connection, tally, known[id], raw)
        tally.rewrites += 1

    def _withdraw(self, message: StoredMessage, tally: TangleTally, write: Write) -> None:
        """Take the record of a message out, and those of copies that another key of the account has signed."""
        if message.record is None:
            return
        from bobbin.tangles.plex import message_of  # noqa: PLC0415 -- few stores have tangles

        copies = tangle_rows.alike(self._connection, message.record)
        if message.record not in [copy.id for copy in copies]:
            raise DamagedStore(f"the store is damaged: record {message.record} of the message {message.id} is missing")
        for copy in copies:
            plex = read_trusted(copy.raw)
            if copy.id == message.record or (isinstance(plex, Plex) and message_of(plex) is not None):
                tangle_rows.settle(self._connection, tally, copy.id)
                self._take_out(copy.hash, write, TAKEN_OUT)

    def _grow(self, batch: TangleBatch, tally: TangleTally, write: Write) -> Collection[StoreRecordId]:
        """Store messages and promote others, with the records of both; gives these."""
        changed: list[NewMessage | Promotion] = [*batch.messages, *batch.promoted]
        plexes = [one.plex for one in changed if one.plex is not None]
        records = self._store_plexes(plexes, write) if plexes else {}
        known = tangle_rows.find(self._connection, [one.id for one in changed]) if changed else {}
        for message in batch.messages:
            self._insert(message, known, tally, records)
        for promotion in batch.promoted:
            message_kept = _required(known, promotion.id)
            record = None if promotion.plex is None else records[promotion.plex.hash]
            tangle_rows.promote(self._connection, tally, message_kept, promotion.tangles, record)
        tally.rewrites += bool(batch.promoted)
        return records.values()

    def _insert(
        self,
        message: NewMessage,
        known: dict[str, StoredMessage],
        tally: TangleTally,
        records: dict[HashText, StoreRecordId],
    ) -> None:
        old = known.get(message.id)
        if old is not None:
            if message.is_erased or not old.is_erased:
                raise UsageError(f"the message {message.id} is kept already")
            # Its data has come: what was left of it makes way, in the same commit.
            tangle_rows.delete(self._connection, tally, old)
        record = None if message.plex is None else records[message.plex.hash]
        tangle_rows.insert(self._connection, tally, message, record)

    def _store_plexes(self, plexes: Sequence[Plex], write: Write) -> dict[HashText, StoreRecordId]:
        """The numbers of these records, which are stored afterwards."""
        if write.counts.refused:
            for name in tangle_rows.taken_out(self._connection, [plex.hash for plex in plexes]):
                refusals.lift(self._connection, write.counts, name)
                changes.add(self._connection, changes.What.LIFTED, name)
        numbers: dict[HashText, StoreRecordId] = {}
        for put in self._put(plexes, write):
            if put.outcome is Outcome.REFUSED:
                raise StaleTangles(f"{put.hash} was removed on purpose ({put.reason or 'no reason given'})")
            assert put.hash is not None, "a record has a name"
            assert put.id is not None, "what is not refused is stored now"
            numbers[put.hash] = put.id
        return numbers

    def _note(self, batch: TangleBatch, tally: TangleTally) -> None:
        """What is lacking, goals, ghosts, and what is known of the records that may be messages."""
        for id, lacks in batch.lacking.items():
            tangle_rows.set_lacking(self._connection, id, lacks)
        for root, goal in batch.goals.items():
            tangle_rows.set_goal(self._connection, root, goal)
        for root, text in batch.ghosts.items():
            tangle_rows.set_ghosts(self._connection, root, text)
        for record, reason in batch.waiting.items():
            tangle_rows.wait(self._connection, tally, record, reason)
        for record in batch.settled:
            tangle_rows.settle(self._connection, tally, record)
        if batch.seen is not None:
            tally.seen = max(tally.seen, batch.seen)


def forget_record(connection: apsw.Connection, number: int) -> None:
    """A record is taken out by somebody's will: if it is a message, its data goes as well, in the same commit."""
    tally = tangle_rows.read_tally(connection)
    before = structs.replace(tally)
    tangle_rows.settle(connection, tally, number)
    message = tangle_rows.of_record(connection, number)
    if message is not None:
        from bobbin.tangles import message as messages  # noqa: PLC0415 -- few stores have tangles
        from bobbin.tangles.errors import InvalidMessage  # noqa: PLC0415 -- as above
        from bobbin.tangles.plex import is_whole  # noqa: PLC0415 -- as above

        try:
            left = messages.decode(message.raw).erased()
        except InvalidMessage as error:
            raise DamagedStore(f"the store is damaged: the message {message.id} cannot be read ({error})") from error
        if is_whole(left):
            # A moot holds nothing of anybody's: it stays, without a record, for those who stand on it.
            tangle_rows.unlink(connection, message)
        else:
            tangle_rows.erase(connection, tally, message, left.raw)
        tally.rewrites += 1
    if tally != before:
        tally.version += 1
        tangle_rows.write_tally(connection, tally)


def _required(known: dict[str, StoredMessage], id: str) -> StoredMessage:
    """A message that a batch is about. The version is right, so it is there unless the caller is wrong."""
    if id not in known:
        raise UsageError(f"the message {id} is not kept here")
    return known[id]

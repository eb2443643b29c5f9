"""Messages that came as records: a Plex from an exchange or an import becomes a message when it can be proven.

An exchange of records knows nothing of tangles: it brings Plexes in any order, and perhaps not all that one builds on.
So those that are messages in form wait, durably, until what they build on is here; then they are taken like any other
message, by modern rules only. A Plex that breaks a rule stays what it is, a record that somebody has made, and no
message.

Whether a message can be taken follows from those that it names: its predecessors, its roots, its account and the tips
of that. So what waits is found by the ids that it names, and is *due* once one of these has come or is judged
otherwise; one that names what nobody brings is not tried again, however much comes into its tangle. Most callers try
all that is due in the commit that made it so. Whoever must not take long tries some of it, and the rest the next time;
should there be no next time, it is due for whoever first reads from the store what waits.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Final

from bobbin.profile import TANGLE_WAITING_KNOWN_BYTES_MAX
from bobbin.records.record import Plex, read_trusted
from bobbin.runtime.tangle_draft import Draft, tangle_for
from bobbin.runtime.tangle_shelf import Shelf
from bobbin.store.base import StoredRecord, StoreRecordId
from bobbin.tangles.accounts import account_of
from bobbin.tangles.admission import Admission
from bobbin.tangles.errors import InvalidMessage, Rule
from bobbin.tangles.message import Message
from bobbin.tangles.plex import message_of
from bobbin.tangles.validation import check_data, check_signature

_MAY_STILL_COME: Final = frozenset(
    {Rule.TANGLE_TYPE, Rule.UNKNOWN_ACCOUNT, Rule.SIGKEY_UNAUTHORISED, Rule.PREV_UNKNOWN, Rule.PREV_UNPROVEN}
)
"""Rules that a message can break only because something is not here yet."""


class Intake:
    """The records that wait to become messages."""

    def __init__(self, *, known_max: int | None = None, bytes_max: int = TANGLE_WAITING_KNOWN_BYTES_MAX) -> None:
        """``known_max``: how many are kept in mind at most, the newest, and no more bytes than ``bytes_max``.

        Those beyond still wait in the store. None for all, however large.
        """
        self._known_max: Final = known_max
        self._bytes_max: Final = bytes_max
        self._bytes = 0
        self._waiting: dict[StoreRecordId, Message] = {}
        """The oldest first."""
        self._by_name: dict[str, dict[StoreRecordId, None]] = {}
        """For each id of a message: those that name it."""
        self._due: dict[StoreRecordId, None] = {}
        """Those to be tried again, in this order."""

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_due(self) -> bool:
        """Whether something is to be tried again."""
        return bool(self._due)

    def restore(self, waiting: Iterable[StoredRecord]) -> None:
        """Know those that the store says are waiting, given the newest first, and no others. What is new here is due.

        No more of them are read than are kept.
        """
        before, due = self._waiting, self._due
        self._waiting, self._by_name, self._due, self._bytes = {}, {}, {}, 0
        found: list[tuple[StoreRecordId, Message]] = []
        size = 0
        for record in waiting:
            message = before.get(record.id) or _message(record)
            if message is None:
                continue
            size += len(message.raw)
            if self._is_too_much(len(found) + 1, size):
                break
            found.append((record.id, message))
        for record_id, message in reversed(found):
            self._wait(record_id, message)
        fresh = {id: message for id, message in found if id not in before}
        self._due = {id: None for id in (*due, *_in_order(fresh)) if id in self._waiting}

    def take(self, draft: Draft, shelf: Shelf, records: Iterable[StoredRecord]) -> None:
        """Look at records that have come, each once, and take what can be taken."""
        fresh = {record.id: message for record in records if (message := _message(record)) is not None}
        self._try(draft, shelf, fresh)

    def retry(self, draft: Draft, shelf: Shelf, tries_max: int | None = None) -> None:
        """Something has come: try again what names it, until nothing more can be taken, or so many were tried."""
        draft.touched.update(spot.message for spot in shelf.unwritten)
        self._note_due(draft)
        left = tries_max
        while self._due and left != 0:
            some = {record: self._waiting[record] for record in islice(self._due, left)}
            for record in some:
                del self._due[record]
            self._try(draft, shelf, some)
            self._note_due(draft)
            left = None if left is None else left - len(some)

    def _note_due(self, draft: Draft) -> None:
        concerned = {record for name in draft.touched for record in self._by_name.get(name, ())}
        draft.touched.clear()
        self._due.update(dict.fromkeys(_in_order({record: self._waiting[record] for record in concerned})))

    def _try(self, draft: Draft, shelf: Shelf, candidates: dict[StoreRecordId, Message]) -> None:
        shelf.foresee(candidates.values())
        for record in _in_order(candidates):
            message = candidates[record]
            reason = self._admit(draft, shelf, message)
            if reason is None or reason.rule not in _MAY_STILL_COME:
                self._settle(draft, record)
            elif record not in self._waiting and _is_signed(message):
                draft.waiting[record] = str(reason)
                self._wait(record, message)

    @staticmethod
    def _admit(draft: Draft, shelf: Shelf, message: Message) -> InvalidMessage | None:
        try:
            admission = draft.admit_proven(message, tangle_for(shelf, message, None))
        except InvalidMessage as error:
            return error
        if admission is Admission.KNOWN and not draft.is_believed(message):
            # It is here, but unproven. Once it is promoted, this very record is its Plex.
            return InvalidMessage(Rule.PREV_UNPROVEN, "it is held, and not proven yet")
        return None

    def _settle(self, draft: Draft, record: StoreRecordId) -> None:
        draft.waiting.pop(record, None)
        if self._let_go(record):
            draft.settled.append(record)

    def _wait(self, record: StoreRecordId, message: Message) -> None:
        self._waiting[record] = message
        self._bytes += len(message.raw)
        for name in _names(message):
            self._by_name.setdefault(name, {})[record] = None
        while self._is_too_much(len(self._waiting), self._bytes):
            self._let_go(next(iter(self._waiting)))

    def _is_too_much(self, count: int, size: int) -> bool:
        return self._known_max is not None and (count > self._known_max or size > self._bytes_max)

    def _let_go(self, record: StoreRecordId) -> bool:
        """Keep one in mind no longer. Says whether it was."""
        message = self._waiting.pop(record, None)
        if message is None:
            return False
        self._bytes -= len(message.raw)
        self._due.pop(record, None)
        for name in _names(message):
            del self._by_name[name][record]
            if not self._by_name[name]:
                del self._by_name[name]
        return True


def _message(record: StoredRecord) -> Message | None:
    plex = read_trusted(record.raw)
    return message_of(plex) if isinstance(plex, Plex) else None


def _names(message: Message) -> set[str]:
    """The messages by which it is decided whether one can be taken; itself among them, as another copy may be held."""
    account = account_of(message)
    names = {message.id, *message.places, *(before for place in message.places.values() for before in place.prev)}
    return names | set(message.account_tips or ()) | (set() if account is None else {account})


def _in_order(messages: Mapping[StoreRecordId, Message]) -> list[StoreRecordId]:
    """Accounts first, and what comes before the rest."""
    return sorted(messages, key=lambda id: (not messages[id].is_account, _depth(messages[id]), id))


def _is_signed(message: Message) -> bool:
    """Whether data and signature are right, which nothing that comes can change."""
    try:
        check_data(message)
        if not message.is_moot:
            check_signature(message)
    except InvalidMessage:
        return False
    return True


def _depth(message: Message) -> int:
    return max((place.depth for place in message.places.values()), default=0)

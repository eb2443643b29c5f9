"""Messages that came as records: a Plex from an exchange or an import becomes a message when it can be proven.

An exchange of records knows nothing of tangles: it brings Plexes in any order, and perhaps not all that one builds on.
So those that are messages in form wait, durably, until what they build on is here; then they are taken like any other
message, by modern rules only, in the same commit as what they waited for. A Plex that breaks a rule stays what it is, a
record that somebody has made, and no message.
"""

from collections.abc import Iterable
from typing import Final

from bobbin.records.record import Plex, read_trusted
from bobbin.runtime.tangle_draft import Draft, tangle_for
from bobbin.runtime.tangle_shelf import Shelf
from bobbin.store.base import StoredRecord, StoreRecordId
from bobbin.tangles.accounts import account_of
from bobbin.tangles.admission import Admission
from bobbin.tangles.errors import InvalidMessage, Rule
from bobbin.tangles.message import Message, MessageId
from bobbin.tangles.plex import message_of
from bobbin.tangles.validation import check_data, check_signature

_MAY_STILL_COME: Final = frozenset(
    {Rule.TANGLE_TYPE, Rule.UNKNOWN_ACCOUNT, Rule.SIGKEY_UNAUTHORISED, Rule.PREV_UNKNOWN, Rule.PREV_UNPROVEN}
)
"""Rules that a message can break only because something is not here yet."""


class Intake:
    """The records that wait to become messages."""

    def __init__(self) -> None:
        self._waiting: dict[StoreRecordId, Message] = {}
        self._by_tangle: dict[MessageId, dict[StoreRecordId, None]] = {}
        """For each tangle: those that wait for something in it."""

    def restore(self, waiting: Iterable[StoredRecord]) -> None:
        """Know those again that the store says are waiting."""
        for record in waiting:
            message = _message(record)
            if message is not None:
                self._wait(record.id, message)

    def take(self, draft: Draft, shelf: Shelf, records: Iterable[StoredRecord]) -> None:
        """Look at records that have come, and take what can be taken."""
        fresh = {record.id: message for record in records if (message := _message(record)) is not None}
        self._try(draft, shelf, fresh)

    def retry(self, draft: Draft, shelf: Shelf) -> None:
        """Something has come into some tangles: try again what waits for it, until nothing more can be taken."""
        tried: set[str] = set()
        while fresh := draft.touched - tried:
            tried |= fresh
            concerned = sorted({record for tangle in fresh for record in self._by_tangle.get(tangle, ())})
            self._try(draft, shelf, {record: self._waiting[record] for record in concerned})

    def _try(self, draft: Draft, shelf: Shelf, candidates: dict[StoreRecordId, Message]) -> None:
        shelf.foresee(candidates.values())
        left = sorted(candidates.items(), key=lambda item: (not item[1].is_account, _depth(item[1]), item[0]))
        progress = True
        while left and progress:
            progress = False
            remaining: list[tuple[StoreRecordId, Message]] = []
            for record, message in left:
                reason = self._admit(draft, shelf, message)
                if reason is None:
                    progress = True
                    self._settle(draft, record)
                elif reason.rule in _MAY_STILL_COME and (record in self._waiting or _is_signed(message)):
                    remaining.append((record, message))
                    if self._waiting.get(record) is None:
                        draft.waiting[record] = str(reason)
                        self._wait(record, message)
                else:
                    self._settle(draft, record)
            left = remaining

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
        message = self._waiting.pop(record, None)
        if message is None:
            return
        draft.settled.append(record)
        for tangle in _concerns(message):
            del self._by_tangle[tangle][record]
            if not self._by_tangle[tangle]:
                del self._by_tangle[tangle]

    def _wait(self, record: StoreRecordId, message: Message) -> None:
        self._waiting[record] = message
        for tangle in _concerns(message):
            self._by_tangle.setdefault(tangle, {})[record] = None


def _message(record: StoredRecord) -> Message | None:
    plex = read_trusted(record.raw)
    return message_of(plex) if isinstance(plex, Plex) else None


def _concerns(message: Message) -> set[str]:
    """The tangles in which something can come that a message waits for."""
    account = account_of(message)
    return {message.id, *message.places} | (set() if account is None else {account})


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

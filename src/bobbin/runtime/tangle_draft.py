"""One commit to the tangles of a store while it is being decided.

Everything is carried out on the shelf at once, so that each message is judged with those before it in sight, and noted
here as what must be written. A message that comes and goes within one commit leaves no trace.
"""

from collections.abc import Callable, Container, Iterable
from typing import Final

from bobbin.records.ids import HashText
from bobbin.records.record import Plex
from bobbin.runtime.tangle_shelf import Shelf
from bobbin.store.base import StoreRecordId
from bobbin.store.tangles import Level, NewMessage, Promotion, StoredPlace, TangleBatch
from bobbin.tangles.accounts import account_of
from bobbin.tangles.admission import Admission, admit
from bobbin.tangles.errors import InvalidMessage, Rule
from bobbin.tangles.ghosts import Ghosts
from bobbin.tangles.goals import Goal
from bobbin.tangles.judgement import Mark
from bobbin.tangles.message import Message, MessageId
from bobbin.tangles.plex import is_whole, names_signer, plex_of


class Draft:
    """What one commit will do."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf: Final = shelf
        self._new: dict[MessageId, Message] = {}
        self._promoted: dict[MessageId, set[MessageId]] = {}
        self._judged: set[MessageId] = set()
        """Messages that are judged otherwise than before in some tangle."""
        self._erased: dict[MessageId, bytes] = {}
        self._deleted: set[MessageId] = set()
        self._goals: dict[MessageId, Goal | None] = {}
        self._ghosts: dict[MessageId, Ghosts] = {}
        self._plexes: dict[bytes, Plex | None] = {}
        """By the bytes of the message: one of the same id may come with other data before it comes as it is."""
        self.shrinks_accounts = False
        """Something of an account goes, by which others may have been proven: nothing remembered of it may stay."""
        self.waiting: Final[dict[StoreRecordId, str]] = {}
        self.settled: Final[list[StoreRecordId]] = []
        self.dropped: Final[dict[MessageId, Rule]] = {}
        """Messages that came by modern rules, waited, and turned out wrong; with the rule that each breaks."""
        self.touched: Final[set[MessageId]] = set()
        """Messages that have come, are proven or have turned out wrong; and accounts of which a message has come."""

    # ---- messages -------------------------------------------------------------------------------------------------

    def plexes(self, messages: Iterable[Message]) -> dict[HashText, MessageId]:
        """The names of the records that these messages would be."""
        return {plex.hash: message.id for message in messages if (plex := self._plex(message)) is not None}

    def admit(self, message: Message, tangle: MessageId, level: Level) -> Admission:
        """Take a message as one of a tangle, by the rules of this level. Raises ``InvalidMessage``.

        By modern rules a message may be taken that cannot be proven yet; it is marked until it can, and goes again if
        it turns out wrong.
        """
        shelf = self._shelf
        shelf.prepare(message, tangle)
        held = shelf.message(message.id)
        waits = False
        if level is Level.INTEROP:
            admission = admit(shelf, shelf.accounts, message, tangle)
        elif not _adds(message, held):
            admission = Admission.KNOWN
        else:
            waits = shelf.standing.admit(message, tangle).mark is Mark.WAITING
            admission = Admission.ADDED if held is None else Admission.FILLED
        if admission is Admission.KNOWN:
            return self._compare(message, tangle)
        if level is Level.INTEROP:
            shelf.provisional.discard(message.id)
            if not message.has_data:
                # As with real peers. In the modern mode a ghost stays one, though it be held without its data.
                self._drop_ghost(message)
        elif waits and held is None:
            shelf.provisional.add(message.id)
        self._hold(self.as_kept(message, tangle))
        return admission

    def admit_proven(self, message: Message, tangle: MessageId) -> Admission:
        """Take a message only if it is proven. Raises ``InvalidMessage``."""
        shelf = self._shelf
        shelf.prepare(message, tangle)
        held = shelf.message(message.id)
        if not _adds(message, held):
            return self._compare(message, tangle)
        kept = self.as_kept(message, tangle)
        if names_signer(message) and not is_signed_alike(kept, message):
            # The held message is proven, and this record is not the one of it.
            return Admission.KNOWN
        judgement = shelf.standing.admit(message, tangle)
        if judgement.mark is not Mark.FULL:
            first = min(judgement.missing)
            rest = len(judgement.missing) - 1
            others = f" and {rest} others" if rest else ""
            raise InvalidMessage(Rule.PREV_UNPROVEN, f"it waits for {first.message} in {first.tangle}{others}")
        self._hold(kept)
        return Admission.ADDED if held is None else Admission.FILLED

    def as_kept(self, message: Message, tangle: MessageId) -> Message:
        """A message as it would be kept: where it only brings data for a proven one, the proven signature stays."""
        held = self._shelf.message(message.id)
        if held is None or not _adds(message, held):
            return message
        self._shelf.prepare(message, tangle)
        return held.filled(message.data) if self.is_believed(held) else message

    def _compare(self, message: Message, tangle: MessageId) -> Admission:
        """A copy of a held message has come. It takes the place of the held one where only the new one is proven."""
        held = self._shelf.message(message.id)
        assert held is not None, "it is known"
        if not self._shelf.standing.replaces(message, held, tangle):
            return Admission.KNOWN
        self._take_away(held)
        self._hold(message)
        return Admission.REPLACED

    def _hold(self, message: Message) -> None:
        if self._erased.pop(message.id, None) is not None:
            # It was kept with its data when this commit began.
            self._deleted.add(message.id)
        self._promoted.pop(message.id, None)
        self._new[message.id] = message
        self.dropped.pop(message.id, None)
        self.touched.add(message.id)
        if message.is_account:
            # Whoever signs for it may have lacked the data of any message that the tips build on.
            self.touched.add(account_of(message) or message.id)
        settled: dict[MessageId, None] = {}
        for spot, mark in self._shelf.hold(message):
            self._judged.add(spot.message)
            if mark is Mark.WAITING:
                continue
            self.touched.add(spot.message)
            if spot.message in self._shelf.provisional:
                settled[spot.message] = None
            if mark is Mark.FULL and spot.message not in self._new:
                self._promoted.setdefault(spot.message, set()).add(spot.tangle)
        for id in settled:
            self._settle(id)

    def _settle(self, id: MessageId) -> None:
        """What waited is judged in one of its tangles. Where it is wrong in all of them, it goes."""
        message = self._shelf.message(id)
        assert message is not None, "only what is held is judged"
        found = [self._shelf.standing.judgement(tangle, id) for tangle in message.places or (id,)]
        if any(one is not None and one.mark is Mark.FULL for one in found):
            self._shelf.provisional.discard(id)
            return
        rules = [one.rule for one in found if one is not None and one.rule is not None]
        if len(rules) == len(found):
            self._take_away(message)
            self.dropped[id] = rules[0]
            self.touched.add(id)

    def _drop_ghost(self, message: Message) -> None:
        for tangle in message.places:
            if message.id in self._shelf.ghosts(tangle):
                ghosts = Ghosts(self._shelf.ghosts(tangle).depths.items())
                ghosts.remove(message.id)
                self.set_ghosts(tangle, ghosts)

    def erase(self, id: MessageId) -> bool:
        """Take the data of a message away. Says whether it had any."""
        message = self._shelf.message(id)
        if message is None or not message.has_data:
            return False
        self.shrinks_accounts |= message.is_account
        left = self._shelf.erase(message)
        if id not in self._new:
            self._erased[id] = left.raw
        elif id not in self._deleted and self._shelf.is_stored(id):
            # Its data has come and goes in one commit; what is kept of it has none.
            del self._new[id]
        else:
            self._new[id] = left
        return True

    def delete(self, id: MessageId) -> bool:
        """Take a message away. Says whether it was there."""
        message = self._shelf.message(id)
        if message is None:
            return False
        self.shrinks_accounts |= message.is_account
        self._take_away(message)
        return True

    def _take_away(self, message: Message) -> None:
        self._shelf.drop(message)
        self._promoted.pop(message.id, None)
        self._erased.pop(message.id, None)
        was_kept = message.id not in self._new or self._shelf.is_stored(message.id)
        self._new.pop(message.id, None)
        if was_kept:
            self._deleted.add(message.id)

    def is_believed(self, message: Message) -> bool:
        """Whether a held message is proven in any of its tangles, and so is a record, or will be by this commit."""
        return self._level(message) is Level.MODERN

    # ---- the rest --------------------------------------------------------------------------------------------------

    def set_goal(self, tangle: MessageId, goal: Goal | None) -> None:
        """Give a tangle another goal."""
        self._goals[tangle] = goal
        self._shelf.set_goal(tangle, goal)

    def set_ghosts(self, tangle: MessageId, ghosts: Ghosts) -> None:
        """Give a tangle other ghosts."""
        self._ghosts[tangle] = ghosts
        self._shelf.set_ghosts(tangle, ghosts)

    @property
    def came(self) -> tuple[MessageId, ...]:
        """Messages that are new, or have their data now, in the order of their arrival."""
        return tuple(self._new)

    @property
    def promoted(self) -> tuple[MessageId, ...]:
        """Messages that were there and are proven in a tangle now."""
        return tuple(self._promoted)

    def batch(
        self, version: int, seen: StoreRecordId | None, refused: Callable[[list[HashText]], Container[HashText]]
    ) -> TangleBatch:
        """All of it, decided at a version. ``refused`` says which records somebody has removed on purpose."""
        for spot in self._shelf.unwritten:
            if spot.message not in self._new:
                self._judged.add(spot.message)
                self._promoted.setdefault(spot.message, set()).add(spot.tangle)
        return TangleBatch(
            version=version,
            deleted=sorted(self._deleted),
            erased=sorted(self._erased.items()),
            messages=[self._new_message(message) for message in self._new.values()],
            promoted=self._promotions(refused),
            lacking=self._lacking(),
            goals={tangle: None if goal is None else goal.text for tangle, goal in self._goals.items()},
            ghosts={tangle: ghosts.encode() for tangle, ghosts in self._ghosts.items()},
            waiting=self.waiting,
            settled=self.settled,
            seen=seen,
        )

    def _new_message(self, message: Message) -> NewMessage:
        level = self._level(message)
        return NewMessage(
            id=message.id,
            raw=message.raw,
            is_erased=not is_whole(message),
            level=level,
            places=tuple(
                StoredPlace(tangle, place.depth, self._level_in(tangle, message.id))
                for tangle, place in message.places.items()
            ),
            plex=self._plex(message) if level is Level.MODERN else None,
            is_provisional=level is Level.INTEROP and message.id in self._shelf.provisional,
        )

    def _promotions(self, refused: Callable[[list[HashText]], Container[HashText]]) -> list[Promotion]:
        """What is proven by now in a tangle that it names, or is a root and names none.

        What was removed as a record stays removed; it is proven all the same.
        """
        promotions: list[Promotion] = []
        for id, tangles in self._promoted.items():
            message = self._shelf.message(id)
            assert message is not None, "only what is held is judged"
            named = tangles - {id}
            if named or not message.places:
                promotions.append(Promotion(id, tuple(sorted(named)), self._plex(message)))
        names = [one.plex.hash for one in promotions if one.plex is not None]
        barred = refused(names) if names else ()
        return [
            Promotion(one.id, one.tangles, None) if one.plex is not None and one.plex.hash in barred else one
            for one in promotions
        ]

    def _lacking(self) -> dict[MessageId, frozenset[MessageId]]:
        """What those lack that were judged: so a later commit knows whom it concerns, without reading every tangle."""
        lacking: dict[MessageId, frozenset[MessageId]] = {}
        for id in self._judged:
            message = self._shelf.message(id)
            if message is None:
                continue
            found = [self._shelf.standing.judgement(root, id) for root in (id, *message.places)]
            lacks = frozenset(spot.message for judgement in found if judgement for spot in judgement.missing)
            if message.has_data:
                # As a root it waits for itself in another tangle, and that says nothing new.
                lacks -= {id}
            if lacks or id not in self._new:
                lacking[id] = lacks
        return lacking

    def _level(self, message: Message) -> Level:
        """Whether a message may be believed: it is proven in a tangle that it stands in."""
        is_full = self._shelf.standing.is_full
        proven = any(is_full(tangle, message.id) for tangle in (message.id, *message.places))
        return Level.MODERN if proven else Level.INTEROP

    def _level_in(self, tangle: MessageId, id: MessageId) -> Level:
        return Level.MODERN if self._shelf.standing.is_full(tangle, id) else Level.INTEROP

    def _plex(self, message: Message) -> Plex | None:
        if message.raw not in self._plexes:
            self._plexes[message.raw] = plex_of(message)
        return self._plexes[message.raw]


def is_signed_alike(one: Message, other: Message) -> bool:
    """Whether two copies of a message have the same signature. Their id does not cover it."""
    return (one.sigkey, one.sig) == (other.sigkey, other.sig)


def _adds(message: Message, held: Message | None) -> bool:
    """Whether a message brings anything that the held one does not have, its signature apart."""
    return held is None or (message.has_data and not held.has_data)


def tangle_for(shelf: Shelf, message: Message, tangle: MessageId | None) -> MessageId:
    """The tangle as one of which a message is taken: its account's, the given one, or the first that is known."""
    if message.is_account:
        return account_of(message) or message.id
    if tangle is not None and message.depth_in(tangle) is not None:
        return tangle
    named = sorted(message.places)
    return next((root for root in named if shelf.tangle(root).root is not None), named[0] if named else message.id)

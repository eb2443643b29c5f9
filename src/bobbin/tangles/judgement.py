"""What the modern mode takes for true: a stricter level of acceptance over the same messages.

A message is *full* in a tangle when it is proven there down to the root: every predecessor is full, its depth is one
more than the deepest of them, its account is full up to the very tips that it names, and the key that signed belonged
to the account at those tips. In an account tangle the signer must hold the power for what it does, and a key that is
added must have agreed.

Only full messages are evidence for others and give authority. What is read of an account are exactly the messages that
the tips build on, never what else happens to be held. So whether a message is full follows from the message and what it
builds on alone: every node that can tell comes to the same answer, in whatever order things arrive.

A message of which something is still missing *waits*; nothing wrong has been found in it. It *hangs* where another node
would refuse it as it is (``Judgement.hangs``), and is not offered then. One that breaks a rule of this level, though a
real peer takes it, is *interop*. Whoever writes with such messages at hand builds on the full ones
(``Standing.full_tangle``), and where a goal lets go of what came before, on those as well that only wait.

The id of a message does not cover who signed it. So a stranger can sign a message again that somebody else has written,
and send that copy first. What is wrong with the signer is therefore wrong with the copy alone: what builds on the
message waits, and a copy that is full takes the place of one that is not (``Standing.replaces``). What is wrong with
the rest is wrong with every copy, for ever, and with whatever builds on it.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final, NamedTuple

from msgspec import Struct

from bobbin.tangles.accounts import Act, Action, KeyRing, action_of, is_consent
from bobbin.tangles.errors import InvalidMessage, Rule
from bobbin.tangles.message import ANY, MODERN_BYTES_MAX, Message, MessageId, Place, moot_id
from bobbin.tangles.ports import MessageStore
from bobbin.tangles.tangle import Tangle, collation
from bobbin.tangles.validation import check_data, check_standing, validate

_RINGS_KEPT_MAX: Final = 1024
_OF_THE_COPY: Final = frozenset({Rule.SIGKEY_UNAUTHORISED, Rule.POWER})
"""Rules that a copy of a message breaks by who has signed it; another copy may keep them."""


class Mark(StrEnum):
    """How far a message counts."""

    FULL = "full"
    WAITING = "waiting"
    INTEROP = "interop"


class Spot(NamedTuple):
    """A message in a tangle. One that stands in two tangles is judged in each."""

    tangle: MessageId
    message: MessageId


class Judgement(Struct, frozen=True):
    """How a message counts in a tangle, and why."""

    mark: Mark
    rule: Rule | None = None
    """The rule that it breaks, if it is marked as interop."""
    missing: frozenset[Spot] = frozenset()
    """What it waits for: these must become full, or get their data."""
    hangs: bool = False
    """It waits, and nobody else would take it: its key may not sign it, or that is not known here, or nothing that it
    comes after can be given along with it.
    """

    @property
    def is_offered(self) -> bool:
        """Whether a peer of the modern mode is told of the message, and would take it."""
        return self.mark is Mark.FULL or (self.mark is Mark.WAITING and not self.hangs)

    @property
    def is_final(self) -> bool:
        """No copy of the message will ever be judged otherwise, whatever comes."""
        return self.mark is Mark.FULL or (self.mark is Mark.INTEROP and self.rule not in _OF_THE_COPY)


FULL: Final = Judgement(Mark.FULL)


class Standing:
    """How every message of a store counts in each of its tangles, kept up to date as messages come and go."""

    def __init__(self, store: MessageStore) -> None:
        self._store: Final = store
        self._judgements: dict[Spot, Judgement] = {}
        self._waiting: dict[Spot, set[Spot]] = {}
        """For each spot that something waits for: what waits for it."""
        self._doubtful: dict[MessageId, set[MessageId]] = {}
        """By tangle: the messages that are not full."""
        self._rings: dict[tuple[MessageId, tuple[MessageId, ...]], KeyRing] = {}
        """What an account is at some tips never changes, once it can be told."""

    # ---- asking --------------------------------------------------------------------------------------------------

    def judgement(self, tangle: MessageId, message: MessageId) -> Judgement | None:
        """How a message counts in a tangle; ``None`` if it is not held, or does not stand in it."""
        return self._judgements.get(Spot(tangle, message))

    def is_full(self, tangle: MessageId, message: MessageId) -> bool:
        """Whether a message is proven in a tangle."""
        found = self._judgements.get(Spot(tangle, message))
        return found is not None and found.mark is Mark.FULL

    def full_tangle(self, tangle: MessageId) -> Tangle:
        """The structure of what is full of a tangle: to be read and not changed. Costs nothing where all is full."""
        structure = self._store.tangle(tangle)
        doubtful = self._doubtful.get(tangle)
        if not doubtful:
            return structure
        view = Tangle(tangle)
        for id in structure:
            if id in doubtful:
                continue
            if id == tangle and structure.root is not None:
                view.add(structure.root)
            else:
                place = Place(depth=structure.depth(id) or 0, prev=structure.prev(id))
                view.place(id, place, has_data=structure.has_data(id))
        return view

    def admit(self, message: Message, tangle: MessageId) -> Judgement:
        """How a message that has come from a modern peer would count. Raises ``InvalidMessage``; changes nothing.

        It is full, or waits for predecessors and is right in everything else, its signer and its signature among it.
        Who may sign must be known: a message whose account is not proven up to its tips is refused, and so is one of an
        account tangle without all that it builds on.
        """
        if message.has_data and message.id in self._store.ghosts(tangle):
            raise InvalidMessage(Rule.GHOST)
        if self.is_full(tangle, message.id):
            # All but the data is proven, though what has proven it may be gone.
            check_data(message)
            return FULL
        judgement = self.judge(message, tangle)
        if judgement.rule is not None:
            raise InvalidMessage(judgement.rule)
        structure = self._store.tangle(tangle)
        if message.id == tangle and structure.root is None:
            structure = Tangle(tangle, [message])
        # The signer has been judged, or is below; the rest is for everybody the same.
        validate(message, structure, (message.sigkey,))
        if judgement.missing:
            self._check_signer(message)
        return judgement

    def replaces(self, message: Message, held: Message, tangle: MessageId) -> bool:
        """Whether a copy of a held message should take its place. Changes nothing.

        It is full and the held one is not; or it waits, signed by a key that may, and the held one by one that may not.
        """
        if (message.sigkey, message.sig) == (held.sigkey, held.sig) or (held.has_data and not message.has_data):
            return False
        if any(self.is_full(root, held.id) for root in (held.id, *held.places)):
            # Who has signed is proven, in whichever tangle.
            return False
        try:
            judgement = self.admit(message, tangle)
        except InvalidMessage:
            return False
        return judgement.mark is Mark.FULL or (judgement.is_offered and self._is_foreign(held))

    def judge(self, message: Message, tangle: MessageId) -> Judgement:
        """How a message counts in a tangle, given what is held. Its signature and its data are not looked at."""
        try:
            missing = self._missing_for(message, tangle)
        except InvalidMessage as problem:
            return Judgement(Mark.INTEROP, problem.rule)
        return self._judge_unproven(message, tangle, frozenset(missing)) if missing else FULL

    # ---- keeping up ----------------------------------------------------------------------------------------------

    def came(self, message: Message) -> list[tuple[Spot, Judgement]]:
        """A message, or the data of one, has come into the store. Gives what is judged otherwise than before."""
        open_spots = [*_spots(message)]
        # Something may wait for the data of a message that is full itself.
        open_spots += [waiting for spot in _spots(message) for waiting in self._waiting.get(spot, ())]
        return self.judge_again(open_spots)

    def judge_again(self, spots: Iterable[Spot]) -> list[tuple[Spot, Judgement]]:
        """Judge messages of the store, and whatever waits for them. Gives what is judged otherwise than before."""
        changed: list[tuple[Spot, Judgement]] = []
        open_spots = [*spots]
        while open_spots:
            spot = open_spots.pop()
            subject = self._store.message(spot.message)
            before = self._judgements.get(spot)
            if subject is None or (before is not None and before.is_final):
                continue
            after = self.judge(subject, spot.tangle)
            if after == before:
                continue
            self._note(spot, after)
            changed.append((spot, after))
            if after.is_final:
                open_spots += self._waiting.pop(spot, ())
            elif after.is_offered != (before is not None and before.is_offered):
                # What comes after it may have nothing else that can be given along.
                open_spots += self._waiting.get(spot, ())
        return changed

    def went(self, message: Message) -> None:
        """A message has been deleted from the store. What was proven with its help stays proven."""
        for spot in _spots(message):
            gone = self._judgements.pop(spot, None)
            if gone is not None:
                self._unlink(spot, gone)

    def restore(self, spot: Spot, judgement: Judgement) -> None:
        """Take back a judgement that was kept elsewhere, instead of coming to it again."""
        self._note(spot, judgement)

    def _note(self, spot: Spot, judgement: Judgement) -> None:
        before = self._judgements.get(spot)
        if before is not None:
            self._unlink(spot, before)
        self._judgements[spot] = judgement
        for missing in judgement.missing:
            self._waiting.setdefault(missing, set()).add(spot)
        if judgement.mark is not Mark.FULL:
            self._doubtful.setdefault(spot.tangle, set()).add(spot.message)

    def _unlink(self, spot: Spot, judgement: Judgement) -> None:
        for missing in judgement.missing:
            waiting = self._waiting.get(missing)
            if waiting is not None:
                waiting.discard(spot)
                if not waiting:
                    del self._waiting[missing]
        doubtful = self._doubtful.get(spot.tangle)
        if doubtful is not None:
            doubtful.discard(spot.message)
            if not doubtful:
                del self._doubtful[spot.tangle]

    def _check_signer(self, message: Message) -> None:
        """Raise ``InvalidMessage`` where a message that waits was signed by nobody who may, or that cannot be told.

        It is not judged by this: whether its predecessors are right is a matter of every copy, and comes first.
        """
        if message.is_account:
            raise InvalidMessage(Rule.PREV_UNPROVEN, "an account is taken without gaps alone")
        if message.is_moot or message.account == ANY:
            return
        unknown, ring = self._ring(message.account, message.account_tips or ())
        if unknown:
            raise InvalidMessage(Rule.UNKNOWN_ACCOUNT, f"{min(unknown).message} is not proven")
        if message.sigkey not in ring.keys:
            raise InvalidMessage(Rule.SIGKEY_UNAUTHORISED, f"{message.sigkey} is no key of the account at its tips")

    def _is_foreign(self, message: Message) -> bool:
        """Whether a message was signed by a key that may not sign it, as far as its account is known."""
        try:
            self._check_signer(message)
        except InvalidMessage as problem:
            return problem.rule is Rule.SIGKEY_UNAUTHORISED
        return False

    def _judge_unproven(self, message: Message, tangle: MessageId, missing: frozenset[Spot]) -> Judgement:
        """How a message counts of which something is missing: whether a peer would let it wait, too.

        Who has signed is a matter of this copy alone, so even where a key may not, the message waits: whether it is
        right in the rest comes first.
        """
        try:
            self._check_signer(message)
        except InvalidMessage:
            return Judgement(Mark.WAITING, missing=missing, hangs=True)
        return Judgement(Mark.WAITING, missing=missing, hangs=not self._is_led_to(message, tangle))

    def _is_led_to(self, message: Message, tangle: MessageId) -> bool:
        """Whether a way leads to a message over others that a peer takes: one of its predecessors is such a one."""
        place = message.places.get(tangle)
        if place is None:
            return True
        structure = self._store.tangle(tangle)
        for before in place.prev:
            found, depth = self._judgements.get(Spot(tangle, before)), structure.depth(before)
            if found is not None and found.is_offered and depth is not None and depth < place.depth:
                return True
        return False

    # ---- judging -------------------------------------------------------------------------------------------------

    def _missing_for(self, message: Message, tangle: MessageId) -> set[Spot]:
        """What must be full before a message can be. Raises ``InvalidMessage`` for what can never be full."""
        if message.whole_size > MODERN_BYTES_MAX:
            raise InvalidMessage(Rule.TOO_LARGE, f"{message.whole_size} bytes, and {MODERN_BYTES_MAX} at most")
        if message.is_moot and message.id != moot_id(message.account, message.domain):
            raise InvalidMessage(Rule.SHAPE, "nobody signs a moot, so it says no more than account and domain")
        missing = self._missing_below(message, tangle)
        if message.id == tangle and not message.is_root:
            return missing
        ring: KeyRing | None = None
        if message.is_account:
            if not message.has_data:
                missing.add(Spot(tangle, message.id))
        elif not message.is_moot and message.account != ANY:
            if not message.account_tips:
                raise InvalidMessage(Rule.ACCOUNT_TIPS, "there are none")
            tips_missing, ring = self._ring(message.account, message.account_tips)
            missing |= tips_missing
        if missing:
            return missing
        # First what is wrong with every copy, and then who has signed this one.
        structure = Tangle(tangle, [message]) if message.id == tangle else self._store.tangle(tangle)
        check_standing(message, structure, (message.sigkey,))
        if message.is_account:
            return self._check_action(message, tangle)
        if ring is not None and message.sigkey not in ring.keys:
            raise InvalidMessage(Rule.SIGKEY_UNAUTHORISED, f"{message.sigkey} is no key of the account at its tips")
        return missing

    def _missing_below(self, message: Message, tangle: MessageId) -> set[Spot]:
        """What of the predecessors is not full. Of a root, the tangles that it stands in itself, if any."""
        if message.id != tangle:
            place = message.places.get(tangle)
            if place is None:
                raise InvalidMessage(Rule.NO_ENTRY, tangle)
            return self._unproven(tangle, (*place.prev, tangle), Rule.PREV_UNPROVEN)
        if message.is_root:
            return set()
        if message.is_account:
            raise InvalidMessage(Rule.ACCOUNT_KIND, "an account begins with a message that stands in no tangle")
        others = [Spot(other, message.id) for other in message.places]
        marks = [self._judgements.get(spot) for spot in others]
        if any(found is not None and found.mark is Mark.FULL for found in marks):
            return set()
        if not others or all(found is not None and found.is_final for found in marks):
            raise InvalidMessage(Rule.PREV_UNPROVEN, "full in no tangle that it stands in")
        return set(others)

    def _unproven(self, tangle: MessageId, ids: Iterable[MessageId], rule: Rule) -> set[Spot]:
        """Those of some messages that are not full yet. Raises ``InvalidMessage`` if one never will be."""
        missing: set[Spot] = set()
        for id in ids:
            spot = Spot(tangle, id)
            found = self._judgements.get(spot)
            if found is None or not found.is_final:
                missing.add(spot)
            elif found.mark is Mark.INTEROP:
                raise InvalidMessage(rule, id)
        return missing

    def _check_action(self, message: Message, account: MessageId) -> set[Spot]:
        action = action_of(message)
        if action is None:
            raise InvalidMessage(Rule.ACCOUNT_ACTION)
        if message.id == account:
            if action.act is not Act.ADD or not action.signs:
                raise InvalidMessage(Rule.ACCOUNT_ACTION, "an account begins with a key for signatures")
            if action.key != message.sigkey:
                raise InvalidMessage(Rule.POWER, "an account is signed by its first key")
            return set()
        _check_consent(action, account)
        missing, ring = self._ring(account, message.places[account].prev)
        if not missing and not ring.has_power(message.sigkey, action.act):
            raise InvalidMessage(Rule.POWER, f"{message.sigkey} may not {action.act} keys")
        return missing

    def _ring(self, account: MessageId, tips: tuple[MessageId, ...]) -> tuple[set[Spot], KeyRing]:
        """The keys of an account after exactly what some messages of it build on, these included.

        First what is missing to tell: messages that are not full, or not held with their data.
        """
        found = self._rings.get((account, tips))
        if found is not None:
            return set(), found
        ring = KeyRing()
        missing = self._unproven(account, tips, Rule.ACCOUNT_TIPS)
        if missing:
            return missing, ring
        structure = self._store.tangle(account)
        for id in _in_order(structure, structure.ancestors(tips).union(tips)):
            message = self._store.message(id)
            if message is None or not message.has_data:
                missing.add(Spot(account, id))
            elif (action := action_of(message)) is not None:
                ring.apply(action)
        if not missing:
            if len(self._rings) >= _RINGS_KEPT_MAX:
                self._rings.clear()
            self._rings[account, tips] = ring
        return missing, ring


def _check_consent(action: Action, account: MessageId) -> None:
    """A key for signatures that is added must have agreed to it."""
    if action.act is not Act.ADD or not action.signs or action.key is None:
        return
    if action.consent is None or not is_consent(action.consent, action.key, account):
        raise InvalidMessage(Rule.CONSENT, f"{action.key} has not agreed")


def _spots(message: Message) -> Iterator[Spot]:
    """Every tangle that a message stands in: those that it names, and the one that it may be the root of."""
    yield Spot(message.id, message.id)
    for tangle in message.places:
        yield Spot(tangle, message.id)


def _in_order(structure: Tangle, ids: Iterable[MessageId]) -> list[MessageId]:
    """By depth and collation; what is not held at the end."""
    depths = [(structure.depth(id), id) for id in ids]
    held = sorted((depth, collation(id), id) for depth, id in depths if depth is not None)
    return [id for _, _, id in held] + [id for depth, id in depths if depth is None]

"""The tangles of a store: validated on their way in, committed in one piece, and thinned out by goal.

Every commit is decided on the shelf (``tangle_shelf``), message by message, each with those before it in sight, and
then written in one transaction that rests on the very version that was decided at. Where another process was faster,
the shelf catches up and the commit is decided again.

Two levels of acceptance share the store. ``Level.INTEROP`` takes what a real pzp peer takes, ``Level.MODERN`` only what
breaks no rule of the modern mode. Whatever the level, a message counts only once it is proven down to the root
(``tangles.judgement``); until then it is marked. It is promoted in the commit that brings what it lacked.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Final

from msgspec import Struct

from bobbin.errors import UsageError
from bobbin.records.ids import HashText
from bobbin.runtime.tangle_draft import Draft, is_signed_alike, tangle_for
from bobbin.runtime.tangle_intake import Intake
from bobbin.runtime.tangle_shelf import Shelf, read_message
from bobbin.runtime.tangle_sparing import spare
from bobbin.store.base import StoreError, StoreRecordId
from bobbin.store.tangles import Level, StaleTangles, StoredMessage, TangleRow, TangleState, TangleTables
from bobbin.tangles.accounts import account_of
from bobbin.tangles.admission import Admission
from bobbin.tangles.errors import InvalidMessage
from bobbin.tangles.ghosts import Ghosts
from bobbin.tangles.goals import Goal, GoalKind, parse_goal
from bobbin.tangles.judgement import Judgement
from bobbin.tangles.message import Message, MessageId, is_message_id
from bobbin.tangles.modern_index import StandingIndexes
from bobbin.tangles.session_effects import UNNEEDED, Commit
from bobbin.tangles.session_events import Committed, Refused
from bobbin.tangles.structures import SPAN_DEFAULT
from bobbin.tangles.tangle import Tangle
from bobbin.tangles.upkeep import Sweep, prune_newest, sweep

ATTEMPTS_MAX: Final = 16
"""How often a commit is decided anew because another process was faster."""
_RECORDS_TOGETHER_MAX: Final = 2_000
"""Records that may be messages and are looked at in one commit."""
_PASSED_TOGETHER_MAX: Final = 100_000
"""Records of any kind among which those are looked for at once."""
_UNNOTED_MAX: Final = 10_000
"""Records without a message among them, after which it is written down that they were looked at."""

_UNTOLD_MAX: Final = 10_000
"""Messages of other processes that are remembered until somebody asks what is new. The oldest are forgotten first."""

_BUSY: Final = "other processes change the tangles all the time; try again"


class Commitment(Struct, frozen=True, kw_only=True):
    """What became of a commit. All that it says is durable."""

    added: tuple[MessageId, ...] = ()
    """What is new, or has its data now; what came as a record and waited for this commit included."""
    promoted: tuple[MessageId, ...] = ()
    """What was marked, and is proven now."""
    known: int = 0
    refused: tuple[Refused, ...] = ()
    deleted: tuple[MessageId, ...] = ()
    """What the goal does not keep."""
    erased: tuple[MessageId, ...] = ()
    dropped: tuple[Refused, ...] = ()
    """What came by modern rules, waited for its proof and turned out wrong. It is not kept any more."""


class Taken(Struct, frozen=True, kw_only=True):
    """What became of some records that were looked at."""

    came: tuple[MessageId, ...] = ()
    """The messages that they, and others that had waited for them, have become."""
    is_all: bool = False
    """Whether none is left that was not looked at, or is to be tried again."""
    unknown: int = 0
    """How many wait in the store beyond those that are kept in mind."""


class TangleStore:
    """The tangles of one store object. It belongs to the same thread as that."""

    def __init__(
        self,
        tables: TangleTables,
        *,
        span: int = SPAN_DEFAULT,
        own_keys: Callable[[], Collection[str]] = tuple,
        waiting_max: int | None = None,
    ) -> None:
        """``span``: how many depths below what a set or dict needs its deleted messages are remembered.

        ``own_keys`` gives the public keys of whoever keeps the tangles; a collection spares what is theirs. Of the
        records that wait to become messages, at most ``waiting_max`` are kept in mind; None for all.
        """
        self._tables: Final = tables
        self._read_only: Final = tables.read_only
        self._shelf: Final = Shelf(tables)
        self._intake: Intake | None = None
        self._is_intake_old = False
        """Another process may have changed what waits."""
        self._waiting_max: Final = waiting_max
        self._own_keys: Final = own_keys
        self._seen = StoreRecordId(0)
        self._untold: dict[MessageId, None] = {}
        """What a commit found to have come meanwhile."""
        self.span: Final = span
        self.indexes: Final = StandingIndexes()
        """What the tangles add up to by depth, for those who have asked for it."""

    # ---- reading -------------------------------------------------------------------------------------------------

    @property
    def shelf(self) -> Shelf:
        """What is in memory, for those who read much of it."""
        return self._shelf

    def refresh(self) -> tuple[MessageId, ...]:
        """Catch up: with what other processes have written, and with messages that have come as records.

        Gives the messages that are new here, also those that a commit has found since the last call.
        """
        self._catch_up()
        came, self._untold = tuple(self._untold), {}
        return came

    def take_in_some(self, records_max: int = _RECORDS_TOGETHER_MAX) -> Taken:
        """Look at the next records that may be messages, at most so many, for whoever must not take long at once.

        Of those that have waited for them, as many are tried again at most; the next call goes on with the rest. What
        came is told by the next ``refresh`` as well.
        """
        if self._read_only:
            return Taken(is_all=True)
        self._look()
        if self._shelf.state.waiting:
            # Whoever was here before may have left some that could be taken.
            self._known_intake()
        taken = self._take_in_some(records_max, records_max)
        self._note_untold(taken.came)
        return taken

    def let_go(self, tangles_max: int) -> bool:
        """Free the memory of the tangles if there are more of them than this; says whether it was done.

        They are read again when they are asked for.
        """
        if self._shelf.loaded <= tangles_max:
            return False
        self._shelf.forget()
        return True

    def _catch_up(self) -> None:
        self._look()
        if not self._read_only:
            self._note_untold(self._take_in())

    def _look(self) -> None:
        """Catch up with what other processes have written."""
        before = self._shelf.version
        came = self._shelf.refresh()
        if self._shelf.version != before:
            # What waits may have been taken out, too.
            self._is_intake_old = True
        self._note_untold(came)

    def _note_untold(self, ids: Iterable[MessageId]) -> None:
        self._untold.update(dict.fromkeys(ids))
        for id in list(self._untold)[: max(0, len(self._untold) - _UNTOLD_MAX)]:
            del self._untold[id]

    def state(self) -> TangleState:
        """Version and counts, as they are now."""
        with self._tables.reading() as view:
            return view.state()

    def message(self, id: MessageId) -> Message | None:
        """A message as it is held, with its data or without."""
        return self._shelf.message(id)

    def tangle(self, id: MessageId) -> Tangle:
        """The structure of a tangle, all that is held of it. Not to be changed."""
        return self._shelf.tangle(id)

    def proven(self, id: MessageId) -> Tangle:
        """The structure of a tangle with those messages alone that are proven. Not to be changed."""
        return self._shelf.proven(id)

    def judgement(self, tangle: MessageId, message: MessageId) -> Judgement | None:
        """How a message counts in a tangle, and why; None where it does not stand in it."""
        if message not in self._shelf.tangle(tangle):
            return None
        return self._shelf.standing.judgement(tangle, message)

    def rows(self) -> list[TangleRow]:
        """Every tangle that somebody names, or that has a goal or ghosts, by its root."""
        with self._tables.reading() as view:
            return list(view.tangles())

    def beginning(self, text: str, limit: int = 3) -> list[MessageId]:
        """Ids of messages and tangles that begin with a text, at most so many."""
        with self._tables.reading() as view:
            return view.beginning(text, limit)

    def kept(self) -> Iterator[StoredMessage]:
        """Every message, in the order of arrival."""
        with self._tables.reading() as view:
            yield from view.after(0)

    def roots(self) -> Iterator[Message]:
        """Every message that stands in no tangle but its own, in the order of arrival."""
        with self._tables.reading() as view:
            yield from map(read_message, view.roots())

    def waiting(self) -> list[tuple[StoreRecordId, str]]:
        """The records that are messages in form and cannot be accepted yet, each with the reason."""
        with self._tables.reading() as view:
            return [(record.id, reason) for record, reason in view.waiting()]

    # ---- writing -------------------------------------------------------------------------------------------------

    def commit(
        self,
        messages: Iterable[Message],
        *,
        tangle: MessageId | None = None,
        level: Level = Level.INTEROP,
        newest: int | None = None,
        vouched: Collection[MessageId] = (),
    ) -> Commitment:
        """Validate messages one after the other, and store what is valid in one durable commit.

        One that is not valid does not stop those after it; it is told with the rule that it breaks. ``tangle`` is the
        one that they came for. With ``newest``, only so many of that tangle, and what leads to them, are kept. Of the
        accounts ``vouched`` for, nothing is kept unless a message of theirs is taken, or proven by it.
        """
        batch = list(messages)

        def decide(draft: Draft) -> Commitment:
            refused: list[Refused] = []
            known = 0
            self._shelf.foresee(batch)
            barred = self._barred(draft, batch)
            for message in batch:
                root = tangle_for(self._shelf, message, tangle)
                kept = draft.as_kept(message, root)
                if not is_signed_alike(kept, message):
                    barred |= self._barred(draft, [kept])
                if message.id in barred:
                    refused.append(Refused(message.id, None, f"removed on purpose: {barred[message.id]}"))
                    continue
                try:
                    known += draft.admit(message, root, level) is Admission.KNOWN
                except InvalidMessage as error:
                    refused.append(Refused(message.id, error.rule, str(error)))
            for id in self._unneeded(draft, batch, vouched):
                draft.delete(id)
                refused.append(Refused(id, None, UNNEEDED))
            deleted, erased = self._prune(draft, tangle, newest)
            return Commitment(known=known, refused=tuple(refused), deleted=deleted, erased=erased)

        return self._decided(decide)

    def perform(self, commit: Commit) -> Committed:
        """Do what a session asks for."""
        level = Level.MODERN if commit.modern else Level.INTEROP
        done = self.commit(
            commit.messages, tangle=commit.tangle, level=level, newest=commit.newest, vouched=commit.vouched
        )
        return Committed(token=commit.token, added=done.added, refused=done.refused + done.dropped)

    def set_goal(self, tangle: MessageId, goal: str | Goal | None) -> None:
        """Say how much of a tangle is wanted, whether or not any of it is held; None for no goal."""
        if not is_message_id(tangle):
            raise UsageError(f"{tangle[:80]!r} is not the id of a tangle")
        wanted = parse_goal(goal) if isinstance(goal, str) else goal

        def decide(draft: Draft) -> Commitment:
            draft.set_goal(tangle, wanted)
            return Commitment()

        self._decided(decide)

    def goals(self) -> dict[MessageId, Goal]:
        """Every tangle that has a goal."""
        self._shelf.refresh()
        return self._shelf.goals()

    def collect(self, *, strict: bool = False, dry_run: bool = False) -> Sweep:
        """Give up what the goals do not ask for, in one commit; gives what went.

        What stands in a tangle without a goal is kept, unless ``strict`` says that only goals count. Account messages
        under which kept ones were signed are kept in any case, and so are one's own accounts (``tangle_sparing``).
        """
        if dry_run:
            self._shelf.refresh()
            return self._sweep(strict=strict)
        swept: list[Sweep] = []

        def decide(draft: Draft) -> Commitment:
            found = self._sweep(strict=strict)
            swept[:] = [found]
            for id in found.deleted:
                draft.delete(id)
            for id in found.erased:
                draft.erase(id)
            for tangle in dict.fromkeys(ghost.tangle for ghost in found.ghosts):
                ghosts = Ghosts(self._shelf.ghosts(tangle).depths.items())
                for ghost in found.ghosts:
                    if ghost.tangle == tangle:
                        ghosts.save(ghost.id, ghost.depth, span=self.span)
                draft.set_ghosts(tangle, ghosts)
            return Commitment(deleted=found.deleted, erased=found.erased)

        self._decided(decide)
        return swept[0]

    def forget(self, id: MessageId) -> bool:
        """Take a message out, whatever the goals say. False if it was not there."""
        there: list[bool] = []

        def decide(draft: Draft) -> Commitment:
            there[:] = [draft.delete(id)]
            return Commitment(deleted=(id,))

        self._decided(decide)
        return there[0]

    def erase(self, id: MessageId) -> bool:
        """Take the data of a message away, whatever the goals say. False if it had none."""
        had: list[bool] = []

        def decide(draft: Draft) -> Commitment:
            had[:] = [draft.erase(id)]
            return Commitment(erased=(id,))

        self._decided(decide)
        return had[0]

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _unneeded(self, draft: Draft, batch: list[Message], vouched: Collection[MessageId]) -> list[MessageId]:
        """What is new of accounts for which nothing speaks that was taken or is proven now."""
        if not vouched:
            return []
        held = self._shelf.messages([*(message.id for message in batch), *draft.promoted])
        idle = set(vouched) - {message.account for message in held if message is not None}
        came = frozenset(draft.came)
        return [message.id for message in batch if message.id in came and account_of(message) in idle]

    def _barred(self, draft: Draft, messages: Sequence[Message]) -> dict[MessageId, str]:
        """Messages whose record somebody has removed on purpose, with the reason."""
        names = draft.plexes(messages)
        return {names[record]: reason for record, reason in self._refused(list(names)).items()} if names else {}

    def _refused(self, records: list[HashText]) -> dict[HashText, str]:
        with self._tables.reading() as view:
            return view.refused(records)

    def _prune(
        self, draft: Draft, tangle: MessageId | None, newest: int | None
    ) -> tuple[tuple[MessageId, ...], tuple[MessageId, ...]]:
        """Keep only the newest of a tangle.

        What another tangle may need stays for the collection to decide: a message that stands in one, or is the root of
        one. The messages of an account stay in any case, as what it has signed cannot be proven without them.
        """
        if tangle is None or newest is None:
            return (), ()
        removable = prune_newest(self._shelf.tangle(tangle), newest)
        ids = [*removable.deletables, *removable.erasables]
        roots = self._shelf.named(ids) | self._shelf.goals().keys()
        alone = frozenset(
            message.id
            for message in self._shelf.messages(ids)
            if message is not None
            and not message.is_account
            and message.places.keys() <= {tangle}
            and (message.id == tangle or message.id not in roots)
        )
        deleted = tuple(id for id in removable.deletables if id in alone and draft.delete(id))
        erased = tuple(id for id in removable.erasables if id in alone and draft.erase(id))
        return deleted, erased

    def _sweep(self, *, strict: bool) -> Sweep:
        goals = self._shelf.goals()
        held = list(map(read_message, self.kept()))
        if not strict:
            everything = Goal(GoalKind.ALL)
            for message in held:
                for root in (message.id,) if message.is_root else message.places:
                    goals.setdefault(root, everything)
        return spare(self._shelf, held, sweep(self._shelf, held, goals, span=self.span), self._own_keys())

    def _decided(self, decide: Callable[[Draft], Commitment]) -> Commitment:
        """Decide a commit and write it; decide again where another process was faster."""
        self._catch_up()
        for _ in range(ATTEMPTS_MAX):
            draft = Draft(self._shelf)
            try:
                done = decide(draft)
                self._known_intake().retry(draft, self._shelf)
                self._write(draft)
            except StaleTangles:
                self._begin_again()
                continue
            except BaseException:
                self._begin_again()
                raise
            if draft.shrinks_accounts:
                self._begin_again()
            return Commitment(
                added=draft.came,
                promoted=draft.promoted,
                known=done.known,
                refused=done.refused,
                deleted=done.deleted,
                erased=done.erased,
                dropped=tuple(
                    Refused(id, rule, f"{rule}: found out when what it waited for came")
                    for id, rule in draft.dropped.items()
                ),
            )
        raise StoreError(_BUSY, retry=True)

    def _write(self, draft: Draft) -> None:
        batch = draft.batch(self._shelf.state.version, self._seen or None, self._refused)
        if batch.is_empty:
            self._shelf.settle(self._shelf.state)
            return
        self._shelf.settle(self._tables.write(batch))

    def _begin_again(self) -> None:
        """Nothing in memory can be relied on."""
        self._shelf.forget()
        self._intake = None
        with suppress(StoreError):
            self._note_untold(self._shelf.refresh())

    def _known_intake(self) -> Intake:
        if self._intake is None:
            self._intake = Intake(known_max=self._waiting_max)
            self._is_intake_old = True
        if self._is_intake_old:
            with self._tables.reading() as view:
                self._intake.restore(record for record, _ in view.waiting(newest_first=True))
            self._is_intake_old = False
        return self._intake

    def _take_in(self) -> tuple[MessageId, ...]:
        """Look at all records that have come since the last time."""
        came: list[MessageId] = []
        taken = Taken()
        while not taken.is_all:
            taken = self._take_in_some(_RECORDS_TOGETHER_MAX, None)
            came += taken.came
        return tuple(came)

    def _take_in_some(self, records_max: int, tries_max: int | None) -> Taken:
        """The same for the next few of them, and for so many that have waited, in one commit."""
        for _ in range(ATTEMPTS_MAX):
            self._seen = max(self._seen, self._shelf.state.seen)
            with self._tables.reading() as view:
                top = view.high_water()
                if top <= self._seen and (self._intake is None or not self._intake.is_due):
                    return Taken(is_all=True, unknown=self._unknown())
                last = max(self._seen, min(top, StoreRecordId(self._seen + _PASSED_TOGETHER_MAX)))
                records = list(islice(view.plexes(self._seen, last), records_max))
            seen = records[-1].id if len(records) == records_max else last
            draft = Draft(self._shelf)
            try:
                intake = self._known_intake()
                intake.take(draft, self._shelf, records)
                intake.retry(draft, self._shelf, tries_max)
                batch = draft.batch(self._shelf.state.version, seen, self._refused)
                if not batch.is_empty or seen - self._shelf.state.seen > _UNNOTED_MAX:
                    self._shelf.settle(self._tables.write(batch))
            except StaleTangles:
                self._begin_again()
                continue
            except BaseException:
                self._begin_again()
                raise
            self._seen = seen
            return Taken(came=draft.came, unknown=self._unknown())
        raise StoreError(_BUSY, retry=True)

    def _unknown(self) -> int:
        return 0 if self._intake is None else max(0, self._shelf.state.waiting - len(self._intake))

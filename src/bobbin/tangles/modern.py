"""One side of a stream in the modern mode: two sides that converge on a tangle whatever its shape, and know it.

``step(event)`` takes what happened and returns what to do, as a ``Session`` of the nine phases does, with the same
events and effects. It is for peers that have both said that they understand it; a pzp peer never sees any of this.

A run, by default: the opener says what it has and what that adds up to below some depths. The answerer finds the
greatest of these depths below which both have the same. What the opener cannot have above its own top goes out at once;
for the other spans it sends a list or a sketch (``modern_spans``). The opener works out what either side lacks, sends
its part, asks for the other, and gets it. That is two round trips, and one for what was appended. A sketch that does
not decode is continued, at most a few times, and then replaced by a list, so the number of turns is bounded.

What always holds: every message goes out at most once in a run, after its predecessors, and only if it is lacking.
Short ids depend on two nonces of this run, so nobody can have looked for collisions. At the end both say what all that
they have adds up to. If both wish for everything and do not agree, or something wanted has not come, the opener runs
again, a bounded number of times, and the result says so.
"""

from collections.abc import Iterable
from itertools import count
from typing import Final, assert_never

from blake3 import blake3
from msgspec import Struct

from bobbin.errors import PeerError, UsageError
from bobbin.reconcile import SharedId
from bobbin.tangles.errors import Rule
from bobbin.tangles.exchange import Credential, Exchange
from bobbin.tangles.message import Message, MessageId
from bobbin.tangles.modern_accounts import EarlyAccounts
from bobbin.tangles.modern_frames import (
    NONCE_BYTES,
    Answer,
    Ask,
    MalformedModernFrame,
    ModernFrame,
    Parcel,
    Stop,
    Turn,
    id_bytes,
    id_text,
    wire_wish,
    wish_of,
)
from bobbin.tangles.modern_parcels import PARCEL_BYTES, parcels_of, with_trails
from bobbin.tangles.modern_spans import cut, pack, unpack
from bobbin.tangles.modern_state import ModernRun, Reply, Step
from bobbin.tangles.modern_turns import ModernLibrary, SpanLimits, SpanWork
from bobbin.tangles.ranges import Range, WantAll, WantFrom, Wish, exact_want_range
from bobbin.tangles.session_effects import (
    Announced,
    Commit,
    Effect,
    Finished,
    Ignored,
    Notice,
    Notify,
    Opened,
    Role,
    Send,
)
from bobbin.tangles.session_events import Added, Committed, Event, OpenRuns, Received, Refused, Undecodable
from bobbin.tangles.session_news import News

_ORDER: Final = (Commit, Send, Notify)
_KEY_TAG: Final = b"bobbin-tangle-run/v1"
_KEY_BYTES: Final = 16
_SECRET_BYTES: Final = 32


class ModernConfig(Struct, frozen=True, kw_only=True):
    """How a session behaves, and its bounds."""

    secret: bytes
    """32 bytes that nobody else knows, fresh for each stream: the nonces of its runs follow from them."""
    dialler: bool
    """This side opened the stream. The two sides number their runs apart."""
    tangles_max: int = 10_000
    told_max: int = 200_000
    """How many messages, and account messages, are remembered as known to both."""
    news_bytes_max: int = PARCEL_BYTES
    """Of account messages that go along with a message that came to be after a run."""
    turns_max: int = 16
    """How often the two sides may speak in one run."""
    spans: SpanLimits = SpanLimits()
    attempts_max: int = 3
    """How often a run is begun for the sake of what the one before did not bring."""
    checking: bool = False


class ModernSession:
    """One side of one stream."""

    def __init__(self, config: ModernConfig, library: ModernLibrary) -> None:
        if len(config.secret) != _SECRET_BYTES:
            raise UsageError(f"the secret of a stream has {_SECRET_BYTES} bytes")
        self.config: Final = config
        self._library: Final = library
        self._exchange: Final = Exchange(library)
        self._news: Final = News(self._exchange, config.told_max, whole_accounts=True, bytes_max=config.news_bytes_max)
        self._work: Final = SpanWork(config.spans, library)
        self._runs: dict[tuple[MessageId, Role], ModernRun] = {}
        self._known: dict[MessageId, Range] = {}
        """For each tangle that a run was on: what this side wants of it. Later messages are measured by it."""
        self._numbers: Final = count(1 if config.dialler else 2, 2)
        self._nonces: Final = count()
        self._tokens: Final = count(1)
        self._commits: dict[int, tuple[MessageId, ModernRun | None]] = {}
        self._effects: list[Effect] = []

    def step(self, event: Event) -> tuple[Effect, ...]:
        """Take an event; returns what to do, in order. Whatever a peer does ends in effects."""
        match event:
            case OpenRuns(tangles, anew):
                for tangle in tangles:
                    if anew or not self._is_running(tangle):
                        self._open(tangle)
            case Received(frame):
                if not isinstance(frame, ModernFrame):
                    raise UsageError("a session of the modern mode takes its frames")
                self._receive(frame)
            case Undecodable(reason, detail):
                self._notify(Ignored(tangle=None, reason=reason, detail=detail))
            case Committed():
                self._settle(event)
            case Added(messages):
                for tangle, texts in self._news.came(messages):
                    self._announce(tangle, texts)
                self._open_for_bulky()
            case _:
                assert_never(event)
        if self.config.checking:
            self.check()
        effects, self._effects = self._effects, []
        return tuple(sorted(effects, key=lambda effect: _ORDER.index(type(effect))))

    @property
    def is_idle(self) -> bool:
        """Whether no run is under way and nothing waits for a commit."""
        return not self._commits and not self._runs

    def _is_running(self, tangle: MessageId) -> bool:
        return any((tangle, role) in self._runs for role in Role)

    def check(self) -> None:
        """Assert what always holds."""
        self._news.check()
        for (_, role), run in self._runs.items():
            assert run.role is role
            assert (run.number % 2 == 1) == (self.config.dialler == (role is Role.OPENER))
            run.check()

    # ---- beginning ------------------------------------------------------------------------------------------------

    def _open(self, tangle: MessageId, *, attempt: int = 0) -> None:
        run = ModernRun(Role.OPENER, next(self._numbers), self._nonce(), attempt=attempt)
        run.owes_accounts = attempt > 0
        self._begin(tangle, run)
        index = self._library.depths(tangle)
        run.marks = index.marks()
        ask = Ask(
            tangle=id_bytes(tangle),
            run=run.number,
            nonce=run.nonce,
            wish=wire_wish(run.own_wish),
            low=run.own_have.low,
            high=run.own_have.high,
            top=index.top,
            marks=run.marks,
            accounts=attempt > 0 or (run.own_wish is not None and self._lacks_accounts(tangle)),
        )
        self._say(run, ask)

    def _begin(self, tangle: MessageId, run: ModernRun) -> None:
        run.own_have = self._library.depths(tangle).have
        run.own_wish = _modern(self._exchange.wish(tangle))
        self._runs[tangle, run.role] = run
        self._news.follow(tangle)
        self._notify(Opened(tangle=tangle, role=run.role))

    def _nonce(self) -> bytes:
        return blake3(next(self._nonces).to_bytes(8, "big"), key=self.config.secret).digest(NONCE_BYTES)

    def _meet(self, tangle: MessageId, run: ModernRun, nonce: bytes, have: Range, wish: Wish) -> None:
        """What the peer has and wishes is known: so is what either side wants, and the key of the run."""
        opener, answerer = (run.nonce, nonce) if run.role is Role.OPENER else (nonce, run.nonce)
        run.key = blake3(b"".join([_KEY_TAG, id_bytes(tangle), opener, answerer])).digest(_KEY_BYTES)
        run.remote_have, run.remote_wish = have, wish
        run.own_want = exact_want_range(run.own_have, have, run.own_wish)
        run.remote_want = exact_want_range(have, run.own_have, wish)
        self._known[tangle] = _later(run.own_wish, run.own_want)

    def _answer(self, ask: Ask) -> None:
        tangle = id_text(ask.tangle)
        if tangle not in self._known and len(self._known) >= self.config.tangles_max:
            self._ignore(tangle, "too-many-tangles", f"a stream has at most {self.config.tangles_max} tangles")
            return
        run = ModernRun(Role.ANSWERER, ask.run, self._nonce(), attempt=int(ask.accounts))
        run.owes_accounts = ask.accounts
        run.step = Step.WAITING
        run.marks = ask.marks
        run.turns = 1
        self._begin(tangle, run)
        self._meet(tangle, run, ask.nonce, Range(ask.low, ask.high), wish_of(ask.wish))
        index = self._library.depths(tangle)
        run.floor = index.agreed_floor(ask.marks)
        is_equal = run.floor == ask.top + 1 and index.top <= ask.top
        reply = Reply()
        if not is_equal:
            run.spans = cut(run.floor, run.remote_want, run.own_want)
            try:
                reply = self._work.begin(tangle, run, ask.top)
            except (PeerError, SharedId) as error:
                self._abandon(tangle, run, error)
                return
        parcels = self._pack(tangle, run, reply)
        lacks_accounts = not run.own_want.is_empty and self._lacks_accounts(tangle)
        answer = Answer(
            tangle=ask.tangle,
            run=run.number,
            nonce=run.nonce,
            low=run.own_have.low,
            high=run.own_have.high,
            wish=wire_wish(run.own_wish),
            floor=run.floor,
            root=index.root,
            parts=tuple(reply.parts),
            ghosts=self._work.ghosts(tangle, run) if reply.names_ghosts else b"",
            parcels=len(parcels),
            accounts=lacks_accounts,
        )
        run.said_done = not reply.parts and not lacks_accounts
        self._say(run, answer, parcels)
        if run.said_done and not parcels:
            self._finish(tangle, run, answer.root if is_equal else None)

    # ---- hearing --------------------------------------------------------------------------------------------------

    def _receive(self, frame: ModernFrame) -> None:
        tangle = id_text(frame.tangle)
        if isinstance(frame, Ask):
            if self._yields(tangle, frame):
                self._answer(frame)
            return
        if isinstance(frame, Parcel) and not frame.run:
            self._hear_news(tangle, frame)
            return
        role = Role.OPENER if (frame.run % 2 == 1) == self.config.dialler else Role.ANSWERER
        run = self._runs.get((tangle, role))
        if isinstance(frame, Stop):
            if run is not None and run.number == frame.run:
                self._ignore(tangle, "stopped", f"the peer has given run {frame.run} up: {frame.reason}")
                self._try_again(tangle, run)
            return
        expected = {Answer: Step.ASKED, Turn: Step.WAITING, Parcel: Step.PARCELS}[type(frame)]
        if run is None or run.number != frame.run or run.step is not expected:
            self._ignore(tangle, "out-of-turn", f"a {type(frame).__name__} of run {frame.run} came out of turn")
            return
        if isinstance(frame, Parcel):
            self._take_parcel(tangle, run, frame)
            return
        run.turns += 1
        run.frame, run.parcels_left, run.step = frame, frame.parcels, Step.PARCELS
        try:
            self._prepare(tangle, run, frame)
        except PeerError as error:
            self._abandon(tangle, run, error)
            return
        self._act_when_stored(tangle, run)

    def _yields(self, tangle: MessageId, ask: Ask) -> bool:
        """Whether the peer's run goes on: of two that both sides have begun at the same time, the dialler's does."""
        if (ask.run % 2 == 1) == self.config.dialler:
            self._ignore(tangle, "out-of-turn", f"run {ask.run} is not the peer's to begin")
            return False
        if (tangle, Role.OPENER) not in self._runs:
            return True
        if self.config.dialler:
            self._ignore(tangle, "out-of-turn", f"run {ask.run} came while there was another one")
            if self._runs[tangle, Role.OPENER].step is not Step.ASKED:
                self._effects.append(Send(Stop(tangle=ask.tangle, run=ask.run, reason="busy")))
            return False
        self._ignore(tangle, "yielded", "the peer began a run at the same time")
        run = self._runs[tangle, Role.OPENER]
        if run.step is not Step.ASKED:
            # The peer has answered it before it began its own, so it would wait for this side for ever.
            self._effects.append(Send(Stop(tangle=ask.tangle, run=run.number, reason="yielded")))
        self._give_up(tangle, run)
        return True

    def _prepare(self, tangle: MessageId, run: ModernRun, frame: Answer | Turn) -> None:
        """What must be known before the parcels of a frame come."""
        if run.turns > self.config.turns_max:
            raise PeerError("too-many-turns", f"a run has at most {self.config.turns_max} turns")
        if isinstance(frame, Answer):
            if frame.floor != 0 and frame.floor not in {mark.depth for mark in run.marks}:
                raise MalformedModernFrame(f"nothing was said of the depth {frame.floor}")
            self._meet(tangle, run, frame.nonce, Range(frame.low, frame.high), wish_of(frame.wish))
            run.floor = frame.floor
            run.spans = cut(run.floor, run.own_want, run.remote_want)
            run.owes_accounts |= frame.accounts
        run.remote_ghosts.update(unpack(frame.ghosts).tolist())

    def _take_parcel(self, tangle: MessageId, run: ModernRun, parcel: Parcel) -> None:
        if not run.parcels_left:
            self._ignore(tangle, "out-of-turn", "more parcels came than were announced")
            return
        run.parcels_left -= 1
        token = self._commit(tangle, parcel.messages, run.own_want, run)
        if token is not None:
            run.uncommitted.add(token)
        self._act_when_stored(tangle, run)

    def _hear_news(self, tangle: MessageId, parcel: Parcel) -> None:
        want = self._known.get(tangle)
        if want is None or want.is_empty:
            self._ignore(tangle, "unasked", "messages came that were never asked for")
            return
        self._commit(tangle, parcel.messages, want, None)
        self._notify(Announced(tangle=tangle, outwards=False, count=len(parcel.messages)))

    def _commit(self, tangle: MessageId, texts: tuple[bytes, ...], want: Range, run: ModernRun | None) -> int | None:
        """Have messages stored. Gives the token to wait for; None if there is nothing to store."""
        if run is not None:
            run.received += len(texts)
        if want.is_empty:
            self._ignore(tangle, "unasked", f"{len(texts)} messages came, and none was wanted")
            return None
        accepted = self._exchange.accept(tangle, texts, want)
        self._news.hear(tangle, accepted.messages)
        if run is not None:
            run.refused += accepted.refused
            run.shared_accounts.update(message.id for message in accepted.messages if message.is_account)
        messages, vouched = self._needed(tangle, accepted.messages, run)
        if not messages:
            return None
        token = next(self._tokens)
        self._commits[token] = (tangle, run)
        self._effects.append(Commit(token=token, tangle=tangle, messages=messages, modern=True, vouched=vouched))
        return token

    def _needed(
        self, tangle: MessageId, messages: tuple[Message, ...], run: ModernRun | None
    ) -> tuple[tuple[Message, ...], frozenset[MessageId]]:
        """Messages without those of accounts that nobody here has to know: a peer could send any number of them.

        In a run they are kept aside, as what speaks for an account may come in a later parcel. Also the accounts that
        only these messages speak for, which may turn out wrong.
        """
        early = EarlyAccounts() if run is None else run.early
        if not early and not any(one.is_account for one in messages):
            return messages, frozenset()
        index = self._library.depths(tangle)
        known = {tangle, *(credential.account for credential in index.credentials_below(index.top + 1))}
        return early.sort(messages, known, self._exchange.structure)

    def _settle(self, event: Committed) -> None:
        if event.token not in self._commits:
            raise UsageError(f"there is no commit {event.token} to answer")
        tangle, run = self._commits.pop(event.token)
        if run is None and not self._is_running(tangle) and _lack_accounts(event.refused):
            self._open(tangle, attempt=1)
        if run is not None and self._runs.get((tangle, run.role)) is run:
            run.uncommitted.discard(event.token)
            run.added += event.added
            run.refused += run.early.refused(event.refused)
            self._act_when_stored(tangle, run)

    # ---- speaking -------------------------------------------------------------------------------------------------

    def _act_when_stored(self, tangle: MessageId, run: ModernRun) -> None:
        if run.parcels_left or run.uncommitted:
            return
        frame, run.frame, run.step = run.frame, None, Step.WAITING
        assert frame is not None, "parcels belong to a frame"
        reply = Reply()
        try:
            for part in frame.parts:
                self._work.hear(tangle, run, part, reply)
            if isinstance(frame, Turn):
                self._work.fulfil(tangle, run, frame.wants, reply)
        except (PeerError, SharedId) as error:
            self._abandon(tangle, run, error)
            return
        peer_done = frame.done if isinstance(frame, Turn) else not (frame.parts or frame.accounts)
        nothing_given = isinstance(frame, Answer) and peer_done and not frame.parcels
        if nothing_given or (
            reply.is_empty and not run.held_back and peer_done and run.said_done and not frame.parcels
        ):
            self._finish(tangle, run, frame.root)
            return
        parcels = self._pack(tangle, run, reply)
        run.said_done = not (reply.parts or reply.wants)
        turn = Turn(
            tangle=frame.tangle,
            run=run.number,
            parts=tuple(reply.parts),
            wants=pack(reply.wants),
            ghosts=self._work.ghosts(tangle, run) if reply.names_ghosts else b"",
            parcels=len(parcels),
            root=self._library.depths(tangle).root,
            done=run.said_done,
        )
        self._say(run, turn, parcels)
        if run.said_done and peer_done and not parcels:
            self._finish(tangle, run, frame.root)

    def _pack(self, tangle: MessageId, run: ModernRun, reply: Reply) -> list[tuple[bytes, ...]]:
        """The parcels with all that the peer lacks of what it wants.

        While anything is open in any span they are held back: what is found out there may have to come first.
        """
        if reply.parts:
            run.held_back.update(reply.lacking)
            return []
        reply.lacking.update(run.held_back)
        run.held_back.clear()
        index, structure = self._library.depths(tangle), self._exchange.structure(tangle)
        # Whoever wants nothing takes nothing, account messages included.
        owes_accounts = run.owes_accounts and not run.remote_want.is_empty
        if structure is None or not (reply.lacking or owes_accounts):
            return []
        run.lacking.update(reply.lacking)
        # What has been let go since it was looked at is not sent, and says nothing about the accounts.
        lacking = [id for id in reply.lacking if id in structure]
        common = {id for id in self._work.common(run) if id in structure}

        def is_held(id: MessageId) -> bool:
            depth = structure.depth(id)
            return id in common or (depth is not None and depth < run.floor)

        needed = self._exchange.account_messages_for(lacking)
        if owes_accounts:
            needed = self._exchange.account_messages_of(index.credentials_below(index.top + 1))
            run.owes_accounts = False
        elif needed:
            credentials = [*index.credentials_below(run.floor), *self._exchange.credentials(list(common))]
            had = self._surely_had(credentials)
            needed = [id for id in needed if id not in had and id not in run.shared_accounts]
        run.shared_accounts.update(needed)
        pieces = with_trails(structure, lacking, is_held)
        run.sent += len(needed) + len(pieces)
        self._news.tell(tangle, [id for id, _ in pieces])
        self._news.tell_accounts(needed)
        return list(parcels_of(self._library, needed, pieces))

    def _surely_had(self, credentials: Iterable[Credential]) -> set[MessageId]:
        """The account messages behind what both sides have: what the tips build on, and not what stands beside them."""
        found: set[MessageId] = set()
        for account, some in _tips(credentials).items():
            structure = self._exchange.structure(account)
            if structure is not None:
                found |= some | structure.ancestors(some)
        return found

    def _lacks_accounts(self, tangle: MessageId) -> bool:
        """Whether messages are held of which the account is not: the tips that they name, and what these build on."""
        index = self._library.depths(tangle)
        for account, tips in _tips(index.credentials_below(index.top + 1)).items():
            structure = self._exchange.structure(account)
            if structure is None or not all(map(structure.has_data, tips | structure.ancestors(tips))):
                return True
        return False

    def _finish(self, tangle: MessageId, run: ModernRun, root: bytes | None) -> None:
        """A run is over. ``root`` is what the peer has said that it has now; None if it has not."""
        del self._runs[tangle, run.role]
        agreed = self._agrees(tangle, run, root)
        missing = self._work.still_missing(tangle, run)
        self._notify(
            Finished(
                tangle=tangle,
                role=run.role,
                sent=run.sent,
                added=tuple(run.added),
                refused=tuple(run.refused),
                received=run.received,
                missing=missing,
                agreed=agreed,
                turns=run.turns,
            )
        )
        listens = run.remote_wish is not None
        if agreed and listens:
            index = self._library.depths(tangle)
            self._news.tell_accounts(self._surely_had(index.credentials_below(index.top + 1)))
        for texts in self._news.serve(tangle, listens=listens):
            self._announce(tangle, texts)
        # Only this side knows what it could not take, so it is the one to ask for what proves it.
        needs_accounts = not run.attempt and _lack_accounts(run.refused)
        falls_short = (agreed is False or missing) and not self._work.is_in_vain(tangle, run)
        again = (falls_short or needs_accounts) and run.attempt + 1 < self.config.attempts_max
        if run.role is Role.OPENER and again:
            self._open(tangle, attempt=run.attempt + 1)
        elif run.role is Role.ANSWERER and needs_accounts:
            self._open(tangle, attempt=1)
        self._open_for_bulky()

    def _agrees(self, tangle: MessageId, run: ModernRun, root: bytes | None) -> bool | None:
        """Whether both hold the same, where that is known and has to be, or is so though it need not be."""
        if root is None:
            return None
        is_same = root == self._library.depths(tangle).root
        if run.own_wish == run.remote_wish == WantAll():
            return is_same
        return True if is_same and self._exchange.structure(tangle) is not None else None

    def _abandon(self, tangle: MessageId, run: ModernRun, error: PeerError | SharedId) -> None:
        """A run leads nowhere. What came in it stays; the stream and all other runs go on."""
        reason = error.code if isinstance(error, PeerError) else "shared-id"
        self._ignore(tangle, reason, str(error))
        self._effects.append(Send(Stop(tangle=id_bytes(tangle), run=run.number, reason=reason)))
        self._try_again(tangle, run)

    def _try_again(self, tangle: MessageId, run: ModernRun) -> None:
        """After a run that led nowhere: the opener begins another one, unless that was the last attempt."""
        if run.role is Role.OPENER and run.attempt + 1 < self.config.attempts_max:
            del self._runs[tangle, run.role]
            self._open(tangle, attempt=run.attempt + 1)
        else:
            self._give_up(tangle, run)

    def _give_up(self, tangle: MessageId, run: ModernRun) -> None:
        del self._runs[tangle, run.role]
        self._notify(
            Finished(
                tangle=tangle,
                role=run.role,
                sent=run.sent,
                added=tuple(run.added),
                refused=tuple(run.refused),
                received=run.received,
                missing=len(run.wanted),
                agreed=False,
                turns=run.turns,
            )
        )

    def _open_for_bulky(self) -> None:
        """What does not go into one parcel with its account is no news: a run brings it, in as many as it takes."""
        for tangle, id in self._news.take_bulky():
            if self._is_running(tangle):
                self._news.wait(tangle, id)
            else:
                self._open(tangle)

    # ---- effects --------------------------------------------------------------------------------------------------

    def _announce(self, tangle: MessageId, texts: list[bytes]) -> None:
        self._effects.append(Send(Parcel(tangle=id_bytes(tangle), run=0, messages=tuple(texts))))
        self._notify(Announced(tangle=tangle, outwards=True, count=len(texts)))

    def _say(self, run: ModernRun, frame: Ask | Answer | Turn, parcels: Iterable[tuple[bytes, ...]] = ()) -> None:
        run.turns += 1
        self._effects.append(Send(frame))
        for messages in parcels:
            self._effects.append(Send(Parcel(tangle=frame.tangle, run=frame.run, messages=messages)))

    def _notify(self, notice: Notice) -> None:
        self._effects.append(Notify(notice))

    def _ignore(self, tangle: MessageId | None, reason: str, detail: str) -> None:
        self._notify(Ignored(tangle=tangle, reason=reason, detail=detail))


def _tips(credentials: Iterable[Credential]) -> dict[str, set[MessageId]]:
    """By account, the tips that some messages name."""
    found: dict[str, set[MessageId]] = {}
    for account, tips in credentials:
        if tips:
            found.setdefault(account, set()).update(tips)
    return found


def _lack_accounts(refused: Iterable[Refused]) -> bool:
    """Whether something was refused because its account is not known well enough."""
    return any(one.rule is Rule.UNKNOWN_ACCOUNT for one in refused)


def _modern(wish: Wish) -> Wish:
    """A set or dict of which nothing is left to need, because only its moot is held, needs everything."""
    return WantFrom(0) if wish == WantFrom(None) else wish


def _later(wish: Wish, want: Range) -> Range:
    """What is wanted of messages that come after a run: nothing is too deep, and the lower end stays."""
    if wish is None:
        return Range(1, 0)
    return Range(0 if want.is_empty else want.low, 2**53 - 1)

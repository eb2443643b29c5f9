"""One side of a pzp sync stream: the nine phases for any number of tangles, and what goes on after them.

``step(event)`` takes what happened and returns what to do. The session reads through ``Library``, speaks through
``Send`` and writes through ``Commit``; it has no clock, no socket and no thread. Runs on different tangles interleave
freely on one stream and know nothing of each other. On one tangle there may be two, one that this side has opened and
one that the peer has: odd phases and even ones tell them apart.

A run goes ranges, filters, messages (``phases``). When its messages have gone out to a peer that wants some, each
message of that tangle that comes to be later goes out alone, unless the peer is known to have it.

What is wrong in a frame, or comes out of turn, is reported and changes nothing; the stream and all runs go on. The
messages of a frame are validated one by one by whoever commits them. A finished run leaves nothing behind that a later
run would send again or count as promised.
"""

from itertools import count
from typing import Final, assert_never

from msgspec import Struct

from bobbin.errors import UsageError
from bobbin.tangles.exchange import Exchange, Library
from bobbin.tangles.message import MessageId
from bobbin.tangles.phases import (
    Frame,
    Have,
    HaveAndWant,
    IdsAndFilter,
    Messages,
    MessagesAndFilter,
    WantAndFilter,
)
from bobbin.tangles.ranges import WantNewest
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
from bobbin.tangles.session_state import ROUND_OF, Channel, Run

_ORDER: Final = (Commit, Send, Notify)


class SessionConfig(Struct, frozen=True, kw_only=True):
    """How a session behaves, and its bounds."""

    size_by_count: bool = False
    """Filters for as many messages as there are. A pzp peer reads them, but would have made smaller ones."""
    tangles_max: int = 10_000
    """On how many tangles the peer may begin runs."""
    promised_max: int = 200_000
    """How many ids the peer may promise in one run."""
    told_max: int = 200_000
    """How many messages, and account messages, are remembered as known to both."""
    checking: bool = False
    """Check the invariants after every step."""


class Session:
    """One side of one stream."""

    def __init__(self, config: SessionConfig, library: Library) -> None:
        self.config: Final = config
        self._exchange: Final = Exchange(library, size_by_count=config.size_by_count)
        self._channels: dict[MessageId, Channel] = {}
        self._tokens: Final = count(1)
        self._commits: dict[int, tuple[MessageId, Run | None]] = {}
        self._news: Final = News(self._exchange, config.told_max)
        self._effects: list[Effect] = []

    def step(self, event: Event) -> tuple[Effect, ...]:
        """Take an event; returns what to do, in order. Whatever a peer does ends in effects."""
        match event:
            case OpenRuns(tangles, anew):
                for tangle in tangles:
                    self._open(tangle, anew=anew)
            case Received(frame):
                if not isinstance(frame, Frame):
                    raise UsageError("a session of the nine phases takes their frames")
                self._receive(frame)
            case Undecodable(reason, detail):
                self._ignore(None, reason, detail)
            case Committed():
                self._settle(event)
            case Added(messages):
                for tangle, texts in self._news.came(messages):
                    self._announce(tangle, texts)
            case _:
                assert_never(event)
        if self.config.checking:
            self.check()
        effects, self._effects = self._effects, []
        return tuple(sorted(effects, key=lambda effect: _ORDER.index(type(effect))))

    @property
    def is_idle(self) -> bool:
        """Whether no run is under way and nothing waits for a commit."""
        return not self._commits and not any(channel.runs for channel in self._channels.values())

    def check(self) -> None:
        """Assert what always holds."""
        self._news.check()
        for channel in self._channels.values():
            for role, run in channel.runs.items():
                assert run.role is role
                run.check()

    # ---- runs -----------------------------------------------------------------------------------------------------

    def _open(self, tangle: MessageId, *, anew: bool) -> None:
        channel = self._channels.setdefault(tangle, Channel())
        run = channel.runs.get(Role.OPENER)
        if run is None:
            self._say_have(tangle, channel)
        elif anew and run.said == 1:
            # Of two openings on their way, nobody could say which one the next phase 2 answers.
            run.superseded = True
        elif anew:
            self._say_have(tangle, channel)

    def _say_have(self, tangle: MessageId, channel: Channel) -> None:
        """Phase 1. At most one on a tangle is unanswered: frames have no number, so answers are told apart by order."""
        run = self._begin(tangle, channel, Role.OPENER)
        self._say(run, Have(tangle, run.own_have))

    def _begin(self, tangle: MessageId, channel: Channel, role: Role) -> Run:
        run = channel.runs[role] = Run(role)
        self._news.follow(tangle)
        run.own_have = self._exchange.have(tangle)
        self._notify(Opened(tangle=tangle, role=role))
        return run

    def _receive(self, frame: Frame) -> None:
        if isinstance(frame, Have):
            self._answer(frame)
            return
        if isinstance(frame, Messages):
            self._take_messages(frame)
            return
        role = Role.OPENER if frame.phase % 2 == 0 else Role.ANSWERER
        channel = self._channels.get(frame.id)
        run = None if channel is None else channel.runs.get(role)
        if channel is None or run is None or frame.phase not in run.awaits:
            awaited = "nothing" if run is None or not run.awaits else f"phase {run.awaits[0]}"
            self._ignore(frame.id, "out-of-phase", f"phase {frame.phase} came where {awaited} was to come")
            return
        match frame:
            case HaveAndWant():
                self._hear_ranges(channel, run, frame)
            case WantAndFilter():
                self._hear_opening(channel, run, frame)
            case IdsAndFilter():
                self._hear_listing(run, frame)
            case MessagesAndFilter():
                self._hear_delivery(channel, run, frame)
            case _:
                assert_never(frame)

    def _answer(self, frame: Have) -> None:
        """Phase 1. It is answered whether or not this side wants anything: the peer may."""
        tangle = frame.id
        channel = self._channels.get(tangle)
        if channel is None:
            if len(self._channels) >= self.config.tangles_max:
                self._ignore(tangle, "too-many-tangles", f"a stream has at most {self.config.tangles_max} tangles")
                return
            channel = self._channels[tangle] = Channel()
        run = self._begin(tangle, channel, Role.ANSWERER)
        run.remote_have = frame.have
        self._decide_want(tangle, channel, run)
        self._say(run, HaveAndWant(tangle, run.own_have, run.own_want))

    def _hear_ranges(self, channel: Channel, run: Run, frame: HaveAndWant) -> None:
        if run.superseded:
            self._say_have(frame.id, channel)
            return
        run.remote_have, run.remote_want = frame.have, frame.want
        if frame.have.is_empty:
            self._send_everything(frame.id, channel, run)
            return
        self._decide_want(frame.id, channel, run)
        bloom = self._exchange.filter_for(frame.id, 0, run.own_want)
        self._say(run, WantAndFilter(frame.id, bloom, run.own_want))

    def _hear_opening(self, channel: Channel, run: Run, frame: WantAndFilter) -> None:
        run.remote_want = frame.want
        if run.remote_have.is_empty:
            self._send_everything(frame.id, channel, run)
            return
        ids = self._find_missing(run, frame)
        bloom = self._exchange.filter_for(frame.id, 0, run.own_want)
        self._say(run, IdsAndFilter(frame.id, 4, bloom, tuple(ids)))

    def _hear_listing(self, run: Run, frame: IdsAndFilter) -> None:
        if len(run.promised) + len(frame.ids) > self.config.promised_max:
            self._ignore(frame.id, "too-many-promises", f"a run promises at most {self.config.promised_max} messages")
            return
        run.promised.update(dict.fromkeys(frame.ids))
        ids = self._find_missing(run, frame)
        answer = frame.phase + 1
        bloom = self._exchange.filter_for(frame.id, ROUND_OF[answer], run.own_want, run.promised)
        if answer < 8:
            self._say(run, IdsAndFilter(frame.id, answer, bloom, tuple(ids)))
            return
        texts = self._exchange.parcel(frame.id, run.sendable)
        self._say(run, MessagesAndFilter(frame.id, tuple(texts), bloom))
        self._serve(frame.id, run, len(texts))

    def _hear_delivery(self, channel: Channel, run: Run, frame: MessagesAndFilter) -> None:
        """Phase 8. What goes out is computed before anything of what came in is stored."""
        self._find_missing(run, frame)
        texts = self._exchange.parcel(frame.id, run.sendable)
        self._say(run, Messages(frame.id, tuple(texts)))
        self._serve(frame.id, run, len(texts))
        self._commit(channel, run, frame)

    def _take_messages(self, frame: Messages) -> None:
        """Phase 9: the end of a run, or a message that came to be after one."""
        channel = self._channels.get(frame.id)
        run = None
        if channel is not None:
            run = next((run for run in channel.runs.values() if frame.phase in run.awaits), None)
        if channel is None or (run is None and channel.own_want.is_empty):
            self._ignore(frame.id, "out-of-phase", "messages came that were never asked for")
            return
        self._commit(channel, run, frame)

    # ---- parts of a run -------------------------------------------------------------------------------------------

    def _decide_want(self, tangle: MessageId, channel: Channel, run: Run) -> None:
        run.own_want = channel.own_want = self._exchange.want(tangle, run.own_have, run.remote_have)

    def _find_missing(self, run: Run, frame: WantAndFilter | IdsAndFilter | MessagesAndFilter) -> list[MessageId]:
        ids = self._exchange.missing(frame.id, ROUND_OF[frame.phase], run.remote_want, frame.bloom)
        run.sendable.update(dict.fromkeys(ids))
        return ids

    def _send_everything(self, tangle: MessageId, channel: Channel, run: Run) -> None:
        """To a peer that has nothing: there is nothing to compare, and nothing to get."""
        texts = self._exchange.everything_in(tangle, run.remote_want)
        self._say(run, Messages(tangle, tuple(texts)))
        if not run.remote_want.is_empty:
            run.sendable.update(dict.fromkeys(self._exchange.in_range(tangle, run.remote_want)))
        self._serve(tangle, run, len(texts))
        self._finish(tangle, channel, run, ())

    def _serve(self, tangle: MessageId, run: Run, sent: int) -> None:
        """The messages of a run have gone out: from now on, new ones go out as they come."""
        run.sent = sent
        self._news.tell(tangle, run.sendable)
        for texts in self._news.serve(tangle, listens=not run.remote_want.is_empty):
            self._announce(tangle, texts)

    def _commit(self, channel: Channel, run: Run | None, frame: MessagesAndFilter | Messages) -> None:
        tangle = frame.id
        want = channel.own_want if run is None else run.own_want
        if run is not None:
            run.received = len(frame.messages)
        if want.is_empty and frame.messages:
            self._ignore(tangle, "unasked", f"{len(frame.messages)} messages came, and none was wanted")
            frame = Messages(tangle, ())
        accepted = self._exchange.accept(tangle, frame.messages, want)
        self._news.hear(tangle, accepted.messages)
        if run is None:
            self._notify(Announced(tangle=tangle, outwards=False, count=len(accepted.messages)))
        if not accepted.messages:
            if run is not None:
                self._finish(tangle, channel, run, accepted.refused)
            return
        token = next(self._tokens)
        self._commits[token] = (tangle, run)
        if run is not None:
            run.uncommitted = token
            run.refused = accepted.refused
            run.said = 9
        self._effects.append(
            Commit(token=token, tangle=tangle, messages=accepted.messages, newest=self._newest_of(tangle))
        )

    def _newest_of(self, tangle: MessageId) -> int | None:
        wish = self._exchange.wish(tangle)
        return wish.count if isinstance(wish, WantNewest) else None

    def _settle(self, event: Committed) -> None:
        if event.token not in self._commits:
            raise UsageError(f"there is no commit {event.token} to answer")
        tangle, run = self._commits.pop(event.token)
        channel = self._channels[tangle]
        if run is not None and channel.runs.get(run.role) is run:
            self._finish(tangle, channel, run, run.refused + event.refused, event.added)

    def _finish(
        self,
        tangle: MessageId,
        channel: Channel,
        run: Run,
        refused: tuple[Refused, ...],
        added: tuple[MessageId, ...] = (),
    ) -> None:
        """A run is over. Nothing of it is kept but what both sides are known to have."""
        del channel.runs[run.role]
        self._notify(
            Finished(tangle=tangle, role=run.role, sent=run.sent, added=added, refused=refused, received=run.received)
        )

    # ---- after a run ----------------------------------------------------------------------------------------------

    def _announce(self, tangle: MessageId, texts: list[bytes]) -> None:
        self._effects.append(Send(Messages(tangle, tuple(texts))))
        self._notify(Announced(tangle=tangle, outwards=True, count=len(texts)))

    # ---- effects --------------------------------------------------------------------------------------------------

    def _say(self, run: Run, frame: Frame) -> None:
        run.said = frame.phase
        self._effects.append(Send(frame))

    def _notify(self, notice: Notice) -> None:
        self._effects.append(Notify(notice))

    def _ignore(self, tangle: MessageId | None, reason: str, detail: str) -> None:
        self._notify(Ignored(tangle=tangle, reason=reason, detail=detail))

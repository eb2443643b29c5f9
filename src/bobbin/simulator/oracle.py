"""A witness beside one machine: it sees every step, and holds it to what the protocol promises.

The witness believes nothing that the machine thinks. From the messages that went out and came in it keeps its own
books: operands, terms, the peer's claims (``claim_model``), the shared time, what was requested and what was answered.
Whenever the machine says something, what the policy decides is worked out from those books, over the records of that
very moment (``decided``), and what is said must be exactly what follows:

* a first block says exactly the effective send set, by listing, by summaries or by saying nothing;
* a later block answers exactly what the peer asked, from the set that was announced;
* a request list is exactly what may be requested, is advertised and is missing, up to the bound;
* a transfer holds only what was requested, may be sent and is stored, and nothing that may be sent is called missing;
* what comes in is stored only if it was requested; what must not be said to a machine ends its exchange at once;
* a fixed point comes only after two empty requests and two blocks without news; an end comes once, with a true result;
* limits hold.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NoReturn

from bobbin.interlace.config import Bounded, Config
from bobbin.interlace.effects import (
    Close,
    Effect,
    Ended,
    FixedPoint,
    Negotiated,
    Notify,
    Persist,
    Remember,
    SaveCursor,
    Send,
)
from bobbin.interlace.events import Event, Fate, Now, Persisted, Received, Settled, Undecodable
from bobbin.interlace.messages import (
    Advertise,
    Delivered,
    Hello,
    Message,
    Request,
    Setup,
    Transfer,
    Unavailable,
)
from bobbin.interlace.reasons import Reason
from bobbin.interlace.result import Result
from bobbin.interlace.schema import Schema
from bobbin.policy.decide import Decision
from bobbin.policy.runtime_facts import RuntimeFacts
from bobbin.records import tai
from bobbin.records.record import Record
from bobbin.simulator.claim_model import ClaimModel, Table, misanswers, tells
from bobbin.simulator.decided import Decided
from bobbin.simulator.ground import Books, Ground
from bobbin.simulator.holdings import describe
from bobbin.simulator.sketch_model import SketchModel, key_of
from bobbin.simulator.terms_model import Said, Terms, work_out


class Witness:
    """Watches one machine."""

    def __init__(
        self,
        ground: Ground,
        config: Config,
        query: str | None,
        everything: Mapping[str, Record],
        fail: Callable[[str], NoReturn],
        decided: Decided,
    ) -> None:
        """``everything``: all records of the world, stored or not, by name. ``decided``: the decisions made in it."""
        self.config: Final = config
        self.peer: Witness | None = None
        """The witness of the other machine, if that one is honest."""
        self.has_recalled: Callable[[], bool] = lambda: False
        """Whether the machine goes on from what it knew in the last exchange on this link."""
        self.learned: Callable[[], Table] = dict
        """What the machine has learned of the peer's claims: a guess, to be proven."""
        self.ended = False
        self.closed = False
        self.result: Result | None = None
        self.fixed_points = 0
        self.checks = 0
        self._ground: Final = ground
        self._query: Final = query
        self._everything: Final = everything
        self._fail: Final = fail
        self._decisions: Final = decided
        self._now = Now(tai_ns=0, monotonic_ns=0)
        self._latest_tai_ns = 0  # the furthest that our clock has been, even if it was set back since
        self._must_end: str | None = None
        self._negotiated: Final = Said()
        self._last_said: Message | None = None
        self._phase_began_ns = 0
        self._terms: Terms | None = None
        self._epochs = 0
        self._begin_loop()
        self._books = Books()

    def _begin_loop(self) -> None:
        """A new epoch: nothing is said or heard in it yet."""
        self._claims = ClaimModel("", 1)
        self._sketch: SketchModel | None = None
        self._whole: Table = {}
        """The claims when an advertise phase was over last."""
        self._described: Table = {}
        """Records that were to be offered once, with what is said of them in this epoch."""
        self._announced: Table = {}  # by our last first block
        self._said_first = False
        self.held: Table = {}  # of the peer, when a phase began last
        self._said: list[Advertise] = []
        self._heard: list[Advertise] = []
        self._said_openings: list[Table] = []
        self._heard_openings = 0
        self._idle = False
        self._own_tick_ns = self._peer_tick_ns = 0
        self._decided: tuple[tuple[int, int, int], Decision] | None = None
        self._at_request: Decision | None = None
        self._own_request: tuple[str, ...] = ()
        self._peer_request: tuple[str, ...] | None = None
        self._unanswered: set[str] = set()
        self._outstanding: set[str] = set()
        self._arrived: set[str] = set()
        """Requested and come, in the step that is looked at."""
        self._unsettled: set[str] = set()
        self._heard_last = False
        self._passed_over: Table = {}
        self._served = 0
        self._served_bytes = 0

    @property
    def epochs(self) -> int:
        """How many times a plan was agreed on."""
        return self._epochs

    def saw(self, event: Event, effects: Sequence[Effect], now: Now) -> None:
        """One step of the machine."""
        self._now = now
        self.checks += 1
        if self.ended:
            self._expect(not effects, f"effects after the end: {effects}")
            return
        self._latest_tai_ns = max(self._latest_tai_ns, now.tai_ns)
        sends = [effect.message for effect in effects if isinstance(effect, Send)]
        self._must_end = None
        if isinstance(event, Received):
            if self._idle and isinstance(event.message, Advertise) and sends and isinstance(sends[0], Advertise):
                # The peer begins a round. Our own first block was made before its block was looked at.
                self._say(sends.pop(0))
            self._hear(event.message)
        elif isinstance(event, Undecodable):
            self._must_end = "what came was no message"
        elif isinstance(event, Persisted):
            self._settle(event.settled)
        for effect in effects:
            if isinstance(effect, Persist):
                self._expect_persist(effect)
        closes = [effect for effect in effects if isinstance(effect, Close)]
        if self._must_end is not None:
            self._expect(bool(closes), f"the machine goes on although {self._must_end}")
        else:
            self._follow(effects, sends)
        for effect in effects:
            if isinstance(effect, Notify):
                self._notice(effect)
        self._expect(len(closes) <= (not self.closed), "a link is closed once")
        self.closed = self.closed or bool(closes)

    def _follow(self, effects: Sequence[Effect], sends: Sequence[Message]) -> None:
        for effect in effects:
            if isinstance(effect, Notify) and isinstance(effect.notice, Negotiated):
                self._begin_epoch(effect.notice)
            elif isinstance(effect, Notify) and isinstance(effect.notice, FixedPoint):
                # Before what is said: the next round may begin in the same step.
                self._reach_fixed_point(effect.notice.result)
        for message in sends:
            self._say(message)
        for effect in effects:
            if isinstance(effect, Remember):
                self._ground.kept[effect.key, self._in_epoch().plan] = self._whole
            if isinstance(effect, SaveCursor):
                held = {ad.record: ad.fields for ad in effect.cursor.advertisements}
                self._expect(held == self._whole, "a cursor holds what the peer has claimed in a whole phase")

    # ---- setup and hello ------------------------------------------------------------------------------------------

    def _begin_epoch(self, notice: Negotiated) -> None:
        said, modules = self._negotiated, self._ground.modules
        terms = work_out(said, self.config, notice, query=self._query, modules=modules, expect=self._expect)
        self._begin_loop()
        self._terms = terms
        self._own_tick_ns = self._peer_tick_ns = terms.start_ns
        source = terms.policy.peer_origin
        self._claims = ClaimModel(source, terms.length, self._recalled(notice, source, terms.schema))
        self._sketch = self._begin_sketching(terms)
        self._books = Books()
        self._epochs += 1

    def _begin_sketching(self, terms: Terms) -> SketchModel | None:
        own, peer = self._negotiated.own_hello, self._negotiated.peer_hello
        assert own is not None, "a plan is agreed after both hellos"
        assert peer is not None, "a plan is agreed after both hellos"
        key = key_of(own, peer, initiator=self.config.initiator)
        if key is None:
            return None
        # Times go into sketches only where advertisements tell them anyway.
        tells_tai = "TAI" in terms.schema
        moments = {name: moment_of(record) for name, record in self._everything.items()} if tells_tai else {}
        return SketchModel(key, terms.policy.own_origin, terms.length, moments)

    @property
    def _sketching(self) -> SketchModel | None:
        """The model of this phase, where sketches were agreed on and not given up before it."""
        return None if self._sketch is None or self._sketch.fell_back else self._sketch

    def _recalled(self, notice: Negotiated, source: str, schema: Schema) -> Table:
        """What the machine may still know of the peer's claims."""
        key = notice.link or self.config.cursor_key
        if key is None:
            return {}
        if self.has_recalled():
            return self._ground.kept[key, notice.plan]
        cursor = self._ground.cursor(key)
        if cursor is None or (cursor.plan, cursor.source, cursor.schema) != (notice.plan, source, schema):
            return {}
        return {ad.record: ad.fields for ad in cursor.advertisements}

    # ---- what the policy says -------------------------------------------------------------------------------------

    def _decide(self) -> Decision:
        """The decision of this very moment."""
        terms = self._in_epoch()
        tick = min(self._own_tick_ns, self._peer_tick_ns)
        key = (self._ground.version, self._claims.version, tick)
        if self._decided is None or self._decided[0] != key:
            hello = self._negotiated.peer_hello
            runtime = RuntimeFacts(
                here=self.config.own.verifier,
                peer=None if hello is None else hello.signer,
                transport=self.config.transport,
                transport_encrypted=self.config.encrypted,
                start_tai=tai.render(terms.start_ns),
                tick_tai=tai.render(tick),
                clock_skew_seconds=terms.skew_seconds,
            )
            decide = self._decisions.decide
            self._decided = key, decide(terms.policy, self._ground.records.values(), self._claims.table, runtime)
        return self._decided[1]

    def _offered(self, decision: Decision) -> Table:
        for record in decision.may_send - self._described.keys():
            self._described[record] = describe(self._everything[record], self._in_epoch().schema)
        return {record: self._described[record] for record in decision.may_send}

    # ---- what is said ---------------------------------------------------------------------------------------------

    def _say(self, message: Message) -> None:
        if not isinstance(message, Transfer) and not (isinstance(message, Advertise) and self._said):
            self._phase_began_ns = self._now.monotonic_ns
        match message:
            case Setup():
                self._expect(message.operand.origin == self.config.own.origin(message.index), "an origin of one's own")
                wrong = self._negotiated.say_setup(message, self._ground.modules)
                self._expect(wrong is None, str(wrong))
                self._idle = False
            case Hello():
                self._expect(message.signer in (None, self.config.own.verifier), "a signer with proof")
                self._negotiated.own_hello = message
            case Advertise():
                self._say_block(message)
            case Request():
                self._say_request(message)
            case Transfer():
                self._say_transfer(message)
        self._last_said = message

    def _say_block(self, block: Advertise) -> None:
        limits = self._in_epoch().limits
        self._expect(len(block.records) <= limits.max_advertisement_records_listed, "a listing keeps to its limit")
        if self._said:
            self._expect_answer(block, self._heard[-1])
        else:
            self._say_opening(block)
        self._books.summaries_said += len(block.partitions)
        self._expect(self._books.summaries_said <= limits.max_partition_summaries, "summaries keep to their limit")
        self._said.append(block)
        if block.tick is not None:
            tick = tai.parse(block.tick)
            self._expect(tick >= self._own_tick_ns, "our readiness never goes back")
            self._expect(
                tick <= max(self._latest_tai_ns, self._in_epoch().start_ns), "our readiness is not ahead of us"
            )
            self._own_tick_ns = tick

    def _say_opening(self, block: Advertise) -> None:
        if self._idle:
            self._idle = False
            self._books = Books()
        self._expect(not (block.lists or block.narrows), "a first block asks nothing")
        if self._sketch is not None:
            self._sketch.begin_phase(self._announced)
        over = self._heard_last or not (self._own_request or self._peer_request)
        self._expect(over and not self._unsettled, "an iteration begins when the last is over")
        offered = self._offered(self._decide())
        if self._says(block, offered):
            pass
        elif (
            self._nobody_requests
            and self._at_request is not None
            and self._says(block, self._offered(self._at_request))
        ):
            # What confirms two empty requests is the set that was evaluated for them.
            offered = self._offered(self._at_request)
        else:
            self._fail(f"a first block of {len(block.records)} does not say the send set of {len(offered)} records")
        self._announced, self._said_first = offered, True
        self._said_openings.append(offered)
        self.held = dict(self._claims.table)

    def _says(self, block: Advertise, offered: Table) -> bool:
        """Whether a peer that follows the rules knows exactly this after a first block."""
        terms = self._in_epoch()
        known = self._announced if self._said_first else None
        if self._sketching is not None:
            return self._sketching.stands(block, offered, known, self._claims.table)
        return tells(block, offered, known, source=terms.policy.own_origin, length=terms.length)

    def _expect_answer(self, block: Advertise, asked: Advertise) -> None:
        if self._sketching is not None:
            held = self.peer.held if self.peer is not None and self.peer.epochs == self._epochs else None
            wrong = self._sketching.misspeaks(block, asked, self._announced, self.learned(), held)
        else:
            wrong = misanswers(block, asked, self._announced, source=self._in_epoch().policy.own_origin)
        self._expect(wrong is None, str(wrong))

    def _say_request(self, message: Request) -> None:
        terms = self._in_epoch()
        self._expect(len(self._said) == len(self._heard) > 0, "a request follows whole blocks of both sides")
        last = (self._said[-1], self._heard[-1])
        self._expect(not any(b.partitions or b.lists or b.narrows for b in last), "no question is left open")
        if self._sketching is not None:
            table = self.learned()
            self._expect(self._sketching.proves(table), "a request although the claims were never proven")
            self._claims.become(table)
        self._claims.recognise(self._announced)
        unproven = self._claims.unproven()
        self._expect(unproven is None, f"a request although the partition {unproven} was never proven")
        self._expect_claims()
        self._whole = dict(self._claims.table)
        decision = self._at_request = self._decide()
        table = self._claims.table
        self._passed_over = {
            record: fields for record, fields in self._passed_over.items() if table.get(record) == fields
        }
        wanted = sorted(
            record
            for record in decision.may_request
            if record in table
            and record not in self._ground.records
            and record not in self._ground.refused
            and record not in self._passed_over
            and record.rpartition(".")[2] in terms.formats
        )[: self.config.service.request_records_max]
        self._expect(
            list(message.records) == wanted,
            f"requested is {_names(message.records)}, and wanted {_names(wanted)} of {len(table)} advertised",
        )
        self._own_request, self._outstanding = message.records, set(message.records)
        self._peer_request = None
        self._unanswered = set()
        self._heard_last = False
        self._served = self._served_bytes = 0
        self._said, self._heard = [], []

    def _expect_claims(self) -> None:
        """What an honest peer has announced is what is claimed."""
        if self.peer is None or self.peer.epochs < self._epochs:
            return
        if self.peer.epochs == self._epochs:
            announced = self.peer.opening(self._heard_openings - 1)
            self._expect(self._claims.table == announced, "the claims are what the peer announced")

    def opening(self, number: int) -> Table:
        """What was announced by a first block of this epoch."""
        return self._said_openings[number]

    def _say_transfer(self, message: Transfer) -> None:
        terms, service = self._in_epoch(), self.config.service
        self._expect(self._peer_request is not None, "answers follow a request")
        self._expect(len(message.responses) <= service.chunk_records_max, "a part of a transfer keeps to its size")
        decision = self._decide()
        for response in message.responses:
            record = response.record
            self._expect(record in self._unanswered, f"{record} was not requested, or is answered twice")
            self._unanswered.discard(record)
            # Judged at this moment: a record that was away in between and is back is as good as one that stayed.
            sendable = record in self._announced and record in decision.may_send and record in self._ground.records
            self._served += 1
            if isinstance(response, Unavailable):
                self._expect(not sendable, f"{record} may be sent and is called not available")
                continue
            self._expect(sendable, f"{record} is sent and may not be")
            self._expect(response.raw == self._ground.records[record].raw, f"{record} is sent with other bytes")
            self._books.sent.add(record)
            self._books.bytes_sent += len(response.raw)
            self._served_bytes += len(response.raw)
        self._expect_within()
        if message.last and self._unanswered:
            spent = self._served >= service.serve_records_max or self._served_bytes >= service.serve_bytes_max
            late = 2 * (self._now.monotonic_ns - self._phase_began_ns) > terms.limits.phase_timeout * 10**9
            self._expect(spent or late, "requests are left over for no reason")

    def _expect_within(self) -> None:
        most = self._in_epoch().limits.max_total_transferred_bytes
        self._expect(self._books.bytes_sent + self._books.bytes_received <= most, "transfers keep to their limit")

    # ---- what is heard --------------------------------------------------------------------------------------------

    def _hear(self, message: Message) -> None:
        if not self._may_come(message):
            self._must_end = f"{type(message).__name__} came out of turn"
            return
        match message:
            case Setup():
                self._must_end = self._negotiated.hear_setup(message, self._ground.modules)
            case Hello():
                self._negotiated.peer_hello = message
            case Advertise():
                self._hear_block(message)
            case Request():
                self._hear_tick(message.tick)
                if any(one >= another for one, another in pairwise(message.records)):
                    self._must_end = "a request list is out of order"
                self._peer_request = message.records
                self._unanswered = set(message.records)
                self._phase_began_ns = self._now.monotonic_ns
            case Transfer():
                self._hear_tick(message.tick)
                self._hear_transfer(message)

    def _may_come(self, message: Message) -> bool:
        may_change = not isinstance(self.config.lifecycle, Bounded)
        if self._idle:
            return isinstance(message, Advertise) or (may_change and isinstance(message, Setup))
        match self._last_said:
            case Setup():
                return isinstance(message, Setup) or (self._epochs > 0 and isinstance(message, Advertise))
            case Hello():
                return isinstance(message, Hello)
            case Advertise():
                changes = may_change and len(self._said) == 1 and isinstance(message, Setup)
                return isinstance(message, Advertise) or changes
            case Request() | Transfer():
                if self._peer_request is None:
                    return isinstance(message, Request)
                return isinstance(message, Transfer) and not self._heard_last
            case None:
                return False

    def _hear_block(self, block: Advertise) -> None:
        if isinstance(self._last_said, Setup):
            return  # It was on its way when our new operand went out.
        terms = self._in_epoch()
        self._hear_tick(block.tick)
        drops = self._sketching is not None and self._sketching.drops(block, self._said[len(self._heard) :])
        self._books.summaries_heard += 0 if drops else len(block.partitions)
        if self._books.summaries_heard > terms.limits.max_partition_summaries:
            self._must_end = "more summaries came than agreed on"
        elif len(block.records) > terms.limits.max_advertisement_records_listed and not drops:
            self._must_end = "more records were listed than agreed on"
        elif self._heard and self._sketching is not None:
            self._sketching.hear(block)
        elif self._heard:
            self._must_end = self._claims.hear(block, self._said[len(self._heard) - 1])
        else:
            self._heard_openings += 1
            self._must_end = self._claims.open(block) if self._sketching is None else self._sketching.open(block)
        self._heard.append(block)

    def _hear_tick(self, tick: str | None) -> None:
        terms = self._in_epoch()
        lifecycle = self.config.lifecycle
        if tick is None or (isinstance(lifecycle, Bounded) and not lifecycle.ticks):
            return
        try:
            ready = tai.parse(tick)
        except tai.TaiError:
            return
        if ready >= self._peer_tick_ns and (ready - terms.start_ns) % terms.interval_ns == 0:
            self._peer_tick_ns = ready

    def _hear_transfer(self, message: Transfer) -> None:
        most = self._in_epoch().limits.max_total_transferred_bytes
        self._arrived = set()
        few = len(self._unsettled) <= self.config.service.unsettled_records_max
        self._expect(few, "nothing is heard while too much waits to be stored")
        for response in message.responses:
            if response.record not in self._outstanding:
                self._must_end = f"{response.record} is no open request"
                return
            size = len(response.raw) if isinstance(response, Delivered) else 0
            if self._books.bytes_sent + self._books.bytes_received + size > most:
                self._must_end = "more bytes came than agreed on"
                return
            self._outstanding.discard(response.record)
            if isinstance(response, Unavailable):
                self._pass_over(response.record)
            else:
                self._arrived.add(response.record)
                self._books.bytes_received += size
        self._heard_last = message.last

    def _expect_persist(self, effect: Persist) -> None:
        for arrival in effect.arrivals:
            self._expect(arrival.record in self._arrived, f"{arrival.record} is stored and was not requested")
            self._arrived.discard(arrival.record)
            self._unsettled.add(arrival.record)
        self._expect(not self._arrived or self._must_end is not None, "everything requested that came is stored")

    def _settle(self, settled: tuple[Settled, ...]) -> None:
        for one in settled:
            self._expect(one.record in self._unsettled, f"{one.record} has met its fate twice")
            self._unsettled.discard(one.record)
            if one.fate is Fate.STORED:
                self._books.stored.add(one.record)
            elif one.fate is Fate.REJECTED:
                self._pass_over(one.record)

    def _pass_over(self, record: str) -> None:
        fields = self._claims.table.get(record)
        if fields is not None:
            self._passed_over[record] = fields

    # ---- fixed point and end --------------------------------------------------------------------------------------

    def _notice(self, effect: Notify) -> None:
        match effect.notice:
            case FixedPoint():
                self._expect(self._must_end is None, "a fixed point although something is wrong")
            case Ended(result):
                self._expect(not self.ended, "an exchange ends once")
                self.ended, self.result = True, result
                if result.reason is Reason.PHASE_TIMEOUT:
                    limits = self.config.limits if self._terms is None else self._terms.limits
                    waited = self._now.monotonic_ns - self._phase_began_ns
                    self._expect(waited >= limits.phase_timeout * 10**9, "a phase has all its time")
                if self._must_end is None:
                    self._expect_result(result)
                self._expect(not self._unsettled or self._must_end is not None, "an end waits for what is being stored")
            case _:
                pass

    def _reach_fixed_point(self, result: Result) -> None:
        self._expect(self._nobody_requests, "a fixed point after a request")
        quiet = [block.says_nothing for block in (*self._said, *self._heard)]
        self._expect(quiet == [True, True], "a fixed point only where both sides have no news")
        self._expect_result(result)
        self._expect(result.fixed_point, "a fixed point is one")
        self.fixed_points += 1
        self._idle = True
        self._said, self._heard = [], []

    def _expect_result(self, result: Result) -> None:
        self._expect(result.fixed_point == (result.reason is None), "an end is a fixed point or has a reason")
        self._expect(result.reason is None or result.reason in Reason, "a reason has a name")
        self._expect(not result.fixed_point or self.fixed_points > 0 or self._nobody_requests, "a fixed point was seen")
        self._expect(result.received == self._books.stored, "a result names what was stored")
        self._expect(result.sent == self._books.sent, "a result names what was sent")
        self._expect(result.bytes_sent == self._books.bytes_sent, "a result counts the bytes that were sent")
        if self._terms is not None:
            self._expect(result.iterations <= self._terms.limits.max_loop_iterations, "iterations keep to their limit")

    @property
    def _nobody_requests(self) -> bool:
        return self._own_request == () and self._peer_request == ()

    def _in_epoch(self) -> Terms:
        if self._terms is None:
            self._fail("the loop began before a plan was agreed on")
        return self._terms

    def _expect(self, condition: bool, message: str) -> None:  # noqa: FBT001 (reads like an assertion)
        if not condition:
            self._fail(message)


def moment_of(record: Record) -> int:
    """When a record says that it was made; 0 where it does not say."""
    said = describe(record, Schema(names=frozenset({"TAI"})))
    return tai.parse(said[0].value) if len(said) == 1 else 0


def _names(records: Sequence[str]) -> str:
    return f"{[record[:8] for record in records[:6]]} ({len(records)})"

"""What a program does with a peer: converge a selected set, get one record, list many, store some, follow (Lace-050).

Each of these is the ordinary exchange under an ordinary policy. What an operation is about becomes a selector before
setup (``only``, ``at``, ``narrowed``); there is no message of its own, and the peer cannot tell an operation from an
exchange with the same operands. What comes back to the caller (a record, a list, a stream of observations, receipts, a
statement) is this side's affair and happens after records are validated and stored.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from secrets import token_bytes
from typing import Final

from msgspec import Struct, structs

from bobbin.errors import UsageError
from bobbin.interlace.effects import Effect, Send
from bobbin.interlace.epoch import Epoch
from bobbin.interlace.events import Event, Persisted, Received
from bobbin.interlace.ledger import Describe, Disclosure, Honesty
from bobbin.interlace.limits import Limits
from bobbin.interlace.messages import Request, Transfer
from bobbin.interlace.receipts import build_receipt, is_about_exchange
from bobbin.interlace.result import Result
from bobbin.interlace.schema import Schema
from bobbin.interlace.statement import build_statement, make_statement
from bobbin.policy import builder
from bobbin.policy.claims import Claims
from bobbin.policy.compose import intersect
from bobbin.policy.decide import Situation, evaluate
from bobbin.policy.modules import Query, Selector, compile_query, compile_selector
from bobbin.policy.verdict import Verdict, explain
from bobbin.records import coordinate, ids
from bobbin.records.coordinate import Address, Coordinate, Prefix
from bobbin.records.ids import HashText, Verifier
from bobbin.records.record import Plex, Record, read_trusted, seal
from bobbin.records.signing import SigningKey
from bobbin.runtime.decisions import Decisions
from bobbin.runtime.holdings import StoreHoldings
from bobbin.runtime.local_peer import Books, Figure, LocalSide, Manner, Ran, now, run_local
from bobbin.runtime.pair import Clock, Observer
from bobbin.runtime.recording import Recorder
from bobbin.store.base import Listed, Store

CHOSEN_MAX: Final = 1_000
"""Records that one operation can name: each is a line of its policy."""

_PUT_MAX: Final = 4_096


class Participant(Struct, frozen=True, kw_only=True):
    """One side of an exchange in this process."""

    decisions: Decisions
    """Over its store, with its query policy."""
    selector: Selector
    key: SigningKey | None
    """Proves who it is, and seals what it says afterwards."""
    name: str
    """What the other side remembers it under where nobody has proven anything."""


class Wishes(Struct, frozen=True, kw_only=True):
    """What the caller wants besides the records."""

    rounds: int = 1
    """How many exchanges to run at most, as long as each one ends at a limit after moving something."""
    explain: tuple[str, ...] = ()
    look_for: tuple[str, ...] = ()
    """Records of which the caller wants to know whether the peer offers them."""
    statement: bool = False
    receipts: bool = False

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise UsageError("an exchange has at least one round")


class Agreed(Struct, frozen=True, kw_only=True):
    """What both sides agreed on, and what they had to offer at the end."""

    plan: str
    link: str | None
    peer: Verifier | None
    start_tai: str
    tick_tai: str
    clock_skew_seconds: int
    formats: frozenset[str]
    schema: Schema
    limits: Limits
    offered: int
    claimed: int


class Explained(Struct, frozen=True, kw_only=True):
    """What became of one record, and why each side decides as it does now that the exchange is over."""

    record: str
    fate: str
    own: Verdict
    peer: Verdict
    """The same question asked of the other side."""


class SyncReport(Struct, frozen=True, kw_only=True):
    """The account of an exchange, all rounds together."""

    rounds: tuple[Result, ...]
    peer_rounds: tuple[Result, ...]
    figures: dict[str, Figure]
    """By phase."""
    agreed: Agreed | None
    """None if no plan was agreed in the last round."""
    claimed: frozenset[str]
    """Of the records that were looked for, those that the peer offered at the end."""
    disclosure: Disclosure
    """What the peer could learn."""
    honesty: Honesty
    explained: tuple[Explained, ...] = ()
    statement: HashText | None = None
    """The completion statement that this side has sealed and stored."""
    receipts: tuple[HashText, ...] = ()

    @property
    def result(self) -> Result:
        """Of the last round, which says why it stopped."""
        return self.rounds[-1]

    @property
    def fixed_point(self) -> bool:
        return self.result.fixed_point

    @property
    def received(self) -> frozenset[str]:
        return frozenset().union(*(result.received for result in self.rounds))

    @property
    def sent(self) -> frozenset[str]:
        return frozenset().union(*(result.sent for result in self.rounds))

    @property
    def rejected(self) -> dict[str, str]:
        """With the reason code; what came after all is not in here."""
        merged = {record: reason for result in self.rounds for record, reason in result.rejected.items()}
        return {record: reason for record, reason in merged.items() if record not in self.received}

    @property
    def rejected_there(self) -> dict[str, str]:
        """What we sent and the peer could not take."""
        return {record: reason for result in self.peer_rounds for record, reason in result.rejected.items()}

    @property
    def not_available(self) -> frozenset[str]:
        return frozenset().union(*(result.not_available for result in self.rounds)) - self.received

    @property
    def iterations(self) -> int:
        return sum(result.iterations for result in self.rounds)

    @property
    def bytes_received(self) -> int:
        return sum(result.bytes_received for result in self.rounds)

    @property
    def bytes_sent(self) -> int:
        return sum(result.bytes_sent for result in self.rounds)


class Got(Struct, frozen=True, kw_only=True):
    """One record that was asked for: as it is here after the exchange, wherever it came from."""

    record: Record | None
    report: SyncReport


class Listing(Struct, frozen=True, kw_only=True):
    """Many records, as they are here after the exchange."""

    records: tuple[Listed, ...]
    report: SyncReport


class Placed(Struct, frozen=True, kw_only=True):
    """What became of records that were handed over."""

    stored: frozenset[str]
    """The peer has taken and stored them now."""
    there_already: frozenset[str]
    """The peer offers them itself."""
    rejected: dict[str, str]
    """Sent, and not accepted, with the reason code."""
    not_taken: frozenset[str]
    """One of the policies does not select them, or the exchange ended before; the report says which end it had."""
    report: SyncReport


# ---- operations as policy -------------------------------------------------------------------------------------------


def only(records: Collection[str]) -> Selector:
    """A policy that selects exactly these records."""
    if not records:
        raise UsageError("name at least one record")
    if len(records) > CHOSEN_MAX:
        raise UsageError(f"one operation names at most {CHOSEN_MAX} records; exchange more under a policy of their own")
    chosen = "".join(f"Chosen('{record}').\n" for record in sorted(records))
    rules = "SelectHave(P) :- Have(P), Chosen(P).\nSelectAdvertised(P,S) :- Advertised(P,S), Chosen(P).\n"
    return compile_selector(rules + chosen)


def at(place: Coordinate | Prefix) -> Selector:
    """A policy that selects what stands at a coordinate or below a prefix."""
    conditions = [builder.group(place.group)]
    if place.app is not None:
        conditions.append(builder.app(place.app))
    if isinstance(place, Coordinate):
        conditions.append(builder.name(place.name))
    elif place.name:
        conditions.append(builder.name_prefix(place.name))
    return compile_selector(builder.write(builder.select(*conditions)))


def narrowed(constraint: Selector, policy: str | Selector | None) -> Selector:
    """What an operation is about, as far as this side's policy allows."""
    if policy is None:
        return constraint
    return compile_selector(intersect([constraint, compiled_selector(policy)]))


def compiled_selector(policy: str | Selector) -> Selector:
    """A policy, from its text where it is one."""
    if not isinstance(policy, str | Selector):
        raise UsageError(f"a policy is a text of rules or a compiled selector, not {policy!r}")
    return compile_selector(policy) if isinstance(policy, str) else policy


def compiled_query(policy: str | Query | None) -> Query | None:
    """A query policy, from its text where it is one."""
    return compile_query(policy) if isinstance(policy, str) else policy


def one_of(what: str | Address | Coordinate) -> Address | Coordinate:
    """The one record that a text names: by hash, by address, or the newest of a coordinate."""
    if not isinstance(what, str):
        return what
    if not what.startswith("//"):
        return Address(hash=hash_of(what))
    parsed = coordinate.parse(what)
    if isinstance(parsed, Prefix):
        raise UsageError(f"{parsed} is a prefix and names many records; list them")
    return parsed


def place_of(place: str | Coordinate | Prefix) -> Coordinate | Prefix:
    """A coordinate or a prefix, from its text where it is one."""
    parsed = coordinate.parse(place) if isinstance(place, str) else place
    if isinstance(parsed, Address):
        raise UsageError(f"////{parsed.hash} names one record; get it")
    return parsed


def hash_of(text: str) -> HashText:
    """The hash text that a text is, bare or as an address."""
    bare = text.removeprefix("////")
    try:
        ids.parse_hash(bare)
    except ids.IdentifierError as error:
        raise UsageError(str(error)) from error
    return HashText(bare)


def placed(records: Collection[str], report: SyncReport) -> Placed:
    """The account of a hand-over."""
    rejected = report.rejected_there
    stored = frozenset(record for record in records if record in report.sent and record not in rejected)
    there = frozenset(record for record in records if record in report.claimed) - stored
    return Placed(
        stored=stored,
        there_already=there,
        rejected={record: reason for record, reason in rejected.items() if record in records},
        not_taken=frozenset(records) - stored - there - rejected.keys(),
        report=report,
    )


# ---- running --------------------------------------------------------------------------------------------------------


def synchronise(
    own: Participant,
    peer: Participant,
    *,
    manner: Manner = Manner(),  # noqa: B008 (a frozen value)
    wishes: Wishes = Wishes(),  # noqa: B008 (a frozen value)
    clock: Clock = now,
    observers: Iterable[Observer] = (),
    recorder: Recorder | None = None,
) -> SyncReport:
    """Converge what both policies select, in rounds, each an exchange of its own. ``recorder`` has the first one."""
    if wishes.statement and own.key is None:
        raise UsageError("a statement is sealed by its issuer, and this lace has no key")
    if wishes.receipts and (own.key is None or peer.key is None):
        raise UsageError("a receipt is sealed by the receiver and names a proven sender, so both laces need a key")
    ran: list[Ran] = []
    followers = tuple(observers)
    with sides(own, peer) as (left, right):
        while True:
            ran.append(run_local(left, right, manner, clock=clock, observers=followers, recorder=recorder))
            recorder = None
            if len(ran) == wishes.rounds or not _may_go_on(ran[-1]):
                break
        report = _report(ran, left.holdings.describe, wishes.look_for)
        explained = tuple(_explain(record, ran, own, peer, report) for record in wishes.explain)
    return structs.replace(
        report,
        explained=explained,
        statement=_state(own, ran[-1].own, report, clock) if wishes.statement and report.fixed_point else None,
        receipts=_receipt(own, peer, report.received, clock) if wishes.receipts else (),
    )


@contextmanager
def sides(own: Participant, peer: Participant) -> Iterator[tuple[LocalSide, LocalSide]]:
    """Both sides with their holdings, for the length of one operation."""
    if own.decisions.store is peer.decisions.store:
        raise UsageError("a lace has nothing to exchange with itself")
    with ExitStack() as stack:
        yield stack.enter_context(_side(own, peer)), stack.enter_context(_side(peer, own))


@contextmanager
def _side(one: Participant, another: Participant) -> Iterator[LocalSide]:
    holdings = StoreHoldings(one.decisions)
    try:
        yield LocalSide(
            holdings=holdings,
            selector=one.selector,
            verifier=None if one.key is None else one.key.verifier,
            peer_name=another.name,
        )
    finally:
        holdings.release()
    one.decisions.flush()


def _may_go_on(ran: Ran) -> bool:
    """Whether another round can do what this one could not: it came to a limit, and moved something before."""
    result, there = ran.own.result, ran.peer.result
    return (result.limit or there.limit) is not None and bool(result.received or result.sent or there.received)


def _report(ran: Sequence[Ran], describe: Describe, look_for: Collection[str]) -> SyncReport:
    figures: dict[str, Figure] = {}
    last = ran[-1].own.epoch
    for one in ran:
        for phase, figure in one.figures.items():
            total = figures.setdefault(phase, Figure())
            total.messages += figure.messages
            if figure.bytes is not None:
                total.bytes = (total.bytes or 0) + figure.bytes
    return SyncReport(
        rounds=tuple(one.own.result for one in ran),
        peer_rounds=tuple(one.peer.result for one in ran),
        figures=figures,
        agreed=_agreed(last),
        claimed=frozenset(record for record in look_for if last is not None and record in last.learned),
        disclosure=_disclosed([one.own.ledger.disclosure() for one in ran]),
        honesty=_honest([one.own.ledger.honesty(describe) for one in ran]),
    )


def _agreed(epoch: Epoch | None) -> Agreed | None:
    if epoch is None:
        return None
    terms = epoch.terms
    return Agreed(
        plan=terms.plan,
        link=terms.link,
        peer=terms.peer,
        start_tai=terms.start_tai,
        tick_tai=epoch.ticks.tick,
        clock_skew_seconds=terms.clock_skew_seconds,
        formats=terms.formats,
        schema=terms.schema,
        limits=terms.limits,
        offered=len(epoch.offers),
        claimed=len(epoch.learned),
    )


def _disclosed(parts: Sequence[Disclosure]) -> Disclosure:
    return Disclosure(
        modules=tuple(dict.fromkeys(module for part in parts for module in part.modules)),
        advertised=frozenset().union(*(part.advertised for part in parts)),
        fields=frozenset().union(*(part.fields for part in parts)),
        summaries=sum(part.summaries for part in parts),
        requested=frozenset().union(*(part.requested for part in parts)),
        sent=frozenset().union(*(part.sent for part in parts)),
    )


def _honest(parts: Sequence[Honesty]) -> Honesty:
    return Honesty(
        received=sum(part.received for part in parts),
        differing={record: found for part in parts for record, found in part.differing.items()},
        never_served=frozenset().union(*(part.never_served for part in parts)),
        rejected=frozenset().union(*(part.rejected for part in parts)),
    )


# ---- why ------------------------------------------------------------------------------------------------------------


def _explain(record: str, ran: Sequence[Ran], own: Participant, peer: Participant, report: SyncReport) -> Explained:
    last = ran[-1]
    if last.own.epoch is None or last.peer.epoch is None:
        raise UsageError("no plan was agreed, so no rule decided anything")
    return Explained(
        record=record,
        fate=_fate(record, report, held=own.decisions.store.have(HashText(record))),
        own=_verdict(record, last.own.epoch, own),
        peer=_verdict(record, last.peer.epoch, peer),
    )


def _verdict(record: str, epoch: Epoch, side: Participant) -> Verdict:
    policy = epoch.agreement.policy
    claims = Claims(policy.peer_origin, {one.record: one.fields for one in epoch.learned.advertisements()})
    with side.decisions.store.snapshot() as moment:
        situation = Situation(facts=moment.facts, claims=claims, runtime=epoch.runtime_facts())
        return explain(evaluate(policy, situation), record)


def _fate(record: str, report: SyncReport, *, held: bool) -> str:
    if record in report.received:
        return "received"
    if record in report.rejected:
        return f"came as bytes that are not the record ({report.rejected[record]})"
    if record in report.not_available:
        return "requested, and not available any more"
    if record in report.rejected_there:
        return f"sent, and not accepted by the peer ({report.rejected_there[record]})"
    if record in report.sent:
        return "sent"
    if record in report.result.deferred:
        return "requested, and not sent before the end"
    return "not moved; it is stored here" if held else "not moved; it is not stored here"


# ---- what is said afterwards ----------------------------------------------------------------------------------------


def _state(own: Participant, books: Books, report: SyncReport, clock: Clock) -> HashText | None:
    """Seal a statement about the exchange; none about one that moved nothing but statements and receipts.

    Else two laces whose policies select statements would give each other a new one for ever.
    """
    assert own.key is not None
    moved = report.received | report.sent
    if moved and all(is_about_exchange(read_trusted(raw)) for raw in _stored(own.decisions.store, moved)):
        return None
    assert books.epoch is not None, "a fixed point has a plan"
    plex = build_statement(make_statement(books.epoch, books.result), tai_ns=clock().tai_ns)
    return _seal(own, [plex])[0]


def _receipt(own: Participant, peer: Participant, received: Collection[str], clock: Clock) -> tuple[HashText, ...]:
    """Seal a receipt for every record that came and is stored; none for what is about exchanges itself."""
    assert peer.key is not None
    sender, stored = peer.key.verifier, _stored(own.decisions.store, received)
    plexes = (build_receipt(read_trusted(raw), sender=sender, tai_ns=clock().tai_ns) for raw in stored)
    return tuple(_seal(own, [plex for plex in plexes if plex is not None]))


def _stored(store: Store, records: Collection[str]) -> Iterator[bytes]:
    """The bytes of those that are stored at this moment, by name."""
    for record in sorted(records):
        if (raw := store.get(HashText(record))) is not None:
            yield raw


def _seal(own: Participant, plexes: Sequence[Plex]) -> list[HashText]:
    assert own.key is not None
    sealed: list[Record] = [seal(plex, own.key, auxiliary=token_bytes(32)) for plex in plexes]
    for start in range(0, len(sealed), _PUT_MAX):
        own.decisions.store.put_records(sealed[start : start + _PUT_MAX])
    return [record.hash for record in sealed]


class Progressing:
    """Counts records that are to move and have moved, from the steps of one machine, for whoever watches."""

    def __init__(self, tell: Callable[[int, int], None]) -> None:
        """``tell`` hears how many have moved, and how many either side has asked for so far."""
        self._tell = tell
        self._moved = self._wanted = 0

    def observe(self, event: Event, effects: tuple[Effect, ...]) -> None:
        """One step of the machine has been made."""
        moved, wanted = self._moved, self._wanted
        match event:
            case Received(Request(records=records)):
                self._wanted += len(records)
            case Persisted(settled):
                self._moved += len(settled)
            case _:
                pass
        for effect in effects:
            match effect:
                case Send(Request(records=records)):
                    self._wanted += len(records)
                case Send(Transfer(responses=responses)):
                    self._moved += len(responses)
                case _:
                    pass
        if (moved, wanted) != (self._moved, self._wanted):
            self._tell(self._moved, self._wanted)

"""What a program does with a peer: converge a selected set, get one record, list many, store some, follow (Lace-050).

Each of these is the ordinary exchange under an ordinary policy. What an operation is about becomes a selector before
setup (``only``, ``at``, ``narrowed``); there is no message of its own, and the peer cannot tell an operation from an
exchange with the same operands. What comes back to the caller (a record, a list, a stream of observations, receipts, a
statement) is this side's affair and happens after records are validated and stored.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from secrets import token_bytes
from typing import Final

from msgspec import Struct, structs

from bobbin.datalog.local.budget import LimitExceeded
from bobbin.errors import UsageError
from bobbin.interlace.receipts import build_receipt
from bobbin.interlace.statement import build_statement, make_statement
from bobbin.policy import builder
from bobbin.policy.compose import intersect
from bobbin.policy.modules import Query, Selector, compile_query, compile_selector
from bobbin.records import coordinate, ids
from bobbin.records.coordinate import Address, Coordinate, Prefix
from bobbin.records.ids import HashText, Verifier
from bobbin.records.record import Plex, Record, read_trusted, seal
from bobbin.records.signing import SigningKey
from bobbin.runtime import accounts
from bobbin.runtime.accounts import SyncReport
from bobbin.runtime.decisions import Decisions
from bobbin.runtime.holdings import StoreHoldings
from bobbin.runtime.local_peer import Books, LocalSide, Manner, Ran, now, run_local
from bobbin.runtime.pair import Clock, Observer
from bobbin.runtime.recording import Recorder
from bobbin.runtime.statements import standing_statement
from bobbin.store.base import Listed, Store

CHOSEN_MAX: Final = 1_000
"""Records that one operation can name: each is a line of its policy."""

_PUT_MAX: Final = 4_096
_PLACE: Final = frozenset({"Group", "App", "Name"})


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
    """Records of which the caller wants to know why they moved or did not. None is explained where no rules decided."""
    explain_at: tuple[Coordinate, ...] = ()
    """Places of which the caller wants to know it, with a peer elsewhere: of what either side has there afterwards."""
    look_for: tuple[str, ...] = ()
    """Records of which the caller wants to know whether the peer offers them."""
    statement: bool = False
    receipts: bool = False

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise UsageError("an exchange has at least one round")


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
    unconfirmed: frozenset[str] = frozenset()
    """Sent to a peer elsewhere, which does not offer them back: it may have stored them or not."""
    not_taken: frozenset[str]
    """One of the policies does not select them."""
    unknown: frozenset[str] = frozenset()
    """The exchange ended before anything could be said of them; the report says which end it had."""
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
    sent = frozenset(record for record in records if record in report.sent and record not in rejected)
    offered = frozenset(record for record in records if record in report.claimed)
    # A peer elsewhere does not say what it has stored. What it advertises, it has.
    stored = sent if report.peer_rounds else sent & offered
    rest = frozenset(records) - sent - offered - rejected.keys()
    return Placed(
        stored=stored,
        there_already=offered - sent,
        rejected={record: reason for record, reason in rejected.items() if record in records},
        unconfirmed=sent - stored,
        not_taken=rest if report.fixed_point else frozenset(),
        unknown=frozenset() if report.fixed_point else rest,
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
        report = accounts.account(
            [one.own for one in ran],
            [one.peer for one in ran],
            [one.figures for one in ran],
            describe=left.holdings.describe,
            look_for=wishes.look_for,
        )
        stores, last = (own.decisions.store, peer.decisions.store), ran[-1]
        report = structs.replace(
            report,
            refused=accounts.refused(stores[0], last.own.epoch),
            refused_there=accounts.refused(stores[1], last.peer.epoch),
        )
        explained: tuple[accounts.Explained, ...] = ()
        if last.own.epoch is not None and last.peer.epoch is not None:
            # Rules that went past their budget decide nothing, and so explain nothing. The account stands all the same.
            with suppress(LimitExceeded):
                explained = tuple(
                    accounts.explained(record, report, own=(last.own, stores[0]), peer=(last.peer, stores[1]))
                    for record in wishes.explain
                )
    statement, standing = None, None
    if wishes.statement and report.fixed_point:
        statement, standing = state(own, last.own, clock)
    return structs.replace(
        report,
        explained=explained,
        places=accounts.places(report, *stores),
        statement=statement,
        standing_statement=standing,
        receipts=receipts(own, peer.key.verifier, report.received, clock) if wishes.receipts and peer.key else (),
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


# ---- what is said afterwards ----------------------------------------------------------------------------------------


def state(own: Participant, books: Books, clock: Clock) -> tuple[HashText | None, HashText | None]:
    """Seal a statement about the exchange, or find the last one, if that still says it all.

    Statements and receipts are no reason for a new one. Else two laces whose policies select statements would give each
    other a new one for ever.
    """
    assert own.key is not None
    assert books.epoch is not None, "a fixed point has a plan"
    statement = make_statement(books.epoch, books.result)
    standing = standing_statement(own.decisions.store, statement, books.epoch, own.key.verifier)
    if standing is not None:
        return None, standing
    return _seal(own, [build_statement(statement, tai_ns=clock().tai_ns)])[0], None


def receipts(own: Participant, sender: Verifier, received: Collection[str], clock: Clock) -> tuple[HashText, ...]:
    """Seal a receipt for every record that came and is stored; none for what is about exchanges itself."""
    stored = _stored(own.decisions.store, received)
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

"""The account of an exchange: what moved, what was agreed, what was told, and why a record moved or did not.

It is made from one side's books when everything is over. What the other side has in its own books is known only where
it is in the same process; elsewhere the account says what can be seen from here, and that this is all.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from msgspec import Struct

from bobbin.errors import ResourceError, UsageError
from bobbin.interlace.epoch import Epoch
from bobbin.interlace.ledger import Describe, Disclosure, Honesty
from bobbin.interlace.limits import Limits
from bobbin.interlace.result import Result
from bobbin.interlace.schema import Schema
from bobbin.policy.claims import Claims
from bobbin.policy.decide import Situation, evaluate
from bobbin.policy.verdict import Verdict, explain
from bobbin.records.coordinate import Coordinate
from bobbin.records.ids import HashText, Verifier
from bobbin.runtime.local_peer import Books, Figure
from bobbin.store.base import Store

TOLD_MAX: Final = 8
"""Records at one place that a peer offers, and that are not here, which are explained."""
_PLACE: Final = frozenset({"Group", "App", "Name"})


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
    built: str | None = None
    """Of a store for which jobs compute: where digests of what is offered were found, or why they were computed."""


class Explained(Struct, frozen=True, kw_only=True):
    """What became of one record, and why each side decides as it does now that the exchange is over."""

    record: str
    fate: str
    held: bool
    """Whether it is stored here."""
    held_there: bool | None
    """Whether the other side has it; None where nobody here can say."""
    own: Verdict
    peer: Verdict | None
    """The same question asked of the other side, where that is in this process."""
    remark: str = ""
    """What else can be said of a side that is elsewhere."""

    @property
    def is_known(self) -> bool:
        """Whether either side has it, as far as can be said."""
        return self.held or bool(self.held_there)


class SyncReport(Struct, frozen=True, kw_only=True):
    """The account of an exchange, all rounds together."""

    rounds: tuple[Result, ...]
    peer_rounds: tuple[Result, ...]
    """The same of the other side; empty where that is elsewhere, and keeps its books for itself."""
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
    untold: tuple[str, ...] = ()
    """Of the places that were to be explained, those at which a peer elsewhere has told of nothing."""
    statement: HashText | None = None
    """The completion statement that this side has sealed and stored."""
    standing_statement: HashText | None = None
    """Instead of a new one: the last one, which still says what there is to say."""
    receipts: tuple[HashText, ...] = ()
    refused: dict[str, str] = {}
    """What both policies would let in and is not taken, since it was removed here; with the reason given then."""
    refused_there: dict[str, str] = {}
    """The same on the other side, where that is in this process."""
    places: dict[str, str] = {}
    """Of the records that did not come or were not taken: their coordinates, as far as a store here knows them."""

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
        """What we sent and the peer could not take, where its books are open to us."""
        return {record: reason for result in self.peer_rounds for record, reason in result.rejected.items()}

    @property
    def not_available(self) -> frozenset[str]:
        return frozenset().union(*(result.not_available for result in self.rounds)) - self.received

    @property
    def not_available_there(self) -> frozenset[str]:
        """What this side offered, and could not serve when the peer asked for it."""
        return frozenset().union(*(result.not_available for result in self.peer_rounds)) - self.sent

    @property
    def iterations(self) -> int:
        return sum(result.iterations for result in self.rounds)

    @property
    def bytes_received(self) -> int:
        return sum(result.bytes_received for result in self.rounds)

    @property
    def bytes_sent(self) -> int:
        return sum(result.bytes_sent for result in self.rounds)


def account(
    books: Sequence[Books],
    peer_books: Sequence[Books],
    phases: Iterable[Mapping[str, Figure]],
    *,
    describe: Describe,
    look_for: Collection[str] = (),
) -> SyncReport:
    """The account of some rounds, from the books of each. ``look_for``: records whose offer by the peer matters."""
    figures: dict[str, Figure] = {}
    last = books[-1].epoch
    for one in phases:
        for phase, figure in one.items():
            total = figures.setdefault(phase, Figure())
            total.messages += figure.messages
            if figure.bytes is not None:
                total.bytes = (total.bytes or 0) + figure.bytes
    return SyncReport(
        rounds=tuple(one.result for one in books),
        peer_rounds=tuple(one.result for one in peer_books),
        figures=figures,
        agreed=_agreed(last),
        claimed=frozenset(record for record in look_for if last is not None and record in last.learned),
        disclosure=_disclosed([one.ledger.disclosure() for one in books]),
        honesty=_honest([one.ledger.honesty(describe) for one in books]),
    )


def refused(store: Store, epoch: Epoch | None) -> dict[str, str]:
    """Of what may be requested, and is offered, that which was removed here; with the reason that was given."""
    if epoch is None or not epoch.wants.may_request:
        return {}
    wanted = epoch.wants.may_request
    refusals = ((one.hash, one.reason) for one in store.refusals())
    return {record: reason for record, reason in refusals if record in wanted and record in epoch.learned}


def places(report: SyncReport, *stores: Store) -> dict[str, str]:
    """The coordinates of what did not come or was not taken, from whichever store has the record."""
    named = {*report.rejected, *report.rejected_there, *report.refused, *report.refused_there}
    left = sorted(named | report.not_available | report.not_available_there | report.result.deferred)
    found: dict[str, str] = {}
    for store in stores if left else ():
        with suppress(ResourceError):  # the exchange is over, and its account needs no coordinate
            found |= _places_in(store, left)
    return found


def _places_in(store: Store, records: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for record, fields in zip(records, store.fields(records, _PLACE), strict=True):
        values = {name: value for name, _, value in fields or ()}
        if values.keys() == _PLACE:
            found[record] = f"//{values['Group']}//{values['App']}//{values['Name']}"
    return found


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
        built=epoch.built,
    )


def _disclosed(parts: Sequence[Disclosure]) -> Disclosure:
    return Disclosure(
        modules=tuple(dict.fromkeys(module for part in parts for module in part.modules)),
        advertised=frozenset().union(*(part.advertised for part in parts)),
        fields=frozenset().union(*(part.fields for part in parts)),
        summaries=sum(part.summaries for part in parts),
        requested=frozenset().union(*(part.requested for part in parts)),
        sent=frozenset().union(*(part.sent for part in parts)),
        sketches=sum(part.sketches for part in parts),
    )


def _honest(parts: Sequence[Honesty]) -> Honesty:
    return Honesty(
        received=sum(part.received for part in parts),
        differing={record: found for part in parts for record, found in part.differing.items()},
        never_served=frozenset().union(*(part.never_served for part in parts)),
        rejected=frozenset().union(*(part.rejected for part in parts)),
    )


# ---- why ------------------------------------------------------------------------------------------------------------


def explained(
    record: str, report: SyncReport, *, own: tuple[Books, Store], peer: tuple[Books, Store] | None
) -> Explained:
    """Why a record moved or did not, from the books and the store of each side; no ``peer`` if that is elsewhere."""
    books, store = own
    if books.epoch is None or (peer is not None and peer[0].epoch is None):
        raise UsageError("no plan was agreed, so no rule decided anything")
    held = store.have(HashText(record))
    verdict, fate = _verdict(record, books.epoch, store), _fate(record, report)
    if peer is None:
        there, remark = _seen_from_here(record, books.epoch)
        return Explained(record=record, fate=fate, held=held, held_there=there, own=verdict, peer=None, remark=remark)
    assert peer[0].epoch is not None
    return Explained(
        record=record,
        fate=fate,
        held=held,
        held_there=peer[1].have(HashText(record)),
        own=verdict,
        peer=_verdict(record, peer[0].epoch, peer[1]),
    )


def asked_about(
    records: Sequence[str],
    places: Sequence[Coordinate],
    epoch: Epoch | None,
    store: Store,
    *,
    received: Collection[str] = (),
) -> tuple[str, ...]:
    """The records that are to be explained, each once; none where no plan was agreed.

    Of a place, what is there on this side now, the newest that came, and what a peer elsewhere has told of there.
    """
    if epoch is None:
        return ()
    found = list(records)
    for place in places:
        found += (tip.hash for tip in store.list(place, tips=True))
        found += [one.hash for one in store.list(place) if one.hash in received][:1]
        found += told_at(epoch, store, place)
    return tuple(dict.fromkeys(found))


def told_at(epoch: Epoch, store: Store, place: Coordinate) -> tuple[str, ...]:
    """What the peer offers at a place: the newest of what is here as well, and what is not here, as far as it says so.

    Where a record is that is not here, is known only if the policies have the peer tell its group, app and name.
    """
    learned = epoch.learned
    here = next((one.hash for one in store.list(place) if one.hash in learned), None)
    wanted = {"Group": place.group, "App": place.app, "Name": place.name}
    absent = [
        one.record
        for one in learned.advertisements()
        if {field.name: field.value for field in one.fields if field.name in _PLACE} == wanted
        and not store.have(HashText(one.record))
    ]
    return *absent[:TOLD_MAX], *([] if here is None else [here])


def _seen_from_here(record: str, epoch: Epoch) -> tuple[bool | None, str]:
    """Whether a peer elsewhere has a record, and what can be said about its reasons."""
    if record in epoch.learned:
        return True, "the peer advertises it, so both policies let this side have it"
    if record in epoch.offers:
        return None, "this side offers it to the peer, which does not say whether it has it or will take it"
    return None, (
        "the peer does not advertise it: it does not have it, or one of the policies does not let this side have it"
    )


def _verdict(record: str, epoch: Epoch, store: Store) -> Verdict:
    policy = epoch.agreement.policy
    claims = Claims(policy.peer_origin, {one.record: one.fields for one in epoch.learned.advertisements()})
    with store.snapshot() as moment:
        situation = Situation(facts=moment.facts, claims=claims, runtime=epoch.runtime_facts())
        return explain(evaluate(policy, situation), record)


def _fate(record: str, report: SyncReport) -> str:
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
    if record in report.refused:
        return f"not moved; it was removed here and is refused ({report.refused[record]})"
    if record in report.refused_there:
        return f"not moved; it was removed on the other side and is refused there ({report.refused_there[record]})"
    return "not moved"

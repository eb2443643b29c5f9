"""Completion statements and a store: whether one is still true, and whether what it says follows from the records here.

The signature was checked when the record was stored. What is left to see: that the sealer is the issuer, that the plan
follows from the two policies, and that the side whose store this is must have offered exactly what the statement says.
Records that came or went since make a difference that is no lie, so a store that has the statement is looked at as it
was when that came, as far as it can be: without everything that came later.

Who holds the store decides what can be checked. A lace of neither side has never offered anything in that exchange, so
there only the names, the signature and the policies can be held against the statement.
"""

from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import Final

from msgspec import Struct, structs

from bobbin import profile
from bobbin.errors import UsageError
from bobbin.interlace.advertise import digested
from bobbin.interlace.epoch import STANDARD_PREFIX_LENGTH, Epoch
from bobbin.interlace.messages import Advertisement
from bobbin.interlace.partitions import Partitions
from bobbin.interlace.receipts import GROUP, RECEIPT_APP, STATEMENT_APP, is_about_exchange
from bobbin.interlace.statement import (
    Recomputed,
    Statement,
    Summary,
    build_statement,
    other_side,
    parse,
    recompute,
    stated_offer,
    stated_plan,
    summarise,
)
from bobbin.policy.claims import ClaimedField
from bobbin.policy.executables import Budgets
from bobbin.policy.modules import Query, Selector
from bobbin.policy.operands import Index, Origin, is_verifier, other
from bobbin.policy.views import FilteredSource
from bobbin.records.coordinate import Coordinate, Prefix
from bobbin.records.ids import HashText, Verifier
from bobbin.records.record import Record, Seal, read_trusted
from bobbin.runtime.decisions import Decisions
from bobbin.runtime.holdings import StoreHoldings
from bobbin.store.base import Listed, Snapshot, Store

_LOOKED_AT_MAX: Final = 64
"""Statements about one link that are looked through for the last one of a signer."""


class Stated(Struct, frozen=True, kw_only=True):
    """A statement, and who sealed it."""

    record: HashText
    statement: Statement
    signer: Verifier
    tai: str


class StatementCheck(Struct, frozen=True, kw_only=True):
    """What came of a check."""

    stated: Stated
    as_issuer: bool | None
    """Whether the store is the issuer's; else it is the peer's. None where it is neither side's."""
    problems: tuple[str, ...]
    """What speaks against the statement. None: it holds, if this is the store of one of the sides."""
    remarks: tuple[str, ...]
    """What has changed since, and what could not be looked at."""
    expected: Summary | None
    """What the statement says that this side offered."""
    found: Summary | None
    """What this side must have offered; None if that could not be computed."""

    @property
    def holds(self) -> bool:
        """Whether everything was looked at and nothing speaks against it."""
        return not self.problems and self.as_issuer is not None

    @property
    def is_open(self) -> bool:
        """Whether nothing speaks against it, and what was offered could not be looked at."""
        return not self.problems and self.as_issuer is None


def read_statement(record: Record) -> Stated:
    """The statement in a record. Raises ``UsageError`` for any other record."""
    if not isinstance(record, Seal) or not is_about_exchange(record) or record.app != STATEMENT_APP:
        raise UsageError(f"{record.hash} is no completion statement: those are Seals of the app {STATEMENT_APP!r}")
    return Stated(record=record.hash, statement=parse(record.data), signer=record.verifier, tai=record.tai_text)


def check_statement(
    store: Store,
    stated: Stated,
    *,
    own: Selector,
    peer: Selector,
    query: Query | None = None,
    as_issuer: bool | None,
    budgets: Budgets | None = None,
) -> StatementCheck:
    """Check a statement with the store of one of the two sides. ``own`` and ``query`` are that side's policies.

    With ``as_issuer`` None the store is neither side's. Then the policies are looked at in both orders, since nobody
    here can say which of them was whose. ``budgets``: what evaluating the rules may cost; past them there is no answer,
    and ``PolicyLimitExceeded`` is raised.
    """
    statement = stated.statement
    if as_issuer is None:
        return _check_elsewhere(stated, own, peer)
    side = statement.index if as_issuer else other_side(statement)
    problems = [*_wrong_names(stated), *_wrong_policies(statement, side, own, peer)]
    remarks: list[str] = []
    found: Recomputed | None = None
    expected = stated_offer(statement, side)
    if not problems:
        rules = _Rules(own=own, peer=peer, query=query, budgets=budgets or Budgets())
        checker = _Checker(store, statement, side, rules)
        found, difference = checker.compare(stated.record, expected, remarks)
        problems += difference
    return StatementCheck(
        stated=stated,
        as_issuer=as_issuer,
        problems=tuple(problems),
        remarks=tuple(remarks),
        expected=expected,
        found=None if found is None else found.summary,
    )


def whose_store(stated: Stated, verifiers: Collection[Verifier]) -> bool | None:
    """Whether a store with these keys is the issuer's (True), the peer's (False), or nobody can tell (None)."""
    if stated.signer in verifiers:
        return True
    peer = stated.statement.operands[other_side(stated.statement)].origin
    return False if peer in map(Origin, verifiers) else None


def _check_elsewhere(stated: Stated, own: Selector, peer: Selector) -> StatementCheck:
    statement = stated.statement
    orders = [_wrong_policies(statement, statement.index, *pair) for pair in ((own, peer), (peer, own))]
    problems = [*_wrong_names(stated)]
    if all(orders):
        ran = " and ".join(operand.module for operand in statement.operands)
        given = " and ".join(selector.identifier for selector in (own, peer))
        problems.append(f"the policies of the two sides were {ran}, and {given} were given")
    return StatementCheck(
        stated=stated, as_issuer=None, problems=tuple(problems), remarks=(), expected=None, found=None
    )


def _wrong_names(stated: Stated) -> list[str]:
    statement = stated.statement
    issuer = statement.operands[statement.index].origin
    problems = []
    if is_verifier(issuer) and issuer != Origin(stated.signer):
        problems.append(f"it is sealed by {stated.signer}, and its issuer is {issuer}")
    computed = stated_plan(statement).identifier
    if computed != statement.plan:
        problems.append(f"it names the plan {statement.plan}, and its operands make {computed}")
    return problems


def _wrong_policies(statement: Statement, side: Index, own: Selector, peer: Selector) -> list[str]:
    problems = []
    for whose, selector, index in (("this side's", own, side), ("the peer's", peer, other(side))):
        ran_under = statement.operands[index].module
        if selector.identifier != ran_under:
            problems.append(f"{whose} policy was {ran_under}, and {selector.identifier} was given")
    return problems


class _Rules(Struct, frozen=True, kw_only=True):
    """The rules that one side ran, and what running them may cost."""

    own: Selector
    peer: Selector
    query: Query | None
    budgets: Budgets


class _Checker:
    """Computes what one side must have offered."""

    def __init__(self, store: Store, statement: Statement, side: Index, rules: _Rules) -> None:
        self._store = store
        self._statement = statement
        self._side = side
        self._rules = rules
        self._holdings = StoreHoldings(Decisions(store))

    def compare(self, record: HashText, expected: Summary, remarks: list[str]) -> tuple[Recomputed | None, list[str]]:
        """``record``: the statement itself. If it is stored here, what came before it may be all that there was."""
        claimed = self._claimed()
        if claimed is None and self._statement.claimed.count:
            remarks.append("what the other side offered is not remembered here, so rules about it saw nothing")
        with self._store.snapshot() as moment:
            now = self._compute(moment, claimed or {}, None)
            if now.summary == expected:
                return now, []
            before = _before(moment, record)
            then = now if before is None else self._compute(moment, claimed or {}, before)
        if then.summary == expected:
            added, gone = len(now.records - then.records), len(then.records - now.records)
            remarks.append(f"since then {_moved(added, gone)} in the selected set")
            return then, []
        difference = then.summary.count - expected.count
        if difference:
            words = f"{abs(difference)} {'more' if difference > 0 else 'fewer'}"
        else:
            words = "as many, but not the same"
        what = f"it says that {expected.count} records were offered; this store has {words} in the selected set"
        return then, [f"{what} (removed or added since, another query policy, or the statement is wrong)"]

    def _compute(
        self, moment: Snapshot, claimed: Mapping[str, Iterable[ClaimedField]], only: frozenset[str] | None
    ) -> Recomputed:
        return recompute(
            self._statement,
            self._side,
            own=self._rules.own,
            peer=self._rules.peer,
            query=self._rules.query,
            budgets=self._rules.budgets,
            facts=moment.facts if only is None else FilteredSource(moment.facts, only),
            claimed=claimed,
            describe=self._holdings.describe,
        )

    def _claimed(self) -> dict[str, tuple[ClaimedField, ...]] | None:
        link = self._statement.link
        cursor = None if link is None else self._holdings.cursor(link)
        if cursor is None or (cursor.plan, cursor.schema) != (self._statement.plan, self._statement.schema):
            return None
        return {one.record: one.fields for one in cursor.advertisements}


def _before(moment: Snapshot, record: HashText) -> frozenset[str] | None:
    """Everything that came into the store before a record; None if the record is not there."""
    earlier: list[str] = []
    for stored in moment.scan():
        if stored.hash == record:
            return frozenset(earlier)
        earlier.append(stored.hash)
    return None


def _moved(added: int, gone: int) -> str:
    parts = [f"{count} {word}" for count, word in ((added, "came"), (gone, "went")) if count]
    return f"{' and '.join(parts)}"


# ---- the last one ---------------------------------------------------------------------------------------------------


def standing_statement(store: Store, made: Statement, epoch: Epoch, signer: Verifier) -> HashText | None:
    """The last statement of a signer about a link, if it still says what a new one would say.

    Statements and receipts that came after it do not count: else each statement would be the reason for the next.
    """
    with store.snapshot() as moment:
        last = _last_of(moment, made, signer)
        if last is None:
            return None
        said = parse(_data_of(moment, last))
        if _terms(said) != _terms(made):
            return None
        if (said.offered, said.claimed) == (made.offered, made.claimed):
            return last.hash
        later = {
            one.hash
            for app in (STATEMENT_APP, RECEIPT_APP)
            for one in moment.list(Prefix(group=GROUP, app=app, name=""))
            if one.id >= last.id
        }
    policy = epoch.agreement.policy
    is_same = _is_without(said.offered, epoch.offers.current(), later, policy.own_origin, epoch)
    claims = {one.record: one for one in epoch.learned.advertisements()}
    is_same = is_same and _is_without(said.claimed, claims, later, policy.peer_origin, epoch)
    return last.hash if is_same else None


def _last_of(moment: Snapshot, made: Statement, signer: Verifier) -> Listed | None:
    plex = build_statement(made, tai_ns=0)
    place = Coordinate(group=plex.group, app=plex.app, name=plex.name)
    newest = islice(moment.list(place), _LOOKED_AT_MAX)
    return next((one for one in newest if one.verifier == signer), None)


def _data_of(moment: Snapshot, listed: Listed) -> bytes:
    raw = moment.get(listed.hash)
    assert raw is not None, "a snapshot that lists a record has it"
    record = read_trusted(raw)
    assert isinstance(record, Seal), "what has a signer is sealed"
    return record.data


def _terms(statement: Statement) -> Statement:
    """A statement without what differs between two exchanges that found the same: times, and what moved."""
    nothing = Summary(count=0, digest="")
    return structs.replace(
        statement,
        start_tai="",
        tick_tai="",
        clock_skew_seconds=0,
        offered=nothing,
        claimed=nothing,
        received=0,
        sent=0,
    )


def _is_without(
    said: Summary, offered: Mapping[str, Advertisement], later: Collection[str], source: Origin, epoch: Epoch
) -> bool:
    """Whether a summary is that of what is offered now, but for some records."""
    if len(offered) - sum(record in offered for record in later) != said.count:
        return False
    parameter = epoch.agreement.plan.parameter(profile.PARTITION_PREFIX_LENGTH)
    partitions = Partitions(int(parameter or STANDARD_PREFIX_LENGTH))
    for record, advertisement in offered.items():
        if record not in later:
            partitions.add(record, digested(advertisement, source).digest)
    return summarise(partitions.summaries()) == said

"""Checking a completion statement against a store: whether what it says follows from the records that are here.

The signature was checked when the record was stored. What is left to see: that the sealer is the issuer, that the plan
follows from the two policies, and that the side whose store this is must have offered exactly what the statement says.
Records that came or went since make a difference that is no lie, so the issuer's store is looked at as it was when the
statement was stored, as far as it can be: without everything that came later.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from bobbin.errors import UsageError
from bobbin.interlace.receipts import STATEMENT_APP, is_about_exchange
from bobbin.interlace.statement import (
    Recomputed,
    Statement,
    Summary,
    other_side,
    parse,
    recompute,
    stated_offer,
    stated_plan,
)
from bobbin.policy.claims import ClaimedField
from bobbin.policy.modules import Query, Selector
from bobbin.policy.operands import Index, Origin, is_verifier, other
from bobbin.policy.views import FilteredSource
from bobbin.records.ids import HashText, Verifier
from bobbin.records.record import Record, Seal
from bobbin.runtime.decisions import Decisions
from bobbin.runtime.holdings import StoreHoldings
from bobbin.store.base import Snapshot, Store


class Stated(Struct, frozen=True, kw_only=True):
    """A statement, and who sealed it."""

    record: HashText
    statement: Statement
    signer: Verifier
    tai: str


class StatementCheck(Struct, frozen=True, kw_only=True):
    """What came of a check."""

    stated: Stated
    as_issuer: bool
    """Whether the store is the issuer's; else it is the peer's."""
    problems: tuple[str, ...]
    """What speaks against the statement. None: it holds."""
    remarks: tuple[str, ...]
    """What has changed since, and what could not be looked at."""
    expected: Summary | None
    """What the statement says that this side offered."""
    found: Summary | None
    """What this side must have offered; None if that could not be computed."""

    @property
    def holds(self) -> bool:
        return not self.problems


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
    as_issuer: bool,
) -> StatementCheck:
    """Check a statement with the store of one of the two sides. ``own`` and ``query`` are that side's policies."""
    statement = stated.statement
    side = statement.index if as_issuer else other_side(statement)
    problems = [*_wrong_names(stated), *_wrong_policies(statement, side, own, peer)]
    remarks: list[str] = []
    found: Recomputed | None = None
    expected = stated_offer(statement, side)
    if not problems:
        checker = _Checker(store, statement, side, own=own, peer=peer, query=query)
        found, difference = checker.compare(stated.record if as_issuer else None, expected, remarks)
        problems += difference
    return StatementCheck(
        stated=stated,
        as_issuer=as_issuer,
        problems=tuple(problems),
        remarks=tuple(remarks),
        expected=expected,
        found=None if found is None else found.summary,
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


class _Checker:
    """Computes what one side must have offered."""

    def __init__(
        self, store: Store, statement: Statement, side: Index, *, own: Selector, peer: Selector, query: Query | None
    ) -> None:
        self._store = store
        self._statement = statement
        self._side = side
        self._own, self._peer, self._query = own, peer, query
        self._holdings = StoreHoldings(Decisions(store))

    def compare(
        self, record: HashText | None, expected: Summary, remarks: list[str]
    ) -> tuple[Recomputed | None, list[str]]:
        """``record``: the statement itself, if what is here was here before it."""
        claimed = self._claimed()
        if claimed is None and self._statement.claimed.count:
            remarks.append("what the other side offered is not remembered here, so rules about it saw nothing")
        with self._store.snapshot() as moment:
            now = self._compute(moment, claimed or {}, None)
            if now.summary == expected:
                return now, []
            before = None if record is None else _before(moment, record)
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
            own=self._own,
            peer=self._peer,
            query=self._query,
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

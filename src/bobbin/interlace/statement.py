"""Completion statements: what one side says, and signs, about an exchange that reached its fixed point.

A statement is a fact block, and the data of a Plex that its issuer seals. It names the plan, the two operands, what the
rules were told about the exchange, what each side offered (a count, and a digest over the summaries of all partitions),
and what did not come: records that were not available, or came as other bytes. So anybody with the same modules and a
store can compute what a side must have offered (``recompute``), and see whether the statement holds.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, TypeAlias

from blake3 import blake3
from msgspec import Struct

from bobbin import profile
from bobbin.errors import PeerError, UsageError
from bobbin.facts import block
from bobbin.facts.extract import Fact
from bobbin.facts.relations import FactSource
from bobbin.interlace.advertise import advertisement
from bobbin.interlace.epoch import STANDARD_PREFIX_LENGTH, Epoch
from bobbin.interlace.messages import Partition
from bobbin.interlace.partitions import Partitions
from bobbin.interlace.receipts import GROUP, STATEMENT_APP
from bobbin.interlace.result import Result
from bobbin.interlace.schema import Schema
from bobbin.policy.claims import ClaimedField, Claims
from bobbin.policy.decide import Situation, decide
from bobbin.policy.executables import Budgets, LocalPolicy
from bobbin.policy.modules import Query, Selector
from bobbin.policy.operands import Index, Operand, Origin, is_verifier, operand_fact, other, read_operand
from bobbin.policy.plan import Plan, make_plan
from bobbin.policy.runtime_facts import RuntimeFacts
from bobbin.records import b64a
from bobbin.records.ids import Verifier
from bobbin.records.record import Plex, build_plex

VERSION: Final = "bobbin-interlace-statement/v1"
DIGEST_DOMAIN: Final = b"bobbin-offer-summary/v1"
LISTED_MAX: Final = 100_000
"""Records that a statement can list as not available or rejected."""

Describe: TypeAlias = Callable[[Collection[str], Schema], list[tuple[ClaimedField, ...] | None]]
"""The fields of stored records under a schema."""


class MalformedStatement(UsageError):
    """A record is not a completion statement. Nothing was concluded from it."""


class Summary(Struct, frozen=True, kw_only=True):
    """A set of advertisement records: how many, and a digest over the summaries of its partitions."""

    count: int
    digest: str


class Statement(Struct, frozen=True, kw_only=True):
    """What one side states."""

    plan: str
    link: str | None
    index: Index
    """Which of the operands is the issuer's."""
    operands: tuple[Operand, Operand]
    parameters: tuple[tuple[str, str], ...] = ()
    """Of the plan."""
    start_tai: str
    tick_tai: str
    clock_skew_seconds: int
    transport: str | None = None
    encrypted: bool = False
    schema: Schema
    offered: Summary
    """What the issuer advertised."""
    claimed: Summary
    """What the peer advertised."""
    received: int
    sent: int
    not_available: tuple[str, ...]
    rejected: tuple[tuple[str, str], ...]
    """With the reason code."""


def summarise(partitions: Iterable[Partition]) -> Summary:
    """The summary of a set, from its non-empty partitions in order."""
    hasher = blake3(DIGEST_DOMAIN)
    count = 0
    for partition in partitions:
        hasher.update(f"{partition.prefix} {partition.count} ".encode() + partition.root)
        count += partition.count
    return Summary(count=count, digest=b64a.encode(hasher.digest()))


def make_statement(epoch: Epoch, result: Result) -> Statement:
    """What this side can state about an exchange. Only a fixed point can be stated."""
    if not result.fixed_point:
        raise UsageError("an exchange that did not reach its fixed point has no completion to state")
    if max(len(result.not_available), len(result.rejected)) > LISTED_MAX:
        raise UsageError(f"more than {LISTED_MAX} records did not come; no statement can list them")
    terms, runtime = epoch.terms, epoch.runtime_facts()
    return Statement(
        plan=terms.plan,
        link=terms.link,
        index=epoch.agreement.policy.index,
        operands=epoch.agreement.plan.operands,
        parameters=tuple(epoch.agreement.plan.parameters),
        start_tai=terms.start_tai,
        tick_tai=epoch.ticks.tick,
        clock_skew_seconds=terms.clock_skew_seconds,
        transport=runtime.transport,
        encrypted=runtime.transport_encrypted,
        schema=terms.schema,
        offered=summarise(epoch.offers.summary()),
        claimed=summarise(epoch.learned.summary()),
        received=len(result.received),
        sent=len(result.sent),
        not_available=tuple(sorted(result.not_available)),
        rejected=tuple(sorted(result.rejected.items())),
    )


def build_statement(statement: Statement, *, tai_ns: int) -> Plex:
    """The record of a statement, to be sealed by its issuer."""
    return build_plex(
        group=GROUP,
        app=STATEMENT_APP,
        name=f"interlace/{statement.link or statement.plan}",
        tai_ns=tai_ns,
        data=render(statement),
    )


def render(statement: Statement) -> bytes:
    """The fact block of a statement."""
    facts: list[Fact] = [
        ("InterlaceStatement", (VERSION,)),
        ("StatementPlan", (statement.plan,)),
        ("StatementIssuer", (str(statement.index),)),
        operand_fact(0, statement.operands[0]),
        operand_fact(1, statement.operands[1]),
        ("StatementTime", (statement.start_tai, statement.tick_tai, str(statement.clock_skew_seconds))),
        ("StatementOffered", (str(statement.offered.count), statement.offered.digest)),
        ("StatementClaimed", (str(statement.claimed.count), statement.claimed.digest)),
        ("StatementMoved", (str(statement.received), str(statement.sent))),
    ]
    if statement.link is not None:
        facts.append(("StatementLink", (statement.link,)))
    if statement.transport is not None:
        facts.append(("StatementTransport", (statement.transport,)))
    if statement.encrypted:
        facts.append(("StatementTransportEncrypted", ()))
    if statement.schema.all:
        facts.append(("StatementAllFields", ()))
    facts += [("StatementParameter", pair) for pair in statement.parameters]
    facts += [("StatementField", (name,)) for name in sorted(statement.schema.names)]
    facts += [("StatementNotAvailable", (record,)) for record in statement.not_available]
    facts += [("StatementRejected", pair) for pair in statement.rejected]
    return block.render(facts)


def parse(raw: bytes) -> Statement:
    """The statement that a block spells."""
    try:
        facts = block.parse(raw)
        statement = _read(facts)
    except KeyError as error:
        raise MalformedStatement(f"this is no completion statement: it has no line {error.args[0]}") from error
    except (PeerError, ValueError, UsageError) as error:
        raise MalformedStatement(f"this is no completion statement: {error}") from error
    if render(statement) != raw:
        raise MalformedStatement("this is no completion statement: its lines are not in their order")
    return statement


def _read(facts: list[Fact]) -> Statement:
    named: dict[str, list[tuple[str, ...]]] = {}
    for predicate, values in facts:
        named.setdefault(predicate, []).append(values)
    if named["InterlaceStatement"] != [(VERSION,)]:
        raise ValueError("it has another version")
    (start, tick, skew), (received, sent) = named["StatementTime"][0], named["StatementMoved"][0]
    (_, first), (_, second) = (read_operand(("ExchangeOperand", values)) for values in named["ExchangeOperand"])
    ((issuer,),) = named["StatementIssuer"]
    if issuer not in ("0", "1"):
        raise ValueError(f"the operand of its issuer is 0 or 1, not {issuer[:20]}")
    ((link,),) = named.get("StatementLink", [("",)])
    ((transport,),) = named.get("StatementTransport", [("",)])
    return Statement(
        plan=named["StatementPlan"][0][0],
        link=link or None,
        index=0 if issuer == "0" else 1,
        operands=(first, second),
        parameters=tuple((name, value) for name, value in named.get("StatementParameter", ())),
        transport=transport or None,
        encrypted="StatementTransportEncrypted" in named,
        start_tai=start,
        tick_tai=tick,
        clock_skew_seconds=int(skew),
        schema=Schema(
            names=frozenset(name for (name,) in named.get("StatementField", ())), all="StatementAllFields" in named
        ),
        offered=_summary(named["StatementOffered"][0]),
        claimed=_summary(named["StatementClaimed"][0]),
        received=int(received),
        sent=int(sent),
        not_available=tuple(record for (record,) in named.get("StatementNotAvailable", ())),
        rejected=tuple((record, reason) for record, reason in named.get("StatementRejected", ())),
    )


def _summary(values: tuple[str, ...]) -> Summary:
    count, digest = values
    return Summary(count=int(count), digest=digest)


# ---- what must have been offered -------------------------------------------------------------------------------------


class Recomputed(Struct, frozen=True, kw_only=True):
    """What a side must have offered under a statement's plan, if it held these records."""

    summary: Summary
    records: frozenset[str]


def stated_plan(statement: Statement) -> Plan:
    """The plan that follows from the operands of a statement. It is to have the stated name."""
    return make_plan(*statement.operands, dict(statement.parameters))


def recompute(
    statement: Statement,
    side: Index,
    *,
    own: Selector,
    peer: Selector,
    query: Query | None,
    facts: FactSource,
    claimed: Mapping[str, Iterable[ClaimedField]],
    describe: Describe,
    budgets: Budgets,
) -> Recomputed:
    """What the side with this operand must have offered. Raises ``PolicyLimitExceeded`` past the budgets.

    ``own``, ``query`` and ``facts`` are that side's, ``claimed`` is what it was offered itself. An exchange under large
    limits had large budgets, which no statement tells; so whoever asks says what the same work may cost here.
    """
    plan = stated_plan(statement)
    policy = LocalPolicy(plan, side, own=own, peer=peer, query=query, budgets=budgets)
    runtime = RuntimeFacts(
        here=_proven(policy.own_origin),
        peer=_proven(policy.peer_origin),
        transport=statement.transport,
        transport_encrypted=statement.encrypted,
        start_tai=statement.start_tai,
        tick_tai=statement.tick_tai,
        clock_skew_seconds=statement.clock_skew_seconds,
    )
    situation = Situation(facts=facts, claims=Claims(policy.peer_origin, claimed), runtime=runtime)
    sendable = sorted(decide(policy, situation).may_send)
    partitions = Partitions(int(plan.parameter(profile.PARTITION_PREFIX_LENGTH) or STANDARD_PREFIX_LENGTH))
    for record, fields in zip(sendable, describe(sendable, statement.schema), strict=True):
        if fields is not None:
            partitions.add(record, advertisement(record, policy.own_origin, fields).digest)
    return Recomputed(summary=summarise(partitions.summaries()), records=frozenset(partitions.records()))


def stated_offer(statement: Statement, side: Index) -> Summary:
    """What a statement says that the side with this operand has offered."""
    return statement.offered if side == statement.index else statement.claimed


def other_side(statement: Statement) -> Index:
    """The operand of the issuer's peer."""
    return other(statement.index)


def _proven(origin: Origin) -> Verifier | None:
    return Verifier(origin) if is_verifier(origin) else None

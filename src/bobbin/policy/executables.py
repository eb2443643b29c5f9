"""A plan made ready to run on one side, and the bounded memory of those that were made before.

Compiling costs far more than running, so what was compiled for a plan is kept under the plan's identifier. The memory
is bounded twice, per peer and in peers: a peer that keeps inventing plans pushes out its own. Finding a plan here
never replaces checking it: the bytes of a peer's module are hashed on every setup.

The peer's module and this side's own never share an executable, even where they are one and the same text. An
executable remembers the sizes of the relations that it has read, and a peer's module must not run differently, not
even in the steps that it takes, because of records that the peer cannot see.
"""

from collections import OrderedDict
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, TypeAlias

from msgspec import Struct

from bobbin.datalog.limits import PEER, Limits
from bobbin.datalog.local.budget import LimitExceeded
from bobbin.datalog.local.database import Database
from bobbin.datalog.local.evaluate import Executable, State
from bobbin.datalog.syntax import Program
from bobbin.errors import UsageError
from bobbin.facts.relations import FactSource
from bobbin.policy import vocabulary
from bobbin.policy.modules import Query, Selector, base_predicates, check_identity, default_query, receive_selector
from bobbin.policy.operands import Index, Operand, Origin, is_verifier, other, own_index
from bobbin.policy.plan import Plan, make_plan
from bobbin.records.ids import Verifier

PLANS_PER_PEER_MAX: Final = 8
PEERS_MAX: Final = 256


class Part(StrEnum):
    """The three programs that take part in a decision."""

    OWN_SELECTOR = "own-selector"
    QUERY = "query"
    PEER_SELECTOR = "peer-selector"


class Budgets(Struct, frozen=True, kw_only=True):
    """What one evaluation may cost. What a peer wrote may cost less than what this side wrote."""

    own: Limits = Limits()
    peer: Limits = PEER


BUDGETS: Final[Mapping[str, Budgets]] = MappingProxyType(
    {
        "default": Budgets(),
        "large": Budgets(
            own=Limits(
                derived_tuples_max=40_000_000,
                steps_max=4_000_000_000,
                computed_values_max=40_000_000,
                held_cells_max=400_000_000,
            ),
            peer=Limits(
                derived_tuples_max=20_000_000,
                steps_max=1_000_000_000,
                computed_values_max=20_000_000,
                held_cells_max=200_000_000,
            ),
        ),
    }
)
"""By the name of a profile of limits (``interlace.limits.PROFILES``). The large one is for millions of records: an
ordinary rule derives a tuple for each record, and looks at some tens of rows for it."""


class PolicyLimitExceeded(LimitExceeded):
    """One of the programs went past its budget. There is no decision. ``part`` says which program it was."""

    def __init__(self, part: Part, cause: LimitExceeded) -> None:
        super().__init__(cause.limit, f"{part.replace('-', ' ')}: {cause}")
        self.part = part


class LocalPolicy:
    """One plan as one side runs it: its own selector, its query module, and the peer's selector."""

    def __init__(
        self, plan: Plan, index: Index, *, own: Selector, peer: Selector, query: Query | None, budgets: Budgets
    ) -> None:
        """``index`` is this side's operand. Without ``query``, the default query policy holds."""
        for selector, operand in ((own, plan.operand(index)), (peer, plan.operand(other(index)))):
            if selector.identifier != operand.module:
                raise UsageError(f"the plan is about module {operand.module}, not {selector.identifier}")
        self.plan: Final = plan
        self.index: Final[Index] = index
        self.own: Final = own
        self.peer: Final = peer
        self.query: Final = default_query() if query is None else query
        self.fields: Final = own.fields | peer.fields
        """The claimed fields that the plan requires of both sides' advertisements."""
        self._executables: Final = {
            Part.OWN_SELECTOR: Executable(own.lacegram.plan, budgets.own),
            Part.QUERY: Executable(self.query.lacegram.plan, budgets.own),
            Part.PEER_SELECTOR: Executable(peer.lacegram.plan, budgets.peer),
        }

    @property
    def offer_reads_claims(self) -> bool:
        """Whether what the own module selects of stored records can depend on what the peer claims."""
        offered = base_predicates(self.own.program, vocabulary.SELECT_HAVE)
        return not offered.isdisjoint(vocabulary.CLAIM_ARITY)

    def check_proven(self, peer: Verifier | None) -> None:
        """Refuse a link whose peer has not proven that it is the one the plan is with."""
        if is_verifier(self.peer_origin) and peer != str(self.peer_origin):
            raise UsageError(f"the plan is with {self.peer_origin}, which this link has not proven")

    @property
    def own_origin(self) -> Origin:
        return self.plan.operand(self.index).origin

    @property
    def peer_origin(self) -> Origin:
        return self.plan.operand(other(self.index)).origin

    def program(self, part: Part) -> Program:
        match part:
            case Part.OWN_SELECTOR:
                return self.own.program
            case Part.QUERY:
                return self.query.program
            case Part.PEER_SELECTOR:
                return self.peer.program

    def executable(self, part: Part) -> Executable:
        """One of the programs, ready to run under its budget."""
        return self._executables[part]

    def run(self, part: Part, sources: Mapping[str, FactSource]) -> State:
        """Evaluate one of the programs over exactly these facts."""
        role = vocabulary.QUERY if part is Part.QUERY else vocabulary.SELECTOR
        try:
            return self._executables[part].evaluate(Database(sources, role.base))
        except LimitExceeded as error:
            raise PolicyLimitExceeded(part, error) from error


def make_policy(
    own: Selector,
    peer: Selector,
    *,
    own_origin: Origin,
    peer_origin: Origin,
    query: Query | None = None,
    budgets: Budgets = Budgets(),  # noqa: B008 (a frozen value)
) -> LocalPolicy:
    """The policy of a link that this side starts, with its plan: what setup would agree on."""
    index = own_index(own_origin, peer_origin, initiator=True)
    sides = {
        index: Operand(module=own.identifier, origin=own_origin),
        other(index): Operand(module=peer.identifier, origin=peer_origin),
    }
    plan = make_plan(sides[0], sides[1])
    return LocalPolicy(plan, index, own=own, peer=peer, query=query, budgets=budgets)


_Key: TypeAlias = tuple[str, Index, str]


class PolicyCache:
    """The policies made lately, by the peer that caused them."""

    def __init__(
        self,
        *,
        budgets: Budgets = Budgets(),  # noqa: B008 (a frozen value)
        plans_per_peer_max: int = PLANS_PER_PEER_MAX,
        peers_max: int = PEERS_MAX,
    ) -> None:
        if plans_per_peer_max < 1 or peers_max < 1:
            raise UsageError("a cache of policies holds at least one plan of one peer")
        self._budgets = budgets
        self._plans_max = plans_per_peer_max
        self._peers_max = peers_max
        self._peers: OrderedDict[Origin, OrderedDict[_Key, LocalPolicy]] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._peers.values()))

    def prepare(
        self, plan: Plan, index: Index, *, own: Selector, peer_module: bytes, query: Query | None = None
    ) -> LocalPolicy:
        """The policy for a plan, compiled only if it is not here. ``peer_module`` is what the peer sent, unchecked."""
        operand = plan.operand(other(index))
        check_identity(peer_module, operand.module)
        chosen = default_query() if query is None else query
        key: _Key = (plan.identifier, index, chosen.identifier)
        known = self._peers.get(operand.origin, OrderedDict()).get(key)
        if known is not None:
            self._touch(operand.origin, key)
            if known.own.identifier != own.identifier:
                raise UsageError(f"the plan is about module {known.own.identifier}, not {own.identifier}")
            return known
        peer = receive_selector(peer_module, operand.module, limits=self._budgets.peer)
        policy = LocalPolicy(plan, index, own=own, peer=peer, query=chosen, budgets=self._budgets)
        self._peers.setdefault(operand.origin, OrderedDict())[key] = policy
        self._touch(operand.origin, key)
        return policy

    def forget(self, peer: Origin) -> None:
        """Drop everything that a peer caused."""
        self._peers.pop(peer, None)

    def _touch(self, peer: Origin, key: _Key) -> None:
        """Mark as used last, and drop what was not used for longest."""
        plans = self._peers[peer]
        plans.move_to_end(key)
        self._peers.move_to_end(peer)
        while len(plans) > self._plans_max:
            plans.popitem(last=False)
        while len(self._peers) > self._peers_max:
            self._peers.popitem(last=False)

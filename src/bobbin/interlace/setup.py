"""Setup: which operand each side brings, under which index and origin, and the plan of both (Lace-050, Lace-040).

Origins and indexes are not the sender's to choose. Both follow from what the binding knows of the two sides: a proven
verifier is the origin of its side; a side that has proven nothing has the label that the binding gives it, or
``source:`` and its index. So each side can say what the other must announce, and refuses anything else.
"""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from bobbin import profile
from bobbin.errors import UsageError
from bobbin.interlace.messages import Setup
from bobbin.interlace.reasons import Abort, Reason
from bobbin.policy.modules import Selector
from bobbin.policy.operands import (
    Index,
    Operand,
    Origin,
    anonymous_origin,
    check_module_identifier,
    is_verifier,
    other,
    own_index,
    parse_origin,
)
from bobbin.policy.plan import Plan, make_plan
from bobbin.records.ids import Verifier


class Party(Struct, frozen=True, kw_only=True):
    """What the binding knows of one side. Both sides must be told the same."""

    verifier: Verifier | None
    """Only with proof."""
    label: Origin | None = None
    """``source:<label>``: the origin of the side if it has no verifier. It says nothing about who that is."""

    def __post_init__(self) -> None:
        if self.label is not None and is_verifier(parse_origin(self.label)):
            raise UsageError(f"a side without proof has a label, not a verifier: {self.label}")

    def origin(self, index: Index) -> Origin:
        """The origin of the side, if its operand has this index."""
        if self.verifier is not None:
            return Origin(self.verifier)
        return anonymous_origin(index) if self.label is None else self.label


def own_setup(selector: Selector, *, own: Party, peer: Party, initiator: bool) -> Setup:
    """What this side announces. ``initiator`` is whether it opened the link."""
    # An index depends on an origin only as far as it is a verifier, so any index will do to ask for the others.
    index = own_index(own.origin(0), peer.origin(0), initiator=initiator)
    operand = Operand(module=selector.identifier, origin=own.origin(index))
    return Setup(index=index, operand=operand, module=selector.canonical)


def check_peer_setup(message: Setup, *, own: Setup, own_party: Party, peer_party: Party) -> None:
    """Refuse an operand that does not have the origin and the index of the other side."""
    assert own.operand.origin == own_party.origin(own.index)
    claimed = message.operand.origin
    assigned = peer_party.origin(other(own.index))
    if claimed == profile.ORIGIN_LOCAL:
        raise Abort(Reason.PLAN_COMPILATION, "the peer's operand claims the local origin")
    if claimed != assigned and is_verifier(claimed) and peer_party.verifier is None:
        raise Abort(Reason.PEER_VERIFIER_MISMATCH, f"the peer's operand has the origin {claimed[:80]}, without proof")
    if claimed != assigned and peer_party.verifier is not None:
        detail = f"the peer's operand has the origin {claimed[:80]}, and proven is {assigned}"
        raise Abort(Reason.PEER_VERIFIER_MISMATCH, detail)
    if claimed != assigned:
        detail = f"the peer's operand has the origin {claimed[:80]}, and this link has {assigned[:80]} for it"
        raise Abort(Reason.PLAN_COMPILATION, detail)
    if message.index != other(own.index):
        raise Abort(Reason.PLAN_COMPILATION, f"the peer's operand has the index {message.index}, as ours has")
    try:
        check_module_identifier(message.operand.module)
    except UsageError as error:
        raise Abort(Reason.PLAN_COMPILATION, str(error)) from error


def agree_plan(own: Setup, peer: Setup, parameters: Mapping[str, str] = MappingProxyType({})) -> Plan:
    """The plan of two operands that passed: the same on both sides."""
    if own.index == peer.index:
        raise Abort(Reason.PLAN_COMPILATION, f"both operands have the index {own.index}")
    first, second = (own, peer) if own.index == 0 else (peer, own)
    return make_plan(first.operand, second.operand, parameters)

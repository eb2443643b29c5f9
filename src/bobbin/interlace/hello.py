"""Hello: what two sides agree on before the first advertisement (Lace-050).

Everything here follows from the two hellos and from what the binding has proven, and is the same on both sides, except
``peer``, which is each side's view of the other, and the limits where a side has set lower ones than it tells.
"""

from collections.abc import Mapping

from msgspec import Struct

from bobbin.interlace.limits import NAMES, VALUE_MAX, Limits, Service
from bobbin.interlace.messages import Hello
from bobbin.interlace.reasons import Abort, Reason
from bobbin.interlace.schema import Schema
from bobbin.policy.advertised_fields import FieldRequirements
from bobbin.policy.operands import Origin, is_verifier
from bobbin.policy.plan import Plan, link_identifier
from bobbin.records import tai
from bobbin.records.ids import Verifier


class Terms(Struct, frozen=True, kw_only=True):
    """What holds for one epoch of an exchange."""

    plan: str
    start_tai: str
    clock_skew_seconds: int
    tick_interval_ns: int
    formats: frozenset[str]
    """Suffixes of record hashes. Never empty."""
    schema: Schema
    limits: Limits
    peer: Verifier | None
    """With proof; None if the peer has proven nothing."""
    link: str | None
    """The name of the link; None unless both sides have proven who they are."""


def negotiate(
    own: Hello,
    peer: Hello,
    *,
    plan: Plan,
    required: FieldRequirements,
    limits: Limits,
    service: Service,
    own_verifier: Verifier | None,
    proven_peer: Verifier | None,
    pinned_peer: Verifier | None,
    local_formats: frozenset[str],
) -> Terms:
    """The terms of both hellos, or ``Abort``. ``plan`` is the one that ``own`` names."""
    assert own.plan == plan.identifier
    assert own.signer in (None, own_verifier), "a hello names a signer only with proof"
    signer = _accepted_signer(peer, proven_peer, pinned_peer)
    if own.plan != peer.plan:
        detail = f"the plan here is {own.plan}, and the peer's is {peer.plan[:60]}"
        raise Abort(Reason.PLAN_MISMATCH, detail)
    _check_origins(plan, own_verifier, signer)
    schema = own.schema & peer.schema
    if not schema.satisfies(required):
        wanted = "every field" if required.all else ", ".join(sorted(required.names - schema.names))
        raise Abort(Reason.UNSUPPORTED_SCHEMA, f"the rules read fields that are not advertised: {wanted[:400]}")
    return Terms(
        plan=plan.identifier,
        start_tai=max(own.tai, peer.tai),
        clock_skew_seconds=_clock_skew_seconds(own, peer, service),
        tick_interval_ns=_tick_interval_ns(own, peer, service),
        formats=_formats(own, peer, local_formats),
        schema=schema,
        limits=limits.negotiated(_checked_limits(peer.limits)),
        peer=signer,
        link=None if own.signer is None or signer is None else link_identifier(own.signer, signer, plan),
    )


def _accepted_signer(peer: Hello, proven: Verifier | None, pinned: Verifier | None) -> Verifier | None:
    """Who the peer is. A signer that was not named is not known, even if there was proof."""
    if peer.signer is not None and peer.signer != proven:
        found = "nothing is proven" if proven is None else f"proven is {proven}"
        raise Abort(Reason.PEER_VERIFIER_MISMATCH, f"the peer names the signer {peer.signer[:80]}, and {found}")
    if pinned is not None and peer.signer != pinned:
        found = "a peer without signer" if peer.signer is None else peer.signer
        raise Abort(Reason.PEER_VERIFIER_MISMATCH, f"the peer is to be {pinned}, and this is {found}")
    return peer.signer


def _check_origins(plan: Plan, own: Verifier | None, signer: Verifier | None) -> None:
    """A verifier origin is provisional until here: now its side must have named itself as the signer."""
    origins = [operand.origin for operand in plan.operands]
    if own is not None and Origin(own) in origins:
        # Once only: both sides may be of one signer.
        origins.remove(Origin(own))
    named = None if signer is None else Origin(signer)
    for origin in origins:
        if is_verifier(origin) and origin != named:
            detail = f"the peer's operand has the origin {origin}, and its hello does not name this signer"
            raise Abort(Reason.PEER_VERIFIER_MISMATCH, detail)


def _clock_skew_seconds(own: Hello, peer: Hello, service: Service) -> int:
    try:
        difference_ns = abs(tai.parse(own.tai) - tai.parse(peer.tai))
    except tai.TaiError as error:
        raise Abort(Reason.NEGOTIATION, str(error)) from error
    skew = difference_ns // tai.NANOSECONDS
    # A peer whose hello lies far ahead would move the start of both sides, and open rules that wait for a time.
    if skew > service.clock_skew_seconds_max:
        detail = f"the clocks differ by {skew} seconds; {service.clock_skew_seconds_max} are accepted"
        raise Abort(Reason.CLOCK_SKEW, detail)
    return skew


def _tick_interval_ns(own: Hello, peer: Hello, service: Service) -> int:
    if not 1 <= peer.tick_interval_ns <= service.tick_interval_ns_max:
        bounds = f"from 1 to {service.tick_interval_ns_max}"
        detail = f"a tick interval has {bounds} nanoseconds here, not {peer.tick_interval_ns}"
        raise Abort(Reason.NEGOTIATION, detail)
    return max(own.tick_interval_ns, peer.tick_interval_ns)


def _formats(own: Hello, peer: Hello, local: frozenset[str]) -> frozenset[str]:
    formats = own.formats & peer.formats & local
    if not formats:
        offered = ", ".join(sorted(peer.formats))
        raise Abort(
            Reason.UNSUPPORTED_FORMAT, f"no record format is accepted by both sides; the peer's: {offered[:80]}"
        )
    return formats


def _checked_limits(advertised: Mapping[str, int]) -> Mapping[str, int]:
    for name in NAMES:
        value = advertised.get(name)
        if value is not None and not 1 <= value <= VALUE_MAX:
            raise Abort(Reason.NEGOTIATION, f"the limit {name} lies between 1 and {VALUE_MAX}, not at {value}")
    return advertised

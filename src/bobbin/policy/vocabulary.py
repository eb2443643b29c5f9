"""The predicates of the exchange profile: what each role of module may read and define (Lace-030 shadowing, Lace-040).

Facts come from stored records, from the peer's advertisements and from the running exchange. Names of the protocol
itself (control facts on the wire, and the two answers that lowering generates) are closed to rules altogether. What a
query module may read beyond that (``Viewer``, ``OwnSelected``) and define (``Queryable``) is closed to selectors,
because a selector is run by the peer as well.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from bobbin.datalog.vocabulary import Vocabulary
from bobbin.facts import relations

ADVERTISED: Final = "Advertised"
ADVERTISED_FIELD: Final = "AdvertisedField"
CLAIM_ARITY: Final[Mapping[str, int]] = MappingProxyType({ADVERTISED: 2, ADVERTISED_FIELD: 5})
"""What a peer says about its records: claims, never record facts."""

HERE: Final = "Here"
PEER: Final = "Peer"
TRANSPORT: Final = "Transport"
TRANSPORT_ENCRYPTED: Final = "TransportEncrypted"
START_TAI: Final = "StartTAI"
TICK_TAI: Final = "TickTAI"
CLOCK_SKEW_SECONDS: Final = "ClockSkewSeconds"
RUNTIME_ARITY: Final[Mapping[str, int]] = MappingProxyType(
    {
        HERE: 1,
        PEER: 1,
        TRANSPORT: 1,
        TRANSPORT_ENCRYPTED: 0,
        START_TAI: 1,
        TICK_TAI: 1,
        CLOCK_SKEW_SECONDS: 1,
    }
)
"""What the running exchange says about itself."""

VIEWER: Final = "Viewer"
OWN_SELECTED: Final = "OwnSelected"
VIEW_ARITY: Final[Mapping[str, int]] = MappingProxyType({VIEWER: 1, OWN_SELECTED: 1})
"""What only a query module may read: who looks, and what this side's own selector offers."""

SELECT_HAVE: Final = "SelectHave"
SELECT_ADVERTISED: Final = "SelectAdvertised"
QUERYABLE: Final = "Queryable"

MAY_REQUEST: Final = "MayRequest"
GENERATED: Final = frozenset({"MaySend", MAY_REQUEST, "EffectiveSend"})

EXCHANGE_PLAN: Final = "ExchangePlan"
EXCHANGE_OPERAND: Final = "ExchangeOperand"
PARTITION: Final = "AdvertisementPartition"
LIST_PARTITION: Final = "ListAdvertisementPartition"
NARROW_PARTITION: Final = "NarrowAdvertisementPartition"
NOT_AVAILABLE: Final = "NotAvailable"
TICK_READY: Final = "TickReady"
KNOT_PROOF: Final = "KnotProof"
CONTROL: Final = frozenset(
    {
        EXCHANGE_PLAN,
        EXCHANGE_OPERAND,
        "ExchangeParameter",
        PARTITION,
        LIST_PARTITION,
        NARROW_PARTITION,
        NOT_AVAILABLE,
        TICK_READY,
        KNOT_PROOF,
    }
)
CONTROL_PREFIXES: Final = ("Hello",)

_SHARED: Final = {**relations.ARITY, **CLAIM_ARITY, **RUNTIME_ARITY}

SELECTOR: Final = Vocabulary(
    base=MappingProxyType(_SHARED),
    reserved=GENERATED | CONTROL,
    reserved_prefixes=CONTROL_PREFIXES,
    exports=MappingProxyType({SELECT_HAVE: 1, SELECT_ADVERTISED: 2}),
    foreign_heads=frozenset({QUERYABLE}),
    foreign_facts=frozenset(VIEW_ARITY),
    export_required=True,
)
"""A selector says which records an exchange is about. It runs on both machines."""

QUERY: Final = Vocabulary(
    base=MappingProxyType({**_SHARED, **VIEW_ARITY}),
    reserved=GENERATED | CONTROL,
    reserved_prefixes=CONTROL_PREFIXES,
    exports=MappingProxyType({QUERYABLE: 2}),
)
"""A query module says which records a peer's rules may look at. It never leaves its machine. Advertisements may be
mentioned but are empty there: a peer must not widen its own view by what it claims."""

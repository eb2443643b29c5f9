"""Which facts stand in which phase: a known one in the wrong phase is told apart from one that nobody knows."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NoReturn

from bobbin.facts.block import MalformedBlock
from bobbin.facts.relations import Tuple
from bobbin.interlace.reasons import Abort, Reason
from bobbin.policy import vocabulary
from bobbin.policy.operands import EXCHANGE_OPERAND
from bobbin.policy.vocabulary import ADVERTISED, ADVERTISED_FIELD, CONTROL, CONTROL_PREFIXES

PARTITION: Final = vocabulary.PARTITION
LIST: Final = vocabulary.LIST_PARTITION
NARROW: Final = vocabulary.NARROW_PARTITION
MAY_REQUEST: Final = vocabulary.MAY_REQUEST
NOT_AVAILABLE: Final = vocabulary.NOT_AVAILABLE
TICK_READY: Final = vocabulary.TICK_READY
KNOT_PROOF: Final = vocabulary.KNOT_PROOF

RECONCILE_STANDING: Final = "ReconcileStanding"
RECONCILE_PROBE: Final = "ReconcileProbe"
RECONCILE_SYMBOLS: Final = "ReconcileSymbols"
RECONCILE_STRETCH: Final = "ReconcileStretch"
RECONCILE_MORE: Final = "ReconcileMore"
RECONCILE_LACKING: Final = "ReconcileLacking"
RECONCILE_SUPPLIED: Final = "ReconcileSupplied"
RECONCILE_CHANGED: Final = "ReconcileChanged"
RECONCILE_COMPARED: Final = "ReconcileCompared"
RECONCILE_ADDED: Final = "ReconcileAdded"
RECONCILE_REMOVED: Final = "ReconcileRemoved"
RECONCILE_PLAIN: Final = "ReconcilePlain"
RECONCILE_FALLBACK: Final = "ReconcileFallback"
RECONCILE: Final = frozenset(
    {
        RECONCILE_STANDING,
        RECONCILE_PROBE,
        RECONCILE_SYMBOLS,
        RECONCILE_STRETCH,
        RECONCILE_MORE,
        RECONCILE_LACKING,
        RECONCILE_SUPPLIED,
        RECONCILE_CHANGED,
        RECONCILE_COMPARED,
        RECONCILE_ADDED,
        RECONCILE_REMOVED,
        RECONCILE_PLAIN,
        RECONCILE_FALLBACK,
    }
)
"""Only between sides that have the capability for sketches."""

PHASES: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "proof": frozenset({KNOT_PROOF}),
        "setup": frozenset({EXCHANGE_OPERAND}),
        "hello": frozenset(),
        "advertise": frozenset({ADVERTISED, ADVERTISED_FIELD, PARTITION, LIST, NARROW, TICK_READY}) | RECONCILE,
        "request": frozenset({MAY_REQUEST, TICK_READY}),
        "transfer": frozenset({NOT_AVAILABLE, TICK_READY}),
    }
)
"""The predicates of each phase. Those of hello are all that begin with that word."""

_KNOWN: Final = CONTROL.union(*PHASES.values())


def refuse(line: int, predicate: str, values: Tuple, phase: str) -> NoReturn:
    """Say why a fact does not stand in a block of this phase: it belongs to another one, or to none."""
    shown = f"{predicate}/{len(values)}"
    of_hello = predicate.startswith(CONTROL_PREFIXES)
    at_home = of_hello if phase == "hello" else predicate in PHASES[phase]
    if not at_home and (of_hello or predicate in _KNOWN):
        raise Abort(Reason.OUT_OF_PHASE, f"{shown} in the {phase} phase")
    raise MalformedBlock(line, f"no fact of the {phase} phase is {shown}")

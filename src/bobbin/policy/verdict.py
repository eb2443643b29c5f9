"""Why a record is sent or withheld, requested or not: the conditions behind a decision, each with its reasons.

A record is sent when it is stored here, our selector chooses it, the peer's rules may see it (our query policy), and
the peer's selector chooses it in that view. It is requested when the peer advertises it, both selectors choose the
advertisement, and it is not stored here yet. A verdict shows each condition, so it also says which side and which
facet refused. It is made for the owner of this machine and is never sent: it may speak of records that the peer must
not know of.
"""

from enum import StrEnum

from msgspec import Struct

from bobbin.datalog.explain import Explainer, Model
from bobbin.datalog.explanation import Bounds, Explanation
from bobbin.facts.relations import FactSource, Tuple
from bobbin.policy import vocabulary
from bobbin.policy.decide import Evaluation, Run
from bobbin.policy.executables import Part
from bobbin.policy.operands import Origin
from bobbin.policy.views import TupleSource


class Sending(StrEnum):
    """What becomes of a record on its way out."""

    SENT = "sent"
    WITHHELD = "withheld"


class Requesting(StrEnum):
    """What becomes of a record on its way in."""

    REQUESTED = "requested"
    NOT_REQUESTED = "not requested"


class Check(StrEnum):
    """The conditions of both decisions."""

    STORED = "stored"
    OWN_SELECTS = "own-selects"
    VISIBLE = "visible"
    PEER_SELECTS = "peer-selects"
    ADVERTISED = "advertised"
    OWN_ACCEPTS = "own-accepts"
    PEER_ACCEPTS = "peer-accepts"
    NOT_STORED = "not-stored"


class Condition(Struct, frozen=True, kw_only=True):
    """One condition: whether it holds, who decides it, and why."""

    check: Check
    holds: bool
    part: Part | None = None
    """The program that decides it; None where no program does."""
    facet: str | None = None
    """The predicate that decides it."""
    explanation: Explanation | None = None


class Verdict(Struct, frozen=True, kw_only=True):
    """What happens to one record between this side and one peer."""

    record: str
    peer: Origin
    plan: str
    sending: Sending
    to_send: tuple[Condition, ...]
    requesting: Requesting
    to_request: tuple[Condition, ...]


def explain(evaluation: Evaluation, record: str, bounds: Bounds = Bounds()) -> Verdict:  # noqa: B008 (a frozen value)
    """The verdict about a record, known here or not. Agrees with the decision of the same evaluation."""
    origin = evaluation.policy.peer_origin
    stored = evaluation.situation.holds(record)
    visible = record in evaluation.visible
    advertisement = (record, str(origin))
    judge = _Judge(evaluation, bounds)
    to_send = (
        Condition(check=Check.STORED, holds=stored),
        judge.condition(Check.OWN_SELECTS, evaluation.own, vocabulary.SELECT_HAVE, (record,)),
        judge.condition(Check.VISIBLE, evaluation.query, vocabulary.QUERYABLE, advertisement),
        judge.condition(Check.PEER_SELECTS, evaluation.peer, vocabulary.SELECT_HAVE, (record,), explained=visible),
    )
    to_request = (
        Condition(check=Check.ADVERTISED, holds=evaluation.situation.claims.advertises(record)),
        judge.condition(Check.OWN_ACCEPTS, evaluation.own, vocabulary.SELECT_ADVERTISED, advertisement),
        judge.condition(Check.PEER_ACCEPTS, evaluation.peer, vocabulary.SELECT_ADVERTISED, advertisement),
        Condition(check=Check.NOT_STORED, holds=not stored),
    )
    sent = all(condition.holds for condition in to_send)
    requested = all(condition.holds for condition in to_request)
    assert sent == (record in evaluation.decision.may_send), "a verdict agrees with its decision"
    assert requested == (record in evaluation.decision.may_request and not stored), "a verdict agrees with its decision"
    return Verdict(
        record=record,
        peer=origin,
        plan=evaluation.policy.plan.identifier,
        sending=Sending.SENT if sent else Sending.WITHHELD,
        to_send=to_send,
        requesting=Requesting.REQUESTED if requested else Requesting.NOT_REQUESTED,
        to_request=to_request,
    )


class _Judge:
    """Asks the runs of one evaluation."""

    def __init__(self, evaluation: Evaluation, bounds: Bounds) -> None:
        self._evaluation = evaluation
        self._bounds = bounds
        self._models: dict[Part, Model] = {}

    def condition(self, check: Check, run: Run, facet: str, values: Tuple, *, explained: bool = True) -> Condition:
        """Whether a run derived a fact, and why."""
        model = self._model(run)
        return Condition(
            check=check,
            holds=values in model.tuples(facet),
            part=run.part,
            facet=facet,
            explanation=Explainer(model, self._bounds).explain(facet, values) if explained else None,
        )

    def _model(self, run: Run) -> Model:
        model = self._models.get(run.part)
        if model is None:
            program = self._evaluation.policy.program(run.part)
            model = self._models[run.part] = Model(program, run.state.tuples, _in_reach(run))
        return model


def _in_reach(run: Run) -> dict[str, FactSource]:
    """The sources of a run. Claims can only be read through from end to end, so they are sorted into memory first."""
    sources = dict(run.sources)
    for predicate in vocabulary.CLAIM_ARITY:
        if predicate in sources:
            sources[predicate] = TupleSource({predicate: sources[predicate].enumerate(predicate)})
    return sources

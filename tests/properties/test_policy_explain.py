"""Explanations are true: every step of a derivation is a rule applied to facts, and every named failure does fail."""

from collections.abc import Iterator
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from bobbin.datalog.binding import extend, pattern_of
from bobbin.datalog.builtins import BUILTINS, holds
from bobbin.datalog.explain import Explainer, Model
from bobbin.datalog.explanation import Checked, Cut, Derived, Explanation, Given, Missing, Reason, Statement
from bobbin.datalog.parse import parse
from bobbin.datalog.syntax import Literal
from bobbin.facts.relations import Tuple
from bobbin.policy.decide import evaluate
from bobbin.policy.verdict import explain
from tests.policy_worlds import (
    plex,
    policy,
    random_claims,
    random_query,
    random_record,
    random_selector,
    situation,
    stored,
)
from tests.properties.effort import scaled

_HASHES = [plex(number) for number in range(7)]
_seeds = st.integers(min_value=0, max_value=2**32).map(Random)


class _Checker:
    """Looks every statement up in the finished answer."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def check_reason(self, reason: Reason, above: tuple[Statement, ...] = ()) -> None:
        match reason:
            case Given(fact):
                assert fact.predicate not in self._model.rules
                assert self._holds(fact)
            case Checked(checked):
                assert checked.negated or checked.predicate in BUILTINS
                assert self._holds(checked)
            case Cut(fact, _):
                assert self._holds(fact)
            case Derived(fact, rule_text, _, because):
                assert fact not in above, "a fact may not rest on itself"
                (rule,) = parse(rule_text).rules
                assert len(because) == len(rule.body)
                binding = extend(rule.head, _values(fact), {})
                assert binding is not None
                for literal, below in zip(rule.body, because, strict=True):
                    statement = below.literal if isinstance(below, Checked) else below.fact
                    assert statement.predicate == literal.atom.predicate
                    self._check_agrees(literal, statement)
                    self.check_reason(below, (*above, fact))
                self._check_binding(rule.body, because, dict(binding))

    def check_missing(self, missing: Missing) -> None:
        assert not self._holds(missing.fact)
        for failure in missing.failures:
            if failure.instance is None:
                continue
            assert not self._holds(failure.instance)
            for near in failure.nearest:
                assert self._holds(near)
            match failure.because:
                case Missing() as below:
                    self.check_missing(below)
                case Given() | Derived() | Cut() | Checked() as below:
                    assert failure.instance.negated
                    self.check_reason(below)
                case None:
                    pass

    def _holds(self, statement: Statement) -> bool:
        if statement.predicate in BUILTINS:
            return holds(statement.predicate, statement.values) != statement.negated
        found = next(self._model.match(statement.predicate, statement.values), None) is not None
        return found != statement.negated

    def _check_agrees(self, literal: Literal, statement: Statement) -> None:
        for wanted, value in zip(pattern_of(literal.atom, {}), statement.values, strict=True):
            assert wanted in (None, value)

    def _check_binding(self, body: tuple[Literal, ...], because: tuple[Reason, ...], binding: dict[str, str]) -> None:
        """One value per variable through the whole rule."""
        for literal, below in zip(body, because, strict=True):
            statement = below.literal if isinstance(below, Checked) else below.fact
            for term, value in zip(literal.atom.terms, statement.values, strict=True):
                name = getattr(term, "name", None)
                if name is not None and value is not None:
                    assert binding.setdefault(name, value) == value


def _values(statement: Statement) -> Tuple:
    assert None not in statement.values
    return tuple(value for value in statement.values if value is not None)


def _models(random: Random) -> Iterator[Model]:
    link = policy(random_selector(random, _HASHES), random_selector(random, _HASHES), random_query(random))
    facts = stored(*(random_record(random, hash, _HASHES) for hash in _HASHES[:6]))
    evaluation = evaluate(link, situation(facts, random_claims(random, _HASHES)))
    for run in (evaluation.own, evaluation.peer, evaluation.query):
        yield Model(link.program(run.part), run.state.tuples, run.sources)


@given(_seeds)
@scaled(0.40)
def test_every_derived_fact_has_a_true_derivation(random: Random) -> None:
    for model in _models(random):
        explainer = Explainer(model)
        for predicate in model.rules:
            for values in model.tuples(predicate):
                reason = explainer.explain(predicate, values)
                assert isinstance(reason, Derived)
                _Checker(model).check_reason(reason)


@given(_seeds)
@scaled(0.40)
def test_every_missing_fact_has_true_failures(random: Random) -> None:
    for model in _models(random):
        explainer = Explainer(model)
        for predicate, rules in model.rules.items():
            if rules[0].head.arity != 1:
                continue
            for hash in _HASHES:
                if (hash,) in model.tuples(predicate):
                    continue
                missing: Explanation = explainer.explain(predicate, (hash,))
                assert isinstance(missing, Missing)
                assert len(missing.failures) == len(rules)
                _Checker(model).check_missing(missing)


@given(_seeds)
@scaled(0.30)
def test_every_record_gets_a_verdict_that_agrees_with_the_decision(random: Random) -> None:
    link = policy(random_selector(random, _HASHES), random_selector(random, _HASHES), random_query(random))
    facts = stored(*(random_record(random, hash, _HASHES) for hash in _HASHES[:5]))
    evaluation = evaluate(link, situation(facts, random_claims(random, _HASHES)))
    for hash in _HASHES:
        verdict = explain(evaluation, hash)
        sent = hash in evaluation.decision.may_send
        requested = hash in evaluation.decision.may_request and not evaluation.situation.holds(hash)
        assert (verdict.sending == "sent") == sent
        assert (verdict.requesting == "requested") == requested
        for conditions, decided in ((verdict.to_send, sent), (verdict.to_request, requested)):
            assert all(condition.holds for condition in conditions) == decided

from collections.abc import Iterable, Mapping

import pytest

from bobbin.datalog.compile import compile as compile_program
from bobbin.datalog.explain import Explainer, Model
from bobbin.datalog.explanation import (
    CUT_BOUND,
    CUT_REPEATED,
    Bounds,
    Checked,
    Cut,
    Derived,
    Explanation,
    Given,
    Missing,
    Reason,
    Statement,
)
from bobbin.datalog.local.database import Database
from bobbin.datalog.local.evaluate import Executable
from bobbin.datalog.vocabulary import Vocabulary
from bobbin.facts.relations import FactSource, Pattern, Tuple, agrees

_ARITY = {"E": 2, "N": 1, "F": 4, "T": 2}
_WORDS = Vocabulary(base=_ARITY)


class _Memory:
    def __init__(self, facts: Mapping[str, Iterable[Tuple]]) -> None:
        self._facts = {name: set(tuples) for name, tuples in facts.items()}

    def enumerate(self, predicate: str) -> Iterable[Tuple]:
        return iter(self._facts.get(predicate, ()))

    def match(self, predicate: str, pattern: Pattern) -> Iterable[Tuple]:
        return (values for values in self._facts.get(predicate, ()) if agrees(values, pattern))


def _explainer(text: str, bounds: Bounds | None = None, **facts: Iterable[Tuple]) -> Explainer:
    lacegram = compile_program(text, _WORDS)
    source: FactSource = _Memory(facts)  # type: ignore[assignment]
    sources = dict.fromkeys(_ARITY, source)
    state = Executable(lacegram.plan).evaluate(Database(sources, _ARITY))
    return Explainer(Model(lacegram.program, state.tuples, sources), bounds or Bounds())


def _derived(explanation: Explanation) -> Derived:
    assert isinstance(explanation, Derived)
    return explanation


def _missing(explanation: Explanation) -> Missing:
    assert isinstance(explanation, Missing)
    return explanation


# ---- why ----------------------------------------------------------------------------------------------------------


def test_a_given_fact_needs_no_reason() -> None:
    assert _explainer("A(X) :- N(X).", N=[("x",)]).explain("N", ("x",)) == Given(Statement("N", ("x",)))


def test_a_derivation_names_rule_line_and_facts() -> None:
    text = "A(X) :- N(X).\nB(X) :- A(X), E(X,_), not N('z'), Lt(X,'y'), TaiAdd('0000000001:000000000','1',_).\n"
    derived = _derived(_explainer(text, N=[("x",)], E=[("x", "y")]).explain("B", ("x",)))
    assert derived.fact == Statement("B", ("x",))
    assert derived.line == 2
    assert derived.rule == text.splitlines()[1]
    first, second, *guards = derived.because
    assert first == Derived(Statement("A", ("x",)), "A(X) :- N(X).", 1, (Given(Statement("N", ("x",))),))
    assert second == Given(Statement("E", ("x", "y")))
    assert guards == [
        Checked(Statement("N", ("z",), negated=True)),
        Checked(Statement("Lt", ("x", "y"))),
        Checked(Statement("TaiAdd", ("0000000001:000000000", "1", None))),
    ]


def test_a_fact_of_the_program_is_derived_from_nothing() -> None:
    assert _derived(_explainer("A('x').").explain("A", ("x",))).because == ()


def test_an_output_of_a_built_in_is_followed() -> None:
    text = "A(R) :- N(X), TaiAdd(X,'1',R).\n"
    derived = _derived(_explainer(text, N=[("0000000001:000000000",)]).explain("A", ("0000000001:000000001",)))
    assert derived.because[1] == Checked(Statement("TaiAdd", ("0000000001:000000000", "1", "0000000001:000000001")))


def _facts_in(reason: Reason) -> Iterable[Statement]:
    if isinstance(reason, Derived):
        for below in reason.because:
            yield from _facts_in(below)
    elif isinstance(reason, Given):
        yield reason.fact


def _check_founded(reason: Reason, above: tuple[Statement, ...] = ()) -> None:
    """No fact stands below itself."""
    if isinstance(reason, Derived):
        assert reason.fact not in above
        for below in reason.because:
            _check_founded(below, (*above, reason.fact))


_CLOSURE = "T2(X,Z) :- T2(X,Y), E(Y,Z).\nT2(X,Y) :- E(X,Y).\n"


def test_recursion_is_explained_without_circles() -> None:
    """On a cycle of edges every pair also follows from itself."""
    edges = [("a", "b"), ("b", "c"), ("c", "a")]
    explainer = _explainer(_CLOSURE, E=edges)
    for pair in (("a", "a"), ("a", "c"), ("c", "b")):
        derived = _derived(explainer.explain("T2", pair))
        _check_founded(derived)
        assert all(fact.predicate == "E" for fact in _facts_in(derived))


def test_mutual_recursion_is_explained_without_circles() -> None:
    text = "A(X) :- B(X).\nB(X) :- A(X).\nB(X) :- C(X).\nC(X) :- A(X), N(X).\nA(X) :- E(X,X).\n"
    derived = _derived(_explainer(text, N=[("x",)], E=[("x", "x")]).explain("C", ("x",)))
    _check_founded(derived)
    assert set(_facts_in(derived)) == {Statement("N", ("x",)), Statement("E", ("x", "x"))}


def test_short_derivations_are_found_first() -> None:
    chain = [(str(number), str(number + 1)) for number in range(30)]
    derived = _derived(_explainer(_CLOSURE, E=[*chain, ("0", "30")]).explain("T2", ("0", "30")))
    assert derived.because == (Given(Statement("E", ("0", "30"))),)


def test_a_long_derivation_is_cut_and_says_so() -> None:
    chain = [(str(number), str(number + 1)) for number in range(400)]
    explainer = _explainer(_CLOSURE, Bounds(depth_max=5), E=chain)
    reason: Reason = explainer.why("T2", ("0", "400"))
    depth = 0
    while isinstance(reason, Derived):
        depth += 1
        reason = reason.because[0]
    assert depth == 5
    assert reason == Cut(reason.fact, CUT_BOUND)  # type: ignore[union-attr]


def test_what_was_shown_is_not_repeated() -> None:
    text = "A(X) :- N(X), E(X,_).\nB(X) :- A(X), C(X).\nC(X) :- A(X).\n"
    derived = _derived(_explainer(text, N=[("x",)], E=[("x", "y")]).explain("B", ("x",)))
    assert _derived(derived.because[1]).because == (Cut(Statement("A", ("x",)), CUT_REPEATED),)


def test_a_wide_derivation_is_cut_by_size() -> None:
    text = "".join(f"A{number}(X) :- N(X).\n" for number in range(30))
    text += f"B(X) :- {', '.join(f'A{number}(X)' for number in range(30))}.\n"
    derived = _derived(_explainer(text, Bounds(nodes_max=20), N=[("x",)]).explain("B", ("x",)))
    shown = [reason for reason in derived.because if isinstance(reason, Derived)]
    assert 0 < len(shown) < 20
    assert all(reason.why == CUT_BOUND for reason in derived.because if isinstance(reason, Cut))


def test_out_of_steps_the_answer_is_cut() -> None:
    nodes = [(str(number),) for number in range(40)]
    text = "A('x') :- N(P), N(Q), N(R), N(S), Eq(P,'39'), Eq(Q,'39'), Eq(R,'39'), Eq(S,'39').\n"
    assert _explainer(text, Bounds(steps_max=5), N=nodes).why("A", ("x",)) == Cut(Statement("A", ("x",)), CUT_BOUND)


# ---- why not ------------------------------------------------------------------------------------------------------


def test_the_first_literal_that_fails_and_the_nearest_fact() -> None:
    text = "A(P) :- N(P), F(P,'App',_,'ding'), F(P,'Group',_,'u').\n"
    facts = [("p", "App", "0", "ding"), ("p", "Group", "0", "x"), ("q", "Group", "0", "u")]
    missing = _missing(_explainer(text, N=[("p",)], F=facts).explain("A", ("p",)))
    (failure,) = missing.failures
    assert (failure.line, failure.met, failure.literals) == (1, 2, 3)
    assert failure.literal == "F(P,'Group',_,'u')"
    assert failure.instance == Statement("F", ("p", "Group", None, "u"))
    assert failure.nearest == (Statement("F", ("p", "Group", "0", "x")),)


def test_the_furthest_choice_of_values_counts() -> None:
    text = "A(P) :- E(P,Q), T(Q,R), N(R).\n"
    missing = _missing(_explainer(text, E=[("p", "a"), ("p", "b")], T=[("b", "c")]).explain("A", ("p",)))
    (failure,) = missing.failures
    assert failure.met == 2
    assert failure.instance == Statement("N", ("c",))


def test_a_guard_waits_for_its_value() -> None:
    text = "A(P) :- Lt(V,'b'), not N(V), E(P,V).\n"
    missing = _missing(_explainer(text, E=[("p", "c")], N=[("c",)]).explain("A", ("p",)))
    (failure,) = missing.failures
    assert failure.instance == Statement("Lt", ("c", "b"))
    assert failure.met == 1


def test_a_contradicted_negation_shows_the_contradiction() -> None:
    text = "A(P) :- N(P), not B(P).\nB(P) :- E(P,_).\n"
    missing = _missing(_explainer(text, N=[("p",)], E=[("p", "q")]).explain("A", ("p",)))
    (failure,) = missing.failures
    assert failure.literal == "not B(P)"
    assert _derived(failure.because or missing).because == (Given(Statement("E", ("p", "q"))),)
    given = _missing(_explainer("A(P) :- N(P), not E(P,_).", N=[("p",)], E=[("p", "q")]).explain("A", ("p",)))
    assert given.failures[0].because == Given(Statement("E", ("p", "q")))


def test_a_missing_helper_is_followed() -> None:
    text = "A(P) :- N(P), B(P,'u').\nB(P,G) :- F(P,'Group',_,G).\n"
    missing = _missing(_explainer(text, N=[("p",)], F=[("p", "Group", "0", "x")]).explain("A", ("p",)))
    below = _missing(missing.failures[0].because or missing)
    assert below.fact == Statement("B", ("p", "u"))
    assert below.failures[0].nearest == (Statement("F", ("p", "Group", "0", "x")),)
    assert missing.failures[0].nearest == (Statement("B", ("p", "x")),)


def test_a_missing_fact_that_needs_itself_ends() -> None:
    missing = _missing(_explainer("A(X) :- B(X).\nB(X) :- A(X).\nB(X) :- N(X).\n").explain("A", ("x",)))
    below = _missing(missing.failures[0].because or missing)
    circular = next(failure for failure in below.failures if failure.literal == "A(X)")
    assert _missing(circular.because or below) == Missing(Statement("A", ("x",)), (), CUT_REPEATED)


def test_every_rule_is_judged_and_the_nearest_comes_first() -> None:
    text = "A(P) :- N(P), E(P,'1'), E(P,'2').\nA('q') :- N('q').\nA(P) :- N(P), E(P,'3').\n"
    missing = _missing(_explainer(text, N=[("p",)]).explain("A", ("p",)))
    assert [failure.line for failure in missing.failures] == [3, 1, 2]
    assert missing.failures[2].literal is None
    assert missing.failures[2].note == "it is about A('q')"


def test_without_rule_or_fact_that_is_all() -> None:
    explainer = _explainer("A(X) :- N(X).")
    assert explainer.explain("N", ("x",)) == Missing(Statement("N", ("x",)), (), "no such fact is there")
    assert explainer.explain("Nowhere", ("x",)) == Missing(Statement("Nowhere", ("x",)), (), "no rule derives it")


def test_many_failing_rules_are_counted_not_listed() -> None:
    text = "".join(f"A(P) :- N(P), E(P,'{number}').\n" for number in range(40))
    missing = _missing(_explainer(text, Bounds(rules_max=5), N=[("p",)]).explain("A", ("p",)))
    assert len(missing.failures) == 5
    assert missing.note == "35 more rules fail too"


def test_a_wandering_rule_leaves_the_others_their_steps() -> None:
    nodes = [(str(number),) for number in range(60)]
    text = "A(P) :- N(Q), N(R), N(S), N(U), E(P,Q).\nA(P) :- N(P), E(P,'1').\n"
    missing = _missing(_explainer(text, Bounds(steps_max=2_000), N=nodes).explain("A", ("1",)))
    by_line = {failure.line: failure for failure in missing.failures}
    assert by_line[1].note == CUT_BOUND
    assert by_line[2].literal == "E(P,'1')"


@pytest.mark.parametrize("pattern", [("p", None), (None, "b"), (None, None)])
def test_a_question_may_leave_values_open(pattern: Pattern) -> None:
    explainer = _explainer("A(X,Y) :- E(X,Y), N(Y).", E=[("p", "b")])
    failure = explainer.why_not("A", pattern).failures[0]
    assert failure.instance == Statement("N", ("b",))


def test_one_stored_record_is_not_near_another() -> None:
    missing = _missing(_explainer("A(X) :- N(X).", N=[("other",)]).explain("A", ("x",)))
    assert missing.failures[0].nearest == ()

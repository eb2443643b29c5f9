"""Random programs through every way of the engine, a naive evaluator and clingo: one answer.

This is a fixed sample; `make evidence` runs the whole count (``evidence/datalog.py``).
"""

from collections import Counter

import pytest

from bobbin.datalog.compile import compile as compile_program
from tests.oracle.differential import VOCABULARY, check_case, check_incremental, compile_case
from tests.oracle.programs import make_case

CASES = 240
CHANGED_CASES = 60


@pytest.mark.parametrize("part", range(4))
def test_every_way_gives_the_answer_of_both_oracles(part: int) -> None:
    for seed in range(part, CASES, 4):
        check_case(make_case(seed))


@pytest.mark.parametrize("part", range(4))
def test_changes_carried_forward_end_where_a_new_evaluation_does(part: int) -> None:
    for seed in range(part, CHANGED_CASES, 4):
        case = make_case(seed)
        lacegram = compile_case(case)
        if lacegram is not None:
            check_incremental(case, lacegram, rounds=5)


def test_the_sample_reaches_everything() -> None:
    """A differential test is worth what its programs contain."""
    cases = [make_case(seed) for seed in range(CASES)]
    seen = Counter(feature for case in cases for feature in case.features)
    assert set(seen) == {
        "chain of functions",
        "clock",
        "constant field name",
        "duplicate literal",
        "duplicate rule",
        "fact in the program",
        "function",
        "head without arguments",
        "long body",
        "mutual recursion",
        "negated function",
        "negation",
        "negation with constant",
        "negation with wildcard",
        "recursion",
        "repeated variable",
        "test",
    }
    assert min(seen.values()) >= 10
    accepted = [case for case in cases if compile_case(case) is not None]
    assert CASES * 0.9 <= len(accepted) < CASES, "some programs negate through recursion, and few"


def test_a_program_means_the_same_in_canonical_form() -> None:
    for seed in range(30):
        case = make_case(seed)
        lacegram = compile_case(case)
        if lacegram is None:
            continue
        again = compile_program(lacegram.canonical, VOCABULARY, received=True)
        assert (again.canonical, again.identifier) == (lacegram.canonical, lacegram.identifier)
        check_case(make_case(seed).with_text(lacegram.canonical.decode()))

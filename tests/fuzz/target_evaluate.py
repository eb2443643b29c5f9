"""Evaluation: any program that compiles gives the same answer compiled and on columns, or goes past a limit."""

from bobbin.datalog.compile import Lacegram
from bobbin.datalog.compile import compile as compile_program
from bobbin.datalog.diagnostics import InvalidProgram
from bobbin.datalog.limits import Limits
from bobbin.datalog.local.budget import LimitExceeded
from bobbin.datalog.local.evaluate import Executable
from bobbin.datalog.vocabulary import Vocabulary
from bobbin.facts.relations import Tuple
from tests.oracle.differential import database
from tests.oracle.programs import BASE, make_case

_VOCABULARY = Vocabulary(base=BASE)
_LIMITS = Limits(
    derived_tuples_max=2_000, rounds_max=100, steps_max=100_000, computed_values_max=1_000, held_cells_max=1_000_000
)
_FACTS = make_case(3).facts


def one_input(data: bytes) -> None:
    try:
        lacegram = compile_program(data, _VOCABULARY)
    except InvalidProgram:
        return
    compiled, columnar = _answer(lacegram, columns_min=1 << 60), _answer(lacegram, columns_min=0)
    assert compiled == columnar or None in (compiled, columnar)


def _answer(lacegram: Lacegram, *, columns_min: int) -> dict[str, frozenset[Tuple]] | None:
    """Everything derived, or None past a limit; the two ways reach some limits at different points."""
    executable = Executable(lacegram.plan, _LIMITS, columns_min=columns_min)
    try:
        state = executable.evaluate(database(_FACTS))
    except LimitExceeded:
        return None
    return {name: state.tuples(name) for name in lacegram.program.heads()}

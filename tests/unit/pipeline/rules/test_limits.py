from bobbin.datalog import limits as engine
from bobbin.errors import UsageError
from bobbin.pipeline.rules.limits import DEFAULT, CannotExecute


def test_what_cannot_be_executed_is_the_callers_fault() -> None:
    assert issubclass(CannotExecute, UsageError)


def test_a_core_that_may_be_fetched_may_be_evaluated() -> None:
    assert DEFAULT.in_process.derived_tuples_max > DEFAULT.collected_rows_max
    assert DEFAULT.in_process.steps_max > engine.DEFAULT.steps_max
    assert DEFAULT.derived_rows_max > DEFAULT.in_process.derived_tuples_max

from bobbin.errors import ResourceError, UsageError
from bobbin.reactive.graph.errors import CycleFound, DrainExhausted, EffectsFailed, IncomparableValue, StillPending


def test_errors_say_what_and_where() -> None:
    assert "slot 1 reads slot 2 reads slot 1" in str(CycleFound(("slot 1", "slot 2", "slot 1")))
    assert "cell 4" in str(IncomparableValue("cell 4"))
    assert "effect 3" in str(DrainExhausted(("effect 3",), 10))
    assert "effect 3" in str(EffectsFailed((("effect 3", ValueError("x")),)))
    assert StillPending("slot 1").retry


def test_families_say_whether_anything_was_changed() -> None:
    assert issubclass(CycleFound, UsageError)
    # What was written stays written when an effect fails.
    assert issubclass(EffectsFailed, ResourceError)
    assert issubclass(DrainExhausted, ResourceError)


def test_the_cause_of_failed_effects_has_all_of_them() -> None:
    one, other = ValueError("one"), KeyError("other")
    error = EffectsFailed((("effect 1", one), ("effect 2", other)))
    assert isinstance(error.__cause__, ExceptionGroup)
    assert error.__cause__.exceptions == (one, other)

import pytest

from bobbin.cluster.operations import CounterAdd, Put
from bobbin.errors import UsageError
from bobbin.runtime.chain_workspace import check_operation, check_position, check_value


def test_numbers_of_a_vector_become_plain_ones() -> None:
    class Float(float):
        """As other libraries have them."""

    assert [type(check_value(value)) for value in (1, 1.5, Float(2.0))] == [float] * 3
    assert check_position(3) == 3
    for wrong in (True, "1", None):
        with pytest.raises(UsageError, match="values of a vector are floats"):
            check_value(wrong)
        with pytest.raises(UsageError, match="positions of a vector are whole numbers"):
            check_position(wrong)


def test_an_operation_has_the_right_types_and_then_the_right_lengths() -> None:
    check_operation(Put(b"k", b"v"))
    with pytest.raises(UsageError, match="is bytes, not int"):
        check_operation(Put(b"k", 1))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="a key has 1 to"):
        check_operation(CounterAdd(b"", 1))

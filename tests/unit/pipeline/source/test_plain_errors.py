"""What Spark would show of an error: its message holds the whole trace of what a source raises."""

import traceback
from collections.abc import Callable, Iterator

import pytest

from bobbin.errors import UsageError
from bobbin.pipeline.source.plain_errors import plain_rows, plainly


def _fail() -> int:
    try:
        raise KeyError("the cause")
    except KeyError as error:
        raise UsageError("what to do") from error


def _rows() -> Iterator[int]:
    yield 1
    yield _fail()


def _deep(error: type[Exception]) -> None:
    def inner() -> None:
        raise error("inside")

    inner()


@pytest.mark.parametrize("call", [plainly(_fail), lambda: list(plain_rows(_rows()))])
def test_one_sentence_is_left(call: Callable[[], object]) -> None:
    with pytest.raises(UsageError, match=r"^what to do$") as caught:
        call()
    shown = "".join(traceback.format_exception(caught.value))
    assert "the cause" not in shown
    assert "in _fail" not in shown
    assert shown.endswith("bobbin.errors.UsageError: what to do\n")


def test_a_bug_keeps_its_trace() -> None:
    with pytest.raises(ValueError, match="inside") as caught:
        plainly(_deep)(ValueError)
    assert "in inner" in "".join(traceback.format_exception(caught.value))


def test_what_does_not_fail_is_as_it_was() -> None:
    assert plainly(max)(3, 4) == 4
    assert list(plain_rows(range(3))) == [0, 1, 2]
    assert plainly(_fail).__name__ == "_fail"

"""Errors of the source in the form in which Spark shows them best.

Whatever a source in Python raises, Spark puts into a message of its own, with the whole trace, the causes first and the
sentence that a user can act on last. An error of ours says in its sentence all that matters, so it leaves the source
without the frames and causes that led to it. Anything else is a bug, and keeps its trace.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import ParamSpec, TypeVar

from bobbin.errors import BobbinError

_Arguments = ParamSpec("_Arguments")
_Value = TypeVar("_Value")


def plainly(function: Callable[_Arguments, _Value]) -> Callable[_Arguments, _Value]:
    """A function that Spark calls, with errors that say one sentence."""

    @wraps(function)
    def called(*arguments: _Arguments.args, **named: _Arguments.kwargs) -> _Value:
        try:
            return function(*arguments, **named)
        except BobbinError as error:
            raise _bare(error) from None

    return called


def plain_rows(rows: Iterable[_Value]) -> Iterator[_Value]:
    """The same for rows that are made as Spark asks for them."""
    try:
        yield from rows
    except BobbinError as error:
        raise _bare(error) from None


def _bare(error: BobbinError) -> BobbinError:
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)

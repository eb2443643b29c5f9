"""How a fault is planted: a text of one function becomes another one, for as long as a context lasts.

A text that is not there, or there more than once, is an error, so no fault falls out of use unnoticed.
"""

import inspect
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import NamedTuple
from unittest.mock import patch


class Edit(NamedTuple):
    """One text of one function becomes another."""

    owner: object
    function: str
    old: str
    new: str


@contextmanager
def planted(edits: Sequence[Edit]) -> Iterator[None]:
    """A fault, for as long as the context lasts."""
    by_function: dict[tuple[int, str], list[Edit]] = {}
    for edit in edits:
        by_function.setdefault((id(edit.owner), edit.function), []).append(edit)
    with ExitStack() as stack:
        for (_, function), together in by_function.items():
            owner = together[0].owner
            stack.enter_context(patch.object(owner, function, _edited(owner, function, together)))
        yield


def _edited(owner: object, name: str, edits: list[Edit]) -> object:
    """A function with other texts in it, in the module that it is from."""
    found = inspect.getattr_static(owner, name)
    function = found.fget if isinstance(found, property) else found
    assert inspect.isfunction(function), f"{name} is no function"
    source = textwrap.dedent(inspect.getsource(function))
    for edit in edits:
        assert source.count(edit.old) == 1, f"{edit.old!r} stands {source.count(edit.old)} times in {name}"
        source = source.replace(edit.old, edit.new)
    made: dict[str, object] = {}
    exec(source, vars(sys.modules[function.__module__]), made)
    return made[name]

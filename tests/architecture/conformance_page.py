"""The conformance pages as text: their rows, the ids that they answer for, and the tests that they may name.

A row is ``| id | what it asks | tests |``. The last cell holds test names in backticks, joined by ``<br>``; or
``to come``; or ``no test: `` and the reason why none can reach the statement. Only the standard library is used here,
so that ``scripts/conformance`` runs without the virtual environment.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent.parent

TO_COME = "to come"
NO_TEST = "no test: "
_ROW = re.compile(r"\| ([A-Z]+-[0-9]{3,}) \| (.+?) \| (.+) \|")
_TEST = re.compile(r"`(tests/[\w/]+\.py(?:::\w+){1,2}(?:\[[^\]`|]+\])?)`")
_RANGE = re.compile(r"([A-Z]+)-([0-9]{3,})(?:…([0-9]{3,}))?")


class PageError(ValueError):
    """A page, or what is to be merged into it, is not of the right form. Nothing was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One statement of a checklist and what proves it."""

    id: str
    words: str
    tests: tuple[str, ...] = ()
    reason: str | None = None
    """Why no test can reach the statement."""

    @property
    def is_to_come(self) -> bool:
        return not self.tests and self.reason is None

    def __str__(self) -> str:
        if self.reason is not None:
            answer = NO_TEST + self.reason
        else:
            answer = "<br>".join(f"`{test}`" for test in self.tests) or TO_COME
        return f"| {self.id} | {self.words} | {answer} |"


def read_row(line: str) -> Row | None:
    """The row that a line of a page is; None for a line that is none."""
    if not re.match(r"\|\s*[A-Z]+-", line):
        return None
    found = _ROW.fullmatch(line)
    if found is None:
        raise PageError(f"not a row of the form | id | words | tests |: {line[:80]}")
    id, words, answer = found.groups()
    if answer == TO_COME:
        return Row(id=id, words=words)
    if answer.startswith(NO_TEST):
        return Row(id=id, words=words, reason=answer.removeprefix(NO_TEST))
    tests = []
    for part in answer.split("<br>"):
        named = _TEST.fullmatch(part)
        if named is None:
            raise PageError(f"{id}: not the name of a test in backticks: {part[:120]}")
        tests.append(named[1])
    return Row(id=id, words=words, tests=tuple(tests))


def read_rows(text: str) -> list[Row]:
    """Every row of a page, in the order of the page."""
    return [row for line in text.splitlines() if (row := read_row(line)) is not None]


def expand(ranges: Iterable[str]) -> list[str]:
    """The ids of ranges such as ``IL-001…012``; a single id is a range of one."""
    ids: list[str] = []
    for text in ranges:
        found = _RANGE.fullmatch(text)
        if found is None:
            raise PageError(f"not a range of ids: {text[:80]}")
        series, first, last = found.groups()
        ids += [f"{series}-{number:03d}" for number in range(int(first), int(last or first) + 1)]
    return ids


def contract(ids: Iterable[str]) -> list[str]:
    """The shortest list of ranges for some ids, which stay in their order."""
    runs: list[tuple[str, int, int]] = []
    for id in ids:
        series, _, digits = id.partition("-")
        number = int(digits)
        if runs and runs[-1][0] == series and runs[-1][2] == number - 1:
            runs[-1] = (series, runs[-1][1], number)
        else:
            runs.append((series, number, number))
    return [f"{series}-{low:03d}" + (f"…{high:03d}" if high > low else "") for series, low, high in runs]


@cache
def tests_of(place: str) -> dict[str, bool]:
    """The tests that a file defines, as ``name`` or ``Class::name``, and whether each one has parameters.

    pytest collects functions called ``test…`` at the top of files called ``test_….py``, and such methods of classes
    called ``Test…``. The file is read, not run.
    """
    path = REPOSITORY / place
    if not path.name.startswith("test_") or not path.is_file():
        return {}
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=place)
    found = {node.name: _has_parameters(node) for node in _functions(tree.body)}
    for part in tree.body:
        if isinstance(part, ast.ClassDef) and part.name.startswith("Test"):
            shared = _has_parameters(part)
            found |= {f"{part.name}::{node.name}": shared or _has_parameters(node) for node in _functions(part.body)}
    return found


def why_unknown(test: str) -> str | None:
    """Why a name is not the name of a test; None when it is."""
    name, bracket, _ = test.partition("[")
    place, _, inside = name.partition("::")
    if not (REPOSITORY / place).is_file():
        return f"there is no file {place}"
    tests = tests_of(place)
    if inside not in tests:
        return f"{place} has no test {inside}"
    if bracket and not tests[inside]:
        return f"{name} has no parameters"
    return None


def _functions(body: list[ast.stmt]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            yield node


def _has_parameters(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    # A decorator may be a mark kept under a name of its own, so any decorator counts.
    return bool(node.decorator_list)

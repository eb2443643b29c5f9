"""What is wrong with a program, said so that its author can mend it: all of it at once, each with its place.

A pass reports into a ``Report`` and goes on where it can; ``compile`` raises one ``InvalidProgram`` with everything
found. Nothing of a program with a diagnostic is ever evaluated.
"""

from enum import StrEnum

from msgspec import Struct

from bobbin.datalog.syntax import Place
from bobbin.errors import ProgramError


class Fault(StrEnum):
    """Stable codes, one per kind of mistake."""

    ENCODING = "encoding"
    NORMALIZATION = "normalization"
    SYNTAX = "syntax"
    CONSTANT = "constant"
    ARITY = "arity"
    SHADOWING = "shadowing"
    UNKNOWN_PREDICATE = "unknown-predicate"
    FORBIDDEN_PREDICATE = "forbidden-predicate"
    UNSAFE = "unsafe"
    WILDCARD_IN_HEAD = "wildcard-in-head"
    NOT_GROUND = "not-ground"
    UNSTRATIFIED = "unstratified"
    LIMIT = "limit"
    NOT_CANONICAL = "not-canonical"
    FACET = "facet"


class Diagnostic(Struct, frozen=True, kw_only=True):
    """One mistake: what, where, and how to mend it where that can be said."""

    fault: Fault
    message: str
    place: Place
    fix: str | None = None

    def __str__(self) -> str:
        hint = f" ({self.fix})" if self.fix else ""
        return f"{self.place}: {self.message}{hint}"


class InvalidProgram(ProgramError):
    """A program does not pass. ``diagnostics`` has everything that was found, in the order of the text."""

    def __init__(self, diagnostics: list[Diagnostic]) -> None:
        self.diagnostics = sorted(diagnostics, key=lambda found: (found.place.line, found.place.column, found.fault))
        super().__init__("\n".join(map(str, self.diagnostics)))


class Report:
    """Collects diagnostics, up to a bound: a hostile program cannot fill memory with its own mistakes."""

    def __init__(self, limit: int) -> None:
        self._limit = max(limit, 1)  # a report that could hold nothing would let everything pass
        self._found: list[Diagnostic] = []

    def add(self, fault: Fault, message: str, place: Place, fix: str | None = None) -> None:
        if len(self._found) < self._limit:
            self._found.append(Diagnostic(fault=fault, message=message, place=place, fix=fix))

    @property
    def full(self) -> bool:
        return len(self._found) >= self._limit

    def raise_if_any(self) -> None:
        if self._found:
            raise InvalidProgram(self._found)

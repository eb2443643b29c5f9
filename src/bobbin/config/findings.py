"""What is wrong with a configuration: everything that was found, each with its file and its key.

Whoever writes a configuration mends it faster when all mistakes are named at once. So reading goes on where it can, and
``raise_if_any`` ends it. Mistakes in policy texts are kept apart from those in the files that name them, since they
belong to another family of errors.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from bobbin.datalog.diagnostics import Diagnostic
from bobbin.errors import ProgramError, UsageError

PROBLEMS_MAX: Final = 100
"""More than these are not shown: a file that is all wrong is another file than was meant."""


class Problem(Struct, frozen=True, kw_only=True):
    """One thing that is wrong with a configuration."""

    file: Path
    key: str
    """The way to it, as in ``links.total_max`` or ``peer 2 (lab), address``; empty for the file as a whole."""
    message: str

    def __str__(self) -> str:
        if not self.key and str(self.file) in self.message:
            return self.message
        return ": ".join([str(self.file), *filter(None, [self.key]), self.message])


class PolicyMistake(Struct, frozen=True, kw_only=True):
    """One mistake in a policy text that a configuration names."""

    file: Path
    diagnostic: Diagnostic

    def __str__(self) -> str:
        return f"{self.file}:{self.diagnostic}"


class InvalidConfiguration(UsageError):
    """A configuration cannot be used. Nothing of it is in force; ``problems`` has everything that was found."""

    def __init__(self, problems: Sequence[Problem], mistakes: Sequence[PolicyMistake] = ()) -> None:
        self.problems = tuple(problems)
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(map(str, (*self.problems, *self.mistakes))))


class InvalidPolicies(ProgramError):
    """Policy texts that a configuration names are wrong. Nothing of it is in force; ``mistakes`` has all of them."""

    def __init__(self, mistakes: Sequence[PolicyMistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(map(str, self.mistakes)))


class Findings:
    """Collects what is wrong, up to a bound."""

    def __init__(self) -> None:
        self._problems: Final[list[Problem]] = []
        self._mistakes: Final[list[PolicyMistake]] = []
        self._count = 0
        """Of everything that was found, also beyond the bound."""

    def add(self, file: Path, key: str, message: str) -> None:
        self._count += 1
        if len(self._problems) < PROBLEMS_MAX:
            self._problems.append(Problem(file=file, key=key, message=message))

    def add_mistakes(self, file: Path, diagnostics: Sequence[Diagnostic]) -> None:
        self._count += len(diagnostics)
        room = PROBLEMS_MAX - len(self._mistakes)
        self._mistakes.extend(PolicyMistake(file=file, diagnostic=found) for found in diagnostics[: max(room, 0)])

    def __len__(self) -> int:
        return self._count

    def raise_if_any(self) -> None:
        if self._problems:
            raise InvalidConfiguration(self._problems, self._mistakes)
        if self._mistakes:
            raise InvalidPolicies(self._mistakes)

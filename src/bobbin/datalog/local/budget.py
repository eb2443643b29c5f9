"""What one evaluation may spend. Going past it is an error of the program, never a shortened answer."""

from typing import Final

from bobbin.datalog.limits import Limits
from bobbin.errors import ProgramError

TEST_STEPS: Final = 8
CALL_STEPS: Final = 48
"""What a comparison of texts, and any other call of a built-in, cost beside one row of a loop (measured)."""

INDEX_STEPS: Final = 24
"""What one row costs when a hash index over a derived relation is made; indexes over facts are made once and stay."""


class LimitExceeded(ProgramError):
    """An evaluation went past a limit. Nothing of its result is kept. ``limit`` is the name of the limit."""

    def __init__(self, limit: str, message: str) -> None:
        super().__init__(message)
        self.limit = limit


class Budget:
    """Counts tuples, rounds, steps and computed values of one evaluation."""

    __slots__ = ("_limits", "rounds", "steps", "tuples", "values")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.tuples = 0
        self.rounds = 0
        self.steps = 0
        self.values = 0

    def spend_steps(self, count: int) -> None:
        self.steps += count
        if self.steps > self._limits.steps_max:
            raise LimitExceeded("steps_max", f"the rules took more than {self._limits.steps_max} steps")

    def spend_tuples(self, count: int) -> None:
        self.check_tuples(count)
        self.tuples += count

    def return_tuples(self, count: int) -> None:
        """Tuples went out of the derived relations."""
        self.tuples -= count

    @property
    def tuples_left(self) -> int:
        return self._limits.derived_tuples_max - self.tuples

    def check_tuples(self, waiting: int) -> None:
        """Stop when the tuples so far and those not yet counted are too many."""
        limit = self._limits.derived_tuples_max
        if self.tuples + waiting > limit:
            raise LimitExceeded("derived_tuples_max", f"the rules derive more than {limit} tuples")

    def spend_values(self, count: int) -> None:
        self.check_values(count)
        self.values += count

    def check_values(self, waiting: int) -> None:
        """Stop when built-ins have computed too many texts, those not yet counted included."""
        limit = self._limits.computed_values_max
        if self.values + waiting > limit:
            raise LimitExceeded("computed_values_max", f"the rules compute more than {limit} values")

    def check_held(self, cells: int) -> None:
        """Stop before an intermediate result takes more memory than a whole answer may."""
        limit = self._limits.held_cells_max
        if cells > limit:
            raise LimitExceeded("held_cells_max", f"one join would hold more than {limit} values at once")

    def spend_round(self) -> None:
        self.rounds += 1
        if self.rounds > self._limits.rounds_max:
            limit = self._limits.rounds_max
            raise LimitExceeded("rounds_max", f"no fixed point within {limit} rounds")

"""What one evaluation may spend. Going past it is an error of the program, never a shortened answer.

A step is one row of a loop, at most about 70 nanoseconds where this was measured. Whatever else a program can make
dear is charged in steps of that size, so that ``steps_max`` bounds the time of hostile rules too.
"""

from typing import Final

from bobbin.datalog.limits import Limits
from bobbin.errors import ProgramError

TEST_STEPS: Final = 8
CALL_STEPS: Final = 48
"""What a comparison of texts, and any other call of a built-in, cost beside one row of a loop (measured)."""

HEAD_STEPS: Final = 8
"""What a derived row costs beside the loops that found it."""

INDEX_STEPS: Final = 24
COLUMN_INDEX_STEPS: Final = 2
"""What one row costs when an index over a table, or over columns, is made, or when columns are sorted."""

PLAN_STEPS: Final = 1_500
"""What ordering and compiling one form of a rule costs for each scan of the rule."""
ORDER_STEPS: Final = 20
"""What ordering alone costs for each pair of scans."""
RUN_STEPS: Final = 256
"""What calling a compiled rule costs, whatever its rows; on columns, half of what each scan costs."""
OVERHEAD_FREE: Final = 1_000_000
"""Steps of plans and calls that are not charged, so that the first run of an ordinary program counts like later ones.
Thousands of long rules, or of rounds with hundreds of rules, go past this."""


class LimitExceeded(ProgramError):
    """An evaluation went past a limit. Nothing of its result is kept. ``limit`` is the name of the limit."""

    def __init__(self, limit: str, message: str) -> None:
        super().__init__(message)
        self.limit = limit


class Budget:
    """Counts tuples, rounds, steps and computed values of one evaluation."""

    __slots__ = ("_limits", "overhead", "rounds", "steps", "tuples", "values")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.tuples = 0
        self.rounds = 0
        self.steps = 0
        self.overhead = 0
        self.values = 0

    def spend_steps(self, count: int) -> None:
        self.steps += count
        if self.steps > self._limits.steps_max:
            raise LimitExceeded("steps_max", f"the rules took more than {self._limits.steps_max} steps")

    def spend_overhead(self, steps: int) -> None:
        """Plans and calls: what an evaluation costs beside the rows that it looks at."""
        self.overhead += steps
        if self.overhead > OVERHEAD_FREE:
            self.spend_steps(min(steps, self.overhead - OVERHEAD_FREE))

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

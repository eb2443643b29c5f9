"""What one evaluation on Spark may spend. Going past it is an error, never a shortened answer.

The in-process engine counts steps. Spark does not let anybody count inside a join, so here rows are counted wherever a
relation is made, rounds where there are rounds, and what is held in one process is bounded before it is fetched.
"""

from typing import Final

from msgspec import Struct

from bobbin.datalog.limits import Limits
from bobbin.errors import UsageError


class CannotExecute(UsageError):
    """The executor that was asked for cannot do this stratum. Nothing was evaluated beyond the strata below it."""


class RuleLimits(Struct, frozen=True, kw_only=True):
    """Bounds of one evaluation on Spark."""

    derived_rows_max: int = 200_000_000
    """Rows that the strata of one program derive, together, counted where a relation is materialised or written."""
    rounds_max: int = 2_000
    """Rounds of the semi-naive loop in one stratum. A round takes a fifth of a second at least."""
    collected_rows_max: int = 2_000_000
    """Rows that may be brought to the driver for one stratum."""
    replicated_rows_max: int = 1_000_000
    """Rows that every partition may get a copy of."""
    product_rows_max: int = 100_000
    """Rows of the smaller side of a product: of relations that one rule joins without any variable in common."""
    broadcast_rows_max: int = 200_000
    """Rows of a relation that a join may send to every executor instead of moving both sides."""
    in_process: Limits = Limits(
        derived_tuples_max=10_000_000,
        steps_max=4_000_000_000,
        computed_values_max=10_000_000,
        held_cells_max=400_000_000,
        program_bytes_max=1 << 24,
    )
    """What the in-process engine may spend, on the driver for a stratum or on a worker for one partition."""


DEFAULT: Final = RuleLimits()
"""The limits that hold when nobody sets others."""

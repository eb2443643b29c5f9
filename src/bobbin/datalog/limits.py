"""Bounds on programs and their evaluation. Going past one is an error, never a truncation."""

from typing import Final

from msgspec import Struct


class Limits(Struct, frozen=True, kw_only=True):
    """The defaults are those of the protocol page; every one can be configured."""

    program_bytes_max: int = 262_144
    rules_max: int = 1_024
    literals_max: int = 32
    """Literals in one rule."""
    variables_max: int = 64
    """Variables in one rule."""
    arity_max: int = 16
    constant_bytes_max: int = 4_096
    strata_max: int = 64
    derived_tuples_max: int = 1_000_000
    """Tuples that one evaluation may derive."""
    rounds_max: int = 10_000
    """Rounds of the fixed point, all strata together."""
    steps_max: int = 200_000_000
    """Steps of the innermost loops in one evaluation: what keeps one cross join from running away."""
    computed_values_max: int = 2_000_000
    """Texts that no fact holds and that built-ins compute in one evaluation."""
    held_cells_max: int = 100_000_000
    """Rows times columns of one intermediate result of the columnar evaluator; a cell takes four bytes."""
    diagnostics_max: int = 100
    """Mistakes that one report lists."""


DEFAULT: Final = Limits()
"""The limits that hold when nobody sets others."""

PEER: Final = Limits(
    derived_tuples_max=500_000,
    rounds_max=5_000,
    steps_max=30_000_000,
    computed_values_max=500_000,
    held_cells_max=50_000_000,
)
"""The limits for what a peer wrote. Rules made to be dear are stopped after about two seconds of one processor."""

"""How to compare on a machine that is never quite quiet.

The alternatives take turns, round after round, and each ratio is taken within one round, so what slows the machine
down for a while slows both sides. The answer is the median of the rounds' ratios. Short rounds and many of them are
better than the other way about.
"""

import os
import statistics
import time
from collections.abc import Callable, Mapping
from typing import TypeAlias

from measurement.result import Comparison, Ratio, Row

Rates: TypeAlias = dict[str, list[float]]
"""For each alternative its rate per second, round by round."""


def take_turns(alternatives: Mapping[str, Callable[[], float]], *, rounds: int) -> Rates:
    """Run each alternative once a round; each answers with its rate. Every other round goes backwards."""
    rates: Rates = {name: [] for name in alternatives}
    for turn in range(rounds):
        names = list(alternatives)
        for name in names if turn % 2 == 0 else reversed(names):
            rates[name].append(alternatives[name]())
    return rates


def rate_of(work: Callable[[], object], count: int) -> float:
    """How many per second, when ``work`` does ``count`` of them."""
    start = time.perf_counter()
    work()
    return count / (time.perf_counter() - start)


def rate_row(name: str, rates: Rates, which: str, *, unit: str, note: str = "") -> Row:
    """The median rate of one alternative."""
    return Row(name=name, value=round(statistics.median(rates[which])), unit=unit, note=note)


def ratio_row(
    name: str,
    rates: Rates,
    mine: str,
    theirs: str,
    *,
    bar: float | None = None,
    stretch: float | None = None,
    comparison: Comparison = ">=",
    note: str = "",
) -> Ratio:
    """The median of the rounds' ratios, with their spread in the note."""
    ratios = sorted(one / other for one, other in zip(rates[mine], rates[theirs], strict=True))
    spread = f"{len(ratios)} rounds, {ratios[0]:.3g} to {ratios[-1]:.3g}"
    return Ratio(
        name=name,
        value=round(statistics.median(ratios), 3),
        bar=bar,
        stretch=stretch,
        comparison=comparison,
        note=f"{note}; {spread}" if note else spread,
    )


def setting(name: str, default: int) -> int:
    """A size that the environment may change: ``BOBBIN_BENCH_<NAME>``."""
    return int(os.environ.get(f"BOBBIN_BENCH_{name}", default))

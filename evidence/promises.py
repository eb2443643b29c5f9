"""What a campaign of simulated worlds found, as a result: promises broken, and planted faults seen."""

from collections.abc import Mapping, Sequence
from typing import Final

from bobbin.simulator.batch import Summary
from measurement.result import Ratio, Result, Row

_TEXTS_MAX: Final = 3
"""Broken promises that are told in words; of others the seeds are named, up to so many in all."""
_SEEDS_MAX: Final = 50


def report(
    question: str,
    summary: Summary,
    found: Mapping[str, int | None],
    *,
    counted: Sequence[str],
    also: tuple[str, str],
    seeds_max: int,
) -> Result:
    """What was counted. ``found``: for each fault the seed that saw it.

    ``also``: how further counts begin, and what is said of them.
    """
    beginning, said = also
    others = {name: count for name, count in summary.counts.items() if name.startswith(beginning)}
    rows = [Row(name="worlds", value=summary.worlds, note=f"seeds 0 to {summary.worlds - 1}")]
    rows += [Row(name=name, value=summary.counts.get(name, 0)) for name in counted]
    rows += [Row(name=f"{said} {name}", value=count) for name, count in sorted(others.items())]
    rows += [
        Row(name=f"fault: {name}", value=-1 if seed is None else seed + 1, note="worlds until it was found")
        for name, seed in found.items()
    ]
    said_of = list(summary.failures.values())
    note = "; ".join(said_of[:_TEXTS_MAX])
    if more := list(summary.failures)[_TEXTS_MAX:_SEEDS_MAX]:
        note += f"; and seeds {', '.join(map(str, more))}"
    caught = sum(seed is not None for seed in found.values())
    return Result(
        question=question,
        rows=rows,
        ratios=[
            Ratio(name="worlds in which a promise was broken", value=summary.broken, bar=0, comparison="<=", note=note),
            Ratio(
                name=f"planted faults that were found within {seeds_max} worlds, of {len(found)}",
                value=caught,
                bar=len(found),
                comparison=">=",
            ),
        ],
    )

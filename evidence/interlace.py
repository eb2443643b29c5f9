"""Simulated exchanges: nodes, links that break, clocks that are wrong, peers that lie, seed after seed.

Beside every machine of an honest node stands a witness that works out from its own books, at every word, what may be
said. The second half of the question is whether that finds anything: machines with one planted fault each, and the
number of the world that found it out.
"""

import os
from pathlib import Path
from typing import Final

from bobbin.simulator.batch import Summary, run_batch
from measurement.result import Ratio, Result, Row
from tests.simulation.interlace_mutants import MUTANTS, SEEDS_MAX, seeds_to_find

QUESTION: Final = (
    "Do exchanges keep every promise while records come and go, links break, nodes crash, disks fail, clocks jump and "
    "peers lie, and do the same worlds find a machine that has a fault?"
)
_COUNTED: Final = (
    "hostile worlds",
    "byte worlds",
    "disk worlds",
    "exchanges",
    "checked steps",
    "records received",
    "fixed points",
    "fixed points by brute force",
    "closures by brute force",
    "crash",
    "break",
    "cancel",
    "jump",
    "operand",
    "put",
    "remove",
    "lift",
)


def run(out: Path) -> Result:
    """Run the worlds, then the planted faults; the seeds of broken worlds are in the file."""
    worlds = int(os.environ.get("BOBBIN_EVIDENCE_INTERLACE_WORLDS", "20000"))
    return report(run_batch(range(worlds), jobs=2), {name: seeds_to_find(name) for name in MUTANTS}, out)


def report(summary: Summary, found: dict[str, int | None], out: Path) -> Result:
    """What was counted, as a result."""
    del out
    rows = [Row(name="worlds", value=summary.worlds, note=f"seeds 0 to {summary.worlds - 1}")]
    rows += [Row(name=name, value=summary.counts.get(name, 0)) for name in _COUNTED]
    ends = {name: count for name, count in summary.counts.items() if name.startswith("end: ")}
    rows += [Row(name=f"exchanges of a side: {name}", value=count) for name, count in sorted(ends.items())]
    rows += [
        Row(name=f"fault: {name}", value=-1 if seed is None else seed + 1, note="worlds until it was found")
        for name, seed in found.items()
    ]
    note = "; ".join(list(summary.failures.values())[:3])
    caught = sum(seed is not None for seed in found.values())
    return Result(
        question=QUESTION,
        rows=rows,
        ratios=[
            Ratio(name="worlds in which a promise was broken", value=summary.broken, bar=0, comparison="<=", note=note),
            Ratio(
                name=f"planted faults that were found within {SEEDS_MAX} worlds, of {len(found)}",
                value=caught,
                bar=len(found),
                comparison=">=",
            ),
        ],
    )

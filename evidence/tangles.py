"""Simulated tangles: nodes with feeds, threads, sets and dicts, links that break, peers that forge, seed after seed.

What rests at the nodes is held to the truth of the world, and what they owe each other is worked out by brute force.
The second half of the question is whether that finds anything: machines and stores with one planted fault each, and the
number of the world that found it out.
"""

import os
from pathlib import Path
from typing import Final

from bobbin.simulator.batch import Summary, run_batch
from measurement.result import Ratio, Result, Row
from tests.simulation.tangle_mutants import MUTANTS, SEEDS_MAX, seeds_to_find

QUESTION: Final = (
    "Do tangles converge after every trouble, with nothing invalid stored and nothing lost, while links break, nodes "
    "crash, disks fail, goals change and peers forge, and do the same worlds find a machine that has a fault?"
)
_COUNTED: Final = (
    "hostile worlds",
    "disk worlds",
    "modern worlds",
    "nine-phase worlds",
    "sessions",
    "calm sessions",
    "runs",
    "messages received",
    "messages refused",
    "messages audited",
    "goals by brute force",
    "tangles alike",
    "news",
    "crashes",
    "break",
    "goal",
    "collect",
    "open",
    "write",
)


def run(out: Path) -> Result:
    """Run the worlds, then the planted faults; the seeds of broken worlds are in the file."""
    worlds = int(os.environ.get("BOBBIN_EVIDENCE_TANGLES_WORLDS", "10000"))
    summary = run_batch(range(worlds), world="tangles", jobs=2)
    return report(summary, {name: seeds_to_find(name) for name in MUTANTS}, out)


def report(summary: Summary, found: dict[str, int | None], out: Path) -> Result:
    """What was counted, as a result."""
    del out
    rows = [Row(name="worlds", value=summary.worlds, note=f"seeds 0 to {summary.worlds - 1}")]
    rows += [Row(name=name, value=summary.counts.get(name, 0)) for name in _COUNTED]
    vices = {name: count for name, count in summary.counts.items() if name.startswith("vice: ")}
    rows += [Row(name=f"frames of a hostile peer, {name}", value=count) for name, count in sorted(vices.items())]
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

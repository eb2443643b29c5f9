"""Simulated tangles: nodes with feeds, threads, sets and dicts, links that break, peers that forge, seed after seed.

What rests at the nodes is held to the truth of the world, and what they owe each other is worked out by brute force.
The second half of the question is whether that finds anything: machines and stores with one planted fault each, and the
number of the world that found it out.
"""

import os
from pathlib import Path
from typing import Final

from bobbin.simulator.batch import run_batch
from evidence.promises import report
from measurement.result import Result
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
    del out
    worlds = int(os.environ.get("BOBBIN_EVIDENCE_TANGLES_WORLDS", "10000"))
    return report(
        QUESTION,
        run_batch(range(worlds), world="tangles", jobs=2),
        {name: seeds_to_find(name) for name in MUTANTS},
        counted=_COUNTED,
        also=("vice: ", "frames of a hostile peer,"),
        seeds_max=SEEDS_MAX,
    )

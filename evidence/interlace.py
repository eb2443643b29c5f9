"""Simulated exchanges: nodes, links that break, clocks that are wrong, peers that lie, seed after seed.

Beside every machine of an honest node stands a witness that works out from its own books, at every word, what may be
said. The second half of the question is whether that finds anything: machines with one planted fault each, and the
number of the world that found it out.
"""

import os
from pathlib import Path
from typing import Final

from bobbin.simulator.batch import run_batch
from evidence.promises import report
from measurement.result import Result
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
    del out
    worlds = int(os.environ.get("BOBBIN_EVIDENCE_INTERLACE_WORLDS", "20000"))
    return report(
        QUESTION,
        run_batch(range(worlds), jobs=2),
        {name: seeds_to_find(name) for name in MUTANTS},
        counted=_COUNTED,
        also=("end: ", "exchanges of a side:"),
        seeds_max=SEEDS_MAX,
    )

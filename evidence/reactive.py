"""Simulated graphs and their mirrors: frames get lost, permissions change, either side begins again, seed after seed.

Every frame and every state of a mirror is held to the graph as the peer may see it at that epoch, worked out by brute
force. The second half of the question is whether that finds anything: machines with one planted fault each, and the
number of the world that found it out.
"""

import os
from pathlib import Path
from typing import Final

from bobbin.simulator.batch import run_batch
from evidence.promises import report
from measurement.result import Result
from tests.simulation.reactive_mutants import MUTANTS, SEEDS_MAX, seeds_to_find

QUESTION: Final = (
    "Is every mirror the graph as its peer may see it, at every epoch and without a sign of anything else, while "
    "frames are lost, doubled, cut and late, permissions change and both sides restart, and do the same worlds find a "
    "machine that has a fault?"
)
_COUNTED: Final = (
    "worlds: live",
    "worlds: lazy",
    "worlds: hostile",
    "worlds: reuses",
    "links",
    "batches",
    "permissions changed",
    "sent: Snapshot",
    "sent: Delta",
    "mirror updates",
    "mirrors alike",
    "said: ResyncRequest",
    "source: Behind",
    "source: Denied",
    "source restarts",
    "mirror restarts",
    "writes",
    "writes done",
    "effects triggered",
)


def run(out: Path) -> Result:
    """Run the worlds, then the planted faults; the seeds of broken worlds are in the file."""
    del out
    worlds = int(os.environ.get("BOBBIN_EVIDENCE_REACTIVE_WORLDS", "10000"))
    return report(
        QUESTION,
        run_batch(range(worlds), world="reactive", jobs=2),
        {name: seeds_to_find(name) for name in MUTANTS},
        counted=_COUNTED,
        also=("vice: ", "acts of a hostile peer,"),
        seeds_max=SEEDS_MAX,
    )

"""Simulated clusters: messages are lost, disks fail, nodes crash and members change, seed after seed.

R1 to R14 are asserted after every step, on the disks as well, and every answer to a client is held to one order of all
requests. For some worlds the histories of the clients go to a second checker too, which knows nothing of logs. The
other half of the question is whether that finds anything: clusters with one planted fault each, and the number of the
world that found it out. A few faults show in hardly any world; for these there are stories in which they must.
"""

import os
from pathlib import Path
from typing import Final

from bobbin.simulator.batch import run_batch
from evidence.promises import report
from measurement.result import Ratio, Result, Row
from tests.oracle.linearizability import find_violation
from tests.simulation.raft_histories import history_of
from tests.simulation.raft_mutants import MUTANTS, SEEDS_MAX, seeds_to_find
from tests.simulation.raft_story_mutants import STORIES, is_seen

QUESTION: Final = (
    "Does a cluster keep every promise of Raft after every step, and every promise to its clients, while messages are "
    "lost, disks fail, nodes crash at any write, clocks jump and members change; does it recover when that ends; and "
    "do the same worlds find a cluster that has a fault?"
)
_COUNTED: Final = (
    "worlds: 3 nodes",
    "worlds: 5 nodes",
    "worlds: 7 nodes",
    "worlds: bytes",
    "worlds: slow",
    "worlds: bad_disks",
    "worlds: compacting",
    "worlds: changing",
    "worlds: hostile",
    "worlds: judging",
    "world steps",
    "cold starts",
    "leaders",
    "entries committed",
    "requests answered",
    "requests unknown",
    "crashes",
    "disk operations",
    "disk errors",
    "bits flipped",
    "damage found",
    "messages",
    "messages lost",
    "messages doubled",
    "messages late",
    "messages spoilt",
    "messages echoed",
    "snapshots taken",
    "snapshots installed",
    "configurations",
    "configurations: joint",
    "transfers done",
    "judges: shown of a leader",
    "judges: shown of the log",
    "judges: lagged",
    "judges: could not see",
    "judges: began anew",
    "judges: found a forged entry",
)


def run(out: Path) -> Result:
    """Run the worlds, then the histories, then the planted faults; the seeds of broken worlds are in the file."""
    del out
    worlds = int(os.environ.get("BOBBIN_EVIDENCE_RAFT_WORLDS", "100000"))
    histories = int(os.environ.get("BOBBIN_EVIDENCE_RAFT_HISTORIES", "5000"))
    found = {name: seeds_to_find(name) for name in MUTANTS}
    found |= {f"{name}, by its story": 0 if is_seen(name) else None for name in STORIES}
    result = report(
        QUESTION,
        run_batch(range(worlds), world="raft", jobs=2),
        found,
        counted=_COUNTED,
        also=("vice: ", "acts of a lying member,"),
        seeds_max=SEEDS_MAX,
    )
    operations, unexplained = _look_at_histories(histories)
    result.rows.append(Row(name="operations in histories of clients", value=operations, note=f"of {histories} worlds"))
    result.ratios.append(Ratio(name="histories that no order explains", value=unexplained, bar=0, comparison="<="))
    return result


def _look_at_histories(worlds: int) -> tuple[int, int]:
    """How many operations there were, and how many histories are not linearizable."""
    operations = unexplained = 0
    for seed in range(worlds):
        history = history_of(seed)
        operations += len(history)
        unexplained += find_violation(history) is not None
    return operations, unexplained

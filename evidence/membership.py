"""Simulated members: links and nodes fail, one of them lies, and a large cluster lives with loss and a slow node.

M1 to M7 are asserted after every step of every node, over all its lives. The second half of the question is whether
that finds anything: machines with one planted fault each. The third is about numbers that a small world cannot show:
how often a live node of a hundred is called failed, and how soon a dead one is known to all.
"""

import os
from pathlib import Path
from time import process_time
from typing import Final

from bobbin.cluster.membership.bounds import detection_ms_max
from bobbin.simulator.batch import run_batch
from evidence.promises import report
from measurement.result import Ratio, Result, Row
from tests.simulation.membership_mutants import MUTANTS, SEEDS_MAX, seeds_to_find
from tests.simulation.membership_scale import LargeCluster

QUESTION: Final = (
    "Do members agree on who is there while messages are lost, doubled, spoilt and late, links are cut one way, nodes "
    "crash, stall and lie, do the same worlds find a machine that has a fault, and does a cluster of 100 with 10 % "
    "loss and a slow node call nobody failed who is not?"
)
_COUNTED: Final = (
    "worlds: with a liar",
    "steps",
    "node-rounds",
    "starts",
    "crashes",
    "deaths in the calm",
    "messages sent",
    "messages lost",
    "messages doubled",
    "messages late",
    "spoilt messages refused",
    "became DEGRADED",
    "became FAILED",
    "live nodes called failed in the troubles",
    "told: Healed",
    "told: Flapping",
    "agreements",
)
_MEMBERS: Final = 100
_ROUNDS: Final = 1_000
_PERIODS: Final = 5
"""Gossip rounds in a probe period: a count of node-rounds holds for probes as well if it is so many times as long."""
_DEATHS: Final = 10


def run(out: Path) -> Result:
    """Run the worlds, the planted faults and the large cluster; the seeds of broken worlds are in the file."""
    del out
    worlds = int(os.environ.get("BOBBIN_EVIDENCE_MEMBERSHIP_WORLDS", "20000"))
    summary = run_batch(range(worlds), world="membership", jobs=2)
    result = report(
        QUESTION,
        summary,
        {name: seeds_to_find(name) for name in MUTANTS},
        counted=_COUNTED,
        also=("lie: ", "lies,"),
        seeds_max=SEEDS_MAX,
    )
    rows, ratios = _run_large()
    false = summary.counts["live nodes called failed in the troubles"] / summary.counts["node-rounds"]
    rows.insert(
        0, Row(name="live nodes called failed, per 1,000 node-rounds of small worlds", value=round(false * 1_000, 2))
    )
    return Result(question=result.question, rows=[*result.rows, *rows], ratios=[*result.ratios, *ratios])


def _run_large() -> tuple[list[Row], list[Ratio]]:
    cluster = LargeCluster(members=_MEMBERS, loss=0.1, seed=0)
    cluster.run(50)
    cluster.slow_down()
    began = process_time()
    cluster.run(_ROUNDS * _PERIODS)
    cpu_us = (process_time() - began) / (_ROUNDS * _PERIODS * _MEMBERS) * 1e6
    false = len(cluster.false_failures)
    detections = [cluster.kill(node) for node in list(cluster.members)[-_DEATHS:]]
    slowest = max(detection.all_ms for detection in detections)
    bound = detection_ms_max(cluster.config, _MEMBERS)
    rows = [
        Row(name="large cluster: members", value=_MEMBERS, note="10 % loss, one slow node, default settings"),
        Row(name="large cluster: gossip rounds of a node", value=_ROUNDS * _PERIODS * _MEMBERS),
        Row(name="large cluster: probe periods of a node", value=_ROUNDS * _MEMBERS),
        Row(name="large cluster: times that a view became suspicious", value=cluster.tally["became DEGRADED"]),
        Row(name="large cluster: stalls of the slow node", value=cluster.tally["stalls"]),
        Row(name="large cluster: CPU of a node-round in microseconds", value=round(cpu_us, 1), note="with its network"),
        Row(
            name="large cluster: death until the first knew, median ms",
            value=sorted(detection.first_ms for detection in detections)[_DEATHS // 2],
        ),
        Row(
            name="large cluster: death until all knew, median ms",
            value=sorted(detection.all_ms for detection in detections)[_DEATHS // 2],
        ),
        Row(name="large cluster: death until all knew, longest ms", value=slowest, note=f"of {_DEATHS} deaths"),
    ]
    ratios = [
        Ratio(
            name=f"live nodes called failed in {_ROUNDS * _MEMBERS} probe periods of a node",
            value=false,
            bar=0,
            comparison="<=",
        ),
        Ratio(
            name="longest time until all knew of a death, of the bound of M5",
            value=round(slowest / bound, 3),
            bar=1,
            comparison="<=",
            note=f"{bound} ms",
        ),
        Ratio(
            name="live nodes called failed after deaths",
            value=len(cluster.false_failures) - false,
            bar=0,
            comparison="<=",
        ),
    ]
    return rows, ratios

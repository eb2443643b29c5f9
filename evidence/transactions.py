"""Simulated transactions over shards: leaders die at any durable write, are deposed unknowingly, and are cut off.

T1 to T6 are asserted at every command that is applied and every message that leaves, the nodes of a shard are compared
along their logs, and in the end one order must explain all (T7). For some worlds the histories of lists go to a second
checker, which knows nothing of chains. The other half of the question is whether that finds anything: shards with one
planted fault each, and the number of the world that found it out. The last part is one world of a whole day.
"""

import os
from pathlib import Path
from random import Random
from typing import Final

from bobbin.simulator.batch import run_batch
from bobbin.simulator.transaction_shape import draw_day
from bobbin.simulator.transaction_world import TransactionWorld
from evidence.promises import report
from measurement.result import Ratio, Result, Row
from tests.oracle.serializability import find_anomaly
from tests.simulation.transaction_histories import history_of
from tests.simulation.transaction_mutants import MUTANTS, SEEDS_MAX, seeds_to_find

QUESTION: Final = (
    "Are transactions over shards atomic, isolated and remembered while leaders die at any durable write, are deposed "
    "without knowing it, nodes restart, clocks jump and messages are lost, doubled and late; does everything end when "
    "that ends; do the same worlds find shards that have a fault; and are the chains of two nodes the same to the bit "
    "after a day of it?"
)
_COUNTED: Final = (
    "worlds: 1 shards",
    "worlds: 2 shards",
    "worlds: 3 shards",
    "worlds: 4 shards",
    "worlds: bytes",
    "worlds: judging",
    "worlds: waiting",
    "worlds: wounding",
    "worlds: optimistic",
    "worlds: forgetful",
    "worlds: crowded",
    "worlds: gathering",
    "transactions",
    "transactions committed",
    "committed over several shards",
    "transactions refused",
    "transactions unknown",
    "transactions taken back",
    "turns with several commits",
    "blocks",
    "blocks of several transactions",
    "blocks behind something under way",
    "blocks of several transactions behind something under way",
    "log entries",
    "steps of leaders",
    "leaders",
    "leaders dead",
    "leaders deposed",
    "struck at a write: before",
    "struck at a write: after",
    "struck at a write: heard",
    "struck at a write: half said",
    "proposals that survived their leader",
    "proposals refused",
    "nodes restarted",
    "forged blocks",
    "blocks judged",
    "messages",
    "messages lost",
    "messages doubled",
    "messages late",
)


def run(out: Path) -> Result:
    """Run the planted faults, the worlds, the histories and the day; the seeds of broken worlds are in the file."""
    del out
    worlds = int(os.environ.get("BOBBIN_EVIDENCE_TRANSACTION_WORLDS", "50000"))
    histories = int(os.environ.get("BOBBIN_EVIDENCE_TRANSACTION_HISTORIES", "2000"))
    hours = int(os.environ.get("BOBBIN_EVIDENCE_TRANSACTION_HOURS", "24"))
    found = {name: seeds_to_find(name) for name in MUTANTS}
    result = report(
        QUESTION,
        run_batch(range(worlds), world="transactions", jobs=2),
        found,
        counted=_COUNTED,
        also=("trouble: ", "troubles,"),
        seeds_max=SEEDS_MAX,
    )
    transactions, unexplained = _look_at_histories(histories)
    result.rows.append(
        Row(name="transactions in histories of lists", value=transactions, note=f"of {histories} worlds")
    )
    result.ratios.append(Ratio(name="histories that no order explains", value=unexplained, bar=0, comparison="<="))
    rows, ratio = _live_through_a_day(hours)
    return Result(question=result.question, rows=[*result.rows, *rows], ratios=[*result.ratios, ratio])


def _look_at_histories(worlds: int) -> tuple[int, int]:
    """How many transactions there were, and how many histories are not serialisable, strictly."""
    transactions = unexplained = 0
    for seed in range(worlds):
        history = history_of(seed)
        transactions += len(history)
        unexplained += find_anomaly(history) is not None
    return transactions, unexplained


def _live_through_a_day(hours: int) -> tuple[list[Row], Ratio]:
    """One long world. It ends broken, or with chains that were looked at by their own blocks alone."""
    world = TransactionWorld(0, shape=draw_day(Random("day 0"), hours=hours))
    counts = world.run()
    differing = 0
    for shard in world.shards:
        first, second = (copy.state.ledger for copy in shard.copies)
        whole = first.verify() is None and second.verify() is None
        differing += not whole or first.blocks(0, first.height) != second.blocks(0, second.height)
    rows = [
        Row(name=f"day: {what}", value=counts[what], note=f"{hours} simulated hours" if what == "blocks" else "")
        for what in ("blocks", "transactions committed", "leaders dead", "leaders deposed", "nodes restarted")
    ]
    return rows, Ratio(
        name="shards whose two chains differ or do not verify after the day", value=differing, bar=0, comparison="<="
    )

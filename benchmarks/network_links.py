"""Many open links on one node: what an idle one costs in memory, and what a new record costs to reach them all."""

import statistics
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from benchmarks.material import RECORD_BYTES
from benchmarks.network_lace import Served, following, serving
from benchmarks.network_processes import WORK_SECONDS_MAX, ended_on_signal, next_answer
from benchmarks.rounds import Rates, ratio_row, setting
from measurement.result import Ratio, Result, Row

if TYPE_CHECKING:
    from subprocess import Popen

QUESTION: Final = (
    "What does an open link that has nothing to do cost a node in memory? And what does it cost until a new record has "
    "reached every one of many links, against a tenth of them?"
)
NOTE: Final = (
    f"Two nodes, one with few links and one with many, each in a process of its own. Each has the same records of "
    f"{RECORD_BYTES} bytes and serves them over TCP on loopback to peers in another process; every peer has its own "
    "key and its own store, and has exchanged everything before anything is measured. Memory is what is resident in "
    "the node's process with all links at rest, less what was before the first one; so what is there once for all "
    "links is divided among them too. Then one record at a time is stored in each node in turn. Processor time is that "
    "of the node's process from just before until all links are at rest again; the wall time ends when the last peer "
    "has the record validated and durable, and its peers' work on the same machine is part of it."
)
_REST_SECONDS: Final = 1.0
"""For what a node does after the last word on its links."""
MEGABYTE: Final = 1_000_000


class Crowd:
    """A node and its links."""

    def __init__(self, stack: ExitStack, *, links: int, records: int) -> None:
        self._records = records
        self._node: Final[Served] = stack.enter_context(serving(records, peers=links))
        before = self._memory()
        self._peers: Final[Popen[str]] = stack.enter_context(following(self._node, records=records, links=links))
        next_answer(self._peers, seconds_max=WORK_SECONDS_MAX)
        time.sleep(_REST_SECONDS)
        self.bytes_per_link: Final = (self._memory() - before) / links

    def put(self) -> tuple[float, float]:
        """Store one more record; the processor time until all is at rest, and the wall time until all have it."""
        used = self._processor()
        began = float(self._node.ask(f"put {self._records}")["at"])
        self._records += 1
        arrived = float(next_answer(self._peers, seconds_max=WORK_SECONDS_MAX)["at"])
        time.sleep(_REST_SECONDS)
        return self._processor() - used, arrived - began

    def _memory(self) -> float:
        return float(self._node.ask("memory")["bytes"])

    def _processor(self) -> float:
        return float(self._node.ask("processor")["seconds"])


def run() -> Result:
    """Measure."""
    few = setting("NETWORK_LINKS_FEW", 20)
    many = setting("NETWORK_LINKS", 200)
    records = setting("NETWORK_LINK_RECORDS", 1_000)
    rounds = setting("NETWORK_LINK_ROUNDS", 9)
    costs: Rates = {name: [] for name in ("few", "many", "few wall", "many wall")}
    with ended_on_signal(), ExitStack() as stack:
        with ExitStack() as alone:
            light = Crowd(alone, links=few, records=max(records // 10, 1)).bytes_per_link
        crowds = {
            "few": Crowd(stack, links=few, records=records),
            "many": Crowd(stack, links=many, records=records),
        }
        for crowd in crowds.values():
            crowd.put()  # not counted: the first one after a rest does some work for the first time
        for turn in range(rounds):
            for name in sorted(crowds, reverse=turn % 2 == 1):
                processor, wall = crowds[name].put()
                costs[name].append(processor)
                costs[f"{name} wall"].append(wall)
    memory = {"light": light} | {name: crowd.bytes_per_link for name, crowd in crowds.items()}
    return _result(costs, memory, few, many, records)


def _result(costs: Rates, memory: dict[str, float], few: int, many: int, records: int) -> Result:
    rows = [
        Row(
            name=f"memory of an idle link, {links} links with {held:,} records each",
            value=round(memory[name] / 1_000, 1),
            unit="kB",
        )
        for name, links, held in (("light", few, max(records // 10, 1)), ("few", few, records), ("many", many, records))
    ]
    for name, links in (("few", few), ("many", many)):
        for which, what in ((name, "processor time of the node"), (f"{name} wall", "wall time, peers included")):
            value = round(1_000 * statistics.median(costs[which]), 1)
            rows.append(Row(name=f"a new record on {links} links: {what}", value=value, unit="ms"))
    name = f"a new record on {many} links / {few}"
    return Result(
        question=QUESTION,
        rows=rows,
        ratios=[
            Ratio(
                name=f"memory of an idle link, {many} links with {records:,} records each, MB",
                value=round(memory["many"] / MEGABYTE, 3),
                bar=1,
                comparison="<=",
            ),
            ratio_row(f"{name}, processor time", costs, "many", "few", bar=12, comparison="<="),
            ratio_row(f"{name}, wall time", costs, "many wall", "few wall", bar=12, comparison="<="),
        ],
        notes=[NOTE],
    )

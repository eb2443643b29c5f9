"""The figures of a node."""

import asyncio
from pathlib import Path

from bobbin.runtime.cluster_figures import counts_of, gauges_of
from bobbin.runtime.cluster_meter import GAUGES
from tests.support.clusters import cluster, until


def test_figures_are_read_from_the_parts_of_a_node(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path, 1) as nodes:
            node = await nodes.elected()
            async with nodes.client() as client:
                await client.put(b"a", b"1")
            await until(lambda: node.machine.applied_index == node.machine.commit_index)
            gauges, counts = gauges_of(node, now_ns=0), counts_of(node)
            assert gauges.keys() <= GAUGES.keys()
            assert (gauges["voters"], gauges["keys"], gauges["healthy"]) == (1, len(node.state.table), 1)
            assert gauges["commit_index"] == node.machine.commit_index > 0
            assert (counts["clients_writes"] > 0, counts["elections_won"], counts["entries_refused"]) == (True, 1, 0)

    asyncio.run(story())

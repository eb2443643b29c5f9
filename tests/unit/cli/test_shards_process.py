"""One node of each shard as a process."""

import asyncio
import os
import signal
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from bobbin.cli.shards_process import ShardsProcess
from bobbin.cluster.operations import Put
from bobbin.cluster.transactions.phases import Ended
from bobbin.config.shards import create_set, read_set
from bobbin.errors import ResourceError
from bobbin.runtime.cluster_client import ClusterClient
from bobbin.runtime.log import make_log
from tests.support.clusters import free_ports, until
from tests.support.shards import Asker


def _folder(path: Path) -> Path:
    create_set([path], [[f"tls:127.0.0.1:{port}"] for port in free_ports(2)])
    for shard in (0, 1):
        file = path / f"s{shard}" / "cluster.toml"
        file.write_text(file.read_text("utf-8") + '[metrics]\nlisten = "tcp:127.0.0.1:0"\n', "utf-8")
    return path


async def _page(address: str) -> str:
    host, port = address.removeprefix("tcp:").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET /metrics HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n")
    answer = (await reader.read()).decode()
    writer.close()
    return answer


def test_it_serves_all_shards_until_it_is_told_to_stop(tmp_path: Path) -> None:
    folders = read_set(_folder(tmp_path / "n"))
    told: list[tuple[str, dict[str, Any]]] = []

    async def run() -> str:
        process = ShardsProcess(
            folders, log=make_log(output=StringIO()), tell=lambda event, values: told.append((event, dict(values)))
        )
        task = asyncio.create_task(process.run())
        await until(lambda: bool(told))
        clients = [ClusterClient(folder.known, own=folder.operator, seconds=30) for folder in folders]
        ask = Asker(clients)
        done = await ask.commit(Put(ask.keys(0, 1)[0], b"1"), Put(ask.keys(1, 1)[0], b"2"))
        assert done.ended is Ended.COMMITTED
        assert [(await ask.get(ask.keys(shard, 1)[0])).value for shard in (0, 1)] == [b"1", b"2"]
        page = await _page(told[0][1]["shards"][0]["metrics"])
        for client in clients:
            await client.close()
        os.kill(os.getpid(), signal.SIGTERM)
        await task
        return page

    page = asyncio.run(run())
    assert [event for event, _ in told] == ["started", "stopping"]
    assert [(one["shard"], one["node"]) for one in told[0][1]["shards"]] == [(0, folders[0].node), (1, folders[1].node)]
    assert "bobbin_cluster_chain_height 1.0" in page
    assert 'bobbin_cluster_figure{metric="commit_rate"} 1.0' in page
    assert 'bobbin_cluster_events_total{event="transactions_committed"} 1.0' in page


def test_a_set_is_served_once(tmp_path: Path) -> None:
    path = _folder(tmp_path / "n")

    async def run() -> None:
        told = asyncio.Event()
        first = ShardsProcess(read_set(path), log=make_log(output=StringIO()), tell=lambda *_: told.set())
        task = asyncio.create_task(first.run())
        await told.wait()
        second = ShardsProcess(read_set(path), log=make_log(output=StringIO()), tell=lambda *_: None)
        with pytest.raises(ResourceError, match="in use"):
            await second.run()
        # The second one has taken the signals; the first is ended by hand.
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())

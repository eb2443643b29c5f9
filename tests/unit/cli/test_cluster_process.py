"""A node of a cluster as a process."""

import asyncio
import os
import signal
from io import StringIO
from pathlib import Path
from shutil import rmtree
from unittest.mock import Mock

import pytest

from bobbin.cli.cluster_process import ClusterProcess, open_storage
from bobbin.config.cluster import complete, create_cluster, prepare, read_folder
from bobbin.errors import IntegrityError, ResourceError
from bobbin.runtime.cluster_client import ClusterClient
from bobbin.runtime.log import make_log
from tests.support.clusters import free_ports, served_folder, until


def _folder(path: Path) -> Path:
    create_cluster([prepare(path, listen=f"tls:127.0.0.1:{free_ports(1)[0]}")])
    settings = path / "cluster.toml"
    settings.write_text(settings.read_text("utf-8") + '[metrics]\nlisten = "tcp:127.0.0.1:0"\n', "utf-8")
    return path


async def _page(address: str, path: str) -> str:
    host, port = address.removeprefix("tcp:").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n".encode())
    answer = (await reader.read()).decode()
    writer.close()
    return answer


def test_it_serves_until_it_is_told_to_stop(tmp_path: Path) -> None:
    folder = read_folder(_folder(tmp_path / "n"))
    told: list[tuple[str, dict[str, object]]] = []

    async def run() -> tuple[str, str, str]:
        process = ClusterProcess(
            folder, log=make_log(output=StringIO()), tell=lambda event, values: told.append((event, dict(values)))
        )
        task = asyncio.create_task(process.run())
        await until(lambda: bool(told))
        async with ClusterClient(folder.known, own=folder.operator) as client:
            await client.put(b"a", b"1")
        metrics = str(told[0][1]["metrics"])
        pages = [await _page(metrics, path) for path in ("/metrics", "/healthz", "/links")]
        os.kill(os.getpid(), signal.SIGTERM)
        await task
        return pages[0], pages[1], pages[2]

    metrics, health, links = asyncio.run(run())
    assert [event for event, _ in told] == ["started", "stopping"]
    assert told[0][1]["node"] == folder.node
    assert 'bobbin_cluster_role{role="leader"} 1.0' in metrics
    assert "bobbin_cluster_commit_index" in metrics
    assert '"status":"ok"' in health
    assert "404" in links.splitlines()[0]


def test_a_folder_is_served_once(tmp_path: Path) -> None:
    path = _folder(tmp_path / "n")
    with served_folder(path):
        process = ClusterProcess(read_folder(path), log=make_log(output=StringIO()), tell=lambda *_: None)
        with pytest.raises(ResourceError, match="in use"):
            asyncio.run(process.run())


def _serve(path: Path) -> None:
    tell = Mock(side_effect=AssertionError("it has started"))
    asyncio.run(ClusterProcess(read_folder(path), log=make_log(output=StringIO()), tell=tell).run())


def test_one_of_the_first_nodes_does_not_start_without_its_log(tmp_path: Path) -> None:
    path = _folder(tmp_path / "n")
    with served_folder(path):
        asyncio.run(until(lambda: read_folder(path).known.index > 0))
    rmtree(path / "log")
    for _ in range(2):
        with pytest.raises(IntegrityError, match="is empty"):
            _serve(path)


def test_a_node_that_has_only_voted_does_not_start_again_without_its_log(tmp_path: Path) -> None:
    """Nothing was applied, so who is known says nothing of it; the note outside of the log does."""
    founder = _folder(tmp_path / "founder")
    joined = prepare(tmp_path / "joined", listen=f"tls:127.0.0.1:{free_ports(1)[0]}")
    complete(joined, bytes(range(16)), read_folder(founder).known)
    for path in (founder, joined.layout.folder):
        for _ in range(2):
            open_storage(read_folder(path)).close()
        assert read_folder(path).known.index == 0
        rmtree(path / "log")
        for _ in range(2):
            with pytest.raises(IntegrityError, match=r"missing.*cluster remove.*cluster join") as caught:
                _serve(path)
            assert read_folder(path).node in str(caught.value)


def test_snapshots_are_kept_in_memory_as_far_as_the_settings_say(tmp_path: Path) -> None:
    """CL-078, CL-319."""
    path = _folder(tmp_path / "n")
    settings = path / "cluster.toml"
    settings.write_text(settings.read_text("utf-8") + "[raft]\nsnapshot_max_memory = 12345\n", "utf-8")
    storage = open_storage(read_folder(path))
    assert storage._snapshots._memory_max == 12_345
    storage.close()

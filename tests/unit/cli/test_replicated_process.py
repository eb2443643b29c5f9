"""The node of the cluster under a served lace."""

import asyncio
from io import StringIO
from pathlib import Path

import pytest

from bobbin.cli.replicated_process import replicated_node
from bobbin.config.layout import Layout
from bobbin.config.replicated import create_nodes, prepare_node
from bobbin.errors import BobbinError, UsageError
from bobbin.runtime.log import make_log
from bobbin.store.sqlite import open_store
from tests.conformance.samples import plex
from tests.support.clusters import free_ports

LOG = make_log(output=StringIO())


async def serve(layout: Layout) -> None:
    async with replicated_node(layout, LOG) as node:
        assert node.store.high_water() == 0


def test_a_store_with_records_of_its_own_is_not_served_and_stays_as_it_was(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "n1")
    create_nodes([prepare_node(layout.folder, listen=f"tls:127.0.0.1:{free_ports(1)[0]}")], preset="lan")
    with open_store(layout.records, create=True, now=lambda: 0) as store:
        store.put_records([plex(1)])
    for _ in range(2):
        with pytest.raises(UsageError, match="records of its own"):
            asyncio.run(serve(layout))
    with open_store(layout.records, now=lambda: 0) as store:
        assert store.high_water() == 1
        assert store.replica.state() is None


def test_a_folder_is_served_once(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "n1")
    create_nodes([prepare_node(layout.folder, listen=f"tls:127.0.0.1:{free_ports(1)[0]}")], preset="lan")
    open_store(layout.records, create=True, now=lambda: 0).close()

    async def run() -> None:
        async with replicated_node(layout, LOG):
            with pytest.raises(BobbinError):
                await serve(layout)

    asyncio.run(run())

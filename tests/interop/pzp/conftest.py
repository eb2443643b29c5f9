"""The packages of the live peers. Whatever needs them starts processes: `make test` has it, `make check` does not."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.pzp.node_peer import NodeProcess, installed

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All of it is slow, so that no test has to say so itself."""
    for item in items:
        if item.path.parent == _HERE:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def process() -> Iterator[NodeProcess]:
    """A process for peers made of the published packages."""
    started = NodeProcess(installed())
    try:
        yield started
    finally:
        started.end()

"""Whole processes that talk to one another take their time: `make test` has them all, `make check` the commands."""

from pathlib import Path

import pytest

_SLOW = frozenset(
    {
        "test_lake_lace.py",
        "test_node_examples.py",
        "test_node_links.py",
        "test_serve.py",
        "test_two_processes.py",
    }
)
_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow, so that no test has to say so itself."""
    for item in items:
        if item.path.parent == _HERE and item.path.name in _SLOW:
            item.add_marker(pytest.mark.slow)

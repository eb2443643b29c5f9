"""Faults against real processes take their time: `make test` has them all, `make check` only the page and the proxy."""

from pathlib import Path

import pytest

_QUICK = frozenset({"test_faults_page.py", "test_proxy.py"})
_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow, so that no test has to say so itself."""
    for item in items:
        if item.path.parent == _HERE and item.path.name not in _QUICK:
            item.add_marker(pytest.mark.slow)

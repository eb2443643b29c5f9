"""Whole processes that talk to one another take their time: `make test` has them all, `make check` none."""

import signal
from pathlib import Path

import pytest

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow, so that no test has to say so itself."""
    for item in items:
        if item.path.parent == _HERE:
            item.add_marker(pytest.mark.slow)


def pytest_configure() -> None:
    """Let Ctrl-C reach what tests start, also where a script runs them in the background, which ignores it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)

"""Which stores the kit tests. A new implementation joins by one entry here.

One that is only read joins in the tests that are marked ``reading``: those put records, which its entry here does in
some other way than through the store, and look at what comes back.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Protocol

import pytest

from bobbin.store import sqlite
from bobbin.store.base import Store
from tests.conformance.lake import Facts, open_lake
from tests.conformance.model import Disk, open_model
from tests.support.replicated import open_replicated_store


class OpenStore(Protocol):
    """How an implementation opens the store at a path."""

    def __call__(
        self, path: Path, *, create: bool = False, now: Callable[[], int], read_only: bool = False
    ) -> Store: ...


@dataclass
class Kit:
    """One implementation, one path, and a clock that the test sets."""

    open_store: OpenStore
    path: Path
    removes: bool = True
    """Whether records can be removed again."""
    now: int = 1_640_995_200_000_000_000
    _paths: Iterator[int] = field(default_factory=count)

    def open(self, *, path: Path | None = None, create: bool = False, read_only: bool = False) -> Store:
        return self.open_store(path or self.path, create=create, now=lambda: self.now, read_only=read_only)

    def create_another(self) -> Store:
        """A new, empty store, for tests that need many."""
        return self.open(path=self.path.with_name(f"{next(self._paths)}.db"), create=True)


def _model() -> OpenStore:
    disk = Disk()

    def open_store(path: Path, *, create: bool = False, now: Callable[[], int], read_only: bool = False) -> Store:
        return open_model(disk, path, create=create, now=now, read_only=read_only)

    return open_store


def _sqlite() -> OpenStore:
    return sqlite.open_store


def _replicated() -> OpenStore:
    return open_replicated_store


IMPLEMENTATIONS: dict[str, Callable[[], OpenStore]] = {"model": _model, "sqlite": _sqlite, "replicated": _replicated}

SLOW = frozenset({"replicated"})
"""Each store has a thread. Properties, which open hundreds, are left to the store underneath."""


READERS: dict[str, Callable[[], OpenStore]] = {
    "lake": lambda: open_lake(Facts.CURRENT),
    "lake-older-facts": lambda: open_lake(Facts.OLDER),
}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "reading: also for stores that are only read")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kit" in metafunc.fixturenames and metafunc.definition.path.parent == Path(__file__).parent:
        is_reading = metafunc.definition.get_closest_marker("reading") is not None
        is_property = getattr(metafunc.function, "is_hypothesis_test", False)
        names = [name for name in IMPLEMENTATIONS if name not in SLOW]
        slow = [] if is_property else [pytest.param(name, marks=pytest.mark.slow) for name in SLOW]
        metafunc.parametrize("kit", [*names, *slow, *(READERS if is_reading else ())], indirect=True)


@pytest.fixture
def kit(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kit:
    if request.param in READERS:
        # Whether a lake is durable is tested elsewhere; here many are made.
        monkeypatch.setattr(os, "fsync", lambda _: None)
        return Kit(open_store=READERS[request.param](), path=tmp_path / "records", removes=False)
    return Kit(open_store=IMPLEMENTATIONS[request.param](), path=tmp_path / "records.db")


@pytest.fixture
def store(kit: Kit) -> Iterator[Store]:
    with kit.open(create=True) as opened:
        yield opened

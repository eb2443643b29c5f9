"""Which stores the kit tests. A new implementation joins by one entry here."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Protocol

import pytest

from bobbin.store import sqlite
from bobbin.store.base import Store
from tests.conformance.model import Disk, open_model


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


IMPLEMENTATIONS: dict[str, Callable[[], OpenStore]] = {"model": _model, "sqlite": _sqlite}


@pytest.fixture(params=list(IMPLEMENTATIONS))
def kit(request: pytest.FixtureRequest, tmp_path: Path) -> Kit:
    return Kit(open_store=IMPLEMENTATIONS[request.param](), path=tmp_path / "records.db")


@pytest.fixture
def store(kit: Kit) -> Iterator[Store]:
    with kit.open(create=True) as opened:
        yield opened

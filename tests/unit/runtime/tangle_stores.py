"""Stores of tangles for tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bobbin.records.record import Plex
from bobbin.runtime.tangle_store import TangleStore
from bobbin.store.sqlite import SqliteStore, open_store
from bobbin.tangles.message import Message
from bobbin.tangles.plex import plex_of
from tests.support.tangle_messages import Author


@contextmanager
def opened(path: Path) -> Iterator[tuple[SqliteStore, TangleStore]]:
    """A store that is new or exists, and its tangles; in order at the end."""
    with open_store(path, create=True, now=lambda: 0) as store:
        yield store, TangleStore(store.tangles)
        assert list(store.check()) == []


def plex(message: Message) -> Plex:
    """The record of a message."""
    made = plex_of(message)
    assert made is not None
    return made


def placed(author: Author, moot: Message, prev: list[str], depth: int, text: str = "placed") -> Message:
    """A message of a feed at a place of our choice, right or wrong."""
    return author.sign(
        {"text": text},
        {
            "account": author.account.id,
            "accountTips": [author.account.id],
            "tangles": {moot.id: {"depth": depth, "prev": [*sorted(prev)]}},
            "domain": moot.domain,
        },
    )

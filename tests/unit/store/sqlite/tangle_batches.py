"""Batches for the tangles of a store, decided by nobody: the store does not ask why."""

from collections.abc import Iterable

from bobbin.store.sqlite import SqliteStore
from bobbin.store.tangles import Level, NewMessage, StoredMessage, StoredPlace, TangleBatch, TangleState
from bobbin.tangles.message import Message
from bobbin.tangles.plex import is_whole, plex_of


def new(message: Message, level: Level = Level.MODERN) -> NewMessage:
    """A message as it is handed to the store."""
    return NewMessage(
        id=message.id,
        raw=message.raw,
        is_erased=not is_whole(message),
        level=level,
        places=tuple(StoredPlace(tangle, place.depth, level) for tangle, place in message.places.items()),
        plex=plex_of(message) if level is Level.MODERN else None,
    )


def state(store: SqliteStore) -> TangleState:
    with store.tangles.reading() as view:
        return view.state()


def write(store: SqliteStore, **parts: object) -> TangleState:
    """One batch, decided at the version of this moment."""
    return store.tangles.write(TangleBatch(version=state(store).version, **parts))  # type: ignore[arg-type]


def put(store: SqliteStore, *messages: Message, level: Level = Level.MODERN) -> TangleState:
    return write(store, messages=[new(message, level) for message in messages])


def kept(store: SqliteStore, ids: Iterable[str]) -> dict[str, StoredMessage]:
    with store.tangles.reading() as view:
        return view.find(ids)

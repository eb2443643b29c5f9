"""What a sync session reads of the tangles of a store, at one of the two levels.

A session with a real pzp peer sees everything that is held. One in the modern mode does not see what another node would
refuse by the rules of that mode, so nothing of it is ever offered there. What merely lacks predecessors it sees: the
other side may have them, and judges for itself.
"""

from collections.abc import Collection, Sequence
from typing import Final

from bobbin.runtime.tangle_store import TangleStore
from bobbin.tangles.canonical import Json
from bobbin.tangles.exchange import Credential
from bobbin.tangles.goals import wish
from bobbin.tangles.message import Message, MessageId
from bobbin.tangles.modern_index import DepthIndex
from bobbin.tangles.ranges import Wish
from bobbin.tangles.session_effects import Commit
from bobbin.tangles.session_events import Committed
from bobbin.tangles.tangle import Tangle

_WISHES_KEPT_MAX: Final = 4096


class StoreLibrary:
    """The library of sessions of one mode (``tangles.exchange``, ``tangles.modern_turns``)."""

    def __init__(self, store: TangleStore, *, modern: bool = False) -> None:
        self._store: Final = store
        self._modern: Final = modern
        self._wishes: dict[MessageId, tuple[str | None, int, Wish]] = {}
        """By tangle: the goal, and how often the tangle had changed, when the wish was found out."""

    def tangle(self, tangle: MessageId) -> Tangle | None:
        """The structure of a tangle as far as it is held, and sound; None if it is unknown."""
        shelf = self._store.shelf
        structure = shelf.sound(tangle) if self._modern else shelf.tangle(tangle)
        return structure if len(structure) else None

    def messages(self, ids: Sequence[MessageId]) -> Sequence[Message | None]:
        """The messages with these ids, in this order; None for one that is not held."""
        return self._store.shelf.messages(ids)

    def credentials(self, ids: Sequence[MessageId]) -> Sequence[Credential]:
        """Of each message, which account it is of and how far that is needed."""
        return self._store.shelf.credentials(ids)

    def wish(self, tangle: MessageId) -> Wish:
        """What this side's goal for a tangle asks for at this moment; None without a goal."""
        shelf = self._store.shelf
        goal = shelf.goal(tangle)
        structure = shelf.sound(tangle) if self._modern else shelf.tangle(tangle)
        key = None if goal is None else goal.text
        known = self._wishes.get(tangle)
        if known is not None and known[:2] == (key, structure.changes):
            return known[2]
        found = wish(goal, structure, self._data, span=self._store.span, modern=self._modern)
        if len(self._wishes) >= _WISHES_KEPT_MAX:
            self._wishes.clear()
        self._wishes[tangle] = key, structure.changes, found
        return found

    def ghosts(self, tangle: MessageId) -> Collection[MessageId]:
        """What was deleted from a tangle on purpose and must not come back."""
        return self._store.shelf.ghosts(tangle).depths.keys()

    def depths(self, tangle: MessageId) -> DepthIndex:
        """The index of a tangle by depth, for the modern mode."""
        shelf = self._store.shelf
        return self._store.indexes.of(shelf.sound(tangle), shelf.credentials)

    def _data(self, id: MessageId) -> Json:
        message = self._store.shelf.message(id)
        return None if message is None else message.data


class StoreKeeper:
    """The tangles of a store, for those who run sessions over links."""

    def __init__(self, store: TangleStore) -> None:
        self._store: Final = store
        self.library: Final = StoreLibrary(store)
        self.modern_library: Final = StoreLibrary(store, modern=True)

    def commit(self, commit: Commit) -> Committed:
        """Validate messages one by one and store what is valid, at once; returns when it is durable."""
        return self._store.perform(commit)

"""A collection of keys in a live graph: what is derived from it follows it, and who subscribes hears of what changed.

>>> from bobbin.reactive.graph import Graph
>>> graph = Graph()
>>> open_doors = Collection(graph, ["front"])
>>> count = graph.slot(lambda: len(open_doors))
>>> undo = open_doors.subscribe(lambda moved: print(moved.added, moved.removed, count.get()))
>>> with graph.batch():
...     _ = open_doors.change(added=["back", "cellar"])
...     _ = open_doors.change(removed=["cellar", "front"])
('back',) ('front',) 1

The keys are texts, held in ascending order. They are not nodes of the graph: two cells stand for all of them, one that
moves whenever any key comes or goes, and one for their number. So a change costs what it moves, however many keys there
are. What reads ``len`` alone is not computed again where as many came as went.

A subscriber is told once for each flush that moved anything, of the net change since it was told last. One that raises
is told of the same again, together with what came since, in the next flush that moves anything.
"""

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Collection as SomeKeys
from typing import Final

from msgspec import Struct

from bobbin.errors import UsageError
from bobbin.reactive.graph import Cell, Graph
from bobbin.reactive.sorted_keys import SortedKeys


class Moved(Struct, frozen=True):
    """The net change of a collection between two moments. No key is on both sides; both are in order."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)


class Collection:
    """Keys in order, as part of a graph. Like the graph, for one thread."""

    def __init__(self, graph: Graph, keys: Iterable[str] = ()) -> None:
        self.graph: Final = graph
        self._keys: Final = SortedKeys(keys)
        self._turn: Final[Cell[int]] = graph.cell(0)
        """Stands for the keys: counts their changes."""
        self._count: Final[Cell[int]] = graph.cell(len(self._keys))
        self._subscribers: Final[dict[object, _Subscriber]] = {}

    # ---- reading: whoever does it in a computation or an effect depends on it ---------------------------------------

    def __len__(self) -> int:
        return self._count.get()

    def __bool__(self) -> bool:
        return self._count.get() > 0

    def __contains__(self, key: object) -> bool:
        self._turn.get()
        return isinstance(key, str) and key in self._keys

    def __iter__(self) -> Iterator[str]:
        """In ascending order. The collection must not change meanwhile."""
        turn = self._turn.get()
        for key in self._keys:
            if self._turn.peek() != turn:
                raise UsageError("the collection has changed while it was gone through")
            yield key

    def page(self, begin: int, count: int) -> list[str]:
        """So many keys from one place in the order on, for who shows a part at a time."""
        if begin < 0 or count < 0:
            raise UsageError(f"a page begins at 0 or later and has no negative length, not {begin} and {count}")
        self._turn.get()
        return self._keys.page(begin, count)

    # ---- changing ----------------------------------------------------------------------------------------------------

    def change(self, *, added: SomeKeys[str] = (), removed: SomeKeys[str] = ()) -> Moved:
        """Take keys out, then put keys in, as one operation; returns what that has changed.

        A key that is there already, or is not there, is none the worse for it. What is raised by effects and
        subscribers is raised after the change.
        """
        with self.graph.batch():
            new, gone = self._keys.change(added=added, removed=removed)
            moved = Moved(tuple(new), tuple(gone))
            if moved:
                for subscriber in self._subscribers.values():
                    subscriber.note(moved)
                self._turn.set(self._turn.peek() + 1)
                self._count.set(len(self._keys))
        return moved

    def replace(self, keys: Iterable[str]) -> Moved:
        """Hold exactly these keys; returns what that has changed."""
        wanted, held = set(keys), set(self._keys)
        return self.change(added=wanted - held, removed=held - wanted)

    # ---- hearing of changes ------------------------------------------------------------------------------------------

    def subscribe(self, listener: Callable[[Moved], object]) -> Callable[[], None]:
        """Tell ``listener``, as an effect of the graph, of each flush that changes the collection; returns the undo."""
        token, subscriber = object(), _Subscriber(listener)
        self._subscribers[token] = subscriber

        def tell() -> None:
            self._turn.get()
            subscriber.tell()

        effect = self.graph.effect(tell)

        def undo() -> None:
            if self._subscribers.pop(token, None) is not None:
                effect.dispose()

        subscriber.undo = undo
        return undo

    def dispose(self) -> None:
        """Take it out of the graph. Reading it raises from now on, and nobody is told of anything. Idempotent."""
        with self.graph.batch():
            for subscriber in list(self._subscribers.values()):
                subscriber.undo()
            self._turn.dispose()
            self._count.dispose()


class _Subscriber:
    """Who hears of changes, and what it has not heard of yet."""

    def __init__(self, listener: Callable[[Moved], object]) -> None:
        self._listener: Final = listener
        self._untold: dict[str, bool] = {}
        """Keys that are not as they were when the listener was told last, and whether they are there."""
        self.undo: Callable[[], None] = lambda: None

    def note(self, moved: Moved) -> None:
        for keys, is_there in ((moved.removed, False), (moved.added, True)):
            for key in keys:
                if self._untold.get(key) is (not is_there):
                    del self._untold[key]
                else:
                    self._untold[key] = is_there

    def tell(self) -> None:
        if not self._untold:
            return
        untold, self._untold = self._untold, {}
        ordered = sorted(untold)
        moved = Moved(
            tuple([key for key in ordered if untold[key]]), tuple([key for key in ordered if not untold[key]])
        )
        try:
            self._listener(moved)
        except BaseException:
            since = Moved(
                tuple([key for key, is_there in self._untold.items() if is_there]),
                tuple([key for key, is_there in self._untold.items() if not is_there]),
            )
            self._untold = untold
            self.note(since)
            raise

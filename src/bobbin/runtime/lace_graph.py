"""What a lace holds, as a live graph: counts and sizes that follow the store, for whoever watches.

=======================  ========  =====================================================================================
key                      tag       value
=======================  ========  =====================================================================================
``records/blob``         i64       Blobs; likewise ``records/plex`` and ``records/seal``
``records/count``        i64       all of them, computed
``records/bytes``        i64       of all records together
``records/newest``       json      the record that came last and is still there: hash, kind, size, and place and time of
                                   one that has them; null if there is none
``store/cursor``         i64       the number that the newest record ever was given
``store/bytes``          i64       on disk
``quarantine/count``     i64       what was offered as records and is none
``refusals/count``       i64       what was removed and must not come back
``messages/count``       i64       messages of tangles
``tangles/count``        i64       tangles that somebody stands in, or that have a goal
``views/NAME/count``     i64       records of a view, see ``add_view``
``views/NAME/records``   json      the first hashes of its records
=======================  ========  =====================================================================================

All cells of one moment change in one batch. A view that cannot follow, as one that has grown past its limits, has no
value until it can, and holds up nothing else.

The store tells of commits of this process; those of others are looked for at an interval. Counts are kept by the store,
so a look costs the same whatever is in it; tangles are counted only when one has changed.
"""

import asyncio
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from msgspec import Struct

from bobbin.errors import BobbinError, ResourceError, UsageError
from bobbin.reactive.graph import Cell, Graph
from bobbin.records.ids import Kind
from bobbin.records.record import Blob, read_trusted
from bobbin.runtime.graph_host import GraphHost
from bobbin.store.base import Mark, Store, StoredRecord, StoreRecordId

if TYPE_CHECKING:
    from bobbin.store.tangles import TangleTables

POLL_SECONDS: Final = 1.0
"""How often other processes' commits are looked for."""
VIEWS: Final = "views"
"""Below this the keys of views stand."""

VIEW_RECORDS_MAX: Final = 100
"""Hashes of a view that are shown."""

_KINDS: Final = (Kind.BLOB, Kind.PLEX, Kind.SEAL)
_SPAN_GROWTH: Final = 8

Newest: TypeAlias = dict[str, str | int] | None


class View(Protocol):
    """A live collection of records in a graph: see ``runtime.views``."""

    @property
    def graph(self) -> Graph: ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[str]: ...

    def refresh(self) -> object:
        """Take in what has changed in the store."""
        ...


class _Shown(Struct, frozen=True):
    """A view, and why it has no value now."""

    name: str
    view: View
    failure: Cell[str | None]

    def count(self) -> int:
        self._check()
        return len(self.view)

    def records(self) -> list[str]:
        self._check()
        return list(islice(self.view, VIEW_RECORDS_MAX))

    def _check(self) -> None:
        why = self.failure.get()
        if why is not None:
            raise ResourceError(f"the view {self.name} does not follow: {why}", retry=True)


class LaceGraph:
    """The graph of one store, for one thread: that of whoever calls ``refresh`` or runs ``follow``."""

    def __init__(self, host: GraphHost, store: Store) -> None:
        """The cells are made in the host's graph. Nodes that others put there must have other keys."""
        self._host: Final = host
        self._store: Final = store
        self._views: Final[list[_Shown]] = []
        self._tables: Final[TangleTables | None] = getattr(store, "tangles", None)
        self._tangles_version: int | None = None
        self._tangles = 0
        self._mark: Mark | None = None
        self._last: Newest = None
        self._failure: str | None = None
        self._is_due = False
        """Whether a view is to be tried again, though nothing may have changed."""
        with host.changing():
            self._counts: Final = {name: self._cell(name) for name in self._read()}
            self._newest: Final[Cell[Newest]] = host.graph.cell(None, tag="json", key="records/newest")
            kinds = [self._counts[_kind_key(kind)] for kind in _KINDS]
            host.graph.slot(lambda: sum(cell.get() for cell in kinds), tag="i64", key="records/count")
        # A count that a peer has written would be no count.
        host.guard(self._newest.id, *(cell.id for cell in self._counts.values()))
        self.refresh()
        host.on_trigger(self._counts["store/cursor"].id, self.refresh)

    def add_view(self, name: str, view: View) -> None:
        """Show a view as ``views/NAME/…``, and refresh it from now on whenever the store has changed."""
        graph = self._host.graph
        if view.graph is not graph:
            raise UsageError(f"the view {name} is not of this graph: make it with graph=")
        with self._host.changing():
            shown = _Shown(name, view, graph.cell(None))
            graph.slot(shown.count, tag="i64", key=f"{VIEWS}/{name}/count")
            graph.slot(shown.records, tag="json", key=f"{VIEWS}/{name}/records")
        self._views.append(shown)

    def refresh(self) -> None:
        """Look at the store, and change what has changed, in one batch. Raises ``ResourceError``."""
        counts, newest = self._read(), self._read_newest()
        with self._host.changing():
            self._is_due = False
            for shown in self._views:
                self._refresh_view(shown)
            for name, count in counts.items():
                self._counts[name].set(count)
            self._newest.set(newest)

    def _refresh_view(self, shown: _Shown) -> None:
        """What a view does not take is told once, and is that view's affair: others decide what is in the store."""
        try:
            shown.view.refresh()
        except BobbinError as error:
            if shown.failure.peek() is None:
                self._host.tell("failed", {"view": shown.name, "why": str(error)})
            shown.failure.set(str(error))
            self._is_due = self._is_due or (isinstance(error, ResourceError) and error.retry)
        else:
            shown.failure.set(None)

    async def follow(self, *, poll_seconds: float = POLL_SECONDS) -> None:
        """Keep it up to date, until cancelled. A store that cannot be read for now is told of once, and tried again."""
        loop, news = asyncio.get_running_loop(), asyncio.Event()

        def wake(high_water: StoreRecordId) -> None:
            del high_water
            loop.call_soon_threadsafe(news.set)

        undo = self._store.subscribe(wake)
        # What was committed since the last look, and before this one could hear of it.
        news.set()
        try:
            while True:
                try:
                    async with asyncio.timeout(poll_seconds):
                        await news.wait()
                except TimeoutError:
                    pass
                is_due = news.is_set() or self._is_due or self._failure is not None
                news.clear()
                self._look(is_due=is_due)
        finally:
            undo()

    def _look(self, *, is_due: bool) -> None:
        try:
            if self._store.changed_elsewhere() or is_due:
                self.refresh()
        except ResourceError as error:
            if not error.retry:
                raise
            if self._failure is None:
                self._host.tell("failed", {"why": str(error)})
            self._failure = str(error)
        else:
            self._failure = None

    # ---- the store ------------------------------------------------------------------------------------------------

    def _cell(self, name: str) -> Cell[int]:
        return self._host.graph.cell(0, tag="i64", key=name)

    def _read(self) -> dict[str, int]:
        now = self._store.stat()
        return {
            **{_kind_key(kind): now.records.get(kind, 0) for kind in _KINDS},
            "records/bytes": now.record_bytes,
            "store/cursor": now.high_water,
            "store/bytes": now.file_bytes,
            "quarantine/count": now.quarantined,
            "refusals/count": now.refused,
            "messages/count": now.messages,
            "tangles/count": self._count_tangles(),
        }

    def _count_tangles(self) -> int:
        if self._tables is None:
            return 0
        with self._tables.reading() as moment:
            version = moment.state().version
            if version != self._tangles_version:
                self._tangles = sum(1 for _ in moment.tangles())
                self._tangles_version = version
        return self._tangles

    def _read_newest(self) -> Newest:
        mark = self._store.mark()
        if mark != self._mark:
            self._last, self._mark = _described(_find_newest(self._store)), mark
        return self._last


def _kind_key(kind: Kind) -> str:
    return f"records/{kind.name.lower()}"


def _find_newest(store: Store) -> StoredRecord | None:
    """The record with the highest number. Gaps that removals have left above it are passed in growing steps."""
    top, span = store.high_water(), 1
    while True:
        after = StoreRecordId(max(top - span, 0))
        found = deque(store.scan(after=after), maxlen=1)
        if found or after == 0:
            return found[0] if found else None
        span *= _SPAN_GROWTH


def _described(stored: StoredRecord | None) -> Newest:
    if stored is None:
        return None
    record = read_trusted(stored.raw)
    words: dict[str, str | int] = {"hash": stored.hash, "kind": type(record).__name__, "size": len(stored.raw)}
    if not isinstance(record, Blob):
        words |= {"place": str(record.coordinate), "tai": record.tai_text}
    return words

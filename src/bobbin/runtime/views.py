"""A live view: the stored records that a policy selects, as a collection of a live graph that follows the store.

A view takes in what the store says has changed since it last looked, and its rules carry just that forward
(``policy.standing_selection``). So a new record costs the same whatever else is stored. It looks after each commit of
the store that it was made on, in the thread that committed, and whenever ``refresh`` is called: for what other
processes have committed, and for time that has passed.

Where it stands is written into the store's area of values that only save work, so the next process goes on from there.
A removal takes everything out that was written, and what does not know of a removal yet is not written.

What always holds after ``refresh``: the view has exactly the stored records that an evaluation of its policy would
select, at the moment of the store that it looked at. Should anything fail, the view stays as it was, and the next
``refresh`` starts from the facts.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from types import TracebackType
from typing import Final

import msgspec
from msgspec import Struct

from bobbin.datalog.compile import Lacegram
from bobbin.datalog.limits import Limits
from bobbin.errors import BobbinError, UsageError
from bobbin.policy import builder
from bobbin.policy.builder import Selection
from bobbin.policy.executables import BUDGETS
from bobbin.policy.modules import Selector, compile_selector
from bobbin.policy.runtime_facts import RuntimeFacts
from bobbin.policy.standing_selection import FORMAT, FrozenSelection, StandingSelection
from bobbin.reactive.collection import Collection, Moved
from bobbin.reactive.graph import Graph
from bobbin.records import coordinate, tai
from bobbin.records.coordinate import Address, Coordinate, Prefix
from bobbin.records.ids import HashText, Verifier
from bobbin.runtime.clock import tai_now
from bobbin.runtime.operations import at
from bobbin.runtime.shelf import Bounds, Shelf
from bobbin.store.base import KEPT_BYTES_MAX, Mark, Snapshot, Store, StoreChanges, StoreRecordId

KIND: Final = "view"
KEPT_MAX: Final = 16
"""Views that are kept for the next process; what was written longest ago goes first."""
LIMITS: Final = BUDGETS["large"].own
"""What evaluating the rules of a view may cost: they are the caller's own, over all that is stored."""
_OWNER: Final = "views"
_WRITE_FRACTION: Final = 16
"""A view is written again when this part of it has changed."""
_WRITE_MIN: Final = 256
_RELOAD_MIN: Final = 20_000
"""From so many new records on, and if they are more than there were before, all is loaded in one pass instead."""


class _Kept(Struct, frozen=True, array_like=True):
    """A view as it rests in the store."""

    mark: Mark
    frozen: FrozenSelection


class View(AbstractContextManager["View"]):
    """The stored records that a policy selects. For one thread, as the store and the graph are.

    ``records`` is the collection. Whatever reads it, or this view, in a computation of the graph depends on it.
    """

    def __init__(
        self,
        store: Store,
        selector: Selector,
        *,
        graph: Graph | None = None,
        here: Verifier | None = None,
        limits: Limits = LIMITS,
        clock: Callable[[], int] = tai_now,
        follow: bool = True,
    ) -> None:
        """``here`` is who the rules may take us for. With ``follow``, each commit of ``store`` is taken in at once."""
        self.selector: Final = selector
        self._store: Final = store
        self._limits: Final = limits
        self._here: Final = here
        self._clock: Final = clock
        self._start = self._tick = clock()
        bounds = Bounds(
            per_peer_max=KEPT_MAX, rows_max=KEPT_MAX, row_bytes_max=KEPT_BYTES_MAX, bytes_max=2 * KEPT_BYTES_MAX
        )
        self._shelf: Final = Shelf(store, KIND, bounds)
        self._standing = StandingSelection(selector, limits)
        self._mark: Mark | None = None
        """The moment of the store that the selection is up to date with; None where that is worth nothing."""
        self._unshown: dict[str, bool] = {}
        """Records whose place in the selection the collection may not know yet, and whether they are selected."""
        self._is_anew = False
        """Whether the selection was computed from nothing and the collection does not know that yet."""
        self._unwritten = 0
        """How many records have changed since the selection was written to the store."""
        self._written_at: int | None = None
        """How many removals there had been when it was written. The next one takes that out."""
        self._is_closed = False
        self._take_up()
        self._select()
        self.records: Final = Collection(Graph() if graph is None else graph, self._standing.records())
        self._unshown, self._is_anew = {}, False
        self._ignore: Callable[[], None] = store.subscribe(self._woken) if follow else _nothing

    # ---- reading ----------------------------------------------------------------------------------------------------

    @property
    def graph(self) -> Graph:
        """The graph that the collection is part of."""
        return self.records.graph

    def __len__(self) -> int:
        return len(self.records)

    def __bool__(self) -> bool:
        return bool(self.records)

    def __contains__(self, record: object) -> bool:
        return record in self.records

    def __iter__(self) -> Iterator[HashText]:
        """The names of the records, in ascending order."""
        return map(HashText, self.records)

    def subscribe(self, listener: Callable[[Moved], object]) -> Callable[[], None]:
        """Tell ``listener`` of each change of the view; returns the undo. See ``Collection.subscribe``."""
        return self.records.subscribe(listener)

    # ---- following --------------------------------------------------------------------------------------------------

    def refresh(self) -> Moved:
        """Take in what has changed in the store, and the time; returns how the view has changed."""
        if self._is_closed:
            raise UsageError("the view is closed")
        self._select()
        # Should anything be raised from here on, the next refresh shows the same again, which changes nothing.
        shown = dict(self._unshown)
        if self._is_anew:
            moved = self.records.replace(self._standing.records())
            self._is_anew = False
        else:
            moved = self.records.change(
                added=[record for record, is_selected in shown.items() if is_selected],
                removed=[record for record, is_selected in shown.items() if not is_selected],
            )
        # An effect may have stored something, so that there is more to show.
        for record, is_selected in shown.items():
            if self._unshown.get(record) is is_selected:
                del self._unshown[record]
        return moved

    def _woken(self, high_water: StoreRecordId) -> None:
        """The store has changed. What is raised here, the store makes a warning of."""
        del high_water
        self.refresh()

    def _select(self) -> None:
        """Bring the selection up to date."""
        before, self._mark = self._mark, None  # Worthless, should anything fail.
        runtime = self._runtime()
        with self._store.snapshot() as now:
            before, changes = _changes(now, before)
            if before is None or not self._standing.is_usable or _is_overwhelming(changes, before):
                self._standing.load(now.facts, runtime)
                self._is_anew, self._written_at = True, None
            else:
                selected = self._standing.advance(
                    runtime=runtime,
                    stored=now.facts_after(before.high_water) if changes.stored else (),
                    removed=changes.removed,
                )
                self._unshown.update(dict.fromkeys(selected.removed, False))
                self._unshown.update(dict.fromkeys(selected.added, True))
                self._unwritten += len(changes.stored) + len(changes.removed) + len(selected.added | selected.removed)
        self._mark = changes.mark

    def _runtime(self) -> RuntimeFacts:
        """What the rules are told besides records. Their time never goes back."""
        self._tick = max(self._tick, self._clock())
        return RuntimeFacts(here=self._here, start_tai=tai.render(self._start), tick_tai=tai.render(self._tick))

    # ---- at rest ----------------------------------------------------------------------------------------------------

    def save(self) -> bool:
        """Write down where the view stands, for the next process; whether that was possible.

        It only saves work: what is not written is evaluated anew.
        """
        removal = self._store.mark().removal
        if self._mark is None or self._mark.removal != removal or self._is_closed:
            return False
        body = msgspec.msgpack.encode(_Kept(self._mark, self._standing.freeze()))
        if not self._shelf.put(_OWNER, self.selector.identifier, body):
            return False
        if self._store.mark().removal != removal:
            # A record was removed meanwhile. What it says must not be back.
            self._shelf.drop(_OWNER, self.selector.identifier)
            return False
        self._unwritten, self._written_at = 0, removal
        return True

    def close(self) -> None:
        """Follow no more, take the collection out of the graph, and write down where the view stands. Idempotent.

        What has changed little since it was written stays as it is: the difference is caught up with.
        """
        if self._is_closed:
            return
        self._ignore()
        if self._is_worth_writing():
            with suppress(BobbinError):
                self.save()
        self._is_closed = True
        self.records.dispose()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _is_worth_writing(self) -> bool:
        if self._mark is None or self._written_at != self._mark.removal:
            return True
        return self._unwritten >= _WRITE_MIN + len(self.records) // _WRITE_FRACTION

    def _take_up(self) -> None:
        """Go on from what was written, if it is there and can be read."""
        body = self._shelf.get(_OWNER, self.selector.identifier)
        with suppress(msgspec.MsgspecError):  # of another version: it only saved work
            kept = None if body is None else msgspec.msgpack.decode(body, type=_Kept)
            if kept is not None and kept.frozen.format == FORMAT:
                self._standing = StandingSelection.restore(self.selector, kept.frozen, self._limits)
                self._mark, self._written_at = kept.mark, kept.mark.removal


def selector_of(what: str | Selector | Lacegram | Selection | Coordinate | Prefix) -> Selector:
    """The selector that is meant: a policy as text or compiled, a selection, or a place (``//group//app//name``)."""
    match what:
        case Selector():
            return what
        case Lacegram():
            return compile_selector(what.canonical)
        case Selection():
            return compile_selector(builder.write(what))
        case Coordinate() | Prefix():
            return at(what)
        case str() if what.lstrip().startswith("//"):
            place = coordinate.parse(what.strip())
            if isinstance(place, Address):
                raise UsageError(f"////{place.hash} names one record; get it")
            return at(place)
        case str():
            return compile_selector(what)
    raise UsageError(f"a view is of a policy, a selection or a place, not of {what!r}")


def _changes(now: Snapshot, after: Mark | None) -> tuple[Mark | None, StoreChanges]:
    """A mark and what has happened since; without one, or with one that is lost, only the mark of now."""
    if after is not None:
        # It may also lie ahead: of a lake whose records were replaced by fewer.
        with suppress(UsageError):
            return after, now.changes(after)
    return None, StoreChanges(mark=now.mark())


def _is_overwhelming(changes: StoreChanges, before: Mark) -> bool:
    return len(changes.stored) > max(_RELOAD_MIN, before.high_water)


def _nothing() -> None:
    pass

"""Live views: what they show, when they look, and where the next process goes on. The laws are in tests/properties."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bobbin.datalog.limits import Limits
from bobbin.datalog.local.budget import LimitExceeded
from bobbin.errors import UsageError
from bobbin.policy import builder
from bobbin.policy.modules import compile_selector
from bobbin.policy.standing_selection import StandingSelection
from bobbin.reactive.collection import Moved
from bobbin.reactive.graph import DisposedNode, EffectsFailed, Graph
from bobbin.records.coordinate import Coordinate, Prefix
from bobbin.runtime import views
from bobbin.runtime.views import KIND, View, selector_of
from bobbin.store.base import Store
from bobbin.store.sqlite import open_store
from tests.conformance.samples import plex
from tests.policy_worlds import ALICE, DING, EVERYTHING

_SECOND = 1_000_000_000
_DUE = "SelectHave(P) :- Have(P), Field(P,'TAI',_,T), TickTAI(N), Le(T,N).\n"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "records.db", create=True, now=lambda: 0) as opened:
        yield opened


def _other(store_path: Path) -> Store:
    return open_store(store_path, create=False, now=lambda: 0)


def _view(store: Store, rules: str = DING, *, follow: bool = True, graph: Graph | None = None) -> View:
    return View(store, compile_selector(rules), follow=follow, graph=graph)


def _loads(monkeypatch: pytest.MonkeyPatch) -> list[StandingSelection]:
    """The selections that were evaluated from nothing."""
    loaded: list[StandingSelection] = []
    load = StandingSelection.load

    def counted(self: StandingSelection, *arguments: object) -> None:
        loaded.append(self)
        load(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(StandingSelection, "load", counted)
    return loaded


# ---- what is shown --------------------------------------------------------------------------------------------------


def test_a_view_has_what_its_policy_selects_in_order(store: Store) -> None:
    chosen = [plex(number) for number in range(5)]
    store.put_records([*chosen, plex(9, app="other")])
    view = _view(store)
    assert list(view) == sorted(record.hash for record in chosen)
    assert len(view) == 5
    assert view
    assert chosen[0].hash in view
    assert plex(9, app="other").hash not in view


def test_a_commit_is_taken_in_at_once_and_changes_what_depends_on_the_view(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = Graph()
    view = _view(store, graph=graph)
    loads = _loads(monkeypatch)
    told: list[Moved] = []
    counts: list[int] = []
    undo = view.subscribe(told.append)
    graph.effect(lambda: counts.append(len(view)))
    first, second = plex(1), plex(2)
    store.put_records([first, second, plex(3, app="other")])
    store.remove(first.hash, reason="test")
    undo()
    store.put_records([plex(4)])
    assert told == [Moved(tuple(sorted([first.hash, second.hash])), ()), Moved((), (first.hash,))]
    assert counts == [0, 2, 1, 2]
    assert view.graph is graph
    assert loads == []


def test_without_following_a_view_changes_when_it_is_refreshed(store: Store) -> None:
    view = _view(store, follow=False)
    record = plex(1)
    store.put_records([record])
    assert len(view) == 0
    assert view.refresh() == Moved((record.hash,), ())
    assert view.refresh() == Moved()
    assert list(view) == [record.hash]


def test_what_another_process_stores_is_taken_in_by_refreshing(store: Store, tmp_path: Path) -> None:
    view = _view(store)
    with _other(tmp_path / "records.db") as other:
        other.put_records([plex(1)])
    assert len(view) == 0
    assert view.refresh().added == (plex(1).hash,)


def test_records_become_due_with_the_time_which_never_goes_back(store: Store) -> None:
    moments = iter([10 * _SECOND, 10 * _SECOND, 20 * _SECOND, 5 * _SECOND])
    store.put_records([plex(1, tai=10 * _SECOND), plex(2, tai=15 * _SECOND)])
    view = View(store, compile_selector(_DUE), clock=lambda: next(moments))
    assert list(view) == [plex(1, tai=10 * _SECOND).hash]
    assert view.refresh().added == (plex(2, tai=15 * _SECOND).hash,)
    assert view.refresh() == Moved()


def test_rules_may_ask_who_is_here(store: Store) -> None:
    rules = "SelectHave(P) :- Have(P), Here(V), Field(P,'X-For',_,V).\n"
    record = plex(1, extras=[("X-For", ALICE)])
    store.put_records([record])
    assert list(View(store, compile_selector(rules), here=ALICE)) == [record.hash]
    assert list(View(store, compile_selector(rules))) == []


def test_effects_may_store_records_that_the_view_takes_in(store: Store) -> None:
    view = _view(store)
    told: list[Moved] = []

    def listen(moved: Moved) -> None:
        told.append(moved)
        if len(view) == 1:
            store.put_records([plex(2)])

    view.subscribe(listen)
    store.put_records([plex(1)])
    assert [moved.added for moved in told] == [(plex(1).hash,), (plex(2).hash,)]
    assert len(view) == 2


# ---- when something fails -------------------------------------------------------------------------------------------


def test_a_commit_stands_though_a_subscriber_fails(store: Store) -> None:
    view = _view(store)

    def fail(_: Moved) -> None:
        raise ValueError

    undo = view.subscribe(fail)
    with pytest.warns(RuntimeWarning, match="EffectsFailed"):
        store.put_records([plex(1)])
    assert list(view) == [plex(1).hash]
    undo()
    store.put_records([plex(2)])
    assert len(view) == 2


def test_a_commit_within_a_computation_is_shown_by_the_next_refresh(store: Store) -> None:
    view = _view(store)
    slot = view.graph.slot(lambda: len(store.put_records([plex(1)])))
    with pytest.warns(RuntimeWarning, match="may not"):
        assert slot.get() == 1
    assert len(view) == 0
    assert view.refresh().added == (plex(1).hash,)
    with pytest.warns(RuntimeWarning, match="may not"):
        view.graph.slot(lambda: store.remove(plex(1).hash, reason="test")).get()
    store.put_records([plex(2)])
    assert list(view) == [plex(2).hash]


def test_rules_that_cost_too_much_leave_the_view_as_it_was_until_they_no_longer_do(store: Store) -> None:
    store.put_records([plex(1)])
    view = View(store, compile_selector(DING), limits=Limits(derived_tuples_max=2), follow=False)
    store.put_records([plex(2), plex(3)])
    with pytest.raises(LimitExceeded):
        view.refresh()
    with pytest.raises(LimitExceeded):
        view.refresh()
    assert list(view) == [plex(1).hash]
    assert not view.save()
    store.remove(plex(1).hash, reason="test")
    told: list[Moved] = []
    view.subscribe(told.append)
    moved = view.refresh()
    assert (set(moved.added), moved.removed) == ({plex(2).hash, plex(3).hash}, (plex(1).hash,))
    assert told == [moved]
    with pytest.raises(LimitExceeded):
        View(store, compile_selector(EVERYTHING), limits=Limits(derived_tuples_max=1))


def test_more_than_there_was_is_evaluated_anew_and_told_as_the_difference(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "_RELOAD_MIN", 3)
    store.put_records([plex(1), plex(2)])
    view = _view(store, follow=False)
    loads = _loads(monkeypatch)
    store.remove(plex(1).hash, reason="test")
    new = [plex(number) for number in range(3, 8)]
    store.put_records(new)
    moved = view.refresh()
    assert moved == Moved(tuple(sorted(record.hash for record in new)), (plex(1).hash,))
    assert len(loads) == 1


def test_an_evaluation_anew_that_could_not_be_shown_is_shown_next(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "_RELOAD_MIN", 0)
    view = _view(store)
    with pytest.warns(RuntimeWarning, match="may not"):
        view.graph.slot(lambda: len(store.put_records([plex(1), plex(2)]))).get()
    assert len(view) == 0
    monkeypatch.setattr(views, "_RELOAD_MIN", 20_000)
    store.put_records([plex(3)])
    assert len(view) == 3


def test_what_has_been_shown_is_not_shown_again(store: Store) -> None:
    store.put_records([plex(1)])
    view = _view(store)
    assert (view._unshown, view._is_anew) == ({}, False)
    store.put_records([plex(2)])
    store.remove(plex(1).hash, reason="test")
    assert (view._unshown, view._is_anew) == ({}, False)


def test_a_difference_that_could_not_be_shown_is_shown_next(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "_RELOAD_MIN", 0)
    view = _view(store, follow=False)
    store.put_records([plex(1)])

    def fail(_: Moved) -> None:
        raise ValueError

    undo = view.subscribe(fail)
    with pytest.raises(EffectsFailed):
        view.refresh()
    undo()
    assert view.refresh() == Moved()
    assert list(view) == [plex(1).hash]


# ---- from process to process ----------------------------------------------------------------------------------------


def test_the_next_process_goes_on_from_where_the_view_stood(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put_records([plex(number) for number in range(4)])
    _view(store).close()
    loads = _loads(monkeypatch)
    store.put_records([plex(4), plex(5, app="other")])
    with _other(tmp_path / "records.db") as again:
        view = _view(again)
        assert set(view) == {plex(number).hash for number in range(5)}
        again.put_records([plex(6)])
        assert len(view) == 6
        assert loads == []
        assert len(_view(again, EVERYTHING)) == 7
        assert len(loads) == 1


def test_a_removal_takes_out_what_was_written(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put_records([plex(1), plex(2)])
    with _view(store) as view:
        assert view.save()
        store.remove(plex(1).hash, reason="test")
        assert list(store.kept_rows(KIND)) == []
    assert len(list(store.kept_rows(KIND))) == 1
    loads = _loads(monkeypatch)
    assert list(_view(store)) == [plex(2).hash]
    assert loads == []


def test_a_view_that_does_not_know_of_a_removal_yet_is_not_written(store: Store) -> None:
    store.put_records([plex(1)])
    view = _view(store, follow=False)
    store.remove(plex(1).hash, reason="test")
    assert not view.save()
    assert list(store.kept_rows(KIND)) == []
    view.refresh()
    assert view.save()


def test_a_record_removed_while_a_view_is_written_does_not_stay_in_what_is_kept(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put_records([plex(1)])
    view = _view(store, follow=False)
    freeze = StandingSelection.freeze

    def removing(self: StandingSelection) -> object:
        frozen = freeze(self)
        store.remove(plex(1).hash, reason="test")
        return frozen

    monkeypatch.setattr(StandingSelection, "freeze", removing)
    assert not view.save()
    assert list(store.kept_rows(KIND)) == []


def test_what_was_written_is_taken_only_if_it_is_whole_and_of_this_version(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put_records([plex(1)])
    view = _view(store)
    assert view.save()
    ((key, _),) = store.kept_rows(KIND)
    raw = store.kept(KIND, key)
    assert raw is not None
    loads = _loads(monkeypatch)
    store.keep(KIND, key, raw[:-1] + bytes([raw[-1] ^ 1]))
    assert list(_view(store)) == [plex(1).hash]
    assert len(loads) == 1
    assert view._shelf.put(views._OWNER, view.selector.identifier, b"\x93of another version")
    assert list(_view(store)) == [plex(1).hash]
    assert len(loads) == 2
    monkeypatch.setattr(views, "FORMAT", (0, 0))
    store.keep(KIND, key, raw)
    assert list(_view(store)) == [plex(1).hash]
    assert len(loads) == 3


def test_a_view_that_changed_little_is_not_written_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put_records([plex(1)])
    _view(store).close()
    (before,) = store.kept_rows(KIND)
    with _view(store):
        store.put_records([plex(2)])
    assert list(store.kept_rows(KIND)) == [before]
    monkeypatch.setattr(views, "_WRITE_MIN", 1)
    with _view(store):
        store.put_records([plex(3)])
    (after,) = store.kept_rows(KIND)
    assert after[1] > before[1]


def test_a_view_that_was_evaluated_anew_is_written_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put_records([plex(1)])
    with _view(store) as view:
        assert view.save()
        (before,) = store.kept_rows(KIND)
        monkeypatch.setattr(views, "_RELOAD_MIN", 0)
        store.put_records([plex(number) for number in range(2, 9)])
    (after,) = store.kept_rows(KIND)
    assert after[1] > before[1]


def test_a_view_of_a_store_that_keeps_nothing_works_all_the_same(store: Store, tmp_path: Path) -> None:
    store.put_records([plex(1)])
    with open_store(tmp_path / "records.db", create=False, now=lambda: 0, read_only=True) as reading:
        view = _view(reading)
        assert list(view) == [plex(1).hash]
        assert not view.save()
        view.close()


def test_a_closed_view_follows_no_more_and_leaves_the_graph(store: Store) -> None:
    graph = Graph()
    view = _view(store, graph=graph)
    view.close()
    view.close()
    store.put_records([plex(1)])
    assert len(graph) == 0
    with pytest.raises(UsageError, match="closed"):
        view.refresh()
    with pytest.raises(DisposedNode):
        len(view)
    assert not view.save()


# ---- of what --------------------------------------------------------------------------------------------------------


def _selected(store: Store, what: object) -> set[str]:
    return set(View(store, selector_of(what)))  # type: ignore[arg-type]


def test_a_view_is_of_rules_a_selection_or_a_place(store: Store) -> None:
    inside = plex(1, group="u", app="ding", name="links/1")
    beside = plex(2, group="u", app="ding", name="other")
    store.put_records([inside, beside, plex(3, group="v")])
    both = {inside.hash, beside.hash}
    selector = compile_selector(DING)
    for what in (
        DING,
        selector,
        selector.lacegram,
        builder.select(builder.group("u")),
        Prefix(group="u"),
        "//u//ding//",
    ):
        assert _selected(store, what) == both
    for place in (Coordinate(group="u", app="ding", name="links/1"), "//u//ding//links/1", " //u//ding//links/"):
        assert _selected(store, place) == {inside.hash}


def test_anything_else_is_refused() -> None:
    with pytest.raises(UsageError, match="get it"):
        selector_of(f"////{plex(1).hash}")
    with pytest.raises(UsageError, match="a view is of"):
        selector_of(5)  # type: ignore[arg-type]

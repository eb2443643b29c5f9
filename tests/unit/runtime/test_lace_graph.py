"""The graph of a lace follows its store."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from bobbin.datalog.limits import Limits
from bobbin.errors import ResourceError, UsageError
from bobbin.lace import Lace
from bobbin.reactive.graph import Graph
from bobbin.reactive.messages import NodeState
from bobbin.runtime import lace_graph
from bobbin.runtime.graph_host import GraphHost
from bobbin.runtime.lace_graph import LaceGraph
from bobbin.runtime.reactive_context import ReactiveContext
from bobbin.store.base import StoreError
from tests.support.byte_streams import until
from tests.support.graphs import read, run


@pytest.fixture
def lace(tmp_path: Path) -> Iterator[Lace]:
    with Lace.create(tmp_path / "x.lace") as made:
        made.new_key()
        yield made


def _values(graph: Graph) -> dict[str, object]:
    return {node.key: node.peek() for node in graph.nodes() if node.key is not None}


def _put(lace: Lace, name: str, **other: object) -> str:
    return lace.put(b"data", group="u", app="a", name=name, **other)  # type: ignore[arg-type]


def test_an_empty_lace(lace: Lace) -> None:
    graph = Graph()
    LaceGraph(GraphHost(ReactiveContext(graph)), lace.store)
    values = _values(graph)
    assert values.pop("store/bytes") == lace.stat().file_bytes
    assert values.pop("records/newest") is None
    assert set(values.values()) == {0}
    assert "records/count" in values


def test_counts_follow_in_one_flush(lace: Lace) -> None:
    graph = Graph()
    host = GraphHost(ReactiveContext(graph))
    shown = LaceGraph(host, lace.store)
    flushes: list[object] = []
    graph.on_flush(flushes.append)
    first = _put(lace, "one")
    sealed = _put(lace, "two", sign=True)
    shown.refresh()
    assert len(flushes) == 1
    values = _values(graph)
    kept = {"records/count": 2, "records/plex": 1, "records/seal": 1, "records/blob": 0, "store/cursor": 2}
    assert {key: values[key] for key in kept} == kept
    assert values["records/bytes"] == lace.stat().record_bytes
    newest = values["records/newest"]
    assert isinstance(newest, dict)
    assert (newest["hash"], newest["kind"], newest["place"]) == (sealed, "Seal", "//u//a//two")
    lace.remove(sealed, reason="test")
    shown.refresh()
    values = _values(graph)
    assert values["records/newest"] == {**newest, "hash": first, **_described(lace, first)}
    assert (values["refusals/count"], values["records/count"], values["store/cursor"]) == (1, 1, 2)
    flushes.clear()
    shown.refresh()
    assert flushes == [], "nothing has changed"


def _described(lace: Lace, hash: str) -> dict[str, object]:
    record = lace.get(hash)
    assert record is not None
    return {"kind": "Plex", "place": "//u//a//one", "size": len(record.raw), "tai": record.tai_text}  # type: ignore[union-attr]


def test_the_newest_behind_a_wide_gap(lace: Lace) -> None:
    first = _put(lace, "kept")
    for number in range(30):
        lace.remove(_put(lace, f"gone/{number}"), reason="test")
    graph = Graph()
    LaceGraph(GraphHost(ReactiveContext(graph)), lace.store)
    newest = _values(graph)["records/newest"]
    assert isinstance(newest, dict)
    assert newest["hash"] == first


def test_quarantine_and_tangles(lace: Lace) -> None:
    lace.store.put_many([b"no record"])
    key = lace.account_keys.create("account")
    graph = Graph()
    shown = LaceGraph(GraphHost(ReactiveContext(graph)), lace.store)
    assert _values(graph)["quarantine/count"] == 1
    lace.tangles.new_account(key)
    lace.tangles.post(key, {"text": "hello"}, tangles=[lace.tangles.feed(key, "post")])
    shown.refresh()
    values = _values(graph)
    assert values["messages/count"] == lace.stat().messages > 1
    assert values["tangles/count"] == len(lace.tangles.rows()) > 0


def test_a_trigger_looks_at_the_store(lace: Lace) -> None:
    graph = Graph()
    host = GraphHost(ReactiveContext(graph))
    LaceGraph(host, lace.store)
    _put(lace, "one")
    cursor = graph.keyed("store/cursor")
    assert cursor is not None
    host.fire(host.allowed[0].peer if host.allowed else 1, cursor.id)  # type: ignore[arg-type]
    assert _values(graph)["records/count"] == 1


def test_following_this_process_and_others(lace: Lace) -> None:
    async def main() -> None:
        graph = Graph()
        shown = LaceGraph(GraphHost(ReactiveContext(graph)), lace.store)
        task = asyncio.create_task(shown.follow(poll_seconds=0.005))
        _put(lace, "one")
        await _counted(graph, 1)
        with Lace.open(lace.path) as other:
            _put(other, "two")
        await _counted(graph, 2)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        _put(lace, "three")
        await asyncio.sleep(0)
        assert _values(graph)["records/count"] == 2

    run(main())


async def _counted(graph: Graph, count: int) -> None:
    """Wait until there are so many records."""
    news = asyncio.Event()

    def look() -> None:
        records = graph.keyed("records/count")
        assert records is not None
        if records.get() == count:
            news.set()

    effect = graph.effect(look)
    await news.wait()
    effect.dispose()


def test_a_store_that_cannot_be_read_for_now(lace: Lace, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        told: list[tuple[str, object]] = []
        graph = Graph()
        host = GraphHost(ReactiveContext(graph), tell=lambda word, values: told.append((word, dict(values))))
        shown = LaceGraph(host, lace.store)
        failures = [StoreError("busy", retry=True)] * 3
        stat = lace.store.stat

        def fail() -> object:
            if failures:
                raise failures.pop()
            return stat()

        monkeypatch.setattr(lace.store, "stat", fail)
        task = asyncio.create_task(shown.follow(poll_seconds=0.001))
        _put(lace, "one")
        await _counted(graph, 1)
        assert told == [("failed", {"why": "busy"})], "once"
        failures.append(StoreError("gone", retry=False))
        _put(lace, "two")
        with pytest.raises(ResourceError, match="gone"):
            await task

    run(main())


def test_views_are_shown_and_kept_up_to_date(lace: Lace) -> None:
    graph = Graph()
    shown = LaceGraph(GraphHost(ReactiveContext(graph)), lace.store)
    with lace.view("//u//a//links/", graph=graph, follow=False) as view:
        shown.add_view("links", view)
        assert _values(graph)["views/links/count"] == 0
        one = _put(lace, "links/1")
        _put(lace, "others/1")
        shown.refresh()
        values = _values(graph)
        assert (values["views/links/count"], values["views/links/records"]) == (1, [one])
    with lace.view("//u//a//links/") as stranger, pytest.raises(UsageError, match="not of this graph"):
        shown.add_view("other", stranger)


def test_a_large_view_shows_its_beginning(lace: Lace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lace_graph, "VIEW_RECORDS_MAX", 3)
    for number in range(5):
        _put(lace, f"links/{number}")
    graph = Graph()
    shown = LaceGraph(GraphHost(ReactiveContext(graph)), lace.store)
    with lace.view("//u//a//links/", graph=graph) as view:
        shown.add_view("links", view)
        values = _values(graph)
        assert values["views/links/count"] == 5
        assert values["views/links/records"] == sorted(view)[:3]


def test_a_view_that_grows_past_its_limits_holds_up_nothing_else(lace: Lace) -> None:
    """It shows no value rather than an old one, which is told once; what else there is follows."""

    async def main() -> None:
        told: list[tuple[str, dict[str, object]]] = []
        _put(lace, "links/1")
        graph = Graph()
        host = GraphHost(
            ReactiveContext(graph), allowed=[read("*")], tell=lambda word, values: told.append((word, dict(values)))
        )
        shown = LaceGraph(host, lace.store)
        tight = Limits(derived_tuples_max=3)
        with (
            lace.view("//u//a//links/", graph=graph, follow=False, limits=tight) as narrow,
            lace.view("//u//a//links/", graph=graph, follow=False) as wide,
        ):
            shown.add_view("narrow", narrow)
            shown.add_view("wide", wide)
            task = asyncio.create_task(shown.follow(poll_seconds=0.005))
            await _counted(graph, 1)
            more = [_put(lace, f"links/{number}") for number in range(2, 9)]
            await _counted(graph, 8)
            assert not task.done()
            states = {node.key: node.state for node in host.snapshot().nodes}
            assert states["views/narrow/count"] == states["views/narrow/records"] == NodeState.DIRTY
            assert states["views/wide/count"] == NodeState.RESOLVED
            count = graph.keyed("views/wide/count")
            assert count is not None
            assert count.get() == 8
            assert [(word, values["view"]) for word, values in told] == [("failed", "narrow")]
            for hash in more:
                lace.remove(hash, reason="test")
            await _counted(graph, 1)
            states = {node.key: node.state for node in host.snapshot().nodes}
            assert states["views/narrow/count"] == NodeState.RESOLVED, "it follows again"
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    run(main())


class _Busy:
    """A view that cannot be read now and then."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.failures: list[ResourceError] = []
        self.size = graph.cell(0)

    def __len__(self) -> int:
        return self.size.get()

    def __iter__(self) -> Iterator[str]:
        return iter(["x"] * self.size.get())

    def refresh(self) -> None:
        if self.failures:
            raise self.failures.pop()
        self.size.set(self.size.peek() + 1)


def test_a_view_that_cannot_be_read_for_now_is_tried_again(lace: Lace) -> None:
    async def main() -> None:
        told: list[str] = []
        graph = Graph()
        host = GraphHost(ReactiveContext(graph), allowed=[read("*")], tell=lambda word, _: told.append(word))
        shown, view = LaceGraph(host, lace.store), _Busy(graph)
        shown.add_view("busy", view)
        view.failures = [StoreError("busy", retry=True)] * 3
        task = asyncio.create_task(shown.follow(poll_seconds=0.001))
        await until(lambda: view.size.peek() == 1)
        count = graph.keyed("views/busy/count")
        assert count is not None
        assert count.get() == 1
        assert told == ["failed"], "once"
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run(main())

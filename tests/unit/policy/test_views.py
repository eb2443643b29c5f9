from collections.abc import Iterator

import pytest

from bobbin.errors import UsageError
from bobbin.facts.extract import extract
from bobbin.facts.relations import ARITY, Pattern, Tuple
from bobbin.policy import views
from bobbin.policy.views import FilteredSource, RecordFacts, TupleSource, UnionSource
from bobbin.records.record import build_plex

_FACTS = RecordFacts(
    [
        ("Have", ("a",)),
        ("Have", ("b",)),
        ("Field", ("a", "Group", "0", "u")),
        ("Field", ("b", "Group", "0", "u")),
        ("Field", ("b", "App", "0", "x")),
        ("RecordLink", ("a", "+Link", "0", "to", "b")),
        ("RecordLink", ("b", "+Link", "0", "to", "a")),
        ("BlobHash", ("a", "b")),
        ("BlobHash", ("b", "a")),
        ("PlexHash", ("a", "b")),
        ("PlexHash", ("b", "a")),
    ]
)


class _Lazy:
    """Counts what a view asks of the source behind it."""

    def __init__(self) -> None:
        self.asked: list[Pattern | None] = []

    def enumerate(self, predicate: str) -> Iterator[Tuple]:
        self.asked.append(None)
        return _FACTS.enumerate(predicate)

    def match(self, predicate: str, pattern: Pattern) -> Iterator[Tuple]:
        self.asked.append(pattern)
        return _FACTS.match(predicate, pattern)


def test_memory_answers_every_pattern_as_a_scan_would() -> None:
    rows = [("a", "x", "1"), ("a", "y", "2"), ("b", "x", "1")]
    source = TupleSource({"R": rows, "Z": [()]})
    for first in (None, "a", "c"):
        for second in (None, "x"):
            for third in (None, "1", "2"):
                pattern = (first, second, third)
                wanted = {row for row in rows if all(p in (None, v) for p, v in zip(pattern, row, strict=True))}
                assert set(source.match("R", pattern)) == wanted
    assert list(source.match("Z", ())) == [()]
    assert list(source.enumerate("Q")) == []
    assert list(source.match("Q", ("a",))) == []


def test_record_facts_hold_nothing_but_record_facts() -> None:
    with pytest.raises(UsageError):
        RecordFacts([("Advertised", ("a", "b"))])
    with pytest.raises(UsageError):
        RecordFacts([("Have", ("a", "b"))])


def test_record_facts_of_records_are_what_the_records_say() -> None:
    record = build_plex(group="u", app="ding", name="a", tai_ns=0, data=b"", extras=[("X", "1"), ("X", "2")])
    facts = RecordFacts.of_records([record])
    assert {(name, values) for name in ARITY for values in facts.enumerate(name)} == set(extract(record))


def test_a_union_yields_each_tuple_once() -> None:
    union = UnionSource(_FACTS, RecordFacts([("Have", ("b",)), ("Have", ("c",))]))
    assert sorted(union.enumerate("Have")) == [("a",), ("b",), ("c",)]
    assert sorted(union.match("Have", ("b",))) == [("b",)]


@pytest.mark.parametrize("bound", [0, 10])
@pytest.mark.parametrize("predicate", ARITY)
def test_a_view_keeps_the_tuples_of_visible_records(
    predicate: str, bound: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "_LOOKUPS_MAX", bound)
    view = FilteredSource(_FACTS, frozenset({"a", "ghost"}))
    wanted = {values for values in _FACTS.enumerate(predicate) if values[0] == "a"}
    assert wanted
    assert set(view.enumerate(predicate)) == wanted
    arity = ARITY[predicate]
    assert set(view.match(predicate, ("b",) + (None,) * (arity - 1))) == set()
    assert set(view.match(predicate, ("a",) + (None,) * (arity - 1))) == wanted
    # The hidden record may still stand in another place: that is what the visible record says.
    if predicate == "BlobHash":
        assert set(view.match(predicate, (None, "b"))) == {("a", "b")}
        assert set(view.match(predicate, (None, "a"))) == set()


def test_a_view_never_asks_for_a_hidden_record() -> None:
    lazy = _Lazy()
    view = FilteredSource(lazy, frozenset({"a"}))
    assert list(view.match("Field", ("b", None, None, None))) == []
    assert list(view.enumerate("Field")) == [("a", "Group", "0", "u")]
    assert list(view.match("Field", (None, "App", None, None))) == []
    assert lazy.asked == [("a", None, None, None), ("a", "App", None, None)]


def test_a_view_refuses_what_is_no_record_fact() -> None:
    view = FilteredSource(_FACTS, frozenset({"a"}))
    for predicate in ("Advertised", "TickTAI", "Nothing"):
        with pytest.raises(UsageError):
            view.match(predicate, (None,))
        with pytest.raises(UsageError):
            view.enumerate(predicate)

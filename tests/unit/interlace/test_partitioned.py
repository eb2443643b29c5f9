"""Partitions that are held once for all who have the same, and never change under anybody's hands."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.interlace import merkle
from bobbin.interlace.messages import Partition
from bobbin.interlace.partitioned import Partitioned


class _Labelled(Partitioned[bytes]):
    def _digests(self, entries: Iterable[bytes]) -> list[bytes]:
        return [merkle.leaf(str(self._label).encode() + entry) for entry in entries]


def _record(start: str) -> str:
    return f"P.{start.ljust(43, '0')}.H3"


def _filled(*starts: str, label: object = None) -> _Labelled:
    made = _Labelled(2, label)
    for start in starts:
        made.add(_record(start), start.encode())
    return made


def _entries(held: _Labelled) -> dict[str, bytes | None]:
    return {record: held.entry(record) for record in held.records()}


def test_equal_partitions_are_held_once() -> None:
    one, another = _filled("ab", "ac", "cd", label="x"), _filled("cd", "ac", "ab1", label="x")
    for held in (one, another):
        held.share()
        held.check()
    assert one._buckets["ac"] is another._buckets["ac"]
    assert one._buckets["cd"] is another._buckets["cd"]
    assert one._buckets["ab"] is not another._buckets["ab"]


def test_what_is_shared_stays_as_it_is_when_one_holder_changes() -> None:
    one, another = _filled("ab", "cd", label="x"), _filled("ab", "cd", label="x")
    one.share()
    another.share()
    before = another.summaries()
    one.add(_record("ab1"), b"new")
    one.add(_record("cd"), b"other")
    assert one.discard(_record("ab")) == b"ab"
    assert one.discard(_record("ab")) is None
    assert _entries(another) == {_record("ab"): b"ab", _record("cd"): b"cd"}
    assert another.summaries() == before
    assert _entries(one) == {_record("ab1"): b"new", _record("cd"): b"other"}
    one.check()
    another.check()


def test_equal_records_with_other_entries_are_not_shared() -> None:
    one, another = _filled("ab"), _Labelled(2)
    another.add(_record("ab"), b"other")
    one.share()
    another.share()
    assert (one.entry(_record("ab")), another.entry(_record("ab"))) == (b"ab", b"other")


def test_under_one_label_a_root_is_computed_once_for_all() -> None:
    one, another = _filled("ab", label="x"), _filled("ab", label="x")
    root = one.summary("ab")
    one.share()
    another.share()
    assert another.summary("ab") is root
    assert _filled("ab", label="y").summary("ab") != root


def test_without_a_label_each_has_its_own_roots() -> None:
    class Own(_Labelled):
        def __init__(self, who: str) -> None:
            super().__init__(2)
            self._who = who

        def _digests(self, entries: Iterable[bytes]) -> list[bytes]:
            return [merkle.leaf(self._who.encode() + entry) for entry in entries]

    one, another = Own("one"), Own("another")
    for held in (one, another):
        held.add(_record("ab"), b"entry")
        held.summaries()
        held.share()
    assert one._buckets["ab"] is another._buckets["ab"]
    for held in (one, another):
        expected = merkle.root([merkle.leaf(held._who.encode() + b"entry")])
        assert held.summaries() == (Partition(prefix="ab", count=1, root=expected),)
        held.check()


def test_a_shared_partition_goes_with_its_last_holder() -> None:
    held = _filled("ab", label="to be forgotten")
    held.share()
    labels = [label for label in _Labelled._shared if label[0] == "to be forgotten"]
    assert len(labels) == 1
    del held
    assert labels[0] not in _Labelled._shared


def test_records_entries_and_prefixes() -> None:
    held = _filled("ab", "ab1", "cd")
    assert sorted(held.prefixes()) == ["ab", "cd"]
    assert sorted(held.entries()) == [b"ab", b"ab1", b"cd"]
    assert _record("ab") in held
    assert _record("zz") not in held
    assert 7 not in held


_STARTS = st.text("0A~", min_size=3, max_size=3)
_STEPS = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from(["add", "discard", "share", "summaries"]), _STARTS, st.integers(0, 2)),
    max_size=60,
)


@given(_STEPS)
def test_holders_that_share_never_feel_each_other(steps: list[tuple[int, str, str, int]]) -> None:
    holders = [_Labelled(2, "x"), _Labelled(2, "x"), _Labelled(2)]
    models: list[dict[str, bytes]] = [{}, {}, {}]
    for who, step, start, number in steps:
        held, model, record = holders[who], models[who], _record(start)
        if step == "add":
            held.add(record, bytes([number]))
            model[record] = bytes([number])
        elif step == "discard":
            assert held.discard(record) == model.pop(record, None)
        elif step == "share":
            held.share()
        else:
            held.summaries()
    for held, model in zip(holders, models, strict=True):
        held.check()
        assert (_entries(held), len(held)) == (model, len(model))


_ODD = "P.a.K9"
"""Its payload is shorter than a prefix."""


@given(
    held=st.sets(st.sampled_from(["ab", "ab1", "ac", "cd", "ce"])),
    new=st.lists(st.sampled_from(["ab", "ab1", "ac", "cd", "zz"]), unique=True),
    shared=st.booleans(),
)
def test_many_records_are_taken_and_looked_for_as_one_is(held: set[str], new: list[str], *, shared: bool) -> None:
    one, another = _filled(*held), _filled(*held)
    if shared:
        one.share()
    fresh = {_record(start): b"new" for start in new if start not in held}
    one.add_all({**fresh, _ODD: b"odd"})
    for record, entry in {**fresh, _ODD: b"odd"}.items():
        another.add(record, entry)
    one.check()
    assert _entries(one) == _entries(another)
    assert one.summaries() == another.summaries()
    everything = [*map(_record, ("ab", "ab1", "ac", "cd", "ce", "zz", "zy")), _ODD, "P.b.K9", "x"]
    expected = {record for record in everything if record in another}
    assert one.having(everything) == one.having(frozenset(everything)) == expected
    assert set().union(*(one.having([record]) for record in everything)) == expected


def test_few_are_looked_for_in_a_large_set() -> None:
    held = _filled(*(f"a{first}{second}" for first in "bcdef" for second in "012345"))
    held.add(_ODD, b"odd")
    assert held.having([_record("ab0"), _record("ab9"), _ODD, "P.b.K9"]) == {_record("ab0"), _ODD}


def test_what_is_under_a_prefix_and_what_its_summary_would_be() -> None:
    held = _filled("ab1", "ab2", "abc", "cd")
    assert held.under("ab") == {_record(start): start.encode() for start in ("ab1", "ab2", "abc")}
    assert held.under("abc") == {_record("abc"): b"abc"}
    assert held.under("zz") == held.under("ab9") == {}
    for prefix in ("ab", "abc", "cd", "zz"):
        assert held.summarise(prefix, held.under(prefix)) == held.summary(prefix)


def test_a_summary_that_is_known_is_kept_until_something_changes() -> None:
    held = _filled("ab", "cd")
    known = held.summary("ab")
    held.add(_record("ab1"), b"more")
    held.discard(_record("ab1"))
    held.note(known)
    held.note(Partition(prefix="zz", count=0, root=merkle.EMPTY))
    assert held.summary("ab") is known
    held.add(_record("ab1"), b"more")
    assert held.summary("ab").count == 2
    held.check()


def test_the_partitions_that_records_would_lie_in() -> None:
    held = _filled("ab")
    assert held.prefixes_of([_record("ab"), _record("abc"), _record("cd"), _ODD]) == {"ab", "cd", "a"}
    assert held.prefixes_of([]) == set()


@pytest.mark.parametrize("length", [1, 2, 3, 4, 20])
def test_records_are_found_by_names_of_any_length(length: int) -> None:
    held = _Labelled(length)
    for record in (_record("abc1"), _record("abc2"), _record("abd"), "P.ab.H9"):
        held.add(record, b"")
    found = held.named(["abc", "abd", "xyz"], 3)
    assert {name: sorted(records) for name, records in found.items()} == {
        "abc": [_record("abc1"), _record("abc2")],
        "abd": [_record("abd")],
        "xyz": [],
    }
    assert held.named([], 3) == {}

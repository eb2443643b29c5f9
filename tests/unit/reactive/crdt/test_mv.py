import pytest

from bobbin.errors import UsageError
from bobbin.reactive.crdt.mv import Mv
from bobbin.reactive.messages import U64_MAX, PeerId

A, B = PeerId(1), PeerId(2)


def _concurrent() -> tuple[Mv[str], Mv[str]]:
    a: Mv[str] = Mv()
    b = a.fork()
    a.set("A", A)
    b.set("B", B)
    return a, b


def test_writes_that_did_not_see_each_other_are_both_there() -> None:
    """RX-099."""
    a, b = _concurrent()
    assert a.merge(b)
    assert b.merge(a)
    assert a.values == b.values == {"A", "B"}


def test_a_write_that_saw_both_replaces_both() -> None:
    """RX-135: also where the replaced ones come again."""
    a, b = _concurrent()
    a.merge(b)
    assert a.set("C", A)
    assert a.values == {"C"}
    assert not a.merge(b)
    assert b.merge(a)
    assert b.values == {"C"}


def test_a_merge_that_shows_nothing_else_says_so() -> None:
    """RX-134: the same value, written by somebody who did not know of it."""
    a: Mv[str] = Mv()
    b = a.fork()
    a.set("same", A)
    b.set("same", B)
    assert not a.merge(b)
    assert len(a.entries) == 2
    a.set("C", A)
    assert not b.fork().merge(b)
    assert b.merge(a), "both entries are superseded, the second one too"
    assert b.values == {"C"}


def test_nothing_is_there_before_anybody_wrote() -> None:
    assert Mv[str]().values == frozenset()


def test_entries_that_others_cover_are_dropped_when_a_state_is_read() -> None:
    old, new = frozenset({(A, 1)}), frozenset({(A, 2), (B, 1)})
    assert Mv([(old, "old"), (new, "new")]).values == {"new"}


def test_two_values_under_one_version_stay_both() -> None:
    version = frozenset({(A, 1)})
    assert Mv([(version, "a"), (version, "b")]).values == {"a", "b"}


def test_nobody_writes_beyond_what_can_be_counted() -> None:
    register = Mv([(frozenset({(A, U64_MAX)}), "last")])
    with pytest.raises(UsageError, match="peer 1"):
        register.set("one more", A)
    assert register.values == {"last"}

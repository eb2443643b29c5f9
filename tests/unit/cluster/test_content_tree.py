from collections.abc import Iterable, Iterator
from functools import cache
from random import Random
from zlib import crc32

import pytest

from bobbin.cluster.content_tree import EMPTY, ContentTree
from bobbin.errors import IntegrityError, UsageError


def _tree(contents: dict[bytes, bytes]) -> ContentTree:
    tree = ContentTree()
    tree.update(contents.items())
    return tree


_CONTENTS = {b"%d" % number: b"content %d" % number for number in range(60)}


def test_an_empty_tree_is_zeros() -> None:
    assert ContentTree().top == EMPTY == bytes(32)


def test_order_and_batches_make_no_difference() -> None:
    names = list(_CONTENTS)
    Random(1).shuffle(names)
    one_by_one = ContentTree()
    for name in names:
        one_by_one.update([(name, _CONTENTS[name])])
    assert one_by_one.top == _tree(_CONTENTS).top != EMPTY


def test_what_was_there_and_has_gone_does_not_show() -> None:
    tree = _tree(_CONTENTS | {b"more": b"to go", b"7": b"to change"})
    tree.update([(b"more", None), (b"7", _CONTENTS[b"7"]), (b"never there", None)])
    assert tree.top == _tree(_CONTENTS).top
    assert len(tree) == 60
    assert b"7" in tree
    assert b"more" not in tree
    tree.update((name, None) for name in _CONTENTS)
    assert tree.top == EMPTY
    assert len(tree) == 0


class _Filled(ContentTree):
    """Notes how many changes come at once."""

    def __init__(self) -> None:
        super().__init__()
        self.slices: list[int] = []

    def update(self, changes: Iterable[tuple[bytes, bytes | None]]) -> None:
        some = list(changes)
        self.slices.append(len(some))
        super().update(some)


@pytest.mark.parametrize(
    ("lengths", "slices"),
    [
        ([], []),
        ([1], [1]),
        ([0] * 9_999, [9_999]),
        ([0] * 10_000, [10_000]),
        ([0] * 20_001, [10_000, 10_000, 1]),
        ([1 << 20] * 9, [4, 4, 1]),
        ([1, 5 << 20, 1], [2, 1]),
        ([None, 5 << 20, None, None], [2, 2]),
    ],
)
def test_a_tree_is_filled_some_at_a_time(lengths: list[int | None], slices: list[int]) -> None:
    changes = [(b"%d" % number, None if length is None else bytes(length)) for number, length in enumerate(lengths)]
    tree, expected = _Filled(), ContentTree()
    tree.fill(iter(changes))
    expected.update(changes)
    assert tree.slices == slices
    assert tree.top == expected.top


def test_where_filling_fails_it_stays_half_done() -> None:
    def changes() -> Iterator[tuple[bytes, bytes | None]]:
        yield from ((b"%d" % number, b"") for number in range(15_000))
        raise IntegrityError("the rest is not there")

    tree = ContentTree()
    with pytest.raises(IntegrityError, match="the rest"):
        tree.fill(changes())
    assert len(tree) == 10_000


def test_every_content_shows() -> None:
    tops = {_tree(_CONTENTS).top}
    for name in _CONTENTS:
        tops.add(_tree(_CONTENTS | {name: b"another"}).top)
        tops.add(_tree({other: content for other, content in _CONTENTS.items() if other != name}).top)
    assert len(tops) == 121


def test_names_of_one_bucket_are_kept_apart() -> None:
    """These two have the same low 16 bits of CRC-32."""
    first, second = _of_one_bucket()
    both = _tree({first: b"a", second: b"b"})
    assert both.top not in {_tree({first: b"a"}).top, _tree({second: b"b"}).top}
    assert both.top == _tree({second: b"b", first: b"a"}).top
    both.update([(first, None)])
    assert both.top == _tree({second: b"b"}).top


def test_the_last_of_many_changes_of_one_name_counts() -> None:
    tree = ContentTree()
    tree.update([(b"a", b"1"), (b"a", b"2"), (b"b", b"1"), (b"b", None), (b"a", b"3")])
    assert tree.top == _tree({b"a": b"3"}).top


def test_a_draft_has_the_hash_of_the_tree_that_it_would_make() -> None:
    """Draft on draft, with names that share buckets and branches, and the tree untouched until they are merged."""
    chance = Random(7)
    tree, contents = _tree(_CONTENTS), dict(_CONTENTS)
    for _ in range(20):
        before, drafts = tree.top, []
        expected = [before]
        below = None
        for _ in range(chance.randint(1, 4)):
            changes = _some_changes(chance)
            below = tree.draft(below)
            below.update(changes)
            drafts.append(below)
            _apply(contents, changes)
            expected.append(_tree(contents).top)
        assert [draft.base for draft in drafts] == expected[:-1]
        assert [draft.top for draft in drafts] == expected[1:]
        assert tree.top == before
        for draft in drafts:
            tree.merge(draft)
            assert tree.top == draft.top
        assert len(tree) == len(contents)
        assert drafts[-1].on is None
    tree.update((name, None) for name in contents)
    assert tree.top == EMPTY


def _some_changes(chance: Random) -> list[tuple[bytes, bytes | None]]:
    names = [*_CONTENTS, *_of_one_bucket()]
    return [(chance.choice(names), chance.choice([None, b"1", b"2"])) for _ in range(chance.randint(0, 30))]


def _apply(contents: dict[bytes, bytes], changes: list[tuple[bytes, bytes | None]]) -> None:
    for name, content in changes:
        if content is None:
            contents.pop(name, None)
        else:
            contents[name] = content


def test_a_draft_of_a_tree_that_has_gone_on_is_not_merged() -> None:
    tree = _tree(_CONTENTS)
    one, other = tree.draft(), tree.draft()
    one.update([(b"1", b"one")])
    other.update([(b"1", b"other")])
    tree.merge(one)
    top = tree.top
    for stale in (one, other):
        with pytest.raises(UsageError):
            tree.merge(stale)
    with pytest.raises(UsageError):
        other.update([(b"2", b"")])
    assert tree.top == top == _tree(_CONTENTS | {b"1": b"one"}).top


def test_a_draft_that_takes_everything_away_leaves_the_empty_tree() -> None:
    tree = _tree(_CONTENTS)
    draft = tree.draft()
    draft.update((name, None) for name in _CONTENTS)
    assert draft.top == EMPTY
    tree.merge(draft)
    assert (tree.top, len(tree)) == (EMPTY, 0)
    tree.update(_CONTENTS.items())
    assert tree.top == _tree(_CONTENTS).top


@cache
def _of_one_bucket() -> tuple[bytes, bytes]:
    seen: dict[int, bytes] = {}
    for number in range(100_000):
        name = b"%d" % number
        place = crc32(name) & 0xFFFF
        if place in seen:
            return seen[place], name
        seen[place] = name
    raise AssertionError("no two names of one bucket")


def test_a_draft_that_was_merged_is_not_merged_again_when_the_tree_is_back_where_it_was() -> None:
    tree = ContentTree()
    draft = tree.draft()
    draft.update([(b"a", b"1")])
    tree.merge(draft)
    tree.update([(b"a", None)])
    assert tree.top == draft.base
    with pytest.raises(UsageError):
        tree.merge(draft)
    assert (tree.top, len(tree)) == (EMPTY, 0)

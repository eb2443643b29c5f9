import copy
import ctypes
import pickle
import re
from array import array
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from itertools import pairwise, permutations
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch
from zlib import crc32

import msgspec
import pytest

import bobbin.native.content_tree as native
from bobbin.cluster.content_tree import EMPTY, ContentTree, TreeDraft
from bobbin.errors import ResourceError, UsageError
from bobbin.native.content_tree import (
    NativeContentTree,
    Pieces,
    TreeStatus,
    load_tree_functions,
    tree_functions,
)
from bobbin.native.library import FILE_NAME, FOLDER, LibraryAbsent
from tests.support.content_trees import names_of_place, slow_top

_CONTENTS = {b"%d" % number: b"content %d" % number for number in range(100)}


def _tree(contents: dict[bytes, bytes]) -> NativeContentTree:
    tree = NativeContentTree()
    tree.update(contents.items())
    return tree


def _draft(tree: ContentTree, changes: Iterable[tuple[bytes, bytes | None]], on: TreeDraft | None = None) -> TreeDraft:
    draft = tree.draft(on)
    draft.update(changes)
    return draft


# ---- hashes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("contents", "top"),
    [
        ({}, EMPTY.hex()),
        ({b"a": b"1"}, "6c446ed09d7010bdd2a705a48c384bb0aa635b68c351a968046b7c525dbc9a4c"),
        (
            dict(zip(names_of_place(7, 3), (b"x", b"y", b"y"), strict=True)),
            "50ea76483a8525342184f9042c2649b197d3c57e24c1340a2ed286118b80c1a3",
        ),
        (_CONTENTS, "7865edefe7c1e53ae43ae73d6bd6284383895272b6f585daba699da392c8b33e"),
    ],
)
def test_known_bytes(contents: dict[bytes, bytes], top: str) -> None:
    assert _tree(contents).top.hex() == slow_top(contents).hex() == top


def test_names_of_any_length_and_contents_of_any_length() -> None:
    """Around the ends of blocks, and around the longest text that waits for another one."""
    lengths = [*range(70), *range(116, 124), *range(2_040, 2_060), 5_000]
    data = Random(1).randbytes(6_000)
    for turn in (0, 1, 7):
        contents = {data[length:][:length]: data[: lengths[at - turn]] for at, length in enumerate(lengths)}
        assert _tree(contents).top == slow_top(contents)


def test_what_is_empty_is_something() -> None:
    tree = _tree({b"": b""})
    assert b"" in tree
    assert len(tree) == 1
    assert tree.top == slow_top({b"": b""}) != EMPTY
    tree.update([(b"", None)])
    assert (tree.top, len(tree)) == (EMPTY, 0)


def test_many_names_in_one_bucket() -> None:
    """More hashes than the text of a branch has, and more than there is room for at first; equal ones among them."""
    names = names_of_place(0xFFFF, 200)
    contents = {name: b"%d" % (number % 150) for number, name in enumerate(names)}
    tree = NativeContentTree()
    sizes = [0, 1, 2, 62, 63, 64, 65, 66, 130, 200]
    for last, size in pairwise(sizes):
        tree.update((name, contents[name]) for name in names[last:size])
        assert tree.top == slow_top({name: contents[name] for name in names[:size]})
        assert len(tree) == size
    for last, size in pairwise(sizes[::-1]):
        tree.update((name, None) for name in names[size:last])
        assert tree.top == slow_top({name: contents[name] for name in names[:size]})
        assert [name in tree for name in names] == [True] * size + [False] * (200 - size)
    assert (tree.top, len(tree)) == (EMPTY, 0)


def test_the_last_of_many_changes_of_one_name_counts() -> None:
    first, second, third = names_of_place(9, 3)
    tree = _tree({first: b"0", second: b"0"})
    tree.update([(first, b"1"), (third, b"1"), (second, None), (third, None), (first, b"2"), (second, b"3")])
    assert tree.top == slow_top({first: b"2", second: b"3"})
    tree.update([*[(first, b"4")] * 100, (first, None)])
    assert tree.top == slow_top({second: b"3"})


def test_order_and_what_has_gone_make_no_difference() -> None:
    names = list(_CONTENTS)
    Random(1).shuffle(names)
    tree = NativeContentTree()
    tree.update([(b"more", b"to go"), (b"7", b"to change")])
    for name in names:
        tree.update([(name, _CONTENTS[name])])
    tree.update([(b"more", None), (b"never there", None)])
    assert tree.top == slow_top(_CONTENTS)


@pytest.mark.parametrize("kind", [ContentTree, NativeContentTree])
@pytest.mark.parametrize("middle", [b"", b"middle", b"m" * 3_000])
def test_values_are_contents_with_their_lengths(kind: type[ContentTree], middle: bytes) -> None:
    values = [(b"", b""), (b"a", b""), (b"", b"b"), (b"c", b"d" * 70_000), (b"e", None), (b"0", b"\x00")]
    tree = kind()
    tree.update([(b"e", b"to go")])
    draft, expected = tree.draft(), tree.draft()
    draft.update_values(middle, iter(values))
    expected.update((name, None if value is None else _sized(name) + middle + _sized(value)) for name, value in values)
    assert draft.top == expected.top != tree.top
    tree.merge(draft)
    assert tree.top == expected.top
    assert b"e" not in tree


def _sized(part: bytes) -> bytes:
    return len(part).to_bytes(4, "big") + part


# ---- long updates --------------------------------------------------------------------------------------------------


class _Recorder:
    """Functions that note which of them were called."""

    def __init__(self, functions: ctypes.CDLL, called: list[str]) -> None:
        self._functions = functions
        self._called = called

    def __getattr__(self, name: str) -> object:
        self._called.append(name.removeprefix("bobbin_tree_"))
        return getattr(self._functions, name)


@pytest.mark.parametrize(
    ("changes", "is_long"),
    [
        ([(b"%d" % number, b"") for number in range(1_999)], False),
        ([(b"%d" % number, b"") for number in range(2_000)], True),
        ([(b"a", bytes((1 << 20) - 2))], False),
        ([(b"a", bytes((1 << 20) - 1))], True),
        ([(b"%d" % number * 1_000, b"") for number in range(500)], True),
        ([(b"%d" % number, None) for number in range(2_000)], True),
    ],
)
def test_a_long_update_lets_other_threads_run(changes: list[tuple[bytes, bytes | None]], is_long: bool) -> None:  # noqa: FBT001
    held: list[str] = []
    yielded: list[str] = []
    recorded: Any = SimpleNamespace(
        holding=_Recorder(tree_functions().holding, held), yielding=_Recorder(tree_functions().yielding, yielded)
    )
    expected = ContentTree()
    expected.update(changes)
    with patch.object(native, "tree_functions", lambda: recorded):
        tree = NativeContentTree()
        draft = tree.draft()
    draft.update(changes)
    tree.update(changes)
    assert draft.top == tree.top == expected.top
    long, short = (yielded, held) if is_long else (held, yielded)
    assert {"draft_update", "update"} <= set(long)
    assert not {"draft_update", "update"} & set(short)


@pytest.mark.parametrize(("names", "changed", "is_long"), [(1_000, 1, False), (1_000, 100, True), (1, 300, True)])
def test_an_update_of_large_buckets_lets_other_threads_run(names: int, changed: int, is_long: bool) -> None:  # noqa: FBT001
    """It is short as it comes in; what it goes through for every change is not."""
    held: list[str] = []
    yielded: list[str] = []
    recorded: Any = SimpleNamespace(
        holding=_Recorder(tree_functions().holding, held), yielding=_Recorder(tree_functions().yielding, yielded)
    )
    of_one_place = names_of_place(7, 1_000)
    filled = [(name, b"content") for name in of_one_place[:names]]
    changes = [(name, b"other") for name in of_one_place[:changed]]
    with patch.object(native, "tree_functions", lambda: recorded):
        tree = NativeContentTree()
    tree.update(filled)
    yielded.clear()
    draft = tree.draft()
    draft.update(changes)
    assert draft.top == slow_top({**dict(filled), **dict(changes)})
    tree.update(changes)
    assert tree.top == draft.top
    assert {"draft_update", "update"} <= set(held)
    assert yielded == (["draft_update", "update"] if is_long else [])


def test_long_names_are_shared_by_the_drafts_of_a_bucket() -> None:
    """On each other, and merged one by one; some of the names are new, some change, and some go and come again."""
    tree, plain = NativeContentTree(), ContentTree()
    ends = [name for name in names_of_place(7, 2_000) if len(name) == 12]
    names = [bytes(size) + end for size in (52, 53, 4_000) for end in ends[:200]]
    assert len({crc32(name) % (1 << 16) for name in names}) == 3
    for one in (tree, plain):
        one.update((name, b"content") for name in names[::2])
    drafts, below = list[TreeDraft](), None
    for first in range(20):
        changes: list[tuple[bytes, bytes | None]] = [(name, b"%d" % first) for name in names[first::20]]
        changes += [(names[first], None), (names[first + 200], None), (names[first + 200], b"again")]
        below = _draft(tree, changes, below)
        drafts.append(below)
        plain.update(changes)
    assert drafts[-1].top == plain.top
    for draft in drafts:
        tree.merge(draft)
    del drafts, below, draft
    assert tree.top == plain.top
    assert [name in tree for name in names] == [name in plain for name in names]
    for one in (tree, plain):
        one.update((name, b"last") for name in names)
    assert tree.top == plain.top


def test_filling_takes_some_changes_at_a_time() -> None:
    tree = NativeContentTree()
    taken = 0

    def changes() -> Iterator[tuple[bytes, bytes | None]]:
        nonlocal taken
        for name in (b"%d" % number for number in range(25_000)):
            assert taken - len(tree) <= 10_000
            taken += 1
            yield name, b"content"

    tree.fill(changes())
    assert tree.top == slow_top({b"%d" % number: b"content" for number in range(25_000)})


def test_a_long_update_on_drafts() -> None:
    names = [sha256(number.to_bytes(4, "big")).digest() for number in range(4_000)]
    tree, plain = NativeContentTree(), ContentTree()
    below: tuple[TreeDraft | None, TreeDraft | None] = (None, None)
    for first, content in ((0, b"1"), (1_000, b"2"), (2_000, None)):
        changes = [(name, content) for name in names[first : first + 2_000]]
        below = _draft(tree, changes, below[0]), _draft(plain, changes, below[1])
        assert below[0].top == below[1].top
    assert len(tree) == 0


# ---- drafts --------------------------------------------------------------------------------------------------------


def test_a_draft_changes_nothing_until_it_is_merged() -> None:
    tree = _tree(_CONTENTS)
    draft = _draft(tree, [(b"7", b"other"), (b"8", None), (b"new", b"")])
    assert (tree.top, len(tree), b"8" in tree) == (slow_top(_CONTENTS), 100, True)
    assert draft.base == tree.top
    tree.merge(draft)
    contents = {**_CONTENTS, b"7": b"other", b"new": b""}
    del contents[b"8"]
    assert tree.top == draft.top == slow_top(contents)
    assert (len(tree), b"8" in tree, b"new" in tree) == (100, False, True)


def test_drafts_on_drafts_on_drafts_are_merged_in_order() -> None:
    """Each changes the bucket that the others change, and some of their branches, and reads through to all below."""
    names = [*names_of_place(0, 4), *names_of_place(1, 2), *names_of_place(31, 1), *names_of_place(1 << 15, 2)]
    contents: dict[bytes, bytes] = dict.fromkeys(names, b"0")
    tree = _tree(contents)
    tops, drafts = [tree.top], list[TreeDraft]()
    for number in range(12):
        changes: dict[bytes, bytes | None] = dict.fromkeys(names[number % 4 :: 3], b"%d" % number)
        changes[names[number % 9]] = None
        drafts.append(_draft(tree, changes.items(), drafts[-1] if drafts else None))
        contents |= {name: content for name, content in changes.items() if content is not None}
        del contents[names[number % 9]]
        tops.append(slow_top(contents))
    assert [draft.base for draft in drafts] == tops[:-1]
    assert [draft.top for draft in drafts] == tops[1:]
    for number, draft in enumerate(drafts):
        assert tree.top == tops[number]
        for early in drafts[number + 1 :]:
            with pytest.raises(UsageError, match="another one"):
                tree.merge(early)
        tree.merge(draft)
        assert draft.on is None
    assert (tree.top, len(tree)) == (tops[-1], len(contents))


def test_two_drafts_of_one_tree() -> None:
    tree = _tree(_CONTENTS)
    one, other = _draft(tree, [(b"1", b"one")]), _draft(tree, [(b"1", b"other")])
    above = _draft(tree, [(b"2", None)], other)
    tree.merge(one)
    for stale in (one, other, above):
        with pytest.raises(UsageError, match="another one"):
            tree.merge(stale)
    assert tree.top == slow_top(_CONTENTS | {b"1": b"one"})


def test_a_draft_takes_its_changes_once() -> None:
    tree = _tree(_CONTENTS)
    for changes in ([(b"1", b"x")], [(b"1", _CONTENTS[b"1"])], [(b"never there", None)]):
        draft = tree.draft()
        draft.update([])
        draft.update_values(b"", [])
        draft.update(changes)
        top = draft.top
        for again in ([(b"2", b"")], []):
            with pytest.raises(UsageError, match="once"):
                draft.update(again)
            with pytest.raises(UsageError, match="once"):
                draft.update_values(b"", again)
        assert draft.top == top


def test_a_draft_without_changes() -> None:
    tree = _tree(_CONTENTS)
    first = tree.draft()
    second = _draft(tree, [(b"1", None)], tree.draft(first))
    tree.merge(first)
    tree.merge(first)
    assert first.top == first.base == tree.top
    tree.merge(second)
    assert (tree.top, len(tree)) == (second.top, 99)


def test_a_merged_draft_is_not_merged_again_when_the_tree_is_what_it_was() -> None:
    """Its notes are the tree's and changed since: there would be its hash without its contents."""
    tree = _tree(_CONTENTS)
    draft = _draft(tree, [(b"new", b"")])
    tree.merge(draft)
    tree.update([(b"new", None)])
    assert tree.top == draft.base
    with pytest.raises(UsageError, match="another one"):
        tree.merge(draft)
    assert (tree.top, len(tree)) == (slow_top(_CONTENTS), 100)


def test_a_draft_that_was_settled_unmerged_has_nothing_to_give() -> None:
    tree = _tree(_CONTENTS)
    draft = _draft(tree, [(b"new", b"")])
    draft.settle()
    draft.settle()
    with pytest.raises(UsageError, match="another one"):
        tree.merge(draft)
    assert tree.top == slow_top(_CONTENTS)


def test_a_draft_may_be_merged_into_another_tree_of_the_same_hash() -> None:
    tree, other = _tree(_CONTENTS), _tree(_CONTENTS)
    draft = _draft(tree, [(b"1", None)])
    other.merge(draft)
    assert (tree.top, len(tree)) == (slow_top(_CONTENTS), 100)
    assert (other.top, len(other)) == (draft.top, 99)
    assert _draft(tree, [(b"1", None)]).top == draft.top


@pytest.mark.parametrize("merged", range(4))
def test_a_draft_keeps_alive_what_it_reads_through(merged: int) -> None:
    """A tree and three drafts, each on the one before, go in any order, some of them merged before."""
    tops = set()
    for order in permutations(range(4)):
        tree = _tree(_CONTENTS)
        first = _draft(tree, [(b"1", b"x"), (b"2", b"x")])
        second = _draft(tree, [(b"2", None), (b"3", b"x")], first)
        third = _draft(tree, [(b"1", b"y")], second)
        above = tree.draft(third)
        above.on = None  # so that Python holds nothing for it
        held: list[object] = [first, second, third, tree]
        for draft in (first, second, third)[:merged]:
            tree.merge(draft)
        draft = above
        del tree, first, second, third
        for which in order:
            held[which] = None
        above.update([(b"4", None)])
        tops.add(above.top)
    contents = {**_CONTENTS, b"1": b"y", b"3": b"x"}
    del contents[b"2"], contents[b"4"]
    assert tops == {slow_top(contents)}


# ---- what is refused -----------------------------------------------------------------------------------------------


def test_a_draft_of_one_kind_is_of_no_use_to_a_tree_of_the_other() -> None:
    tree, plain = _tree(_CONTENTS), ContentTree()
    plain.update(_CONTENTS.items())
    draft, plain_draft = _draft(tree, [(b"1", None)]), _draft(plain, [(b"1", None)])
    for refused in (lambda: tree.merge(plain_draft), lambda: tree.draft(plain_draft)):
        with pytest.raises(UsageError, match="drafts in C only"):
            refused()
    with pytest.raises((UsageError, ValueError)):
        plain.merge(draft)
    with pytest.raises(IndexError):
        plain.draft(draft).update([(b"2", None)])
    assert tree.top == plain.top == slow_top(_CONTENTS)
    assert len(tree) == len(plain) == 100
    tree.merge(draft)
    plain.merge(plain_draft)
    assert tree.top == plain.top


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_neither_a_tree_nor_a_draft_is_copied(copied: Callable[[object], object]) -> None:
    """Two objects would give back one piece of memory."""
    tree = _tree(_CONTENTS)
    for one in (tree, tree.draft()):
        with pytest.raises(TypeError, match="cannot be copied"):
            copied(one)
    assert tree.top == slow_top(_CONTENTS)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ([(b"a", b"1"), ("b", b"2")], TypeError),
        ([(b"a", b"1"), (b"b", "2")], TypeError),
        ([(b"a", b"1"), (b"b", 2)], TypeError),
        ([(b"a", b"1"), (None, b"2")], TypeError),
        ([(b"a", b"1"), (b"b",)], ValueError),
        ([(b"a", b"1", b"2")], ValueError),
        ([(b"a", memoryview(array("H", [1, 2])))], UsageError),
        ([(memoryview(array("H", [1, 2])), b"a")], UsageError),
    ],
)
def test_what_is_no_change(changes: list[tuple[bytes, bytes | None]], error: type[Exception]) -> None:
    tree = _tree(_CONTENTS)
    draft = tree.draft()
    for refuse in (tree.update, draft.update):
        with pytest.raises(error):
            refuse(changes)
    assert draft.top == tree.top == slow_top(_CONTENTS)
    draft.update([(b"a", b"1")])
    assert draft.top == slow_top(_CONTENTS | {b"a": b"1"})


def test_other_buffers_than_bytes_are_read() -> None:
    tree = NativeContentTree()
    tree.update([(bytearray(b"a"), memoryview(b"1")), (b"b", bytearray(b"2"))])  # type: ignore[list-item]
    assert tree.top == slow_top({b"a": b"1", b"b": b"2"})


def test_the_numbers_of_statuses() -> None:
    assert [(status.value, status.name) for status in TreeStatus] == [
        (0, "OK"),
        (1, "NULL_POINTER"),
        (2, "INVALID"),
        (3, "NO_MEMORY"),
        (4, "USED"),
        (5, "STALE"),
        (6, "SLOW"),
    ]


@pytest.mark.parametrize("status", [status for status in TreeStatus if status is not TreeStatus.OK])
def test_a_status_that_is_not_good_is_an_error(status: TreeStatus) -> None:
    answering: Any = lambda *_: status  # noqa: E731
    with pytest.raises((ResourceError, UsageError)) as raised:
        Pieces([b"a"], [b"1"]).given_to(answering)
    if status in {TreeStatus.NO_MEMORY, TreeStatus.SLOW}:
        assert isinstance(raised.value, ResourceError)
        assert raised.value.retry
    else:
        assert isinstance(raised.value, UsageError)


def test_memory_that_runs_out_where_a_tree_or_a_draft_is_made() -> None:
    def nothing(*_: object) -> None:
        return None

    short: Any = SimpleNamespace(holding=SimpleNamespace(bobbin_tree_new=nothing, bobbin_tree_draft_new=nothing))
    with patch.object(native, "tree_functions", lambda: short), pytest.raises(ResourceError, match="memory") as raised:
        NativeContentTree()
    assert raised.value.retry
    tree = _tree(_CONTENTS)
    with patch.object(tree, "_functions", short), pytest.raises(ResourceError, match="memory"):
        tree.draft()
    assert tree.draft().top == tree.top


# ---- the library ----------------------------------------------------------------------------------------------------


def test_the_library_of_the_package() -> None:
    assert tree_functions() is tree_functions()
    assert load_tree_functions(FOLDER / FILE_NAME).is_fast is tree_functions().is_fast


def test_a_library_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(LibraryAbsent, match="was not built"):
        load_tree_functions(tmp_path / FILE_NAME)


def test_a_file_that_is_no_library(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"not a library")
    with pytest.raises(LibraryAbsent, match="cannot be loaded"):
        load_tree_functions(tmp_path / FILE_NAME)


def test_a_library_without_trees() -> None:
    """One that was built before there were trees has not these functions; neither has any other one."""
    other = Path(msgspec._core.__file__)
    with pytest.raises(LibraryAbsent, match="without content trees"):
        load_tree_functions(other)


def test_a_library_of_another_version() -> None:
    """It was built from older or newer sources: its functions may take other arguments."""
    declared = re.search(r"define BOBBIN_TREE_VERSION (\d+)", (FOLDER / "content_tree.h").read_text())
    assert declared is not None
    version = int(declared[1])
    assert tree_functions().holding.bobbin_tree_version() == version == native._VERSION
    with (
        patch.object(native, "_VERSION", version + 1),
        pytest.raises(LibraryAbsent, match=f"of version {version}, where {version + 1} is due") as raised,
    ):
        load_tree_functions(FOLDER / FILE_NAME)
    assert raised.value.reason in str(raised.value)


def test_a_tree_where_there_is_no_library() -> None:
    with (
        patch.object(native, "tree_functions", side_effect=LibraryAbsent("a test")),
        pytest.raises(LibraryAbsent, match="a test"),
    ):
        NativeContentTree()

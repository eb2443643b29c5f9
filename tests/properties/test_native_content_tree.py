"""The tree in C against the one in Python: whatever is done to both, their hashes are the same."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.cluster.chain.hashing import PLAIN
from bobbin.cluster.content_tree import ContentTree, TreeDraft
from bobbin.cluster.operations import CounterAdd, Operation, Put, Transaction
from bobbin.errors import UsageError
from bobbin.native.content_tree import NativeContentTree
from bobbin.native.hashing import NativeHashing
from tests.properties.effort import scaled
from tests.support.content_trees import names_of_place, slow_top

Changes: TypeAlias = list[tuple[bytes, bytes | None]]

# Names of one bucket, of one branch, and of both ends of the tree.
_PLACES = ((0, 8), (1, 2), (31, 1), (32, 1), (1_023, 1), (1_024, 1), (0xFFFF, 3))
_NAMES = [*(name for place, number in _PLACES for name in names_of_place(place, number)), b""]
_NAME = st.sampled_from(_NAMES) | st.binary(max_size=3)
# The longest text that waits for another one has 2,049 bytes; with the byte before it a content has one less.
_CONTENT = st.binary(max_size=3) | st.sampled_from(
    [bytes(size) for size in (54, 55, 56, 63, 2_047, 2_048, 2_049, 6_000)]
)
_CHANGES: st.SearchStrategy[Changes] = st.lists(st.tuples(_NAME, st.none() | _CONTENT), max_size=12)


@dataclass(frozen=True)
class _Update:
    """Of the tree itself."""

    changes: Changes


@dataclass(frozen=True)
class _Draft:
    """On the draft with a number, counted from the newest; on the tree where there are not so many."""

    on: int
    changes: Changes
    middle: bytes | None
    """Not None: the changes are of values."""


@dataclass(frozen=True)
class _Merge:
    """Of the draft with a number, counted from the oldest; refused unless it stands on the tree as it is."""

    number: int


@dataclass(frozen=True)
class _Forget:
    """Of a draft; those that stand on it stay."""

    number: int


_NUMBER = st.integers(0, 4)
_STEP = (
    st.builds(_Update, _CHANGES)
    | st.builds(_Draft, st.integers(0, 2), _CHANGES, st.none() | st.sampled_from([b"", b"middle"]))
    | st.builds(_Draft, st.just(0), _CHANGES, st.none())
    | st.builds(_Merge, st.just(0))
    | st.builds(_Merge, _NUMBER)
    | st.builds(_Forget, _NUMBER)
)


class _Both:
    """Two trees of which the same is asked."""

    def __init__(self) -> None:
        self.trees: tuple[ContentTree, ContentTree] = (ContentTree(), NativeContentTree())
        self.drafts: list[tuple[TreeDraft, TreeDraft]] = []
        self.merged: list[TreeDraft] = []

    def check(self) -> None:
        plain, native = self.trees
        assert plain.top == native.top
        assert len(plain) == len(native)
        assert [name in plain for name in _NAMES] == [name in native for name in _NAMES]
        for one, other in self.drafts:
            assert (one.base, one.top) == (other.base, other.top)

    def do(self, step: _Update | _Draft | _Merge | _Forget) -> None:
        match step:
            case _Update(changes):
                for tree in self.trees:
                    tree.update(changes)
            case _Draft():
                self._draft(step)
            case _Merge(number) if number < len(self.drafts):
                self._merge(number)
            case _Forget(number) if number < len(self.drafts):
                del self.drafts[number]

    def _stands(self, draft: TreeDraft) -> bool:
        """Whether the lowest draft that is not merged stands on the tree as it is. Others read what has no meaning."""
        while draft.on is not None and draft.on not in self.merged:
            draft = draft.on
        return draft.base == self.trees[0].top

    def _draft(self, step: _Draft) -> None:
        standing = [both for both in self.drafts if self._stands(both[0])]
        below: tuple[TreeDraft | None, TreeDraft | None] = (None, None)
        if step.on < len(standing):
            below = standing[-1 - step.on]
        made = [tree.draft(on) for tree, on in zip(self.trees, below, strict=True)]
        for draft in made:
            if step.middle is None:
                draft.update(step.changes)
            else:
                draft.update_values(step.middle, step.changes)
        self.drafts.append((made[0], made[1]))

    def _merge(self, number: int) -> None:
        both = self.drafts[number]
        if both[0].base == self.trees[0].top:
            del self.drafts[number]
            self.merged.append(both[0])
            for tree, draft in zip(self.trees, both, strict=True):
                tree.merge(draft)
            return
        for tree, draft in zip(self.trees, both, strict=True):
            with pytest.raises(UsageError, match="another one"):
                tree.merge(draft)


@given(st.lists(_STEP, min_size=8, max_size=40))
def test_both_trees_are_one(steps: list[_Update | _Draft | _Merge | _Forget]) -> None:
    both = _Both()
    for step in steps:
        both.do(step)
        both.check()


@scaled(0.5)
@given(st.lists(_CHANGES, max_size=5))
def test_the_hash_is_that_of_what_is_there(batches: list[Changes]) -> None:
    """In one update, in several, and draft on draft: a tree made from nothing of what is left has the same hash."""
    changes = [change for batch in batches for change in batch]
    contents: dict[bytes, bytes] = {}
    for name, content in changes:
        contents.pop(name, None)
        if content is not None:
            contents[name] = content
    at_once, in_turn, drafted = NativeContentTree(), NativeContentTree(), NativeContentTree()
    at_once.update(changes)
    on: TreeDraft | None = None
    for batch in batches:
        in_turn.update(batch)
        on = drafted.draft(on)
        on.update(batch)
    assert at_once.top == in_turn.top == (drafted.top if on is None else on.top) == slow_top(contents)
    assert len(at_once) == len(in_turn) == len(contents)
    assert len(drafted) == 0


_PUTS = st.builds(Put, st.binary(max_size=80), _CONTENT | st.binary(max_size=80))
_OPERATIONS: st.SearchStrategy[Operation] = _PUTS | st.builds(CounterAdd, st.binary(max_size=3), st.integers(-9, 9))


@given(st.lists(_PUTS, max_size=40))
def test_roots_of_puts_are_those_of_the_plain_way(puts: Sequence[Put]) -> None:
    assert NativeHashing().root_of_puts(puts) == PLAIN.root_of_puts(puts)


@given(st.lists(st.lists(_PUTS, max_size=3) | st.lists(_OPERATIONS, max_size=3), max_size=6))
def test_roots_of_transactions_are_those_of_the_plain_way(drawn: list[list[Operation]]) -> None:
    transactions = [Transaction(bytes(16), tuple(operations)) for operations in drawn]
    assert NativeHashing().tx_root(transactions) == PLAIN.tx_root(transactions)

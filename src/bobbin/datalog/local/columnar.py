"""A whole rule at once, on columns: for the first full evaluation of a large store.

The same conjunction in the same order as the compiled form, but each step takes all bindings together: a join is two
index look-ups and a gather, a negation a mask, a built-in one call per distinct argument. The steps of a join are
known before its rows are made, so the budget stops a runaway product before it takes memory.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from bobbin.datalog.builtins import BUILTINS, Function, holds
from bobbin.datalog.local.budget import CALL_STEPS, COLUMN_INDEX_STEPS, Budget
from bobbin.datalog.local.columns import Block, Column, pack, unique
from bobbin.datalog.local.conjunction import Absent, Computed, Conjunction, Guard, Read, Source, Tested
from bobbin.datalog.local.order import bound_positions
from bobbin.datalog.local.values import Values
from bobbin.datalog.syntax import Constant, Term, Variable, Wildcard

Blocks: TypeAlias = Callable[[Source], Block]
_Texts: TypeAlias = tuple[str | None, ...]
_Answer = TypeVar("_Answer")
_PAIR_CELLS: Final = 6
"""What the pairs of a join take beside its columns: three numbers of eight bytes a row."""
_WIDE_BUCKET: Final = 4
"""Above this many rows per value, a second bound position is worth a packed index."""


def derive(
    conjunction: Conjunction,
    order: tuple[int, ...],
    *,
    blocks: Blocks,
    delta: tuple[int, Block] | None,
    values: Values,
    budget: Budget,
) -> Block:
    """The head's rows, every row once. ``delta`` gives one scan only these rows."""
    bindings = _Bindings(values, budget)
    pending = list(conjunction.guards)
    bindings.apply_ready(pending, blocks)
    for number in order:
        block = delta[1] if delta is not None and number == delta[0] else blocks(conjunction.reads[number].source)
        bindings.join(conjunction.reads[number], block)
        bindings.apply_ready(pending, blocks)
    assert not pending, "a safe rule has no guard that waits for ever"
    budget.spend_steps(bindings.size * COLUMN_INDEX_STEPS)
    return unique([bindings.column(term) for term in conjunction.head], bindings.size)


class _Bindings:
    """All ways so far to make the body true: one column per bound variable."""

    def __init__(self, values: Values, budget: Budget) -> None:
        self.size = 1
        self._columns: dict[str, Column] = {}
        self._values = values
        self._budget = budget

    def column(self, term: Term) -> Column:
        """The values of a term, one per binding."""
        match term:
            case Variable(name):
                return self._columns[name]
            case Constant(value):
                return np.full(self.size, self._values.encode(value), dtype=np.int32)
            case Wildcard():
                raise AssertionError("a wildcard has no value")

    def keep(self, mask: NDArray[np.bool_]) -> None:
        self._columns = {name: column[mask] for name, column in self._columns.items()}
        self.size = int(np.count_nonzero(mask))

    # ---- joins ----------------------------------------------------------------------------------------------------

    def join(self, read: Read, block: Block) -> None:
        """Extend every binding by every row that agrees with it."""
        left, right = self._pairs(read, block)
        self._columns = {name: column[left] for name, column in self._columns.items()}
        self.size = len(left)
        for place, term in enumerate(read.terms):
            if not isinstance(term, Variable):
                continue
            column = block.columns[place][right]
            known = self._columns.get(term.name)
            if known is None:
                self._columns[term.name] = column
            elif place not in self._joined:
                mask = known == column
                right = right[mask]
                self.keep(mask)

    def _pairs(self, read: Read, block: Block) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(bindings, rows) that agree on everything bound before the scan."""
        positions = bound_positions(read, frozenset(self._columns))
        self._joined = frozenset(positions)
        width = len(self._columns) + len(read.terms) + _PAIR_CELLS
        if not positions or not block.size or not self.size:
            total = self.size * block.size
            self._budget.spend_steps(total)
            self._budget.check_held(total * width)
            left = np.repeat(np.arange(self.size), block.size)
            return left, np.tile(np.arange(block.size), self.size)
        wanted = {place: self.column(read.terms[place]) for place in positions}
        chosen = self._choose_index(block, positions)
        if not block.has_index(chosen):
            self._budget.spend_steps(block.size * COLUMN_INDEX_STEPS)
        starts, counts, permutation = _ranges(block, chosen, [wanted[place] for place in chosen])
        total = int(counts.sum())
        self._budget.spend_steps(total + self.size)
        self._budget.check_held(total * width)
        left = np.repeat(np.arange(self.size), counts)
        offsets = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
        right = permutation[np.repeat(starts, counts) + offsets].astype(np.int64)
        exact = chosen if len(chosen) <= 2 else ()
        for place in positions:
            if place not in exact:
                mask = block.columns[place][right] == wanted[place][left]
                left, right = left[mask], right[mask]
        return left, right

    def _choose_index(self, block: Block, positions: tuple[int, ...]) -> tuple[int, ...]:
        """One position when its values are selective, else as many as an exact key takes."""
        best = max(positions, key=lambda place: block.distinct((place,)))
        if len(positions) == 1 or block.size <= _WIDE_BUCKET * block.distinct((best,)):
            return (best,)
        second = max((place for place in positions if place != best), key=lambda place: block.distinct((place,)))
        return tuple(sorted((best, second)))

    # ---- guards ---------------------------------------------------------------------------------------------------

    def apply_ready(self, pending: list[Guard], blocks: Blocks) -> None:
        """Apply every guard whose variables are bound, functions first since they bind more."""
        while ready := [guard for guard in pending if guard.needs() <= self._columns.keys()]:
            guard = min(ready, key=lambda guard: not isinstance(guard, Computed))
            pending.remove(guard)
            match guard:
                case Absent(read):
                    self._apply_absent(read, blocks(read.source))
                case Tested(builtin, arguments, negated):
                    truth = self._call(arguments, partial(holds, builtin))
                    self.keep(np.array(truth, dtype=np.bool_) != negated)
                case Computed():
                    self._apply_computed(guard)

    def _apply_absent(self, read: Read, block: Block) -> None:
        left, _ = self._pairs(read, block)
        mask = np.ones(self.size, dtype=np.bool_)
        mask[left] = False
        self.keep(mask)

    def _apply_computed(self, guard: Computed) -> None:
        function = BUILTINS[guard.builtin]
        assert isinstance(function, Function)
        first = len(self._values)

        def number(texts: _Texts) -> int:
            text = _value(function, texts)
            self._budget.check_values(len(self._values) - first)
            return -1 if text is None else self._values.encode(text)

        numbers = np.array(self._call(guard.arguments, number), dtype=np.int32)
        self._budget.spend_values(len(self._values) - first)
        match guard.result:
            case Wildcard():
                self.keep(numbers >= 0)
            case Variable(name) if name not in self._columns:
                self._columns[name] = numbers
                self.keep(numbers >= 0)
            case bound:
                self.keep(numbers == self.column(bound))

    def _call(self, arguments: Sequence[Term], function: Callable[[_Texts], _Answer]) -> list[_Answer]:
        """A built-in's answer per binding, computed once per distinct arguments."""
        columns = [self.column(term) for term in arguments if not isinstance(term, Wildcard)]
        self._budget.spend_steps(self.size * CALL_STEPS)
        distinct, inverse = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
        texts = self._values.texts
        trailing: _Texts = (None,) * (len(arguments) - len(columns))
        answers = [function((*(texts[number] for number in row), *trailing)) for row in distinct.tolist()]
        return [answers[number] for number in inverse.reshape(-1).tolist()]


def _value(function: Function, texts: _Texts) -> str | None:
    first, second = texts
    assert first is not None, "a safe rule binds what a function reads"
    assert second is not None, "a safe rule binds what a function reads"
    return function.value(first, second)


def _ranges(
    block: Block, chosen: tuple[int, ...], wanted: list[Column]
) -> tuple[NDArray[np.int64], NDArray[np.int64], Column]:
    """For each wanted key: where its rows begin in a permutation, and how many there are."""
    if len(chosen) == 1:
        postings = block.postings(chosen[0])
        begin, count = postings.ranges(wanted[0])
        return begin, count, postings.permutation
    keys, permutation = block.ordered(chosen)
    packed = pack(wanted)
    begin = np.searchsorted(keys, packed, side="left")
    return begin, np.searchsorted(keys, packed, side="right") - begin, permutation

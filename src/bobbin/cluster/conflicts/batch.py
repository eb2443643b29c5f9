"""All pairs of many changes, classified in bulk: the classes are exactly those of ``detect_conflict``.

Pairs are looked at in tiles. Matrix products at single precision tell most of them at a glance: whose cosine is far
below the bound of Orthogonal, and whose shared positions are too few, is Orthogonal, and nothing more is asked. The
margins cover every rounding there can be. What remains gets its cosine at double precision, and one that comes near a
threshold is worked out again as the pairwise call does. Shared positions are counted in whole numbers throughout.

Memory is bounded by the tile and by ``CELLS_MAX``, whatever the number of changes.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from bobbin.cluster.conflicts.classify import ACTIONS, DEFAULT, ConflictClass, ConflictResult, Thresholds
from bobbin.cluster.conflicts.columns import Columns, Numbers, Reals, columns_of
from bobbin.cluster.conflicts.delta import DeltaVector
from bobbin.cluster.conflicts.shared_keys import SharedKeys, shared_keys
from bobbin.cluster.conflicts.sides import NOBODY, Met, Plan, Side, Singles, meet, meet_within, plan_of, side_of
from bobbin.cluster.geometry import cosine

CLASSES: Final = tuple(ConflictClass)
"""What the numbers in ``Found.classes`` stand for."""
TILE_ROWS: Final = 512
TILE_COLUMNS: Final = 2_048
CELLS_MAX: Final = 1 << 24
"""Of a matrix of directions; more rows are taken in groups."""
_INDEX_ROWS: Final = 1 << 15
"""Of a group that is all index."""
_NEAR: Final = 1e-9
"""No sum of products at double precision is off by as much."""
_DENSE_SHARE: Final = 32
"""From one candidate in so many cells on, the whole product is cheaper than single ones."""
_SAMPLE_ROWS: Final = 16
_GATHERED_MAX: Final = 1 << 20
_IDENTICAL, _OPPOSITE, _ORTHOGONAL, _CONFLICTING, _AMBIGUOUS, _LOW = range(len(CLASSES))


class Found(Struct, frozen=True):
    """The pairs of a tile that are not Orthogonal, by row and column ascending."""

    pairs: int
    """All that were looked at."""
    rows: Numbers
    columns: Numbers
    classes: NDArray[np.int8]
    cosines: Reals
    jaccards: Reals
    shared: SharedKeys

    @property
    def orthogonal(self) -> int:
        return self.pairs - len(self.rows)


class ConflictPair(Struct, frozen=True):
    """A pair that is not Orthogonal, by the places of the two in what was given."""

    one: int
    other: int
    result: ConflictResult


def detect_conflicts(deltas: Sequence[DeltaVector], thresholds: Thresholds = DEFAULT) -> list[ConflictPair]:
    """All pairs that are not Orthogonal, the first of each pair before the second, in order."""
    columns, keys = columns_of(deltas)
    pairs: list[ConflictPair] = []
    for found in compare(columns, None, thresholds):
        classes = [CLASSES[number] for number in found.classes.tolist()]
        told = zip(
            found.rows.tolist(), found.columns.tolist(), found.cosines.tolist(), found.jaccards.tolist(), strict=True
        )
        for place, (one, other, near, alike) in enumerate(told):
            shared = tuple(keys[number] for number in found.shared.of(place))
            action = ACTIONS[classes[place]]
            pairs.append(ConflictPair(one, other, ConflictResult(classes[place], near, alike, shared, action)))
    pairs.sort(key=lambda pair: (pair.one, pair.other))
    return pairs


def compare(one: Columns, other: Columns | None, thresholds: Thresholds = DEFAULT) -> Iterator[Found]:
    """Each row of the one with each of the other; without another, all pairs within the one, each once."""
    plan = plan_of(one, other)
    size = max(TILE_COLUMNS, CELLS_MAX // plan.width) if plan.width else _INDEX_ROWS
    there = one if other is None else other
    whole = one.whole_squares()
    wholes = (whole, whole if other is None else other.whole_squares())
    for first in range(0, one.rows, size):
        rows = side_of(one, plan, first, min(first + size, one.rows))
        for begin in range(first if other is None else 0, there.rows, size):
            is_same = other is None and begin == first
            columns = rows if is_same else side_of(there, plan, begin, min(begin + size, there.rows))
            for tile in _tiles(rows, columns, plan, thresholds, is_same=is_same):
                yield tile.settled(one, there, wholes, thresholds)


class _Tile(Struct, frozen=True):
    """Candidates: every pair of the tile that may be anything but Orthogonal."""

    pairs: int
    rows: Numbers
    columns: Numbers
    cosines: Reals
    is_exact: NDArray[np.bool_]
    """False where the cosine says nothing."""
    shared: Numbers
    """Positions."""
    either: Numbers
    """Positions that one of the two has, or both."""

    def settled(self, one: Columns, other: Columns, wholes: tuple[Reals, Reals], thresholds: Thresholds) -> Found:
        """The candidates that are not Orthogonal, with their classes."""
        near = np.clip(self.cosines, -1.0, 1.0)
        size = np.abs(near)
        doubtful = ~self.is_exact
        least, *others = _bounds(thresholds)
        doubtful |= np.abs(size - least) < _NEAR
        # Few are near any other bound: most candidates are little more than orthogonal.
        large = np.flatnonzero(size > min(others) - _NEAR)
        for bound in others:
            doubtful[large] |= np.abs(size[large] - bound) < _NEAR
        places = np.flatnonzero(doubtful)
        self._make_exact(near, places, one, other, wholes)
        size[places] = np.abs(near[places])
        alike = self.shared / self.either
        kept = size >= thresholds.orthogonal
        kept |= alike >= thresholds.structural
        rows, columns, near, alike = self.rows[kept], self.columns[kept], near[kept], alike[kept]
        keys = shared_keys(one, other, rows, columns)
        classes = np.full(len(rows), _LOW, np.int8)
        if not thresholds.merges_shared_keys:
            classes[keys.counts > 0] = _AMBIGUOUS
        classes[(near >= thresholds.conflicting) | (alike >= thresholds.structural)] = _CONFLICTING
        for reaches, told in ((near <= thresholds.opposite, _OPPOSITE), (near >= thresholds.identical, _IDENTICAL)):
            few = np.flatnonzero(reaches)
            counts = keys.counts[few]
            shares_all = (counts == one.key_counts[rows[few]]) & (counts == other.key_counts[columns[few]])
            classes[few[shares_all]] = told
        return Found(self.pairs, rows, columns, classes, near, alike, keys)

    def _make_exact(
        self, near: Reals, places: Numbers, one: Columns, other: Columns, wholes: tuple[Reals, Reals]
    ) -> None:
        """Replace some cosines by those of the pairwise call."""
        # Changes of whole numbers meet thresholds often: ten keys each, one of them shared, are at 0.1 exactly.
        lengths = np.sqrt(wholes[0][self.rows[places]] * wholes[1][self.columns[places]])
        easy = lengths > 0.0
        near[places[easy]] = np.clip(np.rint(near[places[easy]] * lengths[easy]) / lengths[easy], -1.0, 1.0)
        for place in places[~easy].tolist():
            near[place] = cosine(one.embedding(int(self.rows[place])), other.embedding(int(self.columns[place])))


def _bounds(thresholds: Thresholds) -> tuple[float, ...]:
    """Sizes of cosines at which a class begins, whatever the sign; that of Orthogonal first."""
    others = thresholds.identical, thresholds.opposite, thresholds.conflicting
    return thresholds.orthogonal, *sorted({abs(bound) for bound in others})


def _tiles(rows: Side, columns: Side, plan: Plan, thresholds: Thresholds, *, is_same: bool) -> Iterator[_Tile]:
    height, width = (TILE_ROWS, TILE_COLUMNS) if plan.width else (rows.rows, columns.rows)
    is_busy: bool | None = None
    for begin in range(0, columns.rows, width):
        end = min(begin + width, columns.rows)
        index = columns.index.within(begin, end).by_position()
        for first in range(0, min(rows.rows, end) if is_same else rows.rows, height):
            last = min(first + height, rows.rows)
            # Of one side with itself, what lies before the first row of a tile was looked at already.
            start = max(begin, first) if is_same else begin
            there = index if start == begin else index.cut(start - begin)
            spans = _Spans(rows, first, last, columns, start, end, is_same)
            if is_same and not plan.width:
                met = meet_within(there, end - start)
            else:
                met = meet(rows.index.within(first, last), there, end - start) if len(there.rows) else NOBODY
            if not plan.width:
                # Whoever does not meet shares no position: cosine and Jaccard are 0.
                yield spans.tile(*np.divmod(met.pairs, end - start), met.products, met.shared)
                continue
            if is_busy is None:
                is_busy = _looks_busy(spans, thresholds)
            tile = _looked_at(spans, met, thresholds, is_busy=is_busy)
            is_busy = len(tile.rows) * _DENSE_SHARE > tile.pairs
            yield tile


class _Spans(Struct, frozen=True):
    """A tile: some rows of one side and some of the other."""

    one: Side
    first: int
    last: int
    other: Side
    begin: int
    end: int
    is_same: bool
    """Both sides are one, so only pairs above the diagonal count."""

    def tile(self, rows: Numbers, columns: Numbers, cosines: Reals, shared: Numbers) -> _Tile:
        """Candidates by row and column of the tile. None of them is the zero vector."""
        ours, theirs = slice(self.first, self.last), slice(self.begin, self.end)
        either = self.one.counts[ours][rows]
        either += self.other.counts[theirs][columns]
        either -= shared
        odd, odd_there = self.one.is_odd[ours], self.other.is_odd[theirs]
        is_any_odd = odd.any() or odd_there.any()
        return _Tile(
            self.pairs(),
            rows + (self.first + self.one.first),
            columns + (self.begin + self.other.first),
            cosines,
            ~(odd[rows] | odd_there[columns]) if is_any_odd else np.ones(len(rows), np.bool_),
            shared,
            either,
        )

    def pairs(self) -> int:
        if not self.is_same:
            return (self.last - self.first) * (self.end - self.begin)
        after = np.maximum(np.arange(self.first, self.last) + 1, self.begin)
        return int(np.maximum(self.end - after, 0).sum())


def _looked_at(spans: _Spans, met: Met, thresholds: Thresholds, *, is_busy: bool) -> _Tile:
    """Products of the whole tile, and to them what the index has found.

    ``is_busy``: many candidates are to be expected, so cosines are computed at double precision at once.
    """
    rows, columns = slice(spans.first, spans.last), slice(spans.begin, spans.end)
    near, margin = _products(spans, met, is_busy=is_busy)
    shared = spans.one.marks[rows] @ spans.other.marks[columns].T
    if len(met.pairs):
        shared.ravel()[met.pairs] += met.shared.astype(np.float32)
    # Jaccard reaches s exactly when the shared ones reach s / (1 + s) of both counts.
    portion = thresholds.structural / (1.0 + thresholds.structural)
    limit = (portion * spans.one.counts[rows] - 0.5).astype(np.float32)
    share = (portion * spans.other.counts[columns]).astype(np.float32)
    shared -= share
    is_candidate = shared >= limit[:, None]
    bound = near.dtype.type(thresholds.orthogonal - margin)
    is_candidate |= near >= bound
    is_candidate |= near <= -bound
    _set_right(is_candidate, spans)
    places = np.flatnonzero(is_candidate)
    at = np.repeat(np.arange(len(limit)), np.count_nonzero(is_candidate, axis=1))
    to = places - at * len(share)
    counted = np.rint(shared.ravel()[places] + share[to]).astype(np.int64)
    if not is_busy and len(places) * _DENSE_SHARE <= near.size:
        return spans.tile(at, to, _cosines(spans, places, met), counted)
    exact = near if is_busy else _products(spans, met, is_busy=True)[0]
    return spans.tile(at, to, exact.ravel()[places].astype(np.float64), counted)


def _looks_busy(spans: _Spans, thresholds: Thresholds) -> bool:
    """Whether many candidates are to be expected, by the first rows of a tile. A wrong guess costs time alone."""
    some = replace(spans, last=min(spans.last, spans.first + _SAMPLE_ROWS))
    near, _ = _products(some, NOBODY, is_busy=False)
    return bool(np.count_nonzero(np.abs(near) >= thresholds.orthogonal) * _DENSE_SHARE > near.size)


def _set_right(is_candidate: NDArray[np.bool_], spans: _Spans) -> None:
    """Set right what the products do not say.

    Of odd rows they say nothing, so all their pairs are candidates. The zero vector is Orthogonal to everything. And of
    one side with itself, only pairs above the diagonal count.
    """
    rows, columns = slice(spans.first, spans.last), slice(spans.begin, spans.end)
    is_candidate[spans.one.is_odd[rows]] = True
    is_candidate[:, spans.other.is_odd[columns]] = True
    is_candidate[spans.one.counts[rows] == 0] = False
    is_candidate[:, spans.other.counts[columns] == 0] = False
    if spans.is_same and spans.begin < spans.last:
        is_candidate &= np.arange(spans.begin, spans.end) > np.arange(spans.first, spans.last)[:, None]


def _products(spans: _Spans, met: Met, *, is_busy: bool) -> tuple[Reals | Singles, float]:
    """Cosines of the whole tile, and by how much they may be off."""
    rows, columns = slice(spans.first, spans.last), slice(spans.begin, spans.end)
    one, other = spans.one, spans.other
    near: Reals | Singles
    if is_busy:
        near, margin = one.directions[rows] @ other.directions[columns].T, _NEAR
    else:
        near = one.screens[rows] @ other.screens[columns].T
        margin = (one.screens.shape[1] + 8) * 2.0**-23 + 1e-6
    if len(met.pairs):
        near.ravel()[met.pairs] += met.products.astype(near.dtype)
    return near, margin


def _cosines(spans: _Spans, places: Numbers, met: Met) -> Reals:
    """At double precision, of some places."""
    ours = spans.one.directions[spans.first : spans.last]
    theirs = spans.other.directions[spans.begin : spans.end]
    near = np.empty(len(places))
    step = max(1, _GATHERED_MAX // max(1, ours.shape[1]))
    for start in range(0, len(places), step):
        one, other = np.divmod(places[start : start + step], len(theirs))
        near[start : start + step] = np.einsum("ij,ij->i", ours[one], theirs[other])
    if len(met.pairs):
        at = np.minimum(np.searchsorted(met.pairs, places), len(met.pairs) - 1)
        near += np.where(met.pairs[at] == places, met.products[at], 0.0)
    return near

"""Spans of depth: where two sides may differ, how to find out what, and what follows from it.

The ranges that the two sides want, cut at each other's ends and at the depth up to which both agree, give a few spans.
In each of them one side, the one that resolves, learns which items only the other has; the items are the messages with
and without data, as short ids under the key of the run. Where a set is small it is listed. Where two large ones differ
little, the answerer sends symbols of a sketch; where they differ much in size, whoever has less lists.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from msgspec import Struct

from bobbin.reconcile import Ids, digest_rows, keyed_ids, short_ids
from bobbin.reconcile.symbols import SYMBOL_BYTES
from bobbin.tangles.message import MessageId
from bobbin.tangles.modern_frames import SHORT_BYTES, Form, Mark
from bobbin.tangles.modern_index import Item, digest_of
from bobbin.tangles.ranges import Range

SYMBOLS_PER_DIFFERENCE: Final = 1.7
SYMBOLS_MARGIN: Final = 16


class Span(Struct, frozen=True):
    """Depths from ``low`` up to and including ``high``, and who wants what stands there."""

    low: int
    high: int
    opener_wants: bool
    answerer_wants: bool


def cut(floor: int, opener: Range, answerer: Range) -> tuple[Span, ...]:
    """The spans from a depth on that at least one side wants. Both sides compute the same ones."""
    wanted = [depths for depths in (opener, answerer) if not depths.is_empty]
    ends = {end for depths in wanted for end in (depths.low, depths.high + 1)}
    edges = sorted({max(end, floor) for end in ends})
    spans = []
    for low, end in pairwise(edges):
        span = Span(low, end - 1, low in opener, low in answerer)
        if span.opener_wants or span.answerer_wants:
            spans.append(span)
    return tuple(spans)


def count_above(marks: Sequence[Mark], depth: int) -> int:
    """About how many messages a peer has at a depth or deeper, going by its marks."""
    below = [mark for mark in marks if mark.depth <= depth]
    if below:
        nearest = max(below, key=lambda mark: mark.depth)
        deeper = [mark for mark in marks if mark.depth > nearest.depth]
        if not deeper:
            return nearest.above if nearest.depth == depth else 0
        following = min(deeper, key=lambda mark: mark.depth)
        share = (depth - nearest.depth) / (following.depth - nearest.depth)
        return round(nearest.above - share * (nearest.above - following.above))
    if not marks:
        return 0
    deepest = min(marks, key=lambda mark: mark.depth)
    return deepest.above + max(0, deepest.depth - depth)


def first_form(own: int, peer: int, least: int) -> tuple[Form, int]:
    """How the answerer begins in a span with so many messages on either side, and with how many symbols at least."""
    symbols = max(least, int(SYMBOLS_PER_DIFFERENCE * abs(own - peer)) + least // 2)
    if SHORT_BYTES * min(own, peer) > SYMBOL_BYTES * symbols:
        return Form.SYMBOLS, symbols
    # To have the other side list costs half a round trip more, so a short list is made at once.
    own_is_short = own <= peer or SHORT_BYTES * own <= SYMBOL_BYTES * least
    return (Form.LISTED if own_is_short else Form.LIST), 0


def symbols_for(difference: int) -> int:
    """How many symbols are very probably enough for a difference."""
    return int(SYMBOLS_PER_DIFFERENCE * difference) + SYMBOLS_MARGIN


class Picture:
    """The own items of one span under the key of a run, as they were at one moment."""

    def __init__(self, key: bytes, items: Sequence[Item]) -> None:
        """Raises ``SharedId`` where two items have the same short id under this key."""
        self.ids: Final[Ids] = short_ids(key, digest_rows([item.digest for item in items]))
        self._key: Final = key
        self._items: Final = dict(zip(self.ids.tolist(), items, strict=True))

    def __len__(self) -> int:
        return len(self._items)

    def messages(self, shorts: Iterable[int]) -> list[MessageId]:
        """The messages with these short ids, as far as they are here."""
        return [self._items[short].id for short in shorts if short in self._items]

    def all_messages(self) -> list[MessageId]:
        return [item.id for item in self._items.values()]

    def resolve(self, theirs: Iterable[int], ours: Iterable[int], own_ghosts: Iterable[MessageId]) -> "Difference":
        """What follows from the short ids that only the peer has, and those that only this side has."""
        only_theirs = set(theirs)
        own_items = [self._items[short] for short in sorted(set(ours)) if short in self._items]
        lacking: list[MessageId] = []
        for item, (with_data, without) in zip(own_items, self._both(item.id for item in own_items), strict=True):
            if item.digest == digest_of(item.id, has_data=True):
                # A copy without data on their side is the same message: it is filled, and theirs is not wanted.
                only_theirs.discard(without)
                lacking.append(item.id)
            elif with_data not in only_theirs:
                lacking.append(item.id)
        ghosts = {short for both in self._both(own_ghosts) for short in both}
        return Difference(
            lacking=tuple(lacking),
            wanted=tuple(sorted(only_theirs - ghosts)),
            declined=not ghosts.isdisjoint(only_theirs),
        )

    def difference(self, listed: Ids, own_ghosts: Iterable[MessageId]) -> "Difference":
        """What follows from all short ids that the peer has, each once."""
        theirs = np.setdiff1d(listed, self.ids, assume_unique=True).tolist()
        ours = np.setdiff1d(self.ids, listed, assume_unique=True).tolist()
        return self.resolve(theirs, ours, own_ghosts)

    def _both(self, ids: Iterable[MessageId]) -> list[tuple[int, int]]:
        """The short ids of messages with their data and without."""
        return both_shorts(self._key, list(ids))


def both_shorts(key: bytes, ids: Sequence[MessageId]) -> list[tuple[int, int]]:
    """The short ids that messages have under a key, with their data and without.

    The same message may be there twice: what was refused is named as often as a peer has sent it.
    """
    digests = [digest_of(id, has_data=has_data) for id in ids for has_data in (True, False)]
    shorts = keyed_ids(key, digest_rows(digests)).tolist()
    return list(zip(shorts[::2], shorts[1::2], strict=True))


class Difference(Struct, frozen=True):
    """What one side has found out about a span."""

    lacking: tuple[MessageId, ...]
    """What the peer lacks: the message, or its data."""
    wanted: tuple[int, ...]
    """Short ids of what this side lacks."""
    declined: bool
    """The peer has something that is a ghost here."""


def pack(shorts: Iterable[int]) -> bytes:
    """Short ids as bytes, little end first."""
    return np.array(list(shorts), np.uint64).astype("<u8").tobytes()


def unpack(raw: bytes) -> Ids:
    """Short ids from bytes, each once."""
    ids = np.sort(np.frombuffer(raw, "<u8").astype(np.uint64))
    # Not by np.unique: its first call reads in all of numpy's masked arrays, which takes longer than a session.
    is_first = np.ones(len(ids), np.bool_)
    is_first[1:] = ids[1:] != ids[:-1]
    return ids[is_first]

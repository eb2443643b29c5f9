"""One part of a bundle, cut exactly as the whole would be cut.

A bundle is cut from its first byte on: where a record begins is known only because the one before ends there. To read
it in parts, each part begins at a *guess*, the first place in its range where the headers of a record seem to stand,
and the part before says whether the guess was right: it reads on until a piece ends at that place or behind it. Where
it ends behind, the guess lay inside a record or inside damage, and the next part is read again from there.

What has gone before matters in two ways only, and both are kept exact:

* the bytes right before a place decide whether a mark there is an inner one. They are read along;
* proofs are paid from a budget that grows with the bytes before the place and shrinks with what was spent on proofs
  that failed. A part assumes that nothing was spent before it, and notes how much could have been without any answer
  being another (``slack``).

So parts that join, each within its slack, give the pieces of the whole.
"""

from typing import Final

from msgspec import Struct

from bobbin.records.bundle import BundleReader, Piece, Run
from bobbin.records.record import recognise_run
from bobbin.records.salvage import HEADERS, LOOK_BEHIND_BYTES, ProofBudget, find_outer_mark

BEHIND_BYTES: Final = LOOK_BEHIND_BYTES
"""How many bytes before its begin a part is given along."""

_UNTESTED: Final = 1 << 62
"""The slack of a part in which nothing had to be proven."""


class Joint(Struct, frozen=True, kw_only=True):
    """How a part of a bundle ended: what its neighbours are judged by."""

    end: int
    """Where the next piece begins, in the bundle."""
    spent: int
    """What this part took from the budget of proofs."""
    slack: int
    """How much more could have been spent before this part, with the same pieces."""


class _Ledger(ProofBudget):
    """A budget that notes what is spent, and how near it came to running out."""

    def __init__(self, *, before: int, spent: int) -> None:
        super().__init__()
        self.replenish(before)
        super().charge(spent)
        self.slack = _UNTESTED
        self.spent = 0

    @property
    def is_overdrawn(self) -> bool:
        if self._left < 0:
            return True
        self._note(self._left)
        return False

    def can_pay(self, size: int) -> bool:
        answer = super().can_pay(size)
        if answer:
            self._note(self._left - size)
        return answer

    def charge(self, size: int) -> None:
        self.spent += size
        super().charge(size)

    def pay(self, size: int, *, keep: int = 0) -> bool:
        answer = super().pay(size, keep=keep)
        if answer:
            self.spent += size
            self._note(self._left - keep)
        return answer

    def _note(self, left: int) -> None:
        """An answer was yes, and would have been no with ``left`` and one more spent before. A no stays a no."""
        self.slack = min(self.slack, left)


class BundlePart(BundleReader):
    """Cuts the bytes from ``begin`` on, and stops at the first end of a piece that is at ``end`` or behind it.

    ``behind`` are the last bytes before ``begin``, at most ``BEHIND_BYTES`` of them. ``spent`` is what was spent on
    failed proofs before, as far as it is known. Valid records come out in runs.
    """

    def __init__(self, begin: int, end: int, *, behind: bytes, spent: int = 0) -> None:
        super().__init__(recognises=True)
        assert len(behind) == min(begin, BEHIND_BYTES), "a look behind sees what it would see in the whole"
        self._end: Final = end
        self._buffer += behind
        self._at = self._searched = len(behind)
        self._dropped = begin - len(behind)
        self._ledger: Final = _Ledger(before=begin, spent=spent)
        self._budget = self._ledger

    @property
    def is_complete(self) -> bool:
        """Whether everything is cut that belongs to this part, so that no more bytes are wanted."""
        return self.position >= self._end and self._open is None

    @property
    def joint(self) -> Joint:
        """How the part ended. To be asked for when it is complete, or finished."""
        return Joint(end=self.position, spent=self._ledger.spent, slack=max(0, self._ledger.slack))

    def _drain(self, *, at_end: bool) -> list[Piece]:
        pieces: list[Piece] = []
        while not self.is_complete:
            if run := self._recognised():
                pieces.append(run)
                continue
            piece = self._next(at_end=at_end)
            if piece is None:
                break
            pieces.append(piece)
        self._compact()
        return pieces

    def _recognised(self) -> Run | None:
        """As for the whole, but for what is behind the end: a record across it is an extent, cut like any other."""
        start = self._dropped + self._at
        if self._open is not None or self._tried >= start:
            return None
        with memoryview(self._buffer) as whole, whole[self._at : self._end - self._dropped] as buffer:
            records, size = recognise_run(buffer)
        self._tried = start + size
        if not records:
            return None
        self._advance(size)
        return Run(records=records, offset=start, size=size)


def guess_begin(window: bytes, at: int) -> int | None:
    """Where in a stretch of a bundle, from ``at`` on, a record seems to begin first; None where none does.

    The bytes before ``at`` are there for looking behind.
    """
    buffer = bytearray(window)
    while (at := find_outer_mark(buffer, at, len(buffer))) >= 0:
        if HEADERS.match(buffer, at):
            return at
        at += 1
    return None

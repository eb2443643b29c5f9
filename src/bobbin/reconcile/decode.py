"""From the symbols of the peer's set and the own ids to what only one of the two has.

The own symbols are taken out of the peer's, which leaves those of the difference. There an id that only the peer has
counts once, and one that only this side has counts minus once. A symbol with one id in it gives that id away; taking it
out of all its other symbols leaves further ones with one, until all are empty. This goes in waves: each finds every
symbol that has one id left, and takes all of these out at once. Only symbols that the wave before has changed are
looked at, so all waves together cost what is taken out, and not every wave the whole sketch.

The symbols of two sets come apart in a few dozen waves: 109 were the most in 24 sketches with 50,000 differences each.
Crafted ones can be made to give one id a wave. So waves are bounded, and what needs more is refused.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from bobbin.errors import PeerError, UsageError
from bobbin.reconcile import mapping
from bobbin.reconcile.encode import Encoder
from bobbin.reconcile.short_ids import Ids, find
from bobbin.reconcile.symbols import Checks, Symbols, checks_of

_NOTHING: Final[Ids] = np.empty(0, np.uint64)
_MARK_PART: Final = 16
"""Places of this part of all are many."""
WAVES_MAX: Final = 512
"""In which the symbols of one stretch come apart, or are refused."""


class InconsistentSymbols(PeerError):
    """Symbols that no set of ids can have."""

    def __init__(self, message: str) -> None:
        super().__init__("inconsistent-sketch", message)


class Decoder:
    """One side's view of the difference, better with each stretch of the peer's symbols."""

    def __init__(self, own: Ids, *, encoder: Encoder | None = None) -> None:
        """``encoder``, where the own set has one under the same key that nothing has been made with."""
        self._encoder: Final = Encoder(own) if encoder is None else encoder
        if self._encoder.made:
            raise UsageError("a decoder reads the own stream from its beginning")
        self._own: Final = own
        self._taken: set[int] = set()
        self._sums: Ids = _NOTHING
        self._checks: Checks = np.empty(0, np.uint16)
        self.missing: Ids = _NOTHING
        """Ids that only the peer has, as far as known."""
        self.extra: Ids = _NOTHING
        """Ids that only this side has, as far as known."""

    @property
    def received(self) -> int:
        """How many symbols of the peer have come."""
        return len(self._sums)

    @property
    def is_complete(self) -> bool:
        """Whether all symbols that have come are explained by what was found."""
        return bool(len(self._sums)) and not (self._sums.any() or self._checks.any())

    def add(self, symbols: Symbols) -> bool:
        """Take the next symbols of the peer; whether the difference is known now.

        Raises ``InconsistentSymbols`` where no two sets can have them: the sender lies, or two ids collide.
        """
        if symbols.first != self.received:
            raise UsageError(f"symbol {self.received} is next, not {symbols.first}")
        if not len(symbols):
            return self.is_complete
        own = self._encoder.produce(len(symbols))
        start = self.received
        self._sums = np.concatenate((self._sums, symbols.sums - own.sums))
        self._checks = np.concatenate((self._checks, symbols.checks - own.checks))
        self._take_out(self.missing, self.extra, start)
        self._peel(start)
        if not self.is_complete:
            return False
        if len(find(self._own, self.extra)) != len(self.extra) or len(find(self._own, self.missing)):
            raise InconsistentSymbols("the symbols explain themselves by ids that this side has, or has not")
        return True

    def _peel(self, start: int) -> None:
        """Find all that can be found. Before ``start`` there is nothing to find: that was looked at before."""
        missing_found, extra_found = [self.missing], [self.extra]
        places = np.arange(start, self.received)
        for _ in range(WAVES_MAX):
            sums, checks = self._sums[places], self._checks[places]
            missing, extra = _single(sums, checks, places), _single(-sums, -checks, places)
            if not len(missing) and not len(extra):
                break
            self._note_taken(missing.tolist() + extra.tolist())
            missing_found.append(missing)
            extra_found.append(extra)
            places = self._take_out(missing, extra, 0)
        else:
            raise InconsistentSymbols(f"the symbols do not come apart in {WAVES_MAX} waves")
        self.missing, self.extra = np.concatenate(missing_found), np.concatenate(extra_found)

    def _note_taken(self, found: list[int]) -> None:
        if not self._taken.isdisjoint(found) or len(set(found)) != len(found):
            raise InconsistentSymbols("an id was found again after it had been taken out")
        self._taken.update(found)
        if len(self._taken) > self.received:
            # More differences than symbols cannot be told apart: what was found is an invention.
            raise InconsistentSymbols("more ids were found than there are symbols")

    def _take_out(self, missing: Ids, extra: Ids, start: int) -> NDArray[np.int64]:
        """Remove ids of the difference from all symbols from ``start`` on that they take part in; returns which."""
        end = self.received
        ids = np.concatenate((missing, extra))
        # What is taken out of the peer's symbols: an id of its own, or one that was subtracted without being there.
        sums = np.concatenate((-missing, extra))
        checks = np.concatenate((-checks_of(missing), checks_of(extra)))
        generators, places = mapping.begin(ids), np.zeros(len(ids), np.float64)
        touched = [np.empty(0, np.int64)]
        while len(places):
            inside = places >= start
            at = mapping.numbers(places[inside])
            np.add.at(self._sums, at, sums[inside])
            np.add.at(self._checks, at, checks[inside])
            touched.append(at)
            generators, places = mapping.jump(generators, places)
            stay = places < end
            sums, checks, generators, places = sums[stay], checks[stay], generators[stay], places[stay]
        return _each_once(np.concatenate(touched), end)


def _each_once(places: NDArray[np.int64], end: int) -> NDArray[np.int64]:
    """Places before ``end``, ascending. Marking many is cheaper than sorting them, and marking few is not."""
    if len(places) * _MARK_PART < end:
        return np.unique(places)
    marked = np.zeros(end, np.bool_)
    marked[places] = True
    return np.flatnonzero(marked)


def _single(sums: Ids, checks: Checks, places: NDArray[np.int64]) -> Ids:
    """Ids that are alone in one of some symbols, each once."""
    likely = np.flatnonzero((sums != 0) & (checks_of(sums) == checks))
    candidates = sums[likely]
    found = np.sort(candidates[_take_part(candidates, places[likely])])
    return found[np.flatnonzero(np.diff(found, prepend=~found[:1]))]


def _take_part(ids: Ids, wanted: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each id takes part in the symbol that is wanted of it."""
    answer = np.zeros(len(ids), np.bool_)
    numbers = np.arange(len(ids))
    generators, places = mapping.begin(ids), np.zeros(len(ids), np.float64)
    goals = wanted.astype(np.float64)
    while len(numbers):
        answer[numbers[places == goals]] = True
        stay = places < goals
        numbers, goals, generators, places = numbers[stay], goals[stay], generators[stay], places[stay]
        generators, places = mapping.jump(generators, places)
    return answer

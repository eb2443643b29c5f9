"""Keys in ascending order, of which some come and go at a time.

They stand in runs of a bounded length, one behind the other. A key is found by halving, first among the runs and then
in one of them, and what moves when it comes or goes is a part of that run: the cost does not grow with the table.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Final

RUN_MAX: Final = 1_024
"""Keys in one run; a longer one is halved."""


class SortedKeys:
    """A set of keys that is read in order."""

    def __init__(self, ascending: Iterable[bytes] = ()) -> None:
        """``ascending`` must be so, without repetitions."""
        keys = list(ascending)
        half = RUN_MAX // 2
        self._runs: Final = [keys[at : at + half] for at in range(0, len(keys), half)]
        """None of them empty."""
        self._lasts: Final = [run[-1] for run in self._runs]
        """The last key of each run."""

    def __iter__(self) -> Iterator[bytes]:
        return chain.from_iterable(self._runs)

    def add(self, key: bytes) -> None:
        """A key that is not here yet."""
        runs, lasts = self._runs, self._lasts
        place = bisect_left(lasts, key)
        if place == len(lasts):
            if not runs:
                runs.append([key])
                lasts.append(key)
                return
            place -= 1
            lasts[place] = key
        run = runs[place]
        insort(run, key)
        if len(run) > RUN_MAX:
            half = len(run) // 2
            runs.insert(place + 1, run[half:])
            lasts.insert(place, run[half - 1])
            del run[half:]

    def remove(self, key: bytes) -> None:
        """A key that is here."""
        runs, lasts = self._runs, self._lasts
        place = bisect_left(lasts, key)
        run = runs[place]
        at = bisect_left(run, key)
        assert run[at] == key, "a key was taken away that is not here"
        del run[at]
        if not run:
            del runs[place], lasts[place]
        elif at == len(run):
            lasts[place] = run[-1]

    def since(self, first: bytes) -> Iterator[bytes]:
        """Keys from one on. Nothing may come or go meanwhile."""
        place = bisect_left(self._lasts, first)
        if place == len(self._lasts):
            return iter(())
        run = self._runs[place]
        behind = islice(self._runs, place + 1, None)
        return chain(islice(run, bisect_left(run, first), None), chain.from_iterable(behind))

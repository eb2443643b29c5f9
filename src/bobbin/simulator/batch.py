"""Many worlds of exchanges, on several processes: sums of what happened, and the seeds of the worlds that broke.

A broken world does not stop the others. What comes out depends on the seeds alone, not on how many processes shared
them.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Final

from msgspec import Struct

from bobbin.simulator.interlace_world import InterlaceWorld
from bobbin.simulator.world import Broken

BLOCK: Final = 50
FAILURES_MAX: Final = 100
"""Kept, of however many there are."""


class Summary(Struct, kw_only=True):
    """What became of some worlds."""

    worlds: int = 0
    counts: dict[str, int] = {}
    """By what was counted, in order."""
    broken: int = 0
    failures: dict[int, str] = {}
    """Seeds of broken worlds, with what was broken."""

    def add(self, other: "Summary") -> None:
        """Take in what became of further worlds."""
        self.worlds += other.worlds
        self.broken += other.broken
        self.counts = dict(sorted((Counter(self.counts) + Counter(other.counts)).items()))
        room = FAILURES_MAX - len(self.failures)
        self.failures = {**self.failures, **dict(list(other.failures.items())[:room])}


def run_block(seeds: range) -> Summary:
    """Run worlds one after the other."""
    summary = Summary()
    counts: Counter[str] = Counter()
    for seed in seeds:
        summary.worlds += 1
        try:
            counts += InterlaceWorld(seed).run()
        except Broken as broken:
            summary.failures[seed] = str(broken)
        except Exception as error:  # noqa: BLE001 (whatever it is, this seed has found it)
            summary.failures[seed] = f"seed {seed}: {type(error).__name__}: {error}"
    summary.broken = len(summary.failures)
    summary.counts = dict(counts)
    return summary


def run_batch(seeds: range, *, jobs: int = 1, report: Callable[[Summary], None] | None = None) -> Summary:
    """Run many worlds; ``report`` sees the sums so far after every block."""
    total = Summary()
    for summary in _blocks(seeds, jobs):
        total.add(summary)
        if report is not None:
            report(total)
    return total


def _blocks(seeds: range, jobs: int) -> Iterator[Summary]:
    blocks = [seeds[start : start + BLOCK] for start in range(0, len(seeds), BLOCK)]
    if jobs == 1:
        yield from map(run_block, blocks)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(run_block, blocks)

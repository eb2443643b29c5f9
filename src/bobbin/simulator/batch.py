"""Many worlds, on several processes: sums of what happened, and the seeds of the worlds that broke.

A broken world does not stop the others. What comes out depends on the seeds alone, not on how many processes shared
them.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from types import MappingProxyType
from typing import Final, Protocol

from msgspec import Struct

from bobbin.simulator.interlace_world import InterlaceWorld
from bobbin.simulator.membership_world import MembershipWorld
from bobbin.simulator.raft_world import RaftWorld
from bobbin.simulator.reactive_world import ReactiveWorld
from bobbin.simulator.tangle_world import TangleWorld
from bobbin.simulator.transaction_world import TransactionWorld
from bobbin.simulator.world import Broken

BLOCK: Final = 50
FAILURES_MAX: Final = 100
"""Kept, of however many there are."""


class SeededWorld(Protocol):
    """A world that one seed makes, and that is lived through once."""

    @property
    def tally(self) -> Counter[str]: ...

    @property
    def trace(self) -> list[str]: ...

    @property
    def digest(self) -> str: ...

    def run(self) -> Counter[str]:
        """Raises ``Broken`` at the first broken promise."""
        ...


class MakeWorld(Protocol):
    """Makes the world of a seed."""

    def __call__(self, seed: int, *, is_traced: bool = False) -> SeededWorld: ...


def make_exchanges(seed: int, *, is_traced: bool = False) -> SeededWorld:
    """Nodes that exchange records."""
    return InterlaceWorld(seed, is_traced=is_traced)


def make_tangles(seed: int, *, is_traced: bool = False) -> SeededWorld:
    """Nodes that keep tangles."""
    return TangleWorld(seed, is_traced=is_traced)


def make_mirrors(seed: int, *, is_traced: bool = False) -> SeededWorld:
    """A graph, and those who watch it."""
    return ReactiveWorld(seed, is_traced=is_traced)


def make_clusters(seed: int, *, is_traced: bool = False) -> SeededWorld:
    """Nodes that agree on one log."""
    return RaftWorld(seed, is_traced=is_traced)


def make_members(seed: int, *, is_traced: bool = False) -> SeededWorld:
    """Members that probe and gossip."""
    return MembershipWorld(seed, is_traced=is_traced)


def make_transactions(seed: int, *, is_traced: bool = False) -> SeededWorld:
    """Shards that do things together."""
    return TransactionWorld(seed, is_traced=is_traced)


WORLDS: Final[Mapping[str, MakeWorld]] = MappingProxyType(
    {
        "interlace": make_exchanges,
        "tangles": make_tangles,
        "reactive": make_mirrors,
        "raft": make_clusters,
        "membership": make_members,
        "transactions": make_transactions,
    }
)
"""Worlds of machines, by name."""


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


def run_block(seeds: range, world: str = "interlace") -> Summary:
    """Run worlds of one kind one after the other."""
    summary = Summary()
    counts: Counter[str] = Counter()
    for seed in seeds:
        summary.worlds += 1
        try:
            counts += WORLDS[world](seed).run()
        except Broken as broken:
            summary.failures[seed] = str(broken)
        except Exception as error:  # noqa: BLE001 (whatever it is, this seed has found it)
            summary.failures[seed] = f"seed {seed}: {type(error).__name__}: {error}"
    summary.broken = len(summary.failures)
    summary.counts = dict(counts)
    return summary


def run_batch(
    seeds: range, *, world: str = "interlace", jobs: int = 1, report: Callable[[Summary], None] | None = None
) -> Summary:
    """Run many worlds of one kind; ``report`` sees the sums so far after every block."""
    total = Summary()
    for summary in _blocks(seeds, world, jobs):
        total.add(summary)
        if report is not None:
            report(total)
    return total


def _blocks(seeds: range, world: str, jobs: int) -> Iterator[Summary]:
    run = partial(run_block, world=world)
    blocks = [seeds[start : start + BLOCK] for start in range(0, len(seeds), BLOCK)]
    if jobs == 1:
        yield from map(run, blocks)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(run, blocks)

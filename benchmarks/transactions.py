"""Transactions of one put on one shard, against bare writes to the same three processes; and with a larger store."""

import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from benchmarks.cluster_bobbin import VALUE
from benchmarks.network_processes import ended_on_signal
from benchmarks.rounds import Rates, rate_row, ratio_row, setting, take_turns
from benchmarks.transactions_bobbin import shard
from measurement.result import Ratio, Result, Row

CLIENTS: Final = 100
QUESTION: Final = (
    f"How many transactions of one put of {len(VALUE)} bytes a second does a shard of three processes on loopback "
    f"commit for {CLIENTS} clients, in signed blocks that every follower judges before it acknowledges, against bare "
    "writes to the replicated table of the same processes? And does it slow down when the store is larger?"
)
RAFT: Final = "bare writes"
SMALL: Final = "transactions, small store"
LARGE: Final = "transactions, large store"
BAR: Final = 0.7
SLOWER_BAR: Final = 1.3
_NOTE: Final = (
    "Both sides are asked by one Python process with one connection, under the same number of clients, each of which "
    "waits for its answer before it goes on and has keys of its own. The nodes have their defaults: mutual TLS, an "
    "fsync on two disks at least before an answer. The three alternatives take turns, and both sets of processes are "
    "up all the time."
)


class Asked(Protocol):
    """A shard that is up and filled."""

    def raft(self, count: int, clients: int) -> float: ...

    def chain(self, count: int, clients: int) -> float: ...


def run() -> Result:
    """Measure."""
    rounds, count = setting("TRANSACTIONS_ROUNDS", 11), setting("TRANSACTIONS_COUNT", 6_000)
    small, large = setting("TRANSACTIONS_SMALL_KEYS", 1_000), setting("TRANSACTIONS_LARGE_KEYS", 100_000)
    with ended_on_signal(), tempfile.TemporaryDirectory(prefix="bobbin-transactions-") as name, ExitStack() as stack:
        shards = {
            SMALL: stack.enter_context(shard(Path(name) / "small", small)),
            LARGE: stack.enter_context(shard(Path(name) / "large", large)),
        }
        rates = measure(shards, count, rounds)
    note = f"{_NOTE} A turn has {count:,} writes or transactions."
    return Result(question=QUESTION, rows=rows(rates, small, large), ratios=ratios(rates), notes=[note])


def measure(shards: Mapping[str, Asked], count: int, rounds: int, clients: int = CLIENTS) -> Rates:
    """Rates round by round, after a turn of each that does not count."""
    turns = {
        RAFT: partial(shards[SMALL].raft, count, clients),
        SMALL: partial(shards[SMALL].chain, count, clients),
        LARGE: partial(shards[LARGE].chain, count, clients),
    }
    take_turns(turns, rounds=1)
    return take_turns(turns, rounds=rounds)


def rows(rates: Rates, small: int, large: int) -> list[Row]:
    """What each did."""
    return [
        rate_row(f"{RAFT}, {CLIENTS} clients", rates, RAFT, unit="writes/s"),
        rate_row(f"{SMALL}, {CLIENTS} clients", rates, SMALL, unit="transactions/s", note=f"{small:,} keys"),
        rate_row(f"{LARGE}, {CLIENTS} clients", rates, LARGE, unit="transactions/s", note=f"{large:,} keys"),
    ]


def ratios(rates: Rates) -> list[Ratio]:
    """How that compares with what was promised."""
    return [
        ratio_row("rate of transactions / rate of bare writes", rates, SMALL, RAFT, bar=BAR),
        ratio_row(
            "cost of a transaction: large store / small store",
            rates,
            SMALL,
            LARGE,
            bar=SLOWER_BAR,
            comparison="<=",
        ),
    ]

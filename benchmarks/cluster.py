"""A cluster of three processes against PySyncObj and etcd; how soon it goes on without its leader; its membership."""

import asyncio
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct

from benchmarks import cluster_etcd, peer_environments
from benchmarks.cluster_bobbin import NODES, ROOT, VALUE, Asked, bobbin
from benchmarks.network_processes import PeerFailedError, ended_on_signal, free_port, next_answer, running
from benchmarks.rounds import Rates, rate_row, ratio_row, setting, take_turns
from bobbin.cluster.membership.bounds import detection_ms_max
from evidence.cluster_kill import LEADER, campaign, failover_ratio, failover_rows
from evidence.cluster_nodes import Timeouts
from measurement.result import Ratio, Result, Row
from tests.simulation.membership_scale import LargeCluster

QUESTION: Final = (
    f"How many writes of {len(VALUE)} bytes a second does a cluster of three processes on loopback commit with 1,000 "
    "in flight, and how long does one take, against PySyncObj and etcd? How soon after the death of its leader does it "
    "take new writes? And does a cluster of 100 simulated members with loss and a slow node call a live one failed?"
)
OURS: Final = "bobbin"
PYSYNCOBJ: Final = "pysyncobj"
ETCD: Final = "etcd"
IN_FLIGHT: Final = 1_000
MEMBERS: Final = 100
LOSS: Final = 0.1
_SETTLING_ROUNDS: Final = 50


class Cluster(Protocol):
    """A cluster that is up."""

    def rate(self, count: int, in_flight: int) -> float: ...

    def latency(self, count: int) -> float: ...


class Counts(Struct, frozen=True):
    """How many writes of one side a turn consists of."""

    rate: int
    latency: int


COUNTS: Final = {OURS: Counts(50_000, 500), PYSYNCOBJ: Counts(20_000, 30), ETCD: Counts(50_000, 500)}
_WARMING: Final = 2_000


def run() -> Result:
    """Measure. A peer that is not there is an error, not a gap."""
    rounds, kills = setting("CLUSTER_ROUNDS", 5), setting("CLUSTER_KILLS", 15)
    with ended_on_signal():
        version = cluster_etcd.version()
        python = peer_environments.install(PYSYNCOBJ)
        rates, seconds = measure(
            {OURS: bobbin, PYSYNCOBJ: partial(pysyncobj, python), ETCD: cluster_etcd.etcd}, COUNTS, rounds
        )
    timeouts = Timeouts()
    killed = asyncio.run(campaign(kills=kills, cuts=0, seed=kills, timeouts=timeouts, victims=[LEADER], clients=2))
    rows, ratios = members(setting("CLUSTER_MEMBER_ROUNDS", 1_000))
    return Result(
        question=QUESTION,
        rows=[*speed_rows(rates, seconds), *failover_rows(killed.failovers), *rows],
        ratios=[*speed_ratios(rates, seconds), failover_ratio(killed.failovers, timeouts), *ratios],
        notes=_notes(version, timeouts),
    )


# ---- speed ----------------------------------------------------------------------------------------------------------


def measure(
    sides: Mapping[str, Callable[[Path], AbstractContextManager[Cluster]]], counts: Mapping[str, Counts], rounds: int
) -> tuple[Rates, Rates]:
    """Writes a second and median seconds of one write, round by round; in each turn one cluster is there, a new one."""
    seconds: Rates = {name: [] for name in sides}

    def turn(name: str) -> float:
        with tempfile.TemporaryDirectory(prefix="bobbin-cluster-") as folder, sides[name](Path(folder)) as cluster:
            cluster.rate(min(_WARMING, counts[name].rate), IN_FLIGHT)
            seconds[name].append(cluster.latency(counts[name].latency))
            return cluster.rate(counts[name].rate, IN_FLIGHT)

    return take_turns({name: partial(turn, name) for name in sides}, rounds=rounds), seconds


@contextmanager
def pysyncobj(python: Path, folder: Path) -> Iterator[Asked]:
    """Three nodes of PySyncObj; the one that leads is asked, since its clients live in the nodes."""
    del folder  # it writes nothing to a disk
    ports = [str(free_port()) for _ in range(NODES)]
    with ExitStack() as stack:
        nodes = []
        for port in ports:
            command = [str(python), "-m", "benchmarks.cluster_pysyncobj", port, *(one for one in ports if one != port)]
            nodes.append(stack.enter_context(running(command, cwd=ROOT)))
        leading = [node for node in nodes if next_answer(node)["leads"]]
        if not leading:
            raise PeerFailedError("no node of PySyncObj says that it leads")
        yield Asked(leading[0])


def speed_rows(rates: Rates, seconds: Rates) -> list[Row]:
    """What each side did."""
    rows = [
        rate_row(f"{name}: committed writes, {IN_FLIGHT:,} in flight", rates, name, unit="writes/s") for name in rates
    ]
    return rows + [
        Row(name=f"{name}: one write after the other", value=round(statistics.median(took) * 1000, 2), unit="ms")
        for name, took in seconds.items()
    ]


def speed_ratios(rates: Rates, seconds: Rates) -> list[Ratio]:
    """How that compares with what was promised."""
    written = f"committed writes, {IN_FLIGHT:,} in flight"
    alone = "median time of one write, one client"
    return [
        ratio_row(f"{written}: rate / PySyncObj's", rates, OURS, PYSYNCOBJ, bar=1),
        ratio_row(f"{written}: rate / etcd's", rates, OURS, ETCD, bar=0.2),
        ratio_row(f"{alone}: time / PySyncObj's", seconds, OURS, PYSYNCOBJ, bar=0.2, comparison="<="),
        ratio_row(f"{alone}: time / etcd's", seconds, OURS, ETCD, bar=2, comparison="<="),
    ]


# ---- membership -----------------------------------------------------------------------------------------------------


def members(rounds: int, *, count: int = MEMBERS) -> tuple[list[Row], list[Ratio]]:
    """Whom a large cluster calls failed: nobody who lives, and a dead node in time."""
    cluster = LargeCluster(members=count, loss=LOSS, seed=1)
    cluster.run(_SETTLING_ROUNDS)
    cluster.slow_down()
    cluster.run(rounds)
    false = len(cluster.false_failures)
    death = cluster.kill(list(cluster.members)[-1])
    bound = detection_ms_max(cluster.config, count)
    rows = [
        Row(name="simulated members", value=count, note=f"{LOSS:.0%} loss, one slow node, default settings"),
        Row(name="death of a member until all know", value=death.all_ms, unit="ms", note=f"bound: {bound:,} ms"),
    ]
    ratios = [
        Ratio(
            name=f"live members called failed in {rounds * count:,} node-rounds", value=false, bar=0, comparison="<="
        ),
        Ratio(
            name="death of a member until all know / the bound",
            value=round(death.all_ms / bound, 3),
            bar=1,
            comparison="<=",
        ),
    ]
    return rows, ratios


def _notes(version: str, timeouts: Timeouts) -> list[str]:
    least, most = timeouts.election
    sides = (
        f"Peers: PySyncObj {peer_environments.version_of(PYSYNCOBJ)} from PyPI in an environment of its own, and etcd "
        f"{version}. Each has three processes on this machine, which share it with the client. They take turns: there "
        "is one cluster at a time, a new one in each turn. Ours and etcd write every entry to the disk and wait for "
        "it; PySyncObj keeps its log in memory. Ours speaks mutual TLS and signs every message between nodes; the "
        "peers speak plain TCP."
    )
    clients = (
        "Our client is one Python process with one connection. etcd is asked by h2load, which sends the bytes of one "
        "put again and again, over four connections where many are on their way. PySyncObj's client lives in the "
        "leader's own process."
    )
    kills = (
        f"Leaders are killed with SIGKILL under a light load. Election timeouts are drawn from {least} to {most} ms; "
        f"one of them is counted as {least} ms."
    )
    return [sides, clients, kills]

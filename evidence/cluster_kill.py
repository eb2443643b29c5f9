"""Three nodes of a cluster that are killed and cut from each other under load: nothing acknowledged is lost.

Three processes (``bobbin cluster serve``) on loopback serve clients that write, compare and read the same few keys
without a pause. Meanwhile a node is killed with SIGKILL, the leader most times, sometimes a follower, sometimes all
three at once, and started again; and the network between the nodes is cut in every shape that three nodes allow, both
ways or one way only, for some election timeouts. What a cut holds back comes late or never, in turns. At the end it is
asked:

1. does one order of all operations explain everything that the clients saw? (`tests.oracle.linearizability`)
2. is every write there that was acknowledged, and none that was refused?
3. do all nodes hold the same, by their roots?
4. has any term had two leaders, has any node stopped by itself?
5. how long did it take after a kill of the leader until a new write was acknowledged?

The shapes and lengths come from a seed; what the processes are doing then differs from run to run, the answers must
not.
"""

import asyncio
import os
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from itertools import cycle, islice, permutations
from pathlib import Path
from random import Random
from statistics import median
from time import monotonic
from typing import Final

from msgspec import Struct

from bobbin.runtime.cluster_client import ClusterClient
from evidence.cluster_load import Load
from evidence.cluster_nodes import Nodes, Timeouts, nodes
from measurement.result import Ratio, Result, Row
from tests.faults.partitions import Way

QUESTION: Final = (
    "When nodes of a cluster of three processes are killed with SIGKILL and cut from each other under load, does one "
    "order explain all that its clients see, is every acknowledged write kept, do the nodes hold the same, and how "
    "soon after the death of a leader is a new write acknowledged?"
)
KILLS: Final = int(os.environ.get("BOBBIN_EVIDENCE_CLUSTER_KILLS", "60"))
CUTS: Final = int(os.environ.get("BOBBIN_EVIDENCE_CLUSTER_CUTS", "20"))
CLIENTS: Final = 6
SEED: Final = 20_261_116
FAILOVER_BAR: Final = 5
"""Election timeouts."""

LEADER: Final = "leader"
FOLLOWER: Final = "follower"
EVERYBODY: Final = "everybody"
VICTIMS: Final = (LEADER, FOLLOWER, EVERYBODY, *(LEADER,) * 9)
SHAPES: Final = (
    "leader alone",
    "leader deaf",
    "leader unheard",
    "leader and a follower apart",
    "a follower does not hear the leader",
    "follower alone",
    "follower deaf",
    "follower unheard",
    "followers apart",
    "everybody alone",
)
_CLIENT_SECONDS: Final = 4.0
"""Short enough that some writes end without a known outcome."""
_LOAD_SECONDS: Final = (0.2, 0.8)
"""Between two blows."""
_CUT_TIMEOUTS: Final = (1.0, 6.0)
"""The length of a cut, in the longest election timeouts."""


class Campaign(Struct, frozen=True, kw_only=True):
    """What was found."""

    kills: dict[str, int]
    cuts: dict[str, int]
    failovers: list[float]
    """Seconds from each kill of the leader to the acknowledgement of a write that was made after it."""
    counts: dict[str, int]
    """Operations of the clients, by kind and outcome."""
    acknowledged: int
    """Single writes that were acknowledged, each of which has to be there."""
    lost: int
    invented: int
    violation: str
    """Empty where one order explains everything."""
    are_roots_equal: bool
    terms_with_two_leaders: int
    ended_alone: int


def run(out: Path) -> Result:  # noqa: ARG001 - every module of this folder is called with the folder of the reports
    """All kills and cuts."""
    timeouts = Timeouts()
    found = asyncio.run(campaign(kills=KILLS, cuts=CUTS, seed=SEED, timeouts=timeouts))
    return result_of(found, timeouts)


def result_of(found: Campaign, timeouts: Timeouts) -> Result:
    """What was found, in the form of a report."""
    least, most = timeouts.election
    rows = [
        Row(name="operations", value=sum(found.counts.values()), note=f"{CLIENTS} clients; seed {SEED}"),
        *(Row(name=f"operations: {name}", value=count) for name, count in sorted(found.counts.items())),
        Row(name="single writes acknowledged", value=found.acknowledged),
        *(Row(name=f"kills: {name}", value=count) for name, count in found.kills.items()),
        *(Row(name=f"cuts: {name}", value=count) for name, count in found.cuts.items()),
        *failover_rows(found.failovers),
    ]
    return Result(
        question=QUESTION,
        rows=rows,
        ratios=[
            _never("keys whose history no order explains", int(bool(found.violation)), note=found.violation),
            _never("acknowledged writes lost", found.lost),
            _never("refused writes that were done", found.invented),
            _never("nodes that hold something else", int(not found.are_roots_equal)),
            _never("terms with two leaders", found.terms_with_two_leaders),
            _never("nodes that ended by themselves", found.ended_alone),
            failover_ratio(found.failovers, timeouts),
        ],
        notes=[f"Election timeouts are drawn from {least} to {most} ms; one of them is counted as {least} ms."],
    )


def failover_rows(failovers: Sequence[float]) -> list[Row]:
    """How long there was no leader."""
    middle = Row(
        name="from the death of a leader to a new write",
        value=round(median(failovers) * 1000),
        unit="ms",
        note=f"median of {len(failovers)}; {min(failovers) * 1000:,.0f} to {max(failovers) * 1000:,.0f}",
    )
    return [middle]


def failover_ratio(failovers: Sequence[float], timeouts: Timeouts) -> Ratio:
    """The same in election timeouts, against what was promised."""
    return Ratio(
        name="from the death of a leader to a new write, in election timeouts",
        value=round(median(failovers) / timeouts.election_seconds, 2),
        bar=FAILOVER_BAR,
        comparison="<=",
        note=f"median of {len(failovers)} kills",
    )


async def campaign(
    *,
    kills: int,
    cuts: int,
    seed: int,
    timeouts: Timeouts,
    clients: int = CLIENTS,
    victims: Sequence[str] = VICTIMS,
) -> Campaign:
    """Kills and cuts in turns, with load all the time; then the questions."""
    with tempfile.TemporaryDirectory(prefix="bobbin-cluster-kill-") as folder:
        async with nodes(Path(folder), timeouts) as cluster, AsyncExitStack() as stack:
            asking = await stack.enter_async_context(cluster.client(_CLIENT_SECONDS))
            # A write that is to say when there is a leader again must not give up before.
            patient = await stack.enter_async_context(cluster.client(60.0))
            loading = [await stack.enter_async_context(cluster.client(_CLIENT_SECONDS)) for _ in range(clients)]
            storm = _Storm(cluster, asking, patient, Load(loading, seed=seed), Random(seed))
            await storm.rage(kills, cuts, victims)
            return await storm.calm()


class _Storm:
    """One cluster and what is done to it."""

    def __init__(
        self, cluster: Nodes, asking: ClusterClient, patient: ClusterClient, load: Load, random: Random
    ) -> None:
        self._cluster: Final = cluster
        self._asking: Final = asking
        self._patient: Final = patient
        self._load: Final = load
        self._random: Final = random
        self._kills: Final[dict[str, int]] = dict.fromkeys((LEADER, FOLLOWER, EVERYBODY), 0)
        self._cuts: Final[dict[str, int]] = {}
        self._failovers: Final[list[float]] = []

    async def rage(self, kills: int, cuts: int, victims: Sequence[str]) -> None:
        """Everything, spread over each other."""
        doomed = islice(cycle(victims), kills)
        # Each shape loses what it held back in one round of all shapes, and passes it on late in the next.
        forms = ((SHAPES[n % len(SHAPES)], (n + n // len(SHAPES)) % 2 == 1) for n in range(cuts))
        turns = [((number + 0.5) / kills, True) for number in range(kills)]
        turns += [((number + 0.5) / cuts, False) for number in range(cuts)]
        await self._cluster.settled(self._asking, is_still=False)
        self._load.start()
        for _, is_kill in sorted(turns):
            self._load.next_keys()
            await asyncio.sleep(self._random.uniform(*_LOAD_SECONDS))
            if is_kill:
                await self._kill(next(doomed))
            else:
                shape, is_lost = next(forms)
                await self._cut(shape, is_lost=is_lost)
            await self._cluster.settled(self._asking, is_still=False)

    async def _kill(self, victim: str) -> None:
        leader = await self._cluster.leader(self._asking)
        names = list(self._cluster.names)
        if victim == LEADER:
            names = [leader]
        elif victim == FOLLOWER:
            names = [self._random.choice([name for name in names if name != leader])]
        await self._cluster.kill(names)
        killed, began = datetime.now(UTC), monotonic()
        if victim != EVERYBODY:
            await self._patient.put(b"after", b"%d" % sum(self._kills.values()))
        passed = monotonic() - began
        await self._cluster.start(names)
        if victim == LEADER:
            if await self._cluster.led_since(self._asking) < killed:
                # Somebody else had taken over between the question and the kill: this one did not lead any more.
                self._kills[FOLLOWER] += 1
                await self._cluster.settled(self._asking, is_still=False)
                await self._kill(LEADER)
                return
            self._failovers.append(passed)
        self._kills[victim] += 1

    async def _cut(self, shape: str, *, is_lost: bool) -> None:
        leader = await self._cluster.leader(self._asking)
        followers = [name for name in self._cluster.names if name != leader]
        self._random.shuffle(followers)
        self._cluster.network.cut(ways_of(shape, leader, followers))
        longest = self._cluster.timeouts.election[1] / 1000
        await asyncio.sleep(self._random.uniform(*_CUT_TIMEOUTS) * longest)
        self._cluster.network.heal(is_lost=is_lost)
        name = f"{shape}, what was held back {'is lost' if is_lost else 'comes late'}"
        self._cuts[name] = self._cuts.get(name, 0) + 1

    async def calm(self) -> Campaign:
        """Let it end, and look."""
        await self._load.stop()
        await self._cluster.settled(self._asking, is_still=True)
        await self._load.look_at_all()
        lost, invented = await self._load.lost(), await self._load.invented()
        await self._cluster.settled(self._asking, is_still=True)
        reports = (await self._cluster.reports(self._asking)).values()
        await self._cluster.stop()
        violation = await asyncio.to_thread(self._load.violation)
        return Campaign(
            kills=self._kills,
            cuts=self._cuts,
            failovers=self._failovers,
            counts=dict(self._load.counts),
            acknowledged=len(self._load.acknowledged),
            lost=lost,
            invented=invented,
            violation="" if violation is None else str(violation),
            are_roots_equal=len({report.root for report in reports}) == 1,
            terms_with_two_leaders=self._cluster.terms_with_two_leaders(),
            ended_alone=len(self._cluster.ended_alone),
        )


def ways_of(shape: str, leader: str, followers: Sequence[str]) -> frozenset[Way]:
    """What does not pass."""
    first, second = followers
    by_shape = {
        "leader alone": _apart(leader, followers),
        "leader deaf": {(name, leader) for name in followers},
        "leader unheard": {(leader, name) for name in followers},
        "leader and a follower apart": _apart(leader, [first]),
        "a follower does not hear the leader": {(leader, first)},
        "follower alone": _apart(first, [leader, second]),
        "follower deaf": {(leader, first), (second, first)},
        "follower unheard": {(first, leader), (first, second)},
        "followers apart": _apart(first, [second]),
        "everybody alone": set(permutations((leader, *followers), 2)),
    }
    return frozenset(by_shape[shape])


def _apart(one: str, others: Sequence[str]) -> set[Way]:
    return {way for other in others for way in ((one, other), (other, one))}


def _never(name: str, count: int, note: str = "") -> Ratio:
    return Ratio(name=name, value=count, bar=0, comparison="<=", note=note)

"""Transactions over two shards while their processes are killed and cut from each other: totals and orders hold.

Three processes (``bobbin cluster serve``) on loopback, each a node of both shards, serve clients that do transactions
without a pause (`evidence.chain_load`): a bank, counters, doctors on call, lists. Meanwhile a process is killed with
SIGKILL, most times one that leads a shard and so coordinates transactions or has promised parts of them, sometimes one
that leads none, sometimes all three at once, and started again; and the network between the processes is cut in every
shape that three allow. What a cut holds back comes late or never, in turns. At the end it is asked:

1. was the total the same, and no account below nought, in every transaction that has read all accounts?
2. was one doctor of each pair there, whenever somebody looked?
3. does one order, which agrees with the clock, explain all lists? (`tests.oracle.serializability`)
4. is every acknowledged addition there, once, and none that was refused?
5. have all nodes of a shard the same chain, with no bad block, and is no transaction left open?
6. has any term of a shard had two leaders, has any process stopped by itself?

The shapes and lengths come from a seed; what the processes are doing then differs from run to run, the answers must
not.
"""

import asyncio
import os
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from itertools import cycle, islice
from pathlib import Path
from random import Random
from statistics import median
from time import monotonic
from typing import Final

from msgspec import Struct

from bobbin.runtime.tensor_chain import TensorChain, Workspace
from evidence.chain_load import Load, names
from evidence.chain_nodes import SHARDS, ShardNodes, shard_nodes
from evidence.cluster_kill import EVERYBODY, FOLLOWER, LEADER, SHAPES, VICTIMS, ways_of
from evidence.cluster_nodes import Timeouts, patience
from measurement.result import Ratio, Result, Row

QUESTION: Final = (
    "When processes that serve two shards are killed with SIGKILL and cut from each other under transactions, is every "
    "total exact, is no pair of doctors ever left alone, does one order explain all lists, is every acknowledged "
    "transaction kept, done once and on both shards, and do the nodes have the same chains?"
)
KILLS: Final = int(os.environ.get("BOBBIN_EVIDENCE_CHAIN_KILLS", "40"))
CUTS: Final = int(os.environ.get("BOBBIN_EVIDENCE_CHAIN_CUTS", "20"))
CLIENTS: Final = 6
SEED: Final = 20_261_117
_CLIENT_SECONDS: Final = 4.0
"""Short enough that some transactions end without a known outcome."""
_PATIENT_SECONDS: Final = 60.0
_LOAD_SECONDS: Final = (0.2, 0.8)
"""Between two blows."""
_CUT_TIMEOUTS: Final = (1.0, 6.0)
"""The length of a cut, in the longest election timeouts."""

_NOTE: Final = (
    "What a transaction saw counts once it is committed. A process is killed as a leader if it led a shard when it was "
    "asked, the shards taking turns."
)


class Campaign(Struct, frozen=True, kw_only=True):
    """What was found."""

    kills: dict[str, int]
    cuts: dict[str, int]
    recoveries: list[float]
    """Seconds from each kill but of everybody to the commit of a transaction over both shards, begun after it."""
    counts: dict[str, int]
    """Transactions of the clients, by kind and outcome."""
    listed: int
    """Transactions in the history of the lists."""
    acknowledged: int
    """Additions that were acknowledged, each of which has to be there once."""
    wrong_totals: int
    abandoned_pairs: int
    anomaly: str
    """Empty where one order explains everything."""
    lost: int
    invented: int
    are_roots_equal: bool
    parted_chains: int
    """Shards whose nodes have not all the same tip."""
    bad_chains: int
    terms_with_two_leaders: int
    ended_alone: int


def run(out: Path) -> Result:  # noqa: ARG001 - every module of this folder is called with the folder of the reports
    """All kills and cuts."""
    return result_of(asyncio.run(campaign(kills=KILLS, cuts=CUTS, seed=SEED, timeouts=Timeouts())))


def result_of(found: Campaign) -> Result:
    """What was found, in the form of a report."""
    rows = [
        Row(name="transactions", value=sum(found.counts.values()), note=f"{CLIENTS} clients; seed {SEED}"),
        *(Row(name=f"transactions: {name}", value=count) for name, count in sorted(found.counts.items())),
        Row(name="transactions on lists, judged together", value=found.listed),
        Row(name="additions acknowledged", value=found.acknowledged),
        *(Row(name=f"kills: {name}", value=count) for name, count in found.kills.items()),
        *(Row(name=f"cuts: {name}", value=count) for name, count in found.cuts.items()),
    ]
    if found.recoveries:
        rows.append(
            Row(
                name="from a kill to a new transaction over both shards",
                value=round(median(found.recoveries) * 1000),
                unit="ms",
                note=f"median of {len(found.recoveries)}; "
                f"{min(found.recoveries) * 1000:,.0f} to {max(found.recoveries) * 1000:,.0f}",
            )
        )
    return Result(
        question=QUESTION,
        rows=rows,
        ratios=[
            _never("transactions that saw a wrong total", found.wrong_totals),
            _never("transactions that saw both of a pair gone", found.abandoned_pairs),
            _never("histories of lists that no order explains", int(bool(found.anomaly)), note=found.anomaly),
            _never("acknowledged additions lost", found.lost),
            _never("additions that were refused, or done twice", found.invented),
            _never("nodes that hold something else", int(not found.are_roots_equal)),
            _never("shards whose nodes have different chains", found.parted_chains),
            _never("chains with a bad block", found.bad_chains),
            _never("terms with two leaders", found.terms_with_two_leaders),
            _never("processes that ended by themselves", found.ended_alone),
        ],
        notes=[_NOTE],
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
    with tempfile.TemporaryDirectory(prefix="bobbin-chain-kill-") as folder:
        async with shard_nodes(Path(folder), timeouts) as nodes, AsyncExitStack() as stack:
            patient = await stack.enter_async_context(nodes.chain(_PATIENT_SECONDS))
            loading = [await stack.enter_async_context(nodes.chain(_CLIENT_SECONDS)) for _ in range(clients)]
            storm = _Storm(nodes, patient, Load(loading, seed=seed), Random(seed))
            await storm.rage(kills, cuts, victims)
            return await storm.calm()


class _Storm:
    """One set of shards and what is done to it."""

    def __init__(self, nodes: ShardNodes, patient: TensorChain, load: Load, random: Random) -> None:
        self._nodes: Final = nodes
        self._patient: Final = patient
        """A transaction that is to say when all is well again must not give up before."""
        self._load: Final = load
        self._random: Final = random
        self._kills: Final[dict[str, int]] = dict.fromkeys((LEADER, FOLLOWER, EVERYBODY), 0)
        self._cuts: Final[dict[str, int]] = {}
        self._recoveries: Final[list[float]] = []

    async def rage(self, kills: int, cuts: int, victims: Sequence[str]) -> None:
        """Everything, spread over each other."""
        doomed = islice(cycle(victims), kills)
        # Each shape loses what it held back in one round of all shapes, and passes it on late in the next.
        forms = ((SHAPES[n % len(SHAPES)], (n + n // len(SHAPES)) % 2 == 1) for n in range(cuts))
        turns = [((number + 0.5) / kills, True) for number in range(kills)]
        turns += [((number + 0.5) / cuts, False) for number in range(cuts)]
        await self._nodes.settled(self._patient, is_still=False)
        async with patience("the accounts are not filled"):
            await self._load.prepare(self._patient)
        self._load.start()
        for number, (_, is_kill) in enumerate(sorted(turns)):
            self._load.next_lists()
            await asyncio.sleep(self._random.uniform(*_LOAD_SECONDS))
            shard = number % SHARDS
            if is_kill:
                await self._kill(next(doomed), shard)
            else:
                shape, is_lost = next(forms)
                await self._cut(shape, shard, is_lost=is_lost)
            await self._nodes.settled(self._patient, is_still=False)

    async def _kill(self, victim: str, shard: int) -> None:
        leaders = [await self._nodes.leader(self._patient, one) for one in range(SHARDS)]
        doomed = list(self._nodes.names)
        if victim == LEADER:
            doomed = [leaders[shard]]
        elif victim == FOLLOWER:
            others = [name for name in doomed if name not in leaders]
            doomed = [self._random.choice(others)]
        await self._nodes.kill(doomed)
        began = monotonic()
        if victim != EVERYBODY:
            async with patience("no transaction is committed after a kill"):
                await self._patient.transact(self._after)
            self._recoveries.append(monotonic() - began)
        await self._nodes.start(doomed)
        self._kills[victim] += 1

    async def _after(self, workspace: Workspace) -> None:
        """Something that both shards have to commit."""
        for key in names(self._patient, b"after", 1):
            await workspace.put(key, b"%d" % sum(self._kills.values()))

    async def _cut(self, shape: str, shard: int, *, is_lost: bool) -> None:
        leader = await self._nodes.leader(self._patient, shard)
        followers = [name for name in self._nodes.names if name != leader]
        self._random.shuffle(followers)
        self._nodes.network.cut(ways_of(shape, leader, followers))
        longest = self._nodes.timeouts.election[1] / 1000
        await asyncio.sleep(self._random.uniform(*_CUT_TIMEOUTS) * longest)
        self._nodes.network.heal(is_lost=is_lost)
        name = f"{shape}, what was held back {'is lost' if is_lost else 'comes late'}"
        self._cuts[name] = self._cuts.get(name, 0) + 1

    async def calm(self) -> Campaign:
        """Let it end, and look."""
        await self._load.stop()
        await self._nodes.settled(self._patient, is_still=False)
        await self._nodes.concluded(self._patient)
        async with patience("what is there cannot be read"):
            await self._load.look_at_all(self._patient)
            found = await self._load.found(self._patient)
        await self._nodes.concluded(self._patient)
        await self._nodes.settled(self._patient, is_still=True)
        are_roots_equal = await self._nodes.are_roots_equal(self._patient)
        verdicts = await self._nodes.verdicts(self._patient)
        await self._nodes.stop()
        anomaly = await asyncio.to_thread(self._load.anomaly)
        return Campaign(
            kills=self._kills,
            cuts=self._cuts,
            recoveries=self._recoveries,
            counts=dict(self._load.counts),
            listed=len(self._load.history),
            acknowledged=self._load.counted.total(),
            wrong_totals=self._load.wrong_totals,
            abandoned_pairs=self._load.abandoned_pairs,
            anomaly="" if anomaly is None else str(anomaly),
            lost=self._load.lost(found),
            invented=self._load.invented(found),
            are_roots_equal=are_roots_equal,
            parted_chains=sum(len({(one.height, one.tip) for one in some}) > 1 for some in verdicts),
            bad_chains=sum(one.fault_height is not None for some in verdicts for one in some),
            terms_with_two_leaders=self._nodes.terms_with_two_leaders(),
            ended_alone=len(self._nodes.ended_alone),
        )


def _never(name: str, count: int, note: str = "") -> Ratio:
    return Ratio(name=name, value=count, bar=0, comparison="<=", note=note)

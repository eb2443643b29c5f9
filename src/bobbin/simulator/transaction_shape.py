"""What is drawn for one world of transactions: shards, clients, what they want, how links fare, and which troubles."""

from random import Random
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from bobbin.cluster.names import MILLISECOND_NS
from bobbin.cluster.settings import (
    AutoMergeConfig,
    ChainConfig,
    DeadlockDetectorConfig,
    DistributedTxConfig,
    VictimSelectionPolicy,
)
from bobbin.simulator.clock import SECOND_NS
from bobbin.simulator.raft_network import Roughness

TROUBLES: Final = (
    "leader dies",
    "leader is deposed",
    "all leaders die",
    "cut",
    "cut one way",
    "heal",
    "weather",
    "wall clock jumps",
    "forward clock leaps",
    "node restarts",
    "silence",
    "forged block",
    "codebook",
)
HOUR_NS: Final = 3_600 * SECOND_NS
WISHES: Final = (
    "transfer",
    "append",
    "skew",
    "count",
    "pair",
    "audit",
    "rows",
    "vectors",
    "mark",
    "odd",
    "fleeting",
    "plain",
)


class Shape(Struct, frozen=True, kw_only=True):
    """What one world is like."""

    shards: int
    clients: int
    window_ns: int
    """How long there is trouble."""
    troubles: int
    think_ns_max: int
    """A client's pause between two transactions, and from its reads to its commit."""
    transactions_max: int
    keys: int
    """Of each kind; few of them meet often."""
    is_bytes: bool
    """Messages and commands travel as bytes."""
    is_rough: bool
    is_forgetful: bool
    """Shards remember few ends and old versions; all but that is as usual."""
    is_judging: bool
    """The other node of a shard judges blocks before it acknowledges them."""
    strikes: float
    """Chance that a leader is struck at a durable write: before it, after it, or in the middle of what follows."""
    refusals: float
    """Chance that a proposal is refused though its leader goes on."""
    lag_ns_max: int
    """Until the other node has applied what was committed."""
    commit_ns_max: int
    """Until a proposal is committed."""
    wishes: tuple[int, ...]
    """How often clients want what, in the order of ``WISHES``."""
    weights: tuple[int, ...]
    """How often each trouble comes, in the order of ``TROUBLES``."""
    config: DistributedTxConfig
    detector: DeadlockDetectorConfig
    chain: ChainConfig
    crowd: int
    """So many more clients all want something at once, now and then."""
    bursts: int
    """How often."""
    turn_ns: int
    """A leader hears of all commits of so long a time together; 0: of each by itself."""
    steps_max: int = 60_000


def draw_shape(random: Random) -> Shape:
    """Draw what a world is like."""
    chance = random.random
    return Shape(
        shards=random.choices((1, 2, 3, 4), weights=(2, 5, 4, 2))[0],
        clients=random.choice((2, 3, 4, 5)),
        window_ns=random.choice((1_500, 4_000, 9_000)) * MILLISECOND_NS,
        troubles=random.choice((1, 3, 6, 10)),
        think_ns_max=random.choice((50, 200, 600)) * MILLISECOND_NS,
        transactions_max=50,
        keys=random.choice((1, 2, 4)),
        is_bytes=chance() < 0.15,
        is_rough=chance() < 0.6,
        is_forgetful=chance() < 0.15,
        is_judging=chance() < 0.4,
        strikes=random.choice((0.0, 0.0, 0.02, 0.06, 0.15)),
        refusals=random.choice((0.0, 0.0, 0.02, 0.1)),
        lag_ns_max=random.choice((0, 50, 2_000)) * MILLISECOND_NS,
        commit_ns_max=random.choice((2, 20, 150)) * MILLISECOND_NS,
        wishes=draw_wishes(random),
        weights=draw_weights(random),
        config=draw_config(random),
        detector=DeadlockDetectorConfig(
            detection_interval_ms=random.choice((100, 100, 400)),
            victim_policy=random.choice(list(VictimSelectionPolicy)),
        ),
        chain=draw_chain(random),
        crowd=random.choice((0, 0, 8, 16)),
        bursts=random.choice((1, 2, 4)),
        turn_ns=random.choice((0, 20, 100)) * MILLISECOND_NS,
    )


def draw_day(random: Random, *, hours: int = 24) -> Shape:
    """A long one: three shards and five clients for a whole day, with a trouble every half minute."""
    window_ns = hours * HOUR_NS
    return replace(
        draw_shape(random),
        shards=3,
        clients=5,
        window_ns=window_ns,
        troubles=window_ns // (30 * SECOND_NS),
        think_ns_max=60 * SECOND_NS,
        transactions_max=hours * 1_000,
        keys=4,
        is_rough=True,
        strikes=0.02,
        refusals=0.02,
        wishes=(1,) * len(WISHES),
        weights=(1,) * len(TROUBLES),
        chain=ChainConfig(embedding_dimension=8),
        crowd=6,
        bursts=hours * 10,
        turn_ns=10 * MILLISECOND_NS,
        steps_max=hours * 1_000_000,
    )


def draw_wishes(random: Random) -> tuple[int, ...]:
    """Some worlds are about one thing, most about several."""
    if random.random() < 0.3:
        only = random.randrange(WISHES.index("audit"))
        return tuple(6 if place == only else int(WISHES[place] == "audit") for place in range(len(WISHES)))
    return tuple(random.choice((1, 2, 4)) + 2 * (wish == "audit") for wish in WISHES)


def draw_config(random: Random) -> DistributedTxConfig:
    """Settings; some short, so that times are up while things still happen."""
    chance = random.random
    waits = chance() < 0.4
    return DistributedTxConfig(
        max_concurrent=random.choice((2, 100, 100)),
        prepare_timeout_ms=random.choice((400, 1_500, 5_000)),
        commit_timeout_ms=random.choice((1_000, 10_000)),
        optimistic_locking=chance() < 0.4,
        lock_timeout_ms=random.choice((6_000, 30_000)),
        lock_wait=waits,
        wound_wait=waits and chance() < 0.4,
        query_timeout_ms=random.choice((500, 2_000, 5_000)),
        prepare_handler_timeout_ms=random.choice((300, 3_000)),
        decision_handler_timeout_ms=random.choice((300, 2_000)),
    )


def draw_chain(random: Random) -> ChainConfig:
    """Small vectors: what they are made of is tried elsewhere."""
    return ChainConfig(
        embedding_dimension=random.choice((4, 8)),
        max_transactions=random.choice((4, 1_000)),
        auto_merge=AutoMergeConfig(
            enabled=random.random() < 0.8,
            max_merge_batch=random.choice((2, 10)),
            merge_window_ms=random.choice((5, 100)),
        ),
    )


def draw_roughness(random: Random) -> Roughness:
    """How messages fare for a while."""
    return Roughness(
        delay_ns_max=random.choice((2, 20, 100)) * MILLISECOND_NS,
        loss=random.choice((0.0, 0.05, 0.2, 0.4)),
        doubling=random.choice((0.0, 0.1, 0.3)),
        straggling=random.choice((0.0, 0.05, 0.2)),
        straggle_ns_max=random.choice((500, 3_000, 12_000)) * MILLISECOND_NS,
    )


def draw_weights(random: Random) -> tuple[int, ...]:
    """Some troubles never come in some worlds."""
    weights = {trouble: random.choice((0, 1, 3)) for trouble in TROUBLES}
    weights["heal"] += 1
    weights["leader dies"] += 1
    weights["leader is deposed"] += 1
    weights["all leaders die"] = random.choice((0, 0, 1))
    weights["silence"] = random.choice((0, 0, 1))
    return tuple(weights[trouble] for trouble in TROUBLES)

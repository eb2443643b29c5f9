"""What is drawn for one world of a cluster: how many nodes, their settings, disks and clocks, and which troubles."""

from random import Random
from typing import Final

from msgspec import Struct

from bobbin.cluster.geometry import Embedding
from bobbin.cluster.raft.entries import Configuration
from bobbin.cluster.raft.judging import AHEAD_MAX
from bobbin.cluster.settings import RaftConfig
from bobbin.simulator.circumstances import MILLISECOND_NS
from bobbin.simulator.clock import SECOND_NS
from bobbin.simulator.raft_network import Roughness

TROUBLES: Final = (
    "split",
    "isolate",
    "one way",
    "heal",
    "crash",
    "crash leader",
    "crash all",
    "cut at a write",
    "bad disk",
    "full disk",
    "jump",
    "pause",
    "transfer",
    "snapshot",
    "change",
    "weather",
    "vice",
)


class JudgeShape(Struct, frozen=True, kw_only=True):
    """What the judges of a world are like."""

    ahead_max: int = AHEAD_MAX
    """Judged entries that may wait to be applied."""
    lag: float = 0.0
    """How often one says of a leader's entry that it comes too early."""
    blindness: float = 0.0
    """How often one cannot see into an entry that stands in the log."""


class Shape(Struct, frozen=True, kw_only=True):
    """What one world is like."""

    voters: int
    spares: int
    """Nodes that no configuration names in the beginning."""
    clients: int
    window_ns: int
    troubles: int
    think_ns_max: int
    """A client's pause between two requests."""
    is_calm_dawn: bool
    """Nothing happens before the first leader is there."""
    is_bytes: bool
    is_slow: bool
    has_bad_disks: bool
    is_rotting: bool
    """One disk loses a bit now and then."""
    gather_ns: int
    """How long a node gathers requests for one proposal."""
    is_compacting: bool
    is_changing: bool
    is_hostile: bool
    is_rough: bool
    is_drifting: bool
    is_placed: bool
    """Nodes have embeddings."""
    is_checking: bool
    rotate_bytes: int
    sessions_max: int
    config: RaftConfig
    judge: JudgeShape | None = None
    """None if nobody judges what a leader sends."""


class Speed(Struct, frozen=True, kw_only=True):
    """How long a disk takes."""

    write_ns_max: int = 0
    """Before a group of records is written; 0 writes within the step."""
    answer_ns_max: int = 0
    """From there until the machine hears of it."""
    snapshot_ns_max: int = 0


class Build(Struct, frozen=True, kw_only=True):
    """What a node is made with, in every life."""

    config: RaftConfig
    bootstrap: Configuration | None
    embedding: Embedding | None
    is_checking: bool
    rotate_bytes: int
    sessions_max: int
    gather_ns: int
    judge: JudgeShape | None


def draw_shape(random: Random) -> Shape:
    """Draw what a world is like."""
    chance = random.random
    is_compacting = chance() < 0.6
    is_changing = chance() < 0.4
    return Shape(
        voters=random.choices((3, 5, 7), weights=(12, 5, 1))[0],
        spares=random.choice((0, 1, 2)),
        clients=random.choice((1, 2, 3, 4)),
        window_ns=random.choice((300, 700, 1_200, 2_000)) * MILLISECOND_NS,
        troubles=random.choice((2, 5, 8, 12)),
        think_ns_max=random.choice((5, 20, 60)) * MILLISECOND_NS,
        is_calm_dawn=chance() < 0.5,
        is_bytes=chance() < 0.15,
        is_slow=chance() < 0.4,
        has_bad_disks=chance() < 0.5,
        # Two voters bear no loss, so a world has either changes of members or a disk that loses entries.
        is_rotting=chance() < 0.25 and not is_changing,
        gather_ns=random.choice((0, 0, 2, 8)) * MILLISECOND_NS,
        is_compacting=is_compacting,
        is_changing=is_changing,
        is_hostile=chance() < 0.15,
        is_rough=chance() < 0.6,
        is_drifting=chance() < 0.5,
        is_placed=chance() < 0.5,
        is_checking=chance() < 0.3,
        rotate_bytes=random.choice((600, 3_000, 1 << 20)),
        sessions_max=random.choice((2, 1_024, 1_024)),
        config=draw_config(random, is_compacting=is_compacting),
    )


def draw_judge(random: Random) -> JudgeShape | None:
    """Whether a world has judges, and what they are like.

    Not drawn with the rest: worlds are known by their seeds, and those without a judge are what they have always been.
    """
    if random.random() >= 0.35:
        return None
    return JudgeShape(
        ahead_max=random.choice((1, 2, 2, 3, 4, AHEAD_MAX)),
        lag=random.choice((0.0, 0.1, 0.3)),
        blindness=random.choice((0.0, 0.3, 1.0)),
    )


def draw_config(random: Random, *, is_compacting: bool) -> RaftConfig:
    """Settings; small ones reach what large ones would not within a second."""
    chance = random.random
    return RaftConfig(
        heartbeat_interval=random.choice((50, 75)),
        enable_pre_vote=chance() < 0.85,
        enable_geometric_tiebreak=chance() < 0.7,
        snapshot_threshold=random.randint(3, 12) if is_compacting else 10_000,
        snapshot_trailing_logs=random.choice((0, 1, 4)) if is_compacting else 100,
        snapshot_chunk_size=random.choice((40, 150, 4_096)) if is_compacting else 1 << 20,
        snapshot_transfer_timeout_ms=random.choice((200, 2_000, 300_000)),
        transfer_timeout_ms=random.choice((150, 1_000)),
        compaction_check_interval=random.choice((1, 3)) if is_compacting else 10,
        compaction_cooldown_ms=random.choice((1, 50, 200)) if is_compacting else 60_000,
        adaptive_backoff=chance() < 0.8,
        learner_lag_max=random.choice((0, 2, 10)),
        append_entries_max=random.choice((1, 3, 1_000)),
        appends_in_flight_max=random.choice((1, 2, 8)),
    )


def draw_roughness(random: Random) -> Roughness:
    """How messages fare for a while."""
    return Roughness(
        delay_ns_max=random.choice((2, 10, 40)) * MILLISECOND_NS,
        loss=random.choice((0.0, 0.02, 0.1, 0.3)),
        doubling=random.choice((0.0, 0.1, 0.3)),
        straggling=random.choice((0.0, 0.05, 0.2)),
        straggle_ns_max=random.choice((100, 400, 1_000)) * MILLISECOND_NS,
        spoiling=random.choice((0.0, 0.02)),
        echo=random.choice((0.0, 0.02)),
    )


def draw_speed(random: Random) -> Speed:
    """How long a disk takes."""
    return Speed(
        write_ns_max=random.choice((1, 5, 30, 120)) * MILLISECOND_NS,
        answer_ns_max=random.choice((0, 1, 20)) * MILLISECOND_NS,
        snapshot_ns_max=random.choice((0, 20, 100)) * MILLISECOND_NS,
    )


def draw_weights(random: Random, shape: Shape) -> list[int]:
    """How often each trouble comes, in the order of ``TROUBLES``; some never do in some worlds."""
    weights = {trouble: random.choice((0, 1, 3)) for trouble in TROUBLES}
    weights["heal"] += 1
    weights["isolate"] += 1
    weights["crash all"] = random.choice((0, 0, 1))
    weights["change"] = 1 if shape.is_changing else 0
    weights["vice"] = 8 if shape.is_hostile else 0
    weights["snapshot"] = 1
    weights["transfer"] = random.choice((0, 1, 2))
    if not shape.has_bad_disks:
        weights["bad disk"] = weights["full disk"] = 0
    if shape.judge is not None:
        # Nobody knows then what is committed, and all that stands in a log has to be shown.
        weights["crash all"] += 2
    return [weights[trouble] for trouble in TROUBLES]


def draw_embedding(random: Random) -> Embedding:
    """Where a node says that it is."""
    return Embedding.dense(tuple(round(random.uniform(-1, 1), 3) for _ in range(4)))


def draw_jump_ns(random: Random) -> int:
    """By how much a wall clock is set wrong: up to an hour, either way."""
    return random.choice((-1, 1)) * random.choice((1, 60, 3_600)) * SECOND_NS

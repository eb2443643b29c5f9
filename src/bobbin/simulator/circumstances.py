"""What is drawn for one world of exchanges, and for each exchange in it: limits, budgets, lifecycles, the weather."""

from random import Random
from typing import Final

from msgspec import Struct, structs

from bobbin import profile
from bobbin.interlace.choice import Strategy
from bobbin.interlace.config import Bounded, Config, Open
from bobbin.interlace.limits import VALUE_MAX, Limits, Service
from bobbin.interlace.schema import Schema
from bobbin.interlace.setup import Party
from bobbin.policy.modules import Selector
from bobbin.simulator.clock import SECOND_NS
from bobbin.simulator.network import Weather

CALM: Final = Weather(delay_ns_max=2_000_000)
MILLISECOND_NS: Final = 1_000_000


class Circumstances(Struct, frozen=True, kw_only=True):
    """What a world is like."""

    nodes: int
    records: int
    is_clustered: bool
    is_hostile: bool
    """The last node is."""
    is_bytes: bool
    is_disk: bool
    has_faults: bool
    is_tight: bool
    """Small limits and budgets are drawn."""
    window_ns: int
    """How long the world is troubled."""
    troubles: int
    restlessness: float
    """Chance of one more trouble after anything that happens."""
    one_policy: bool


def draw_circumstances(random: Random) -> Circumstances:
    """What a world is like."""
    return Circumstances(
        nodes=random.choice((2, 2, 2, 3)),
        records=random.randint(4, 24),
        is_clustered=random.random() < 0.3,
        is_hostile=random.random() < 0.35,
        is_bytes=random.random() < 0.2,
        is_disk=random.random() < 0.04,
        has_faults=random.random() < 0.6,
        is_tight=random.random() < 0.4,
        window_ns=random.choice((200, 600, 1_500, 4_000)) * MILLISECOND_NS,
        troubles=random.randint(0, 8),
        restlessness=random.choice((0.0, 0.03, 0.08)),
        one_policy=random.random() < 0.8,
    )


def draw_weather(random: Random, *, has_faults: bool) -> Weather:
    """How a link behaves."""
    weather = Weather(
        delay_ns_max=random.choice((1, 20, 150)) * MILLISECOND_NS,
        items_max=random.choice((1, 2, 8)),
    )
    if not has_faults:
        return weather
    return structs.replace(
        weather,
        drip_rate=random.choice((0.0, 0.0, 0.05)),
        drip_ns=random.randint(1, 20) * SECOND_NS,
        break_rate=random.choice((0.0, 0.0, 0.01, 0.05)),
    )


def draw_limits(random: Random) -> Limits:
    """Limits, each of them small now and then."""
    small = {
        "max_advertisement_records_listed": random.randint(1, 10),
        "max_partition_summaries": random.choice((1, 5, 20, 70, 200)),
        "max_narrowing_depth": random.randint(1, 3),
        "max_total_transferred_bytes": random.randint(200, 6_000),
        "max_loop_iterations": random.randint(1, 5),
        "phase_timeout": random.randint(1, 10),
        "max_fact_block_size": random.choice((500, 2_000, 20_000)),
    }
    return Limits(**{name: value for name, value in small.items() if random.random() < 0.25})


def draw_service(random: Random) -> Service:
    """Budgets, many of them small."""
    small = {
        "request_records_max": random.randint(1, 5),
        "serve_records_max": random.randint(1, 4),
        "serve_bytes_max": random.randint(100, 2_000),
        "chunk_records_max": random.randint(1, 3),
        "chunk_bytes_max": random.randint(1, 500),
        "unsettled_records_max": random.randint(1, 4),
        "list_outright_max": random.randint(1, 5),
        "list_partition_max": random.randint(1, 3),
    }
    return Service(**{name: value for name, value in small.items() if random.random() < 0.5})


def draw_sketching(random: Random, config: Config) -> Config:
    """The same with a strategy, and in most cases with what two sides need to use one."""
    strategies = (Strategy.AUTO, Strategy.AUTO, Strategy.SKETCH, Strategy.SKETCH, *Strategy)
    few = {
        "sketch_symbols_max": random.choice((1, 12, 60)),
        "sketch_ids_max": random.randint(1, 12),
        "sketch_turns_max": random.randint(1, 2),
    }
    bounds = {name: value for name, value in few.items() if random.random() < 0.3}
    return structs.replace(
        config,
        strategy=random.choice(strategies),
        share=random.randint(1, VALUE_MAX) if random.random() < 0.85 else None,
        service=structs.replace(config.service, **bounds),
    )


def draw_config(
    random: Random,
    selector: Selector,
    *,
    own: Party,
    peer: Party,
    initiator: bool,
    is_tight: bool,
    cursor_key: str | None,
) -> Config:
    """One side's part in one exchange, within what the world is like."""
    lifecycle: Bounded | Open = random.choice((Bounded(), Bounded(), Bounded(), Bounded(random.randint(1, 3)), Open()))
    service = (
        draw_service(random)
        if is_tight
        else Service(list_outright_max=random.choice((3, 256)), chunk_records_max=random.choice((1, 1_024)))
    )
    parameters = {}
    if random.random() < 0.15:
        length = random.choice((1, 2, 3, 3, 11, 12, profile.PARTITION_PREFIX_LENGTH_MAX))
        parameters = {profile.PARTITION_PREFIX_LENGTH: str(length)}
    return Config(
        selector=selector,
        own=own,
        peer=peer,
        initiator=initiator,
        lifecycle=lifecycle,
        limits=draw_limits(random) if is_tight else Limits(),
        service=structs.replace(service, tick_interval_ns=random.choice((200, 1_000, 5_000)) * MILLISECOND_NS),
        formats=frozenset({"H3", "H9"}) if random.random() < 0.1 else frozenset({"H3"}),
        schema=Schema(all=True) if random.random() < 0.15 else None,
        parameters=parameters,
        pinned=peer.verifier if random.random() < 0.2 else None,
        transport="simulated" if random.random() < 0.3 else None,
        encrypted=random.random() < 0.2,
        cursor_key=cursor_key,
        checking=True,
    )


def calm_config(
    selector: Selector, *, own: Party, peer: Party, initiator: bool, cursor_key: str | None, list_outright_max: int
) -> Config:
    """One side's part in an exchange to which nothing happens."""
    return Config(
        selector=selector,
        own=own,
        peer=peer,
        initiator=initiator,
        limits=Limits(max_loop_iterations=64, max_partition_summaries=1_000_000),
        service=Service(list_outright_max=list_outright_max, list_partition_max=2),
        cursor_key=cursor_key,
        checking=True,
    )

"""Where exchanges must end, by brute force: decisions over whole stores, and records that move from set to set."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Final, TypeAlias

from bobbin.interlace.schema import schema_for
from bobbin.interlace.setup import Party, own_setup
from bobbin.policy.decide import Decision
from bobbin.policy.executables import LocalPolicy, make_policy
from bobbin.policy.modules import compile_query, compile_selector
from bobbin.policy.operands import Origin
from bobbin.policy.runtime_facts import RuntimeFacts
from bobbin.records.record import Record
from bobbin.simulator.decided import Decided
from bobbin.simulator.holdings import describe
from bobbin.simulator.node import Node

Pair: TypeAlias = tuple[Node, Node]


_selector_of: Final = lru_cache(maxsize=64)(compile_selector)
_query_of: Final = lru_cache(maxsize=64)(compile_query)


@lru_cache(maxsize=64)
def policy_of(own: bytes, peer: bytes, own_origin: Origin, peer_origin: Origin, query: str | None) -> LocalPolicy:
    """The policy of one side, compiled from texts, apart from what machines compile."""
    return make_policy(
        _selector_of(own),
        _selector_of(peer),
        own_origin=own_origin,
        peer_origin=peer_origin,
        query=None if query is None else _query_of(query),
    )


def missing(nodes: Pair, parties: tuple[Party, Party], start_tai: str, decided: Decided) -> set[str]:
    """What one of two nodes may still request, lacks and would get."""
    held = [dict(node.records) for node in nodes]
    return {record for side in (0, 1) for record in _wanted(nodes, parties, held, side, start_tai, decided)}


def close(
    links: Sequence[tuple[Pair, tuple[Party, Party]]],
    before: Mapping[str, AbstractSet[str]],
    everything: Mapping[str, Record],
    decided: Decided,
) -> dict[str, set[str]]:
    """What each node holds when everything has moved that may, from what they held before."""
    held = {name: set(records) for name, records in before.items()}
    moved = True
    while moved:
        moved = False
        for nodes, parties in links:
            for side in (0, 1):
                stores = [{name: everything[name] for name in held[node.name]} for node in nodes]
                wanted = _wanted(nodes, parties, stores, side, None, decided)
                held[nodes[side].name] |= wanted
                moved = moved or bool(wanted)
    return held


def _wanted(
    nodes: Pair,
    parties: tuple[Party, Party],
    held: Sequence[Mapping[str, Record]],
    side: int,
    start_tai: str | None,
    decided: Decided,
) -> set[str]:
    """What ``side`` may request of the other one and lacks."""
    there = 1 - side
    offered = _decide(nodes, parties, held, there, start_tai, frozenset(), decided).may_send
    decision = _decide(nodes, parties, held, side, start_tai, offered, decided)
    return {record for record in decision.may_request if record not in held[side] and record not in nodes[side].refused}


def _decide(
    nodes: Pair,
    parties: tuple[Party, Party],
    held: Sequence[Mapping[str, Record]],
    side: int,
    start_tai: str | None,
    offered: AbstractSet[str],
    decided: Decided,
) -> Decision:
    policy = _policy(nodes, parties, side)
    schema = schema_for(policy.fields)
    claims = {record: describe(held[1 - side][record], schema) for record in offered}
    runtime = RuntimeFacts(
        here=parties[side].verifier,
        peer=parties[1 - side].verifier,
        start_tai=start_tai,
        tick_tai=start_tai,
        clock_skew_seconds=0,
    )
    return decided.decide(policy, held[side].values(), claims, runtime)


def _policy(nodes: Pair, parties: tuple[Party, Party], side: int) -> LocalPolicy:
    setups = [
        own_setup(nodes[one].selector, own=parties[one], peer=parties[1 - one], initiator=one == 0) for one in (0, 1)
    ]
    return policy_of(
        nodes[side].selector.canonical,
        nodes[1 - side].selector.canonical,
        setups[side].operand.origin,
        setups[1 - side].operand.origin,
        nodes[side].query_text,
    )

"""What every kind of seeded world is asked: whether it keeps its promises, block by block, and is its seed alone."""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Protocol

import pytest

from bobbin.simulator.batch import Summary, run_block

BLOCK = 20
QUICK = 20
"""Worlds of a kind that every check runs; all the others are for `make test`."""

_TRACE = (
    "import sys; from importlib import import_module\n"
    "kind = getattr(import_module(sys.argv[1]), sys.argv[2])\n"
    "for seed in map(int, sys.argv[3:]):\n"
    "    world = kind(seed, is_traced=True); world.run(); print(world.digest)\n"
)


class World(Protocol):
    """One that can be traced."""

    def __init__(self, seed: int, *, is_traced: bool) -> None: ...

    def run(self) -> object: ...

    @property
    def digest(self) -> str: ...


def first_of_blocks(worlds: int) -> pytest.MarkDecorator:
    """The test gets the first seed of each block as ``first``."""
    blocks = [pytest.param(first, marks=[pytest.mark.slow] * (first >= QUICK)) for first in range(0, worlds, BLOCK)]
    return pytest.mark.parametrize("first", blocks)


@cache
def block(kind: str, first: int) -> Summary:
    """What became of some worlds, lived through once for all that is asked about them."""
    return run_block(range(first, first + BLOCK), world=kind)


def counts_of(kind: str, worlds: int) -> Counter[str]:
    """What happened in the first worlds of a kind."""
    total = Summary()
    for first in range(0, worlds, BLOCK):
        total.add(block(kind, first))
    return Counter(total.counts)


def finds(kind: str, seeds: range) -> bool:
    """Whether one of these worlds is broken."""
    return any(run_block(range(seed, seed + 1), world=kind).broken for seed in seeds)


def expect_same_everywhere(kind: type[World], seeds: Sequence[int]) -> None:
    """A world of a seed is the same in another process, which hashes differently, and no other seed's."""
    here = []
    for seed in seeds:
        world = kind(seed, is_traced=True)
        world.run()
        here.append(world.digest)
    command = [sys.executable, "-c", _TRACE, kind.__module__, kind.__name__, *map(str, seeds)]
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    there = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert there.stdout.split() == here
    assert len(set(here)) == len(here)

"""One process: what an advertise phase between two sides of so many records costs, by each of some strategies.

    python -m benchmarks.reconcile_once RECORDS DIFFERENCES KIND TOLD capable|plain STRATEGY…

``plain``: without the capability where a strategy does without. Prints one JSON object.
"""

import json
import sys
from collections.abc import Sequence

import msgspec

from benchmarks.ingest_once import peak_bytes
from benchmarks.reconcile_sides import Kind, Talk, Told, listing_bytes, make, sides_of, talk
from bobbin.interlace.choice import Strategy


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured."""

    talks: dict[str, Talk]
    """By strategy."""
    listing_bytes: int
    """What it takes to list everything in plain text."""
    peak_bytes: int
    """Memory of this process, with both sides in it."""


def main(
    count: int, differences: int, kind: Kind, strategies: Sequence[Strategy], *, told: Told, capable: bool
) -> Answer:
    """Measure."""
    material = make(count, differences, kind, told)
    talks: dict[str, Talk] = {}
    for strategy in strategies:
        sides = sides_of(material)
        talks[strategy.value] = talk(sides, strategy, capable=capable)
        if kind is Kind.UNCHANGED:
            # That was to have cursors, as after an earlier exchange. Now nothing has changed.
            talks[strategy.value] = talk(sides, strategy, capable=capable)
    return Answer(talks=talks, listing_bytes=listing_bytes(material), peak_bytes=int(peak_bytes(0)))


if __name__ == "__main__":
    count, differences, kind, told, capable, *strategies = sys.argv[1:]
    answer = main(
        int(count),
        int(differences),
        Kind(kind),
        list(map(Strategy, strategies)),
        told=Told(told),
        capable=capable == "capable",
    )
    print(json.dumps(msgspec.to_builtins(answer)))

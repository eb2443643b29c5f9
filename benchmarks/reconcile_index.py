"""One process: building the index of so many claims, against hashing and sorting alone, and adding one.

    python -m benchmarks.reconcile_index RECORDS ROUNDS TOLD

Prints one JSON object with seconds of processor time, one value for each round.
"""

import json
import sys
import time
from typing import Final

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from benchmarks.reconcile_sides import FIELDS, Kind, Told, make
from bobbin.interlace.advertise import claim_digest, claim_digests, render
from bobbin.interlace.claim_index import Claim, ClaimIndex, Columns
from bobbin.policy.claims import ClaimedField
from bobbin.policy.operands import Origin

_ADDED: Final = 1_000


def main(count: int, rounds: int, told: Told = Told.SAME) -> dict[str, list[float]]:
    """Measure, the alternatives taking turns."""
    material = make(count, 0, Kind.SCATTERED, told)
    names = material.sides[0]
    moments = material.times(names)
    claims = [(name, material.fields(name)) for name in names]
    rows = [render(name, Origin(""), fields) for name, fields in claims]
    seconds: dict[str, list[float]] = {"blake3": [], "sort": [], "build": [], "add": []}
    for _ in range(rounds):
        start = time.process_time()
        digests = [blake3(row).digest() for row in rows]
        hashed = time.process_time()
        digests.sort()
        ordered = time.process_time()
        index = _build(claims, moments)
        built = time.process_time()
        _add(index)
        added = time.process_time()
        seconds["blake3"].append(hashed - start)
        seconds["sort"].append(ordered - hashed)
        seconds["build"].append(built - ordered)
        seconds["add"].append((added - built) / _ADDED)
    return seconds


def _build(claims: list[tuple[str, tuple[ClaimedField, ...]]], moments: NDArray[np.uint64]) -> ClaimIndex:
    """From names and fields to a root."""
    digests = claim_digests(claims)
    index = ClaimIndex.of(Columns([name for name, _ in claims], b"".join(digests), moments))
    index.root()
    return index


def _add(index: ClaimIndex) -> None:
    """One claim after the other, each with the root that follows."""
    for number in range(_ADDED):
        name = f"P.{number:043}.H3"
        index.update([Claim(name, claim_digest(name, FIELDS), number)], ())
        index.root()


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]), int(sys.argv[2]), Told(sys.argv[3]))))

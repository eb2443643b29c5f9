"""A peer's rules never feel a record outside their view, and lowering is what the page says: random cases, in full.

**Non-interference.** Each case has random modules on both sides (recursion, negation, built-ins, links, hashes as
constants), a random query policy and a random store. A second store differs from it only in records outside the
peer's view. The peer's module must derive the same in both, every helper included, and stop at the same limit when its
budget is tight. A case is *telling* when the module, given the whole store, would have told the two apart: only there
could a leak have shown.

**Lowering.** The decision of each random case equals the one of a second lowering, written with plain sets over the
naive evaluator of the tests.
"""

from collections import Counter
from pathlib import Path
from random import Random
from typing import Final

from measurement.result import Ratio, Result, Row
from tests.oracle.lowering import random_lowering
from tests.policy_worlds import random_interference

QUESTION: Final = (
    "Do the rules of a peer derive the same whatever stands outside their view, and are decisions those of the "
    "definition, for random policies and stores?"
)
PAIRS: Final = 4_000
LOWERINGS: Final = 2_000


def run(out: Path) -> Result:  # noqa: ARG001 (this question leaves no further files)
    """Count in full."""
    return count(PAIRS, LOWERINGS)


def count(pairs: int, lowerings: int) -> Result:
    """Count so many cases of each."""
    found: Counter[str] = Counter()
    for seed in range(pairs):
        pair = random_interference(Random(seed))
        if pair.view_moved:
            found["moved"] += 1
        elif not pair.changed:
            found["unchanged"] += 1
        else:
            found["compared"] += 1
            found["telling"] += not pair.same_results_unfiltered
            found["stopped"] += pair.stopped
            found["different"] += not pair.same_results
    wrong = sum(expected != actual for expected, actual in map(random_lowering, map(Random, range(lowerings))))
    return Result(
        question=QUESTION,
        rows=[
            Row(name="pairs of stores tried", value=pairs),
            Row(name="left out: the change moved the view itself", value=found["moved"]),
            Row(name="left out: nothing outside the view to change", value=found["unchanged"]),
            Row(name="pairs compared", value=found["compared"]),
            Row(name="of these stopped by a tight budget", value=found["stopped"], note="at the same limit in both"),
            Row(name="of these telling", value=found["telling"], note="with the whole store in sight they differ"),
            Row(name="random decisions compared with the second lowering", value=lowerings),
        ],
        ratios=[
            Ratio(name="pairs in which the peer's module differed", value=found["different"], bar=0, comparison="<="),
            Ratio(
                name="telling pairs among those compared",
                value=round(found["telling"] / max(found["compared"], 1), 3),
                bar=0.5,
                comparison=">=",
            ),
            Ratio(name="decisions that differed from the second lowering", value=wrong, bar=0, comparison="<="),
        ],
    )

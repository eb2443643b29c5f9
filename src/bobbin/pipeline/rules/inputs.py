"""The inputs of a recursive core, computed and counted in one job.

They lie in one frame, told apart by a number, so that Spark runs once however many there are. What was counted decides
which executor runs; whichever it is finds the rows ready.
"""

from collections.abc import Mapping

from msgspec import Struct
from pyspark.sql import DataFrame

from bobbin.pipeline.rules.body import Known
from bobbin.pipeline.rules.core import Core
from bobbin.pipeline.rules.frames import unite
from bobbin.pipeline.rules.limits import RuleLimits
from bobbin.pipeline.rules.relations import Relation, check_rows, materialise_tagged, tagged, untagged


class Inputs(Struct, frozen=True, kw_only=True):
    """Every input of a core."""

    frame: DataFrame
    """All of them, by number."""
    width: int
    arities: Mapping[str, int]
    """The inputs in the order of their numbers."""
    rows: Mapping[str, int]

    @property
    def total(self) -> int:
        return sum(self.rows.values())

    def relation(self, name: str) -> Relation:
        """One of them."""
        number = list(self.arities).index(name)
        arity = self.arities[name]
        return Relation(frame=untagged(self.frame, number, arity), arity=arity, rows=self.rows[name])


def compute(core: Core, known: Known, limits: RuleLimits) -> Inputs:
    """Compute the inputs of a core."""
    arities = {source.name: source.arity for source in core.inputs}
    width = max(arities.values(), default=0)
    frames = [
        (number, unite(source.rules, known, limits, source.arity).frame, source.arity)
        for number, source in enumerate(core.inputs)
    ]
    if not frames:
        frames = [(0, known.relation("", 0).frame, 0)]
    kept, counts = materialise_tagged(tagged(frames, width), range(len(frames)))
    rows = {name: counts[number] for number, name in enumerate(arities)}
    check_rows(sum(rows.values()), limits)
    return Inputs(frame=kept, width=width, arities=arities, rows=rows)

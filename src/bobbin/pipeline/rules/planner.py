"""Which executor runs a stratum: by what its rules are like, and by how many rows they read.

A stratum without recursion is data frames. A recursive one is first reduced to its core, whose inputs are computed and
counted. A core that is small enough goes to the driver; one that falls apart by a key goes to the workers; any other
is a loop of data frames.
"""

from enum import StrEnum

from msgspec import Struct

from bobbin.pipeline.rules.core import Core
from bobbin.pipeline.rules.inputs import Inputs
from bobbin.pipeline.rules.limits import RuleLimits
from bobbin.pipeline.rules.partition import find_partitioning
from bobbin.pipeline.rules.partitioned import describe


class Executor(StrEnum):
    """The four ways to execute a stratum."""

    FRAMES = "frames"
    COLLECTED = "collected"
    PARTITIONED = "partitioned"
    LOOP = "loop"


class Choice(Struct, frozen=True):
    """An executor, and why this one."""

    executor: Executor
    reason: str


def choose(core: Core, inputs: Inputs, limits: RuleLimits) -> list[Choice]:
    """The executors that a recursive core may be given to, the best first. The last one can do anything."""
    choices = []
    total, most = inputs.total, limits.collected_rows_max
    if total <= most:
        choices.append(Choice(Executor.COLLECTED, f"{total} rows after filters, at most {most} go to the driver"))
    too_many = "" if choices else f"{total} rows after filters are more than {most}; "
    found = find_partitioning(core, inputs.rows)
    if found is None:
        choices.append(Choice(Executor.LOOP, f"{too_many}no argument that all recursive literals share"))
        return choices
    copied = sum(inputs.rows[name] for name in found.replicated())
    if copied <= limits.replicated_rows_max:
        choices.append(Choice(Executor.PARTITIONED, f"{too_many}{describe(found, inputs.rows)}"))
    choices.append(Choice(Executor.LOOP, f"{too_many}{copied} rows are too many to copy to each partition"))
    return choices

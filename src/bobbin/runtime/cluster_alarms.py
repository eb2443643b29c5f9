"""What a person should know about a node of a cluster: counted by code, and written down within bounds.

No alarm halts the node: what raises one may be the word of a member that lies, and such a member may lie as often as it
likes. So each alarm is counted, and of one kind only so many a minute are written down.
"""

from collections import Counter
from collections.abc import Callable
from typing import Final

from structlog.typing import FilteringBoundLogger

from bobbin.cluster.names import NodeId
from bobbin.runtime.admission import MINUTE_NS
from bobbin.runtime.cluster_audit import Audit

ALARMS_PER_MINUTE: Final = 20
"""Of one code, that are written down."""


class Alarms:
    """Of one node."""

    def __init__(self, node: NodeId, audit: Audit, log: FilteringBoundLogger, clock: Callable[[], int]) -> None:
        """``clock`` tells nanoseconds, and never goes back."""
        self.counts: Final[Counter[str]] = Counter()
        """By code."""
        self._node: Final = node
        self._audit: Final = audit
        self._log: Final = log
        self._clock: Final = clock
        self._written: Final[Counter[str]] = Counter()
        self._since_ns = clock()

    def note(self, code: str, detail: str) -> None:
        """Count it, and say so."""
        self.counts[code] += 1
        now = self._clock()
        if now - self._since_ns >= MINUTE_NS:
            self._since_ns = now
            self._written.clear()
        self._written[code] += 1
        if self._written[code] > ALARMS_PER_MINUTE:
            return
        self._audit.note("alarm", None, code, node=self._node, detail=detail)
        self._log.warning("alarm", node=self._node, code=code, detail=detail)

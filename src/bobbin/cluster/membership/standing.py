"""Which nodes that failed are back, in the eyes of this one.

What the member table says of a node is the same everywhere. Whether it is counted on again is each node's own business:
it has to answer so many probes in a row (``healing``), and a node that comes and goes is held back (``flapping``).
"""

from typing import Final

from bobbin.cluster.membership.effects import Flapping, Healed
from bobbin.cluster.membership.flapping import Flaps
from bobbin.cluster.membership.healing import HealProgress
from bobbin.cluster.membership.messages import Health
from bobbin.cluster.names import MILLISECOND_NS, NodeId
from bobbin.cluster.settings import GossipConfig


class Standing:
    """What is remembered of nodes that have failed at some time."""

    def __init__(self, config: GossipConfig) -> None:
        self._config: Final = config
        self.healing: Final[dict[NodeId, HealProgress]] = {}
        """Those that say that they are back, and are not counted on yet."""
        self._failed_since: Final[dict[NodeId, int]] = {}
        """Since when a node is away, until it is counted on again."""
        self._flaps: Final[dict[NodeId, Flaps]] = {}

    def is_good(self, node: NodeId, now_ns: int) -> bool:
        """Not on probation, and not held back."""
        return node not in self.healing and not self._is_held(node, now_ns)

    def change(self, node: NodeId, before: Health, after: Health, now_ns: int) -> Flapping | None:
        """The health of a node is another now."""
        if after is Health.FAILED:
            self._failed_since.setdefault(node, now_ns)
            self.healing.pop(node, None)
        elif before is Health.FAILED:
            self.healing[node] = HealProgress(away_since_ns=self._failed_since[node])
        else:
            return None
        flaps = self._flaps.setdefault(node, Flaps())
        held_ms = flaps.note(self._config, now_ns)
        return Flapping(node, flaps.transitions, held_ms) if held_ms else None

    def forget(self, node: NodeId) -> None:
        """It is no member any more."""
        for part in (self.healing, self._failed_since, self._flaps):
            part.pop(node, None)

    def expire(self, now_ns: int) -> list[NodeId]:
        """Count what was not answered in time; those that are to be asked now."""
        for progress in self.healing.values():
            progress.expire(now_ns)
        if not self._config.require_bidirectional:
            return []
        return [node for node, progress in self.healing.items() if progress.probe_id is None]

    def ask(self, node: NodeId, number: int, now_ns: int) -> None:
        """A probe goes out to a node."""
        self.healing[node].ask(number, now_ns + self._config.bidirectional_timeout_ms * MILLISECOND_NS)

    def answer(self, node: NodeId, number: int, now_ns: int) -> bool:
        """A probe is answered; False where there is none, or its time is over."""
        progress = self.healing.get(node)
        return progress is not None and progress.answer(number, now_ns)

    def hear(self, node: NodeId) -> None:
        """A node has answered an ordinary ping: enough where both directions need no proof."""
        progress = self.healing.get(node)
        if progress is not None and not self._config.require_bidirectional:
            progress.succeed()

    def confirm(self, now_ns: int) -> list[Healed]:
        """Those that are back as of now."""
        back = [
            node
            for node, progress in self.healing.items()
            if progress.successes >= self._config.heal_confirmations and not self._is_held(node, now_ns)
        ]
        for node in back:
            del self.healing[node]
        return [Healed(node, (now_ns - self._failed_since.pop(node)) // MILLISECOND_NS) for node in back]

    def postpone(self, by_ns: int) -> None:
        """Time in which this node slept counts against nobody."""
        for progress in self.healing.values():
            progress.due_ns += by_ns

    def _is_held(self, node: NodeId, now_ns: int) -> bool:
        flaps = self._flaps.get(node)
        return flaps is not None and flaps.is_held(now_ns)

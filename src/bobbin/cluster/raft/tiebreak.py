"""How long a node waits before it stands for election: by chance, and a little by geometry.

A node near the middle of its cluster waits less, so that it tends to win where the logs are equal. The bias shrinks
the range from its upper end and leaves the lower one, so a timeout stays inside ``election_timeout``, and no vote is
ever refused for it (CL-023, CL-024).
"""

from collections.abc import Iterable, Mapping
from random import Random
from typing import Final

from bobbin.cluster.geometry import Embedding, bias
from bobbin.cluster.names import MILLISECOND_NS, NodeId
from bobbin.cluster.settings import RaftConfig

BIAS_WEIGHT: Final = 0.3
EMBEDDINGS_MAX: Final = 1_000
"""Nodes whose place is remembered."""


class TieBreak:
    """Draws election timeouts, and learns where the other nodes are from what they say of themselves."""

    def __init__(self, config: RaftConfig, own: Embedding | None, others: Mapping[NodeId, Embedding]) -> None:
        self._config = config
        self._own = own
        self._others = dict(others)
        self._bias: float | None = None

    @property
    def bias(self) -> float:
        """Of this node and the centre of its cluster, in [0, 1]; 0.5 where either is unknown."""
        if self._bias is None:
            others = [embedding for embedding in self._others.values() if embedding.values]
            own = self._own
            middle = None if own is None or not others else centroid([own, *others])
            self._bias = bias(own, middle)
        return self._bias

    def learn(self, node: NodeId, embedding: Embedding | None) -> None:
        """A node has said where it is."""
        if embedding is None or self._others.get(node) == embedding:
            return
        if node in self._others or len(self._others) < EMBEDDINGS_MAX:
            self._others[node] = embedding
            self._bias = None

    def draw_ns(self, chance: Random) -> int:
        """A timeout, uniform over the range, bounds included."""
        least, most = (bound * MILLISECOND_NS for bound in self._config.election_timeout)
        if self._config.enable_geometric_tiebreak and self.bias >= self._config.geometric_tiebreak_threshold:
            most -= int((most - least) * BIAS_WEIGHT * self.bias)
        return chance.randint(least, most)


def centroid(embeddings: Iterable[Embedding]) -> Embedding:
    """The mean direction of vectors of any size: each counts with norm 1, those of norm 0 not at all."""
    sums: dict[int, float] = {}
    dimension = 0
    for embedding in embeddings:
        dimension = max(dimension, embedding.dimension)
        norm = embedding.norm
        if norm:
            for position, value in zip(embedding.positions, embedding.values, strict=True):
                sums[position] = sums.get(position, 0.0) + value / norm
    positions = sorted(position for position, value in sums.items() if value)
    return Embedding(dimension, tuple(positions), tuple(sums[position] for position in positions))

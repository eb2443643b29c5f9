"""Geometry among members: how good a peer is for something near to it, and where a vector belongs.

The answer depends on the members' health and embeddings alone, so nodes that hold the same view give the same.
"""

from collections.abc import Mapping
from hashlib import blake2b
from struct import pack
from typing import Final

from bobbin.cluster.geometry import Embedding, cosine
from bobbin.cluster.membership.messages import Health
from bobbin.cluster.names import NodeId

HEALTH_WEIGHT: Final = 0.7
SIMILARITY_WEIGHT: Final = 0.3
NEAR: Final = 0.5
"""Least cosine of what is near."""
_WORTH: Final = {Health.HEALTHY: 1.0, Health.DEGRADED: 0.5}


def score(health: Health, similarity: float) -> float:
    """How good a peer is: its health counts more than where it is."""
    return HEALTH_WEIGHT * _WORTH.get(health, 0.0) + SIMILARITY_WEIGHT * similarity


def route(
    wanted: Embedding, healthy: Mapping[NodeId, Embedding | None], *, otherwise: NodeId, by_similarity: bool = True
) -> NodeId:
    """The healthy member nearest to a vector, if one is near; else one by the vector's hash; else the node itself."""
    if by_similarity:
        near = [
            (similarity, node)
            for node, embedding in healthy.items()
            if embedding is not None and (similarity := cosine(wanted, embedding)) >= NEAR
        ]
        if near:
            return min(near, key=lambda one: (-one[0], one[1]))[1]
    if not healthy:
        return otherwise
    return sorted(healthy)[_hash(wanted) % len(healthy)]


def _hash(vector: Embedding) -> int:
    """The same for the same vector, in every process."""
    parts = [
        pack("<IQd", vector.dimension, at, value) for at, value in zip(vector.positions, vector.values, strict=True)
    ]
    return int.from_bytes(blake2b(b"".join(parts), digest_size=8).digest(), "little")

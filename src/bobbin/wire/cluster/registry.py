"""Whose word counts: the keys of the nodes of a cluster, and which seat each of them speaks for.

A node id follows from a key, so that a new key is a new id. To the log a node is its *seat*: the id of its first key.
Another key can be registered for the same seat; the node that holds it goes on with the log, the vote and the place in
the configuration that the seat has, and when the old key has been removed nothing that it signs is taken any more.

At most one process may speak for a seat at a time. The replay tracker goes by seats, so the process that started last
(its boot id is the higher one: it continues the storage of the seat) is heard, and the other is refused.
"""

from typing import Final

from msgspec import Struct

from bobbin.cluster.identity import PublicIdentity
from bobbin.cluster.names import NodeId
from bobbin.errors import UsageError

KEYS_MAX: Final = 10_000


class Registered(Struct, frozen=True):
    """A key that counts."""

    identity: PublicIdentity
    seat: NodeId
    """The node, as the log knows it."""


class Registry:
    """Keys by their id. Nothing is remembered about a key that was removed."""

    def __init__(self) -> None:
        self._keys: Final[dict[NodeId, Registered]] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def register(self, public: bytes, *, seat: NodeId | None = None) -> NodeId:
        """Let a key count from now on, for a seat; without one, for the seat of its own id. Returns the key's id.

        Raises ``InvalidKey``, and ``UsageError`` for a key that speaks for another seat already.
        """
        identity = PublicIdentity(public)
        registered = Registered(identity, seat or identity.node)
        known = self._keys.get(identity.node)
        if known is not None and known.seat != registered.seat:
            raise UsageError(f"the key {identity.node} speaks for {known.seat} already; remove it first")
        if known is None and len(self._keys) >= KEYS_MAX:
            raise UsageError(f"at most {KEYS_MAX} keys are registered")
        self._keys[identity.node] = registered
        return identity.node

    def remove(self, key: NodeId) -> None:
        """Let a key count no more, at once. One that is not registered stays so."""
        self._keys.pop(key, None)

    def find(self, key: NodeId) -> Registered | None:
        """The key of this id, if it counts."""
        return self._keys.get(key)

    def keys_of(self, seat: NodeId) -> tuple[PublicIdentity, ...]:
        """Every key that speaks for a seat; more than one while keys are being changed."""
        return tuple([known.identity for known in self._keys.values() if known.seat == seat])

    def seats(self) -> tuple[NodeId, ...]:
        """Every seat that somebody may speak for, ascending."""
        return tuple(sorted({known.seat for known in self._keys.values()}))

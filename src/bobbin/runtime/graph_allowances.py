"""Who may do what to which nodes, said by the nodes' keys, and kept up to date as nodes come and go.

An allowance names a peer, a kind of operation and a pattern of keys, in which ``*`` stands for anything, slashes
included. A node without a key is matched by ``*`` alone. What no allowance names, nobody may.
"""

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Final

from msgspec import Struct

from bobbin.reactive.messages import NodeId, PeerId
from bobbin.reactive.permissions import OpKind, PeerPermissions, RemoteOp

EVERYTHING: Final = "*"

_ALSO_SPECIAL: Final = re.compile(r"[?\[]")
"""To the library, and not here: keys may have these in them."""


def is_match(key: str, pattern: str) -> bool:
    """Whether a key is what a pattern says, in which only ``*`` is more than itself."""
    return fnmatchcase(key, _ALSO_SPECIAL.sub(r"[\g<0>]", pattern))


class Allowance(Struct, frozen=True):
    """One peer may do one kind of thing to the nodes whose keys match."""

    peer: PeerId
    kind: OpKind
    pattern: str

    def matches(self, key: str | None) -> bool:
        """Whether it is about a node with this key."""
        return self.pattern == EVERYTHING if key is None else is_match(key, self.pattern)


class Allowances:
    """All of one graph, as grants for single nodes."""

    def __init__(self, permissions: PeerPermissions, given: Iterable[Allowance] = ()) -> None:
        self._permissions: Final = permissions
        self._given: Final = dict.fromkeys(given)

    def __iter__(self) -> Iterator[Allowance]:
        return iter(self._given)

    def is_wanted(self, id: NodeId, key: str | None) -> bool:
        """Whether anybody may read a node, or will as soon as it is there."""
        if self._permissions.is_readable(id):
            return True
        return any(one.kind is OpKind.READ and one.matches(key) for one in self._given)

    def welcome(self, id: NodeId, key: str | None) -> None:
        """A node is there: give the grants for it."""
        for one in self._given:
            if one.matches(key):
                self._permissions.grant(one.peer, RemoteOp(one.kind, id))

    def add(self, new: Allowance, nodes: Iterable[tuple[NodeId, str | None]]) -> list[NodeId]:
        """Give another one; returns the nodes that it is about."""
        self._given[new] = None
        found = [id for id, key in nodes if new.matches(key)]
        self._permissions.grant(new.peer, *(RemoteOp(new.kind, id) for id in found))
        return found

    def remove(self, old: Allowance, nodes: Iterable[tuple[NodeId, str | None]]) -> None:
        """Take one back. What another one allows stays allowed."""
        if self._given.pop(old, self) is self:
            return
        others = [one for one in self._given if (one.peer, one.kind) == (old.peer, old.kind)]
        gone = [id for id, key in nodes if old.matches(key) and not any(one.matches(key) for one in others)]
        self._permissions.revoke(old.peer, *(RemoteOp(old.kind, id) for id in gone))

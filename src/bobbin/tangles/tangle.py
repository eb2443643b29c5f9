"""One tangle: which messages of it are held, how deep each stands, and what comes before what.

A tangle is a graph without cycles: each message names, by id, the ones that it comes after. Here is its structure
alone; the messages themselves rest in a store. The structure is kept up to date message by message, so that no question
builds it anew, and each question costs what it touches: a range of depths its messages, a slice the tangle.

Two orders exist and must not be mixed up. What a message names as its predecessors is sorted by code unit. Messages of
one depth are sorted as JavaScript collates texts: regardless of case first, digits before letters, and only then lower
case before upper.

Depth is what a message claims. Where not all of its predecessors were held when it came, the claim was not checked, so
nothing here relies on a predecessor being shallower.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from bobbin.tangles.errors import UnknownMessage
from bobbin.tangles.lipmaa import lipmaa_depth
from bobbin.tangles.message import Message, MessageId, Place

_CHANGES_KEPT_MIN: Final = 64
"""Of how many changes it is kept what they were about, besides two for each message."""


class Kind(StrEnum):
    """What a tangle is, by its root."""

    FEED = "feed"
    ACCOUNT = "account"
    WEAVE = "weave"


class Piece(NamedTuple):
    """One message of a slice."""

    id: MessageId
    erased: bool
    """It stands there as part of the trail, so only without its data."""


class Removable(NamedTuple):
    """What can go without breaking any way from the messages that stay to the root."""

    deletables: list[MessageId]
    erasables: list[MessageId]
    """The trail: it must stay, but not its data."""


class _Node:
    __slots__ = ("depth", "has_data", "prev")

    def __init__(self, depth: int, prev: tuple[MessageId, ...], *, has_data: bool) -> None:
        self.depth = depth
        self.prev = prev
        self.has_data = has_data


def collation(id: MessageId) -> tuple[str, str]:
    """The key by which ids of one depth are sorted: the default collation of JavaScript, for base58."""
    return id.lower(), id.swapcase()


def kind_of_root(root: Message) -> Kind:
    """What the tangle is that this message is the root of."""
    if root.is_moot:
        return Kind.FEED
    return Kind.ACCOUNT if root.is_account else Kind.WEAVE


class Tangle:
    """The structure of one tangle, as far as it is held."""

    def __init__(self, id: MessageId, messages: Iterable[Message] = ()) -> None:
        self.id: Final = id
        self._root: Message | None = None
        self._nodes: dict[MessageId, _Node] = {}
        self._after: dict[MessageId, set[MessageId]] = {}
        """For each id that is named as a predecessor, held or not: the held messages that name it."""
        self._tips: set[MessageId] = set()
        self._levels: dict[int, list[MessageId]] = {}
        self._unsorted: set[int] = set()
        self._depths: list[int] = []
        """The depths at which there are messages, ascending."""
        self._dataful: dict[int, int] = {}
        """How many messages of each depth have their data."""
        self._order: list[MessageId] | None = []
        self._changes = 0
        self._changed: list[MessageId] = []
        """What the last changes were about, one id for each."""
        self.add_all(messages)

    # ---- changing ------------------------------------------------------------------------------------------------

    def add(self, message: Message) -> bool:
        """Take a message, if it stands in this tangle. Says whether anything changed: a copy with data fills a gap."""
        known = self._nodes.get(message.id)
        if known is not None:
            if known.has_data or not message.has_data:
                return False
            known.has_data = True
            self._note(message.id)
            self._dataful[known.depth] = self._dataful.get(known.depth, 0) + 1
            if message.id == self.id:
                self._root = message
            return True
        if message.id == self.id:
            self._root = message
            self._enter(message.id, 0, (), has_data=message.has_data)
            return True
        place = message.places.get(self.id)
        if place is None:
            return False
        self._enter(message.id, place.depth, place.prev, has_data=message.has_data)
        return True

    def add_all(self, messages: Iterable[Message]) -> None:
        """Take many messages, in any order."""
        for message in messages:
            self.add(message)

    def place(self, id: MessageId, place: Place, *, has_data: bool) -> None:
        """Take a message of which only the place is known, as a store keeps it. The root comes by ``add``."""
        assert id != self.id, "the root is a message"
        if id not in self._nodes:
            self._enter(id, place.depth, place.prev, has_data=has_data)

    def discard(self, id: MessageId) -> bool:
        """Forget a message. Says whether it was here."""
        node = self._nodes.pop(id, None)
        if node is None:
            return False
        if id == self.id:
            self._root = None
        self._tips.discard(id)
        for before in node.prev:
            named_by = self._after.get(before)
            if named_by is None:
                continue
            named_by.discard(id)
            if not named_by:
                del self._after[before]
                if before in self._nodes:
                    self._tips.add(before)
        if node.has_data:
            self._dataful[node.depth] -= 1
        level = self._levels[node.depth]
        level.remove(id)
        if not level:
            del self._levels[node.depth]
            del self._depths[bisect_left(self._depths, node.depth)]
            self._unsorted.discard(node.depth)
        self._order = None
        self._note(id)
        return True

    def erase(self, id: MessageId) -> bool:
        """Note that the data of a message is gone. Says whether it was there."""
        node = self._nodes.get(id)
        if node is None or not node.has_data:
            return False
        node.has_data = False
        self._note(id)
        self._dataful[node.depth] -= 1
        if id == self.id and self._root is not None:
            self._root = self._root.erased()
        return True

    def _enter(self, id: MessageId, depth: int, prev: tuple[MessageId, ...], *, has_data: bool) -> None:
        self._nodes[id] = _Node(depth, prev, has_data=has_data)
        self._note(id)
        if id not in self._after:
            self._tips.add(id)
        for before in prev:
            self._after.setdefault(before, set()).add(id)
            self._tips.discard(before)
        if has_data:
            self._dataful[depth] = self._dataful.get(depth, 0) + 1
        level = self._levels.get(depth)
        if level is None:
            if self._order is not None and (not self._depths or depth > self._depths[-1]):
                self._order.append(id)
            else:
                self._order = None
            self._levels[depth] = [id]
            insort(self._depths, depth)
        else:
            level.append(id)
            self._unsorted.add(depth)
            self._order = None

    def _note(self, id: MessageId) -> None:
        self._changes += 1
        self._changed.append(id)
        if len(self._changed) > _CHANGES_KEPT_MIN + 2 * len(self._nodes):
            del self._changed[: len(self._changed) // 2]

    # ---- single messages -----------------------------------------------------------------------------------------

    @property
    def root(self) -> Message | None:
        """The root message, if it is held. Without it, nothing is known about the tangle."""
        return self._root

    @property
    def kind(self) -> Kind | None:
        """What this tangle is; ``None`` while its root is not held."""
        return None if self._root is None else kind_of_root(self._root)

    @property
    def changes(self) -> int:
        """How often this tangle has changed: what was computed from it holds as long as this number."""
        return self._changes

    def changed_since(self, changes: int) -> Sequence[MessageId] | None:
        """Whatever has come, gone, or got or lost its data since that number, in order; None if it is too long ago."""
        first = len(self._changed) - (self._changes - changes)
        return None if first < 0 else self._changed[first:]

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, id: object) -> bool:
        return id in self._nodes

    def __iter__(self) -> Iterator[MessageId]:
        """The held messages, in no order that means anything."""
        return iter(self._nodes)

    def depth(self, id: MessageId) -> int | None:
        """How deep a message stands; ``None`` if it is not held."""
        node = self._nodes.get(id)
        return None if node is None else node.depth

    def has_data(self, id: MessageId) -> bool:
        """Whether a message is held with its data."""
        node = self._nodes.get(id)
        return node is not None and node.has_data

    def prev(self, id: MessageId) -> tuple[MessageId, ...]:
        """What a held message names as its predecessors; nothing for the root."""
        return self._node(id).prev

    def followers(self, id: MessageId) -> Collection[MessageId]:
        """The held messages that name this one, held or not, as a predecessor."""
        return self._after.get(id, ())

    def _node(self, id: MessageId) -> _Node:
        node = self._nodes.get(id)
        if node is None:
            raise UnknownMessage(f"the tangle {self.id} has no message {id}")
        return node

    # ---- the whole -----------------------------------------------------------------------------------------------

    @property
    def max_depth(self) -> int:
        """The greatest depth of a held message; 0 if there is none."""
        return self._depths[-1] if self._depths else 0

    def max_depth_with_data(self) -> int:
        """The greatest depth of a message that is held with its data; 0 if there is none."""
        return next((depth for depth in reversed(self._depths) if self._dataful.get(depth)), 0)

    def tips(self) -> set[MessageId]:
        """The messages that no other one comes after. None while the root is not held."""
        return set(self._tips) if self._root is not None else set()

    def missing_predecessors(self) -> set[MessageId]:
        """What held messages come after and is not held."""
        return {before for before in self._after if before not in self._nodes}

    def topological(self) -> Sequence[MessageId]:
        """All messages by depth, those of one depth as JavaScript collates them. None while the root is not held."""
        if self._root is None:
            return ()
        if self._order is None:
            self._order = [id for depth in self._depths for id in self._level(depth)]
        return self._order

    def at_depth(self, depth: int) -> Sequence[MessageId]:
        """The messages of one depth, collated."""
        return self._level(depth) if depth in self._levels else ()

    def between(self, least: int, greatest: int) -> list[MessageId]:
        """The messages from one depth to another, both included, in topological order."""
        first, end = bisect_left(self._depths, least), bisect_right(self._depths, greatest)
        return [id for depth in self._depths[first:end] for id in self._level(depth)]

    def lipmaa_set(self, depth: int) -> Sequence[MessageId]:
        """The messages that one at ``depth`` names besides the tips. None while the root is not held."""
        return self.at_depth(lipmaa_depth(depth)) if self._root is not None else ()

    def next_place(self) -> Place:
        """Where a new message stands: one deeper than everything, after the tips and the messages of the long way."""
        if self._root is None:
            raise UnknownMessage(f"the root of the tangle {self.id} is not held")
        depth = self.max_depth + 1
        return Place(depth=depth, prev=tuple(sorted(self._tips.union(self.lipmaa_set(depth)))))

    def _level(self, depth: int) -> list[MessageId]:
        level = self._levels[depth]
        if depth in self._unsorted:
            level.sort(key=collation)
            self._unsorted.discard(depth)
        return level

    # ---- what comes before what ----------------------------------------------------------------------------------

    def precedes(self, first: MessageId, second: MessageId) -> bool:
        """Whether ``second`` comes after ``first``, by whatever way."""
        if self._root is None or first == second or second == self.id:
            return False
        seen = {second}
        open_ids = [second]
        while open_ids:
            node = self._nodes.get(open_ids.pop())
            if node is None:
                continue
            if first in node.prev:
                return True
            fresh = [before for before in node.prev if before not in seen]
            seen.update(fresh)
            open_ids += fresh
        return False

    def ancestors(self, ids: Iterable[MessageId]) -> set[MessageId]:
        """Everything that any of these comes after, by whatever way; ids that are named and not held among it."""
        found: set[MessageId] = set()
        open_ids = list(ids)
        while open_ids:
            node = self._nodes.get(open_ids.pop())
            if node is not None:
                for before in node.prev:
                    if before not in found:
                        found.add(before)
                        open_ids.append(before)
        return found

    def descendants(self, ids: Iterable[MessageId]) -> set[MessageId]:
        """Every held message that comes after any of these."""
        found: set[MessageId] = set()
        open_ids = list(ids)
        while open_ids:
            for after in self._after.get(open_ids.pop(), ()):
                if after not in found:
                    found.add(after)
                    open_ids.append(after)
        return found

    def minimum(self, ids: Iterable[MessageId]) -> list[MessageId]:
        """Those of the ids that come after no other of them, in the order given."""
        unique = list(dict.fromkeys(ids))
        if self._root is None or len(unique) < 2:
            return unique
        after = self.descendants(unique)
        return [id for id in unique if id not in after or id == self.id]

    def shortest_path(self, id: MessageId) -> list[MessageId]:
        """From a message to the root, each time to its shallowest held predecessor; the message itself left out.

        The path ends early where a message has no held predecessor.
        """
        path: list[MessageId] = []
        if self._root is None or id not in self._nodes:
            return path
        current = id
        while current != self.id:
            best, best_rank = current, (self._nodes[current].depth, collation(current))
            for before in self._nodes[current].prev:
                node = self._nodes.get(before)
                if node is not None and node.depth <= best_rank[0]:
                    rank = (node.depth, collation(before))
                    if rank < best_rank:
                        best, best_rank = before, rank
            if best == current:
                break
            path.append(best)
            current = best
        return path

    def trail(self, ids: Iterable[MessageId]) -> list[MessageId]:
        """The paths to the root from the minimum of these ids, joined."""
        joined: dict[MessageId, None] = {}
        for id in self.minimum(ids):
            joined.update(dict.fromkeys(self.shortest_path(id)))
        return list(joined)

    def removable(self, ids: Iterable[MessageId]) -> Removable:
        """What can be deleted, and what erased, when of what comes before these messages only the trail is kept."""
        minimum = self.minimum(ids)
        erasables = self.trail(minimum)
        kept = set(erasables)
        before = self.ancestors(minimum)
        return Removable([id for id in self.topological() if id in before and id not in kept], erasables)

    def slice(self, least: Iterable[MessageId] = (), greatest: Iterable[MessageId] = ()) -> list[Piece]:
        """What to send so that the ids of ``least`` and all that may come after them can be checked and stored.

        In topological order: the trail of ``least`` without data, and every message that is one of ``least`` or before
        none of them; of those, what comes after one of ``greatest`` is left out, unless it is one of them itself. Ids
        that are not held count for nothing.
        """
        wanted = {id for id in least if id in self._nodes}
        ends = {id for id in greatest if id in self._nodes}
        trail = set(self.trail(wanted))
        left_out = self.ancestors(wanted) - wanted
        left_out |= self.descendants(ends) - ends
        pieces: list[Piece] = []
        for id in self.topological():
            if id in trail:
                pieces.append(Piece(id, erased=True))
            if id not in left_out:
                pieces.append(Piece(id, erased=False))
        return pieces

    # ---- invariants ----------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Assert what always holds. Slow: for tests."""
        assert (self._root is None) == (self.id not in self._nodes)
        assert self._depths == sorted(self._levels)
        assert sorted(id for level in self._levels.values() for id in level) == sorted(self._nodes)
        after: dict[MessageId, set[MessageId]] = {}
        for id, node in self._nodes.items():
            assert id in self._levels[node.depth]
            for before in node.prev:
                after.setdefault(before, set()).add(id)
        assert after == self._after
        assert self._tips == {id for id in self._nodes if id not in after}
        for depth, level in self._levels.items():
            assert self._dataful.get(depth, 0) == sum(self._nodes[id].has_data for id in level)
        if self._order is not None:
            assert self._order == [id for depth in self._depths for id in sorted(self._levels[depth], key=collation)], (
                "the kept order is the order"
            )

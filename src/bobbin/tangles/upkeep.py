"""What may go: the purpose of every message under the goals, and what follows from it.

A message is kept for the first purpose that fits, in any tangle that it stands in:

=========  ==========================================================================================
goal       its depth is one that the goal of a tangle asks for
trail      it lies on the way from those to the root: it is kept, but not its data
needed     it belongs to the account that a message which is kept speaks for
ghost      of a set or dict, superseded not long ago: it goes, but is remembered, so that it does not come back
none       it goes
=========  ==========================================================================================

Real peers do not have *needed*, and so delete the keys that they check messages with. An account is kept whole: without
its later messages, a key that was removed would count again. Nothing is done here; whoever keeps the messages does it,
in one step.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from bobbin.tangles.canonical import Json
from bobbin.tangles.goals import Goal, GoalKind
from bobbin.tangles.message import ANY, SELF, Message, MessageId
from bobbin.tangles.ports import MessageStore
from bobbin.tangles.ranges import EMPTY, Range
from bobbin.tangles.structures import SPAN_DEFAULT, min_required_depth
from bobbin.tangles.tangle import Removable, Tangle


class Purpose(StrEnum):
    """Why a message is kept, or not."""

    GOAL = "goal"
    TRAIL = "trail"
    NEEDED = "needed"
    GHOST = "ghost"
    NONE = "none"


class Ghost(Struct, frozen=True):
    """A message that is deleted and remembered."""

    tangle: MessageId
    id: MessageId
    depth: int


class Sweep(Struct, frozen=True, kw_only=True):
    """What is to be done to a store so that it holds what its goals ask for. The three lists have nothing in common."""

    deleted: tuple[MessageId, ...]
    """Ghosts among them."""
    erased: tuple[MessageId, ...]
    ghosts: tuple[Ghost, ...]
    """To be remembered in this order: by depth, in each tangle."""


def prune_newest(tangle: Tangle, count: int) -> Removable:
    """What may go when, in topological order, the newest ``count`` messages are kept."""
    order = tangle.topological()
    if count == 0 or len(order) <= count:
        # Of nothing to keep, no oldest message can be named: a real peer then removes nothing.
        return Removable([], [])
    return tangle.removable([order[len(order) - count]])


def goal_range(goal: Goal, tangle: Tangle, data: Callable[[MessageId], Json]) -> Range:
    """The depths of the messages that a goal asks to keep."""
    top = tangle.max_depth
    if goal.kind is GoalKind.NONE or tangle.root is None:
        return EMPTY
    if goal.kind is GoalKind.ALL:
        return Range(0, top)
    if goal.kind is GoalKind.NEWEST:
        return Range(max(0, top - goal.count + 1), top)
    needed = min_required_depth(tangle, data)
    return EMPTY if needed is None else Range(needed, top)


class Plan:
    """The purposes of the messages of one tangle under one goal."""

    def __init__(
        self, goal: Goal, tangle: Tangle, data: Callable[[MessageId], Json], *, span: int = SPAN_DEFAULT
    ) -> None:
        self._tangle: Final = tangle
        self._range: Final = goal_range(goal, tangle, data)
        wanted = [] if self._range.is_empty else tangle.between(self._range.low, self._range.high)
        self._trail: Final = frozenset(tangle.trail(wanted))
        """A root with anything to keep below it is always part of it."""
        ghost_low = max(1, self._range.low - span) if goal.needs_structure and not self._range.is_empty else 0
        self._ghosts: Final = Range(ghost_low, self._range.low - 1) if ghost_low else EMPTY

    def purpose(self, id: MessageId) -> Purpose:
        """Why a message is kept in this tangle, or not."""
        depth = self._tangle.depth(id)
        if depth is None:
            return Purpose.NONE
        if depth in self._range:
            return Purpose.GOAL
        if id in self._trail or (id == self._tangle.id and not self._range.is_empty):
            return Purpose.TRAIL
        return Purpose.GHOST if depth in self._ghosts else Purpose.NONE


def sweep(
    store: MessageStore, messages: Iterable[Message], goals: Mapping[MessageId, Goal], *, span: int = SPAN_DEFAULT
) -> Sweep:
    """What goes of ``messages``, which are all that a store holds, under the goals of its tangles."""
    held = list(messages)
    plans = {id: Plan(goal, store.tangle(id), _data_in(store), span=span) for id, goal in goals.items()}
    purposes: dict[MessageId, Purpose] = {}
    ghosts: list[Ghost] = []
    for message in held:
        purposes[message.id], ghost = _purpose(message, plans)
        if ghost is not None:
            ghosts.append(ghost)
    kept = [message for message in held if purposes[message.id] in (Purpose.GOAL, Purpose.TRAIL)]
    accounts = {message.account for message in kept} - {SELF, ANY}
    needed = frozenset(id for account in accounts for id in store.tangle(account))
    deleted = [
        message.id
        for message in held
        if message.id not in needed and purposes[message.id] in (Purpose.GHOST, Purpose.NONE)
    ]
    gone = frozenset(deleted)
    return Sweep(
        deleted=tuple(deleted),
        erased=tuple(
            message.id
            for message in held
            if message.has_data and message.id not in needed and purposes[message.id] is Purpose.TRAIL
        ),
        ghosts=tuple(
            sorted((ghost for ghost in ghosts if ghost.id in gone), key=lambda ghost: (ghost.tangle, ghost.depth))
        ),
    )


def _purpose(message: Message, plans: Mapping[MessageId, Plan]) -> tuple[Purpose, Ghost | None]:
    """The best purpose of a message in any of its tangles; where that is to be a ghost, in the first of them."""
    order = list(Purpose)
    best, ghost = Purpose.NONE, None
    for tangle in (message.id, *message.places):
        plan = plans.get(tangle)
        if plan is None:
            continue
        purpose = plan.purpose(message.id)
        if order.index(purpose) < order.index(best):
            best = purpose
            ghost = Ghost(tangle, message.id, message.depth_in(tangle) or 0) if purpose is Purpose.GHOST else None
    return best, ghost


def _data_in(store: MessageStore) -> Callable[[MessageId], Json]:
    def data(id: MessageId) -> Json:
        message = store.message(id)
        return None if message is None else message.data

    return data

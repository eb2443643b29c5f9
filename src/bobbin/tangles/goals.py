"""Goals: how much of a tangle somebody wants to keep.

=============  =====================================================================================
``all``        every message
``none``       no message
``set``        what a set is made of by now: nothing that later messages have superseded
``dict``       the same for a dict
``newest-N``   the messages of the N greatest depths
=============  =====================================================================================

A goal belongs to one side and is never sent. What it asks of the other side is a range of depths (``wish``); what it
asks to keep is decided in ``upkeep``.
"""

import re
from collections.abc import Callable
from enum import StrEnum
from typing import Final

from msgspec import Struct

from bobbin.errors import UsageError
from bobbin.tangles.canonical import SAFE_INTEGER_MAX, Json
from bobbin.tangles.message import MessageId
from bobbin.tangles.ranges import WantAll, WantFrom, WantNewest, Wish
from bobbin.tangles.structures import SPAN_DEFAULT, min_required_depth
from bobbin.tangles.tangle import Tangle

_NEWEST: Final = re.compile(r"newest-([0-9]+)")


class MalformedGoal(UsageError):
    """A text is no goal."""


class GoalKind(StrEnum):
    """What kind of part of a tangle is wanted."""

    ALL = "all"
    NONE = "none"
    SET = "set"
    DICT = "dict"
    NEWEST = "newest"


_PLAIN: Final = frozenset(str(kind) for kind in GoalKind if kind is not GoalKind.NEWEST)


class Goal(Struct, frozen=True):
    """One goal."""

    kind: GoalKind
    count: int = 0
    """How many depths of the newest are wanted; 0 for other kinds."""

    @property
    def text(self) -> str:
        """The goal as it is written."""
        return f"{self.kind}-{self.count}" if self.kind is GoalKind.NEWEST else str(self.kind)

    @property
    def needs_structure(self) -> bool:
        """It depends on what the messages say, as a set or a dict."""
        return self.kind in (GoalKind.SET, GoalKind.DICT)


def parse_goal(text: str) -> Goal:
    """The goal that a text spells. Raises ``MalformedGoal``."""
    newest = _NEWEST.fullmatch(text)
    if newest is not None:
        digits = newest[1].lstrip("0") or "0"
        count = int(digits) if len(digits) <= 16 else SAFE_INTEGER_MAX
        return Goal(GoalKind.NEWEST, min(count, SAFE_INTEGER_MAX))
    if text not in _PLAIN:
        raise MalformedGoal(f"a goal is all, none, set, dict or newest-N, not {text[:80]!r}")
    return Goal(GoalKind(text))


def wish(
    goal: Goal | None,
    tangle: Tangle,
    data: Callable[[MessageId], Json],
    *,
    span: int = SPAN_DEFAULT,
    modern: bool = False,
) -> Wish:
    """What a goal asks of the other side. ``data`` gives the data of a held message.

    A set or dict of which nothing is left, only its root, asks a real peer for nothing, as real peers do among
    themselves; in the modern mode it asks for everything.
    """
    if goal is None or goal.kind is GoalKind.NONE:
        return None
    if goal.kind is GoalKind.ALL:
        return WantAll()
    if goal.kind is GoalKind.NEWEST:
        return WantNewest(goal.count)
    needed = min_required_depth(tangle, data)
    if needed is None:
        return WantFrom(0 if modern else None)
    return WantFrom(max(0, needed - span))

"""Where a run on one tangle stands, and which phase may come next.

The table is the protocol: a frame that its row does not name is dropped and changes nothing, whether it is out of
order, a repetition, or an answer to something that was never said. Only phase 1 is always in order: it begins the
peer's run anew, as pzp peers do at any time, and what the run had gathered is forgotten.

Frames say neither which run they are of nor what they answer. So an opener that wishes to begin anew while its phase 1
is unanswered waits for the phase 2, and says phase 1 again in its place. Then whatever it may still get of the earlier
run comes before the answer to the later one, at a moment at which the table drops it.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from bobbin.tangles.ranges import EMPTY, Range
from bobbin.tangles.session_effects import Role

if TYPE_CHECKING:
    from bobbin.tangles.message import MessageId
    from bobbin.tangles.session_events import Refused

AWAITS: Final[Mapping[int, tuple[int, ...]]] = MappingProxyType({said: (said + 1,) for said in range(1, 9)})
"""By the phase that was sent last: what may come next from a peer, if this side has something of the tangle."""
AWAITS_EMPTY: Final[Mapping[int, tuple[int, ...]]] = MappingProxyType({**AWAITS, 2: (9, 3), 3: (9, 4)})
"""The same for a side that has said that it has nothing: it gets everything at once, and no filters.

A pzp peer that has heard otherwise meanwhile, in another run, may go on with filters all the same.
"""
ROUND_OF: Final[Mapping[int, int]] = MappingProxyType({3: 0, 4: 0, 5: 1, 6: 1, 7: 2, 8: 2})
"""The round to which the filter of a phase belongs."""


class Run:
    """One run on one tangle, as one side sees it."""

    def __init__(self, role: Role) -> None:
        self.role: Final = role
        self.said = 0
        """The phase that was sent last; 0 before the first."""
        self.superseded = False
        """This side wishes to begin anew, and does so when the answer to its phase 1 has come."""
        self.own_have: Range = EMPTY
        self.own_want: Range = EMPTY
        """Computed once; the same range is behind all filters of the run."""
        self.remote_have: Range = EMPTY
        self.remote_want: Range = EMPTY
        self.sendable: dict[MessageId, None] = {}
        """What the peer seems to lack, by all rounds so far, in the order in which it was found."""
        self.promised: dict[MessageId, None] = {}
        """What the peer has said that it will send."""
        self.sent = 0
        self.received = 0
        self.uncommitted: int | None = None
        """The token of the commit that the end of the run waits for."""
        self.refused: tuple[Refused, ...] = ()
        """What did not even get as far as the commit."""

    @property
    def awaits(self) -> tuple[int, ...]:
        """The phases that may come next; none when nothing more comes."""
        return (AWAITS_EMPTY if self.own_have.is_empty else AWAITS).get(self.said, ())

    def check(self) -> None:
        """Assert what always holds."""
        assert 0 <= self.said <= 9
        expected = 0 if self.said == 0 else (1 if self.role is Role.OPENER else 0)
        assert self.said in (0, 9) or self.said % 2 == expected, "an opener says odd phases, an answerer even ones"
        assert not (self.said < 3 and self.sendable), "nothing is sendable before the first filter"
        may_wait = self.role is Role.OPENER and self.said == 1
        assert may_wait or not self.superseded, "once phase 1 is answered, a run begins anew at once"
        assert self.own_want.is_empty or not self.remote_have.is_empty, "nothing is wanted of a peer that has nothing"


class Channel:
    """All that a session knows of one tangle, over all runs on it."""

    def __init__(self) -> None:
        self.runs: dict[Role, Run] = {}
        """At most one of each role is under way."""
        self.own_want: Range = EMPTY
        """Of the latest run that has told it to the peer: later messages are measured by it."""

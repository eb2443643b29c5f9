"""A follower looks at what a leader's entries say before it takes them, where somebody can tell whether they are right.

Entries are judged in the order of the log, each one on top of those before it, committed or not. One that is wrong is
not taken, nor anything after it: the node does not acknowledge it, nothing is changed by it, and a person hears of it.
What came before it in the same message is taken and acknowledged. The leader sends the rest at once where something was
taken, else after a while, as if it had been lost.

What was judged and then taken back is forgotten. It is known by its place and term, which together name all that came
before (the logs that agree on them agree up to there), so nothing needs to be said when the log is cut. After a start
nothing is judged until an entry comes that has to be; what stands before it in the log is shown to the judge first.

No more than so many judged entries may wait to be applied: the next one is taken when some of them are. The leader need
not guess when that is: a message of which nothing was taken is answered once more then, which has it sent again.

**An entry of an earlier term never waits.** It is committed only together with the first entry of its leader's own
term, which stands behind it: if a follower waited for something to be applied before it took such an entry, nothing
would ever be. After a start of all nodes nobody knows what is committed, and a log may be long. So where the judge
cannot see far enough, the entry is taken without a judgement. It is checked all the same when it is applied, on every
node; an entry that the judge finds wrong is refused whatever its term.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol

from msgspec import Struct

from bobbin.cluster.names import Index, NodeId, Term
from bobbin.cluster.raft.entries import Entry
from bobbin.cluster.raft.state import RaftState

AHEAD_MAX: Final = 64
"""Judged entries that are not applied."""


class Judgement(Struct, frozen=True, kw_only=True):
    """What there is to say of an entry."""

    fault: str | None = None
    """Why it must not be acknowledged; None if it may be."""
    is_lag: bool = False
    """The fault may be that this node has not applied enough yet: nobody is to blame."""
    used_fast_path: bool = False


_EARLY: Final = Judgement(fault="too much before it is not applied here yet", is_lag=True)


class Judge(Protocol):
    """Whoever knows what entries mean."""

    def wants(self, entry: Entry) -> bool:
        """Whether there is anything to judge about an entry."""
        ...

    def judge(self, entry: Entry, *, leader: NodeId | None, term: Term) -> Judgement:
        """Look at the next entry that is wanted, after those judged before. ``leader``: who sends it in this term.

        Without a leader the entry is in the log already, from an earlier time: what is said of it counts for nothing.
        """
        ...

    def forget(self) -> None:
        """All that was judged and is not applied has been taken back, or will be shown again."""
        ...


class Judging:
    """Leads a judge along the log of one node."""

    def __init__(self, state: RaftState, judge: Judge, *, ahead_max: int = AHEAD_MAX) -> None:
        """``ahead_max``: judged entries that may wait to be applied."""
        self._state = state
        self._judge = judge
        self._ahead_max = ahead_max
        self._index = Index(0)
        """The last place that was judged or passed over, and not taken back as far as is known."""
        self._term = Term(0)
        self._ahead: deque[Index] = deque()
        """The places that were judged and are not applied, ascending."""
        self._has_shown = False
        """Whether the judge has seen anything since it was told to forget."""

    def passing(self, entries: Sequence[Entry], leader: NodeId, term: Term) -> tuple[int, bool]:
        """How many of these entries, which are to follow in the log, may be taken; and whether one had it easy."""
        is_caught_up = is_blind = used_fast_path = False
        for count, entry in enumerate(entries):
            if not self._judge.wants(entry):
                if is_caught_up:
                    self._pass(entry)
                continue
            if not is_caught_up and not is_blind:
                is_caught_up = self._catch_up(Index(entries[0].index - 1))
                is_blind = not is_caught_up
            is_early = is_blind or len(self._ahead) >= self._ahead_max
            judgement = _EARLY if is_early else self._show(entry, leader, term)
            if judgement.fault is None:
                used_fast_path |= judgement.used_fast_path
                self._ahead.append(entry.index)
                self._pass(entry)
            elif judgement.is_lag and entry.term < term:
                is_caught_up, is_blind = False, True
            else:
                return self._stop(count, entry, leader, judgement), used_fast_path
        return len(entries), used_fast_path

    def forget(self) -> None:
        """The state is another one now; what it rests on is shown to the judge again."""
        self._index, self._term = Index(0), Term(0)
        self._ahead.clear()
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._has_shown = False
        self._judge.forget()

    def _show(self, entry: Entry, leader: NodeId | None, term: Term) -> Judgement:
        self._has_shown = True
        return self._judge.judge(entry, leader=leader, term=term)

    def _pass(self, entry: Entry) -> None:
        self._index, self._term = entry.index, entry.term

    def _stop(self, count: int, entry: Entry, leader: NodeId, judgement: Judgement) -> int:
        """An entry is not taken: it is wrong, or comes too early."""
        self._state.stats.entries_refused += 1
        if not judgement.is_lag:
            self._state.alarm("entry-refused", f"entry {entry.index} of {leader}: {judgement.fault}")
        return count

    def _catch_up(self, previous: Index) -> bool:
        """Show the judge what it has not seen, or must see again, of what comes before; whether it has seen all."""
        state = self._state
        applied = state.applied_index
        if self._index > previous or (self._index > applied and state.log.term_at(self._index) != self._term):
            self.forget()
        if self._index < applied:
            self._index, self._term = applied, state.log.term_at(applied) or Term(0)
        while self._ahead and self._ahead[0] <= applied:
            self._ahead.popleft()
        if self._has_shown and self._index <= applied:
            # All that the judge has seen is applied, so whatever it could not see into then is behind it.
            self._begin_anew()
        if self._index < previous:
            for entry in state.log.entries(self._index + 1, previous + 1):
                if self._judge.wants(entry):
                    if len(self._ahead) >= self._ahead_max:
                        return False
                    self._show(entry, None, entry.term)
                    self._ahead.append(entry.index)
                self._pass(entry)
        return True

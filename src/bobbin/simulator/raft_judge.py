"""A judge for worlds of a cluster: it wants some of the commands, and holds whoever leads it to the contract.

``raft.judging`` promises a judge that it is led along the log: what it is shown comes in the order of the log, and
rests on every wanted entry between what is applied and it, none left out and none that was taken back. After ``forget``
it begins again from what is applied. This judge remembers what it was shown and, once the step is over, compares that
with the log of its node. A follower takes an entry of its leader's own term that is wanted only after a yes.

Now and then it lags, as a node does that has not applied enough: a few times in a row for entries of a leader, and,
once there was something in the log that it could not see into, until it begins anew. Neither may keep a cluster from
coming to rest. It knows entries that a lying leader has forged.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Final, NoReturn
from zlib import crc32

from msgspec import Struct

from bobbin.cluster.names import Index, NodeId, Term
from bobbin.cluster.raft.effects import Append, Effect, Persist
from bobbin.cluster.raft.entries import Entry
from bobbin.cluster.raft.judging import Judgement
from bobbin.cluster.raft.machine import RaftMachine
from bobbin.simulator.raft_shape import JudgeShape

FORGED: Final = b"\xfeforged "
"""How a command begins that a lying leader has put in the place of another."""
LAGS_MAX: Final = 3
"""In a row, without anything in the log that it cannot see into."""

_FINE: Final = Judgement()
_FAST: Final = Judgement(used_fast_path=True)
_FORGED: Final = Judgement(fault="it is forged")
_LAG: Final = Judgement(fault="not enough is applied here yet", is_lag=True)


class _Look(Struct, frozen=True, kw_only=True):
    """What was shown, and on what it rested."""

    entry: Entry
    applied: Index
    beneath: tuple[tuple[Index, Term], ...]
    """What was shown before, passed, and was not applied: place and term of each."""
    is_new: bool
    """A leader has sent it; otherwise it was in the log."""
    passed: bool


class RaftJudge:
    """The judge of one node, in one life."""

    def __init__(
        self,
        shape: JudgeShape,
        *,
        random: Random,
        machine: Callable[[], RaftMachine | None],
        fail: Callable[[str], NoReturn],
        tally: Counter[str] | None = None,
    ) -> None:
        """``machine`` is the node's; ``fail`` hears of a contract that is broken."""
        self.tally: Final[Counter[str]] = Counter() if tally is None else tally
        self._shape: Final = shape
        self._random: Final = random
        self._of: Final = machine
        self._fail: Final = fail
        self._shown: Final[list[tuple[Index, Term]]] = []
        """What was shown and passed since it was told to forget."""
        self._looks: Final[list[_Look]] = []
        """Of the step that is under way."""
        self._lags = 0
        self._is_blind = False

    def _machine(self) -> RaftMachine:
        machine = self._of()
        assert machine is not None, "a judge is asked within a step"
        return machine

    # ---- what a judge does ----------------------------------------------------------------------------------------

    def wants(self, entry: Entry) -> bool:
        payload = entry.payload
        return type(payload) is bytes and (crc32(payload) % 4 > 0 or payload.startswith(FORGED))

    def judge(self, entry: Entry, *, leader: NodeId | None, term: Term) -> Judgement:
        machine = self._machine()
        applied, place = machine.applied_index, f"entry {entry.index} of term {entry.term}"
        if not self.wants(entry):
            self._break(f"{place} was shown, which nobody wants")
        if entry.index <= max([applied, *(index for index, _ in self._shown)]):
            self._break(f"{place} was shown after {self._shown}, applied {applied}")
        beneath = tuple(one for one in self._shown if one[0] > applied)
        if len(beneath) >= self._shape.ahead_max:
            self._break(f"{place} was shown with {len(beneath)} ahead of what is applied")
        if leader is None:
            if term != entry.term or machine.log.term_at(entry.index) != entry.term:
                self._break(f"{place} was shown as one of the log, which it is not")
        elif (leader, term) != (machine.leader, machine.term) or entry.term > term:
            self._break(f"{place} was shown as one of {leader} in term {term}; {machine.leader} leads {machine.term}")
        judgement = self._say(entry, is_new=leader is not None)
        passed = leader is None or judgement.fault is None
        self._looks.append(
            _Look(entry=entry, applied=applied, beneath=beneath, is_new=leader is not None, passed=passed)
        )
        if passed:
            self._shown.append((entry.index, entry.term))
        return judgement

    def forget(self) -> None:
        self.tally["judges: began anew"] += 1
        self._shown.clear()
        self._is_blind = False

    def _say(self, entry: Entry, *, is_new: bool) -> Judgement:
        payload, chance = entry.payload, self._random.random
        assert isinstance(payload, bytes), "it is wanted"
        if payload.startswith(FORGED):
            if not is_new:
                self._break(f"entry {entry.index} is forged, and in the log")
            self.tally["judges: found a forged entry"] += 1
            return _FORGED
        if not is_new:
            self.tally["judges: shown of the log"] += 1
            self._is_blind |= chance() < self._shape.blindness
            return _FINE
        self.tally["judges: shown of a leader"] += 1
        if self._is_blind:
            self.tally["judges: could not see"] += 1
            return _LAG
        if self._lags < LAGS_MAX and chance() < self._shape.lag:
            self._lags += 1
            self.tally["judges: lagged"] += 1
            return _LAG
        self._lags = 0
        return _FAST if crc32(payload) & 8 else _FINE

    # ---- what it checks -------------------------------------------------------------------------------------------

    def look(self, effects: Sequence[Effect]) -> None:
        """A step is over: compare what was shown in it with what the log has become."""
        machine, looks = self._machine(), self._looks
        passed = {(look.entry.index, look.entry.term) for look in looks if look.is_new and look.passed}
        for look in looks:
            self._compare(machine, look)
        looks.clear()
        if machine.leader in {None, machine.node}:
            return
        for effect in effects:
            if isinstance(effect, Persist):
                new = [entry for record in effect.records if isinstance(record, Append) for entry in record.entries]
                for entry in new:
                    is_own = entry.term == machine.term and self.wants(entry)
                    if is_own and (entry.index, entry.term) not in passed:
                        self._break(f"entry {entry.index} of the leader's own term {entry.term} was taken unjudged")

    def _compare(self, machine: RaftMachine, look: _Look) -> None:
        log, index = machine.log, look.entry.index
        if log.last_index < index - 1 or (look.passed and log.term_at(index) != look.entry.term):
            self._break(f"entry {index} passed, or those before it did, and the log ends at {log.last_index}")
        held = log.entries(look.applied + 1, index)
        wanted = tuple((entry.index, entry.term) for entry in held if self.wants(entry))
        if look.beneath != wanted:
            self._break(f"entry {index} was judged on top of {look.beneath}; in the log stand {wanted}")

    def _break(self, message: str) -> NoReturn:
        self._fail(f"the judge of {self._machine().node}: {message}")

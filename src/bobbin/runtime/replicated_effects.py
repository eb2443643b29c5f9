"""Effects that happen at most once in a whole cluster: the leader fires them, and the log remembers.

What ``SingleEffects`` keeps in a file of one machine stands in the log here. The right to fire is the office of the
leader, and its fencing token is the term. A new leader first has its term written into the log; from then on the state
refuses whatever an older one wants to begin. Then it reads what was written down. An effect begins by a command that is
committed before anything is done, so whoever leads next knows of it, and does not do it again: it is in doubt until
somebody says what became of it.

A leader that was replaced and does not know it yet can begin nothing: its command is not committed, or is refused. One
that is refused and leads all the same had begun the effect before, without hearing that this was committed. It shows
its term again and reads anew what was written down: that effect is in doubt, and the others go on.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from bobbin.cluster.names import Term
from bobbin.errors import ResourceError, UsageError
from bobbin.reactive.authority import (
    Appointed,
    Authority,
    Dismissed,
    Entry,
    Finished,
    FireOnce,
    InDoubt,
    Outcome,
    Record,
    Recorded,
    Stage,
    Wanted,
)
from bobbin.runtime.replicated_commands import Answered, RaiseFence, SetEffect, Truth
from bobbin.runtime.replicated_proposing import new_token
from bobbin.runtime.replicated_store import Writer
from bobbin.runtime.single_effects import ID_BYTES_MAX, Fate
from bobbin.store.sqlite.replica import EffectRow


class NotTheLeader(ResourceError):
    """Another node fires effects, or it is not settled yet which one does. Nothing was done."""

    def __init__(self, why: str = "effects are fired by the node that leads, and this one does not") -> None:
        super().__init__(why, retry=True)


class Rows(Protocol):
    """What is written down of effects at this node, after everything that it was told to do."""

    def __call__(self) -> list[EffectRow]: ...


class LeaderEffects:
    """Fires while this node leads. Effects run one at a time, in the thread that asks for them."""

    def __init__(self, writer: Writer, rows: Rows) -> None:
        """``writer`` and ``rows`` wait; so nothing here is called in the event loop but ``lead`` and ``dismiss``."""
        self._writer: Final = writer
        self._rows: Final = rows
        self._lock: Final = threading.RLock()
        self._authority: Final = Authority()
        self._office: Term | None = None
        """In which this node leads, as its raft machine says."""
        self._fence: Term | None = None
        self._is_running = False
        self._in_doubt: dict[str, None] = {}

    # ---- the office -------------------------------------------------------------------------------------------------

    def lead(self, term: Term) -> None:
        """This node leads in a term; ``appoint`` follows. Does not wait."""
        self._office = term

    def appoint(self, term: Term) -> bool:
        """Take up the right to fire in a term in which this node leads; False where it does not any more."""
        with self._lock:
            if not self._do(RaiseFence(new_token(), term)):
                return False
            entries = tuple(
                Entry(row.id, None if row.outcome is None else Outcome(row.outcome)) for row in self._rows()
            )
            self._in_doubt = {}
            for effect in self._authority.step(Appointed(term, entries)):
                # What is wanted and was not recorded is asked for again by whoever wants it.
                if isinstance(effect, InDoubt):
                    self._in_doubt[effect.id] = None
            self._in_doubt |= {entry.id: None for entry in entries if entry.outcome is None}
            self._fence = term
            if self._office != term:  # looked at last, for ``dismiss`` does not wait
                self._fence = None
                return False
            return True

    def dismiss(self) -> None:
        """This node does not lead any more. Does not wait: what is running goes on, and the log decides about it."""
        self._office = self._fence = None

    def leads(self, term: Term) -> bool:
        """Whether this node leads in a term, as far as is known here."""
        return self._office == term

    @property
    def fence(self) -> Term | None:
        """The term in which this node may fire; None while it may not."""
        return self._fence

    @property
    def in_doubt(self) -> tuple[str, ...]:
        """What was about to happen at some time, here or elsewhere, and perhaps did."""
        with self._lock:
            return tuple(self._in_doubt)

    # ---- effects ----------------------------------------------------------------------------------------------------

    def once(self, id: str, run: Callable[[], object]) -> Fate:
        """Do something, unless it was done or may have been, by whichever node. The same id is the same effect.

        ``run`` may return ``Outcome.REJECTED``: it has made sure that nothing happened, and it is over. If it raises,
        the effect is in doubt, and the error goes on. Raises ``NotTheLeader`` where this node may not fire.
        """
        if not id or len(id.encode()) > ID_BYTES_MAX:
            raise UsageError(f"an effect has an id of 1 to {ID_BYTES_MAX} bytes")
        with self._alone() as fence:
            known = self._authority.stage(id)
            if known is Stage.OVER:
                return Fate.OVER
            if known is Stage.FIRED:
                return Fate.IN_DOUBT
            if not self._begin(id, fence):
                return Fate.OVER if self._authority.stage(id) is Stage.OVER else Fate.IN_DOUBT
            self._in_doubt[id] = None
            outcome = run()
            self._end(id, fence, Outcome.REJECTED if outcome is Outcome.REJECTED else Outcome.APPLIED, settles=False)
            return Fate.DONE

    def settle(self, id: str, outcome: Outcome) -> None:
        """Say what became of an effect that is in doubt. Raises ``UsageError`` for any other."""
        with self._alone() as fence:
            if id not in self._in_doubt:
                raise UsageError(f"{id!r} is not in doubt")
            self._end(id, fence, outcome, settles=True)

    def _begin(self, id: str, fence: Term) -> bool:
        """Have it written down; afterwards it may be fired, once. False where that was written down before."""
        wanted = [effect for effect in self._authority.step(Wanted(id)) if isinstance(effect, Record)]
        if not wanted and self._authority.stage(id) is not Stage.RECORDING:
            raise NotTheLeader
        if not self._do(SetEffect(new_token(), id, fence)):
            self._read_again(fence)
            if self._authority.stage(id) in (Stage.FIRED, Stage.OVER):
                return False
            raise NotTheLeader
        if self._authority.step(Recorded(id, fence)) != (FireOnce(id, fence),):
            raise NotTheLeader
        return True

    def _end(self, id: str, fence: Term, outcome: Outcome, *, settles: bool) -> None:
        """Have written down what became of it. Until that is known to be done, it is in doubt."""
        if not self._do(SetEffect(new_token(), id, fence, outcome.value, settles)):
            self._read_again(fence)
            raise UsageError(f"{id!r} is not in doubt: what became of it was written down before")
        self._authority.step(Finished(id, outcome))
        del self._in_doubt[id]

    def _read_again(self, fence: Term) -> None:
        """A command was refused: take up the right anew, with what is written down by now, or have none any more."""
        if not self.appoint(fence):
            self._fence = None
            self._authority.step(Dismissed())
            raise NotTheLeader("another node leads by now, or has begun this effect")

    def _do(self, command: Answered) -> bool:
        (answer,) = self._writer.begin([command])()
        assert isinstance(answer, Truth), "the answer to such a command"
        return answer.value

    @contextmanager
    def _alone(self) -> Iterator[Term]:
        with self._lock:
            fence = self._fence
            if fence is None:
                self._authority.step(Dismissed())
                raise NotTheLeader
            if self._is_running:
                raise UsageError("an effect cannot ask for another one")
            self._is_running = True
            try:
                yield fence
            finally:
                self._is_running = False

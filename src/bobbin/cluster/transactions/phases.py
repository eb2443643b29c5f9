"""The two state diagrams of two-phase commit, as the tables that the code runs on and the pages are drawn from."""

from enum import Enum
from typing import Final


class TxPhase(Enum):
    """Where a coordinator is with a transaction."""

    PREPARING = "preparing"
    PREPARED = "prepared"
    COMMITTING = "committing"
    COMMITTED = "committed"
    ABORTING = "aborting"
    ABORTED = "aborted"

    @property
    def is_terminal(self) -> bool:
        """Whether nothing leads on from here."""
        return self in (TxPhase.COMMITTED, TxPhase.ABORTED)


COORDINATOR: Final[dict[tuple[TxPhase | None, TxPhase], str]] = {
    (None, TxPhase.PREPARING): "begin",
    (TxPhase.PREPARING, TxPhase.PREPARED): "all votes yes, no key on two shards",
    (TxPhase.PREPARING, TxPhase.ABORTING): "a vote no or conflict, the timeout, or a key on two shards",
    (TxPhase.PREPARED, TxPhase.COMMITTING): "the decision is durable",
    (TxPhase.PREPARED, TxPhase.ABORTING): "abort, before any durable decision",
    (TxPhase.COMMITTING, TxPhase.COMMITTED): "every participant has acknowledged",
    (TxPhase.ABORTING, TxPhase.ABORTED): "every participant has acknowledged, or tries are over",
}


class Ended(Enum):
    """How a transaction ended for its client. Everything but COMMITTED and FORGOTTEN means that nothing of it was done.

    All but BUSY are final for an id, whoever leads afterwards.
    """

    COMMITTED = "committed"
    CONFLICT = "conflict"
    """Somebody else was first. Read again, and try again."""
    BUSY = "busy"
    """Keys are locked, too many are open, or time is up. Try again."""
    ABORTED = "aborted"
    """It was ended by its owner, an operator or the search for deadlocks, or it had been before."""
    REFUSED = "refused"
    """It makes no sense, or is too old; trying the same again is of no use."""
    FORGOTTEN = "forgotten"
    """Its id is so old that nobody knows any more whether it was committed."""


class Standing(Enum):
    """Where a participant is with its part of a transaction."""

    IDLE = "idle"
    LOCK_ACQUIRING = "lock-acquiring"
    LOCKED = "locked"
    CONFLICT_CHECK = "conflict-check"
    VOTE_YES = "vote-yes"
    VOTE_NO = "vote-no"
    VOTE_CONFLICT = "vote-conflict"
    WAITING_DECISION = "waiting-decision"
    COMMITTED = "committed"
    ABORTED = "aborted"


PARTICIPANT: Final[dict[tuple[Standing, Standing], str]] = {
    (Standing.IDLE, Standing.LOCK_ACQUIRING): "prepare",
    (Standing.LOCK_ACQUIRING, Standing.LOCKED): "all locks taken under one handle",
    (Standing.LOCK_ACQUIRING, Standing.VOTE_NO): "a key is held by another one",
    (Standing.LOCKED, Standing.CONFLICT_CHECK): "the delta is worked out",
    (Standing.CONFLICT_CHECK, Standing.VOTE_YES): "no conflict, and durable",
    (Standing.CONFLICT_CHECK, Standing.VOTE_CONFLICT): "a version has moved, or the geometry refuses",
    (Standing.CONFLICT_CHECK, Standing.VOTE_NO): "the part makes no sense here, or is too old",
    (Standing.VOTE_YES, Standing.WAITING_DECISION): "the vote is sent",
    (Standing.WAITING_DECISION, Standing.COMMITTED): "told to commit, applied, then unlocked",
    (Standing.WAITING_DECISION, Standing.ABORTED): "told to abort, dropped, then unlocked",
}

"""What operators ask of the leader of a shard: another codebook, or the end of a promised part by hand."""

from typing import Final

from bobbin.cluster.codebook.global_book import GlobalCodebook
from bobbin.cluster.shard.checking import REASON_BYTES_MAX
from bobbin.cluster.shard.commands import Outcome, ReplaceCodebook, Resolve
from bobbin.cluster.shard.committing import Committing
from bobbin.cluster.shard.events import ReplaceCodebookWanted, ResolveWanted
from bobbin.cluster.shard.leading import Leading
from bobbin.cluster.shard.preparing import Preparing
from bobbin.cluster.transactions.names import TxId
from bobbin.cluster.transactions.phases import Ended
from bobbin.errors import IntegrityError

NO_TX: Final = TxId(bytes(16))


class Operating:
    """One codebook at a time; while it is on its way no block is made, for it would be of the version before."""

    def __init__(self, leading: Leading, committing: Committing, preparing: Preparing) -> None:
        self._leading: Final = leading
        self._committing: Final = committing
        self._preparing: Final = preparing
        self._codebooks: dict[int, int] = {}
        """Requests by the number of their proposal, like the next."""
        self._resolves: dict[int, tuple[int, TxId]] = {}

    def replace_codebook(self, event: ReplaceCodebookWanted) -> None:
        """Put a codebook into the log, if it can be one."""
        leading = self._leading
        version = leading.shard.ledger.codebook.version + 1
        if self._codebooks:
            leading.answer(event.request, Ended.BUSY, NO_TX, "another codebook is on its way")
            return
        try:
            book = GlobalCodebook.decode(version, event.centroids)
        except IntegrityError as error:
            leading.answer(event.request, Ended.REFUSED, NO_TX, str(error))
            return
        if book.centroids and book.dimension != leading.dimension:
            reason = f"a codebook of {book.dimension} dimensions, and the chain has {leading.dimension}"
            leading.answer(event.request, Ended.REFUSED, NO_TX, reason)
            return
        self._committing.is_paused = True
        self._codebooks[leading.propose(ReplaceCodebook(version, event.centroids))] = event.request

    def replaced(self, proposal: int | None, outcome: Outcome) -> None:
        """The codebook is in force from the next block on, or was refused."""
        request = self._codebooks.pop(proposal, None) if proposal is not None else None
        self._go_on()
        if request is not None:
            ended = Ended.REFUSED if outcome.kind.is_refusal else Ended.COMMITTED
            self._leading.answer(request, ended, NO_TX, outcome.reason, height=outcome.height)

    def _go_on(self) -> None:
        self._committing.is_paused = bool(self._codebooks)
        self._committing.forget_tail()
        self._committing.flush()

    def resolve(self, event: ResolveWanted) -> None:
        """End a promised part by hand, through the log, marked for ever."""
        leading = self._leading
        if not event.operator or not event.reason:
            leading.answer(event.request, Ended.REFUSED, event.tx, "who ends it by hand says who it is, and why")
        elif max(len(event.operator.encode()), len(event.reason.encode())) > REASON_BYTES_MAX:
            leading.answer(event.request, Ended.REFUSED, event.tx, f"a reason has at most {REASON_BYTES_MAX} bytes")
        elif event.tx not in leading.shard.participant.promises:
            leading.answer(event.request, Ended.REFUSED, event.tx, "nothing is promised under this id")
        else:
            command = Resolve(event.tx, event.commits, event.operator, event.reason)
            self._resolves[leading.propose(command)] = (event.request, event.tx)

    def resolved(self, proposal: int | None, tx: TxId, outcome: Outcome) -> None:
        """It is ended, or was before."""
        known = self._resolves.pop(proposal, None) if proposal is not None else None
        self._preparing.resolved(tx, outcome)
        if known is not None:
            ended = Ended.REFUSED if outcome.kind.is_refusal else Ended.COMMITTED
            self._leading.answer(known[0], ended, tx, outcome.reason, height=outcome.height)

    def lost(self, proposal: int, reason: str) -> None:
        """It will never be in the log."""
        request = self._codebooks.pop(proposal, None)
        if request is not None:
            self._go_on()
            self._leading.answer(request, Ended.BUSY, NO_TX, reason)
        known = self._resolves.pop(proposal, None)
        if known is not None:
            self._leading.answer(known[0], Ended.BUSY, known[1], reason)

    @property
    def under_way(self) -> int:
        return len(self._codebooks) + len(self._resolves)

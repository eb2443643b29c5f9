"""How a follower judges a block before it acknowledges it, and which checks likeness to earlier blocks may spare it.

A block that looks like all recent ones of the same leader may go without the checks of meaning: codebook and
transition. Nothing else is ever skipped: limits of decoding, leader, term, height, previous hash, transaction root,
signature, the header's bond with the embedding, the delta, and the state root are looked at for every block, and before
it is acknowledged. Likeness is that of the delta which this node computed from the operations, so neither the header
nor anything that travelled beside the block can buy the fast path.

What was spared is made up for. Every tenth accepted block, and a sample that nobody can foresee without this node's
secret, is validated in full at once; every other block that took the fast path waits in a queue for the same checks in
the background. One of them failing turns the fast path off for that leader, until an operator says otherwise. When the
queue is full, blocks are validated in full at once: none is skipped that will not be audited.
"""

from collections import deque
from enum import Enum
from hashlib import blake2b
from typing import Final, Generic, Protocol, TypeVar

from msgspec import Struct

from bobbin.cluster.geometry import Embedding, cosine
from bobbin.cluster.names import NodeId, Term
from bobbin.cluster.settings import RaftConfig
from bobbin.errors import UsageError

MIN_HISTORY: Final = 3
HISTORY_MAX: Final = 10
AUDIT_EACH: Final = 10
SAMPLE_ONE_IN: Final = 20
AUDITS_WAITING_MAX: Final = 1_000
SECRET_BYTES_MIN: Final = 16


class Check(Enum):
    """What is looked at for every block, in this order."""

    LIMITS = "limits"
    """Sizes, counts and numbers are within their bounds."""
    LEADER = "leader"
    """The block was proposed by the leader that sent it."""
    TERM = "term"
    HEIGHT = "height"
    PREVIOUS_HASH = "previous-hash"
    TRANSACTION_ROOT = "transaction-root"
    SIGNATURE = "signature"
    EMBEDDING_BOUND = "embedding-bound"
    """The signed header holds the embedding."""
    DELTA = "delta"
    """The header's embedding is the one that the operations make."""
    STATE_ROOT = "state-root"


_CHECKS: Final = tuple(Check)


class Meaning(Enum):
    """What likeness may spare."""

    CODEBOOK = "codebook"
    TRANSITION = "transition"


Block = TypeVar("Block")
_Block_contra = TypeVar("_Block_contra", contravariant=True)


class Checks(Protocol[_Block_contra]):
    """How blocks are looked at; the chain has it. A fault is a sentence, None says that there is none."""

    def fault(self, check: Check, block: _Block_contra, *, leader: NodeId, term: Term) -> str | None:
        """One of the checks that are never skipped. Those before it in ``Check`` have passed."""
        ...

    def meaning_fault(self, meaning: Meaning, block: _Block_contra) -> str | None:
        """One of the checks that may be skipped."""
        ...

    def delta(self, block: _Block_contra) -> Embedding:
        """The change that the block's operations make, computed from them."""
        ...

    def digest(self, block: _Block_contra) -> bytes:
        """The hash of the block's header."""
        ...


class Mode(Enum):
    """How a block was judged. There is no mode of trust: it could spare no more than likeness does."""

    FULL = "full"
    FAST_PATH = "fast-path"


class Verdict(Struct, frozen=True, kw_only=True):
    """Whether a block may be acknowledged."""

    fault: str | None
    """Why not; None if it may."""
    mode: Mode

    @property
    def is_accepted(self) -> bool:
        return self.fault is None

    @property
    def used_fast_path(self) -> bool:
        """For the answer to the leader."""
        return self.fault is None and self.mode is Mode.FAST_PATH


class FastPathStats(Struct):
    """Which way blocks went. Each block that passed what is never skipped counts in exactly one of the first three."""

    accepted: int = 0
    """Spared the checks of meaning."""
    rejected: int = 0
    """Not like all recent ones, and validated in full."""
    full_required: int = 0
    """Validated in full whatever they looked like: too little history, an audit, or the fast path is off."""
    refused: int = 0
    """Blocks not acknowledged, on either way."""
    audits: int = 0
    """Blocks of the fast path that were validated later."""
    audits_failed: int = 0
    """Later, or at once."""

    @property
    def rate(self) -> float | None:
        """The share of blocks that took the fast path; None before the first."""
        judged = self.accepted + self.rejected + self.full_required
        return self.accepted / judged if judged else None


class FastPathState:
    """What is known of the blocks of one leader."""

    def __init__(self, leader: NodeId, term: Term) -> None:
        self.leader = leader
        self.term = term
        self.deltas: deque[Embedding] = deque(maxlen=HISTORY_MAX)
        self.accepted = 0
        """Blocks of this leader acknowledged, on either way."""


class FailedAudit(Struct, frozen=True, kw_only=True):
    """A block that was acknowledged on the fast path and should not have been; a person should know."""

    leader: NodeId
    digest: bytes
    fault: str


class FastPathValidator(Generic[Block]):
    """Judges the blocks of one leader after the other. ``secret`` is this node's own and is never sent anywhere."""

    def __init__(
        self, config: RaftConfig, checks: Checks[Block], *, secret: bytes, sample_one_in: int = SAMPLE_ONE_IN
    ) -> None:
        if len(secret) < SECRET_BYTES_MIN:
            raise UsageError(f"the secret of the audits has at least {SECRET_BYTES_MIN} bytes, not {len(secret)}")
        self.stats = FastPathStats()
        self.state: FastPathState | None = None
        """Of the leader that is followed; None without one."""
        self.shut_off: set[NodeId] = set()
        """Leaders whose blocks are always validated in full."""
        self._config = config
        self._checks = checks
        self._secret = secret
        self._sample_one_in = sample_one_in
        self._waiting: deque[tuple[NodeId, Block]] = deque()

    def follow(self, leader: NodeId | None, term: Term) -> None:
        """Whom this node takes for the leader. Another one begins without history."""
        if leader is None:
            self.state = None
        elif self.state is None or self.state.leader != leader:
            self.state = FastPathState(leader, term)
        else:
            self.state.term = term

    def validate(self, block: Block, *, leader: NodeId, term: Term) -> Verdict:
        """Judge a block that a leader sent in a term. Acknowledge it only if it is accepted."""
        state = self.state
        if state is None or (leader, term) != (state.leader, state.term):
            return self._refuse("the block is not from the present leader and term", Mode.FULL)
        for check in _CHECKS:
            fault = self._checks.fault(check, block, leader=leader, term=term)
            if fault is not None:
                return self._refuse(f"{check.value}: {fault}", Mode.FULL)
        delta = self._checks.delta(block)
        is_open = self._config.enable_fast_path and leader not in self.shut_off and len(state.deltas) >= MIN_HISTORY
        is_alike = is_open and all(cosine(delta, recent) > self._config.similarity_threshold for recent in state.deltas)
        if is_alike and not self._is_audited(state, block) and len(self._waiting) < AUDITS_WAITING_MAX:
            self.stats.accepted += 1
            self._waiting.append((leader, block))
            mode = Mode.FAST_PATH
        else:
            if is_open and not is_alike:
                self.stats.rejected += 1
            else:
                self.stats.full_required += 1
            mode = Mode.FULL
            fault = self._meaning_fault(block)
            if fault is not None:
                if is_alike:
                    # It would have passed, but for the audit.
                    self.stats.audits_failed += 1
                    self.shut_off.add(leader)
                return self._refuse(fault, mode)
        state.deltas.append(delta)
        state.accepted += 1
        return Verdict(fault=None, mode=mode)

    def audit(self, blocks_max: int = 1) -> list[FailedAudit]:
        """Make up in the background for what was skipped, the oldest first. Gives what should not have passed."""
        failed = []
        for _ in range(min(blocks_max, len(self._waiting))):
            leader, block = self._waiting.popleft()
            self.stats.audits += 1
            fault = self._meaning_fault(block)
            if fault is not None:
                self.stats.audits_failed += 1
                self.shut_off.add(leader)
                failed.append(FailedAudit(leader=leader, digest=self._checks.digest(block), fault=fault))
        return failed

    @property
    def audits_waiting(self) -> int:
        return len(self._waiting)

    def allow(self, leader: NodeId) -> None:
        """An operator trusts a leader again; it begins without history."""
        self.shut_off.discard(leader)
        if self.state is not None and self.state.leader == leader:
            self.state = FastPathState(leader, self.state.term)

    def _is_audited(self, state: FastPathState, block: Block) -> bool:
        if (state.accepted + 1) % AUDIT_EACH == 0:
            return True
        drawn = blake2b(self._checks.digest(block), key=self._secret[:64], digest_size=8).digest()
        return int.from_bytes(drawn, "big") % self._sample_one_in == 0

    def _meaning_fault(self, block: Block) -> str | None:
        for meaning in Meaning:
            fault = self._checks.meaning_fault(meaning, block)
            if fault is not None:
                return f"{meaning.value}: {fault}"
        return None

    def _refuse(self, fault: str, mode: Mode) -> Verdict:
        self.stats.refused += 1
        return Verdict(fault=fault, mode=mode)

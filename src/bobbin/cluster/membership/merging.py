"""What is done when a part of the cluster that was cut off comes back.

Under consensus the smaller part of a split has committed nothing, so there is no state to be merged, and nothing here
looks at any: not at states, not at vectors that describe them. Three things are left.

- The two sides have different views of who is well. Both show the other one all that they hold; the member table takes
  the greater word on each node, in whatever order words come.
- Data that was declared as replicated without conflicts may have been changed on both sides. It is exchanged and
  joined. What nobody declared is not touched.
- Transactions may be undecided. That is settled by the records of decisions alone: whoever waits is made to ask again,
  and votes that are known here decide nothing.

A merge with a peer is a session, which goes through its phases in order; each has its time, and is tried again so many
times. There is one session at a time, a peer that was merged with has rest for a while, and the same heal is not taken
up twice. Every failure of a node begins a new generation; a session of an earlier one is given up, for the network has
split again under it.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Final, Protocol, TypeAlias

from msgspec import Struct

from bobbin.cluster.membership.messages import GossipNodeState
from bobbin.cluster.membership.table import supersedes
from bobbin.cluster.names import NodeId
from bobbin.errors import UsageError


class MergeConfig(Struct, frozen=True, kw_only=True):
    """How a heal is followed up."""

    heal_confirmations: int = 3
    """Messages of the peer that must have come before anything is begun."""
    phase_timeout_ms: int = 5_000
    phase_retries_max: int = 3
    sessions_max: int = 1
    """Merges at a time; other peers wait for their turn."""
    cooldown_ms: int = 10_000
    """After a session with a peer, until the next one with it."""
    deduplication_ms: int = 5_000
    """After the beginning of a session, in which another heal of the same peer is the same heal."""
    automatic: bool = True
    """Off: a session begins only when somebody asks for it."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if not isinstance(value, bool) and value < (0 if name == "phase_retries_max" else 1):
                raise UsageError(f"{name} must be above 0, not {value}")


AGGRESSIVE: Final = MergeConfig(heal_confirmations=2, phase_timeout_ms=3_000, cooldown_ms=5_000)
CONSERVATIVE: Final = MergeConfig(heal_confirmations=5, phase_timeout_ms=10_000, cooldown_ms=30_000)
MERGE_PRESETS: Final = {"default": MergeConfig(), "aggressive": AGGRESSIVE, "conservative": CONSERVATIVE}


class MergePhase(Enum):
    """Where a session is."""

    HEAL_DETECTION = "heal-detection"
    VIEW_EXCHANGE = "view-exchange"
    MEMBERSHIP_RECONCILIATION = "membership-reconciliation"
    DATA_RECONCILIATION = "data-reconciliation"
    TRANSACTION_RECONCILIATION = "transaction-reconciliation"
    FINALIZATION = "finalization"
    COMPLETED = "completed"
    FAILED = "failed"


MERGE: Final = {
    MergePhase.HEAL_DETECTION: MergePhase.VIEW_EXCHANGE,
    MergePhase.VIEW_EXCHANGE: MergePhase.MEMBERSHIP_RECONCILIATION,
    MergePhase.MEMBERSHIP_RECONCILIATION: MergePhase.DATA_RECONCILIATION,
    MergePhase.DATA_RECONCILIATION: MergePhase.TRANSACTION_RECONCILIATION,
    MergePhase.TRANSACTION_RECONCILIATION: MergePhase.FINALIZATION,
    MergePhase.FINALIZATION: MergePhase.COMPLETED,
}
"""The phase after each. To FAILED leads every one that is not the end."""


class Declared(Protocol):
    """Data of which every two states can be joined, in any order and any number of times."""

    def state(self) -> bytes:
        """All of it."""
        ...

    def join(self, state: bytes) -> None:
        """Take in the state of another copy. What cannot be read raises ``PeerError`` and changes nothing."""
        ...


class ShowView(Struct, frozen=True):
    """Send a peer all that this node holds of all members."""

    peer: NodeId


class OfferData(Struct, frozen=True):
    """Send a peer the state of a declared datum."""

    peer: NodeId
    name: str
    state: bytes


class AskDecisions(Struct, frozen=True):
    """Let whoever waits for the decision on a transaction ask for it now. Nothing is decided here."""

    peer: NodeId


class MergeEnded(Struct, frozen=True):
    """A session is over. For the audit log."""

    peer: NodeId
    phase: MergePhase
    """COMPLETED or FAILED."""
    reason: str
    took_ms: int


MergeEffect: TypeAlias = ShowView | OfferData | AskDecisions | MergeEnded


class MergeStats(Struct, kw_only=True):
    """What has come of heals."""

    started: int = 0
    completed: int = 0
    failed: int = 0
    """Among them those that a new split has ended."""
    aborted_by_split: int = 0
    deduplicated: int = 0
    conflicts_auto: int = 0
    """Words on a node in which two views differed, and which the member table has settled."""
    conflicts_manual: int = 0
    """Words of a peer that were not taken: the rules of membership refuse them."""
    duration_ms_total: int = 0
    """Of completed ones."""


class _Session(Struct):
    generation: int
    began_ms: int
    phase: MergePhase
    phase_began_ms: int
    tries: int = 0
    """Of the present phase, beyond the first."""
    confirmations: int = 0
    view: tuple[GossipNodeState, ...] | None = None
    """Of the peer."""
    differing: int = 0
    """Words of that view which this node did not hold."""
    missing: set[str] | None = None
    """Declared data of the peer that have not come yet."""


class PartitionMerge:
    """The merges of one node."""

    def __init__(
        self,
        config: MergeConfig,
        *,
        view: Callable[[], Mapping[NodeId, GossipNodeState]],
        declared: Mapping[str, Declared] | None = None,
    ) -> None:
        """``view``: the member table as it is."""
        self.stats: Final = MergeStats()
        self.generation = 0
        """Rises with every failure of a node."""
        self._config: Final = config
        self._view: Final = view
        self._declared: Final = {} if declared is None else dict(declared)
        self._sessions: Final[dict[NodeId, _Session]] = {}
        self._waiting: Final[dict[NodeId, None]] = {}
        """Peers whose turn has not come, in order."""
        self._last_began: Final[dict[NodeId, int]] = {}
        self._last_ended: Final[dict[NodeId, int]] = {}

    @property
    def phases(self) -> dict[NodeId, MergePhase]:
        """Where each session is."""
        return {peer: session.phase for peer, session in self._sessions.items()}

    # ---- what comes in ---------------------------------------------------------------------------------------------

    def healed(self, peer: NodeId, *, now_ms: int) -> list[MergeEffect]:
        """Membership says that a peer is back, and that both directions are proven."""
        return self.request(peer, now_ms=now_ms) if self._config.automatic else []

    def request(self, peer: NodeId, *, now_ms: int) -> list[MergeEffect]:
        """Merge with a peer as soon as its turn comes."""
        began_ms = self._last_began.get(peer)
        is_recent = began_ms is not None and now_ms - began_ms < self._config.deduplication_ms
        if peer in self._sessions or peer in self._waiting or is_recent:
            self.stats.deduplicated += 1
            return []
        self._waiting[peer] = None
        return self.tick(now_ms=now_ms)

    def failed(self, node: NodeId, *, now_ms: int) -> list[MergeEffect]:
        """A node has failed: the network has split again, and every session is of the past.

        A peer that is still there is merged with once more, later.
        """
        self.generation += 1
        self._waiting.pop(node, None)
        effects: list[MergeEffect] = []
        for peer in list(self._sessions):
            effects += self._fail(peer, "the network has split again", now_ms)
            self.stats.aborted_by_split += 1
            if peer != node:
                self._waiting[peer] = None
        return effects

    def left(self, node: NodeId) -> None:
        """A node is no member any more."""
        for part in (self._sessions, self._waiting, self._last_began, self._last_ended):
            part.pop(node, None)

    def heard(self, peer: NodeId, states: Iterable[GossipNodeState] | None = None, *, now_ms: int) -> list[MergeEffect]:
        """A message of a peer has come; ``states``: what it says of members, before the table takes it."""
        session = self._sessions.get(peer)
        if session is None:
            return []
        session.confirmations += 1
        if states is not None and session.phase is MergePhase.VIEW_EXCHANGE:
            known = self._view()
            session.view = tuple(state for state in states if state.node in known)
            session.differing = sum(known[state.node] != state for state in session.view)
            return self._enter(peer, MergePhase.MEMBERSHIP_RECONCILIATION, now_ms)
        return self._advance(peer, now_ms)

    def data(self, peer: NodeId, name: str, state: bytes, *, now_ms: int) -> list[MergeEffect]:
        """The state of a declared datum on a peer. What is not declared here is ignored."""
        session, datum = self._sessions.get(peer), self._declared.get(name)
        if datum is None:
            return []
        datum.join(state)
        if session is None or session.missing is None:
            return []
        session.missing.discard(name)
        return self._advance(peer, now_ms)

    def tick(self, *, now_ms: int) -> list[MergeEffect]:
        """Time has passed; allowed at any moment."""
        effects: list[MergeEffect] = []
        for peer, session in list(self._sessions.items()):
            effects += self._advance(peer, now_ms)
            if self._sessions.get(peer) is session:
                effects += self._watch(peer, session, now_ms)
        for peer in list(self._waiting):
            if len(self._sessions) >= self._config.sessions_max:
                break
            ended_ms = self._last_ended.get(peer)
            if ended_ms is None or now_ms - ended_ms >= self._config.cooldown_ms:
                del self._waiting[peer]
                self._begin(peer, now_ms)
        return effects

    # ---- sessions --------------------------------------------------------------------------------------------------

    def _begin(self, peer: NodeId, now_ms: int) -> None:
        self.stats.started += 1
        self._last_began[peer] = now_ms
        self._sessions[peer] = _Session(self.generation, now_ms, MergePhase.HEAL_DETECTION, now_ms)

    def _advance(self, peer: NodeId, now_ms: int) -> list[MergeEffect]:
        """Go on as far as it goes."""
        effects: list[MergeEffect] = []
        while (session := self._sessions.get(peer)) is not None and self._is_done(session):
            assert session.generation == self.generation, "a session of an earlier generation was not given up"
            effects += self._enter(peer, MERGE[session.phase], now_ms)
        return effects

    def _is_done(self, session: _Session) -> bool:
        match session.phase:
            case MergePhase.HEAL_DETECTION:
                return session.confirmations >= self._config.heal_confirmations
            case MergePhase.VIEW_EXCHANGE:
                return session.view is not None
            case MergePhase.DATA_RECONCILIATION:
                return not session.missing
            case _:
                return True

    def _enter(self, peer: NodeId, phase: MergePhase, now_ms: int) -> list[MergeEffect]:
        session = self._sessions[peer]
        assert MERGE[session.phase] is phase, f"{session.phase} is not followed by {phase}"
        if session.phase is MergePhase.MEMBERSHIP_RECONCILIATION:
            self._count_conflicts(session)
        session.phase, session.phase_began_ms, session.tries = phase, now_ms, 0
        if phase is MergePhase.DATA_RECONCILIATION:
            session.missing = set(self._declared)
        if phase is MergePhase.COMPLETED:
            self.stats.completed += 1
            self.stats.duration_ms_total += now_ms - session.began_ms
            return [self._end(peer, MergePhase.COMPLETED, "", now_ms)]
        return self._work(peer, session)

    def _work(self, peer: NodeId, session: _Session) -> list[MergeEffect]:
        """What a phase wants to be done, at its beginning and at every further try."""
        match session.phase:
            case MergePhase.VIEW_EXCHANGE | MergePhase.FINALIZATION:
                return [ShowView(peer)]
            case MergePhase.DATA_RECONCILIATION:
                return [OfferData(peer, name, datum.state()) for name, datum in sorted(self._declared.items())]
            case MergePhase.TRANSACTION_RECONCILIATION:
                return [AskDecisions(peer)]
            case _:
                return []

    def _count_conflicts(self, session: _Session) -> None:
        """After the table had the peer's view: what differed is settled, or was refused by the table."""
        known = self._view()
        refused = sum(state.node in known and supersedes(state, known[state.node]) for state in session.view or ())
        self.stats.conflicts_manual += refused
        self.stats.conflicts_auto += max(0, session.differing - refused)

    def _watch(self, peer: NodeId, session: _Session, now_ms: int) -> list[MergeEffect]:
        """Try a phase again whose time is over, or give up."""
        if now_ms - session.phase_began_ms < self._config.phase_timeout_ms:
            return []
        if session.tries >= self._config.phase_retries_max:
            return self._fail(peer, f"{session.phase.value} came to no end", now_ms)
        session.tries += 1
        session.phase_began_ms = now_ms
        return self._work(peer, session)

    def _fail(self, peer: NodeId, reason: str, now_ms: int) -> list[MergeEffect]:
        self.stats.failed += 1
        return [self._end(peer, MergePhase.FAILED, reason, now_ms)]

    def _end(self, peer: NodeId, phase: MergePhase, reason: str, now_ms: int) -> MergeEnded:
        session = self._sessions.pop(peer)
        self._last_ended[peer] = now_ms
        return MergeEnded(peer, phase, reason, now_ms - session.began_ms)

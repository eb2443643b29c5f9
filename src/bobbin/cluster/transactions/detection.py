"""The search for deadlocks over all shards: a machine at the leader of shard 0.

Every shard tells its waits, all of them, once in an interval; the last word of each counts, and a shard that has been
silent for long says nothing. Where these together show a circle, the shards are asked again for exactly its edges. Only
when each edge stands then, too, is the victim's coordinator told to abort it.

So nobody goes for a circle that never was. Each edge of it was there when it was reported, before the question was
asked, and is there after it. A transaction that holds keeps what it holds until it ends, and it does not come back, so
between the two the edge was there all the time: at the moment of the question all of them were. A circle ends only when
one of it is aborted. That somebody else is, in the same moment and for another reason, no check can exclude.

Every circle is checked for itself. That is enough, for the circle of one victim does not lead over another victim that
ranks above it (see ``deadlock``): it stands whether or not that one goes.

A victim that was told counts as gone, so that a component costs no more victims than it must. If after some time it
still waits, the message was lost, and all of this is done again.
"""

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from msgspec import Struct

from bobbin.cluster.settings import DeadlockDetectorConfig
from bobbin.cluster.transactions.deadlock import DeadlockDetector, DeadlockInfo, DeadlockStats
from bobbin.cluster.transactions.locks import LockManager
from bobbin.cluster.transactions.messages import Recheck, Rechecked, VictimMsg, WaitEdge, WaitReport
from bobbin.cluster.transactions.names import ShardId, TxId
from bobbin.cluster.transactions.wait_graph import WaitForGraph

SILENT_INTERVALS: Final = 20
"""After so many, what a shard has said last is forgotten."""
ANSWER_INTERVALS: Final = 10
"""After so many, a question without its answers is given up, and a victim that still waits is told again."""
CHECKS_MAX: Final = 1_000
"""Circles that are checked at one time. The others wait for the next interval."""


class Say(Struct, frozen=True):
    """To the leader of a shard. It may get lost."""

    shard: ShardId
    message: Recheck | VictimMsg


class Found(Struct, frozen=True):
    """A circle that stood when it was checked again. A person may want to know."""

    info: DeadlockInfo
    stood_ms: int
    is_aborted: bool
    """Whether the victim is told to go; otherwise it is only reported."""


DetectionEffect: TypeAlias = Say | Found


class _Heard(Struct):
    """The last word of a shard."""

    term: int
    round: int
    heard_ms: int
    edges: tuple[WaitEdge, ...]


class _Check(Struct):
    """A circle about which shards are being asked."""

    info: DeadlockInfo
    asked_ms: int
    waiting: set[ShardId]
    """Those that have not answered yet."""
    standing: set[tuple[TxId, TxId]]
    """The edges that were confirmed."""
    coordinator: ShardId
    """Of the victim."""


class Detection:
    """What all shards wait for, and the circles in it."""

    def __init__(self, config: DeadlockDetectorConfig, *, shards: int, stats: DeadlockStats) -> None:
        """``shards``: how many there are; nobody else is listened to."""
        self.stats: Final = stats
        self._config: Final = config
        self._shards: Final = shards
        self._detector: Final = DeadlockDetector(config.victim_policy)
        self._next_ms = 0
        self._heard: Final[dict[ShardId, _Heard]] = {}
        self._began: dict[TxId, int] = {}
        """When a transaction began to wait, by this machine's clock: shards have clocks of their own."""
        self._checks: Final[dict[int, _Check]] = {}
        self._last_check = 0
        self._gone: dict[TxId, int | None] = {}
        """Victims that were told, and until when they count as gone; None for as long as they wait."""

    @property
    def due_ms(self) -> int | None:
        """When ``tick`` is wanted; None for never."""
        return self._next_ms if self._config.enabled else None

    @property
    def is_quiet(self) -> bool:
        """Nobody waits anywhere, as far as is known, and nothing is being asked."""
        return not self._checks and not any(heard.edges for heard in self._heard.values())

    # ---- what comes in ---------------------------------------------------------------------------------------------

    def report(self, message: WaitReport, *, now_ms: int) -> bool:
        """A shard tells its waits. False: it is older than what is known, or from no shard of this set."""
        if not self._config.enabled or not 0 <= message.shard < self._shards:
            return False
        known = self._heard.get(message.shard)
        if known is not None and (message.term, message.round) <= (known.term, known.round):
            return False
        # Nobody waits for itself; such an edge could only be a lie, and would be a circle.
        edges = tuple(edge for edge in message.edges if edge.waiter != edge.holder)
        self._heard[message.shard] = _Heard(message.term, message.round, now_ms, edges)
        newest_ms = max((edge.started_ms for edge in edges), default=0)
        for edge in edges:
            # As if the newest wait had begun just now: a shard's clock is only compared with itself.
            self._began.setdefault(edge.waiter, now_ms - (newest_ms - edge.started_ms))
        return True

    def rechecked(self, message: Rechecked, *, now_ms: int) -> list[DetectionEffect]:
        """A shard answers which of the edges that it was asked for still stand."""
        check = self._checks.get(message.number)
        if check is None or message.shard not in check.waiting:
            return []
        check.waiting.discard(message.shard)
        check.standing.update(message.standing)
        if check.waiting:
            return []
        del self._checks[message.number]
        if not check.standing.issuperset(_edges(check.info)):
            self.stats.dissolved += 1
            return []
        return self._sentence(check, now_ms)

    def tick(self, *, now_ms: int) -> list[DetectionEffect]:
        """Time has passed. Allowed at any moment; something is done once in an interval."""
        if not self._config.enabled or now_ms < self._next_ms:
            return []
        self._next_ms = now_ms + self._config.detection_interval_ms
        self._expire(now_ms)
        edges = self._edges_by_pair()
        if not edges:
            return []
        self.stats.passes += 1
        locks = self._lock_counts()
        effects: list[DetectionEffect] = []
        under_check = {check.info.victim for check in self._checks.values()}
        for info in self._detector.detect(self._graph(edges), locks=lambda tx: locks.get(tx, 0)):
            if len(self._checks) >= CHECKS_MAX:
                break
            if info.victim not in under_check:
                effects += self._ask(info, edges, now_ms)
        return effects

    # ---- what is known ---------------------------------------------------------------------------------------------

    def _expire(self, now_ms: int) -> None:
        interval_ms = self._config.detection_interval_ms
        for heard in self._heard.values():
            if now_ms - heard.heard_ms >= SILENT_INTERVALS * interval_ms:
                # Its term and round stay known: what was said before must not come back.
                heard.edges = ()
        for number, check in list(self._checks.items()):
            if now_ms - check.asked_ms >= ANSWER_INTERVALS * interval_ms:
                del self._checks[number]
                self.stats.unanswered += 1
        waiting = {edge.waiter for heard in self._heard.values() for edge in heard.edges}
        self._began = {tx: began_ms for tx, began_ms in self._began.items() if tx in waiting}
        self._gone = {
            tx: until_ms
            for tx, until_ms in self._gone.items()
            if tx in waiting and (until_ms is None or now_ms < until_ms)
        }

    def _edges_by_pair(self) -> dict[tuple[TxId, TxId], dict[ShardId, WaitEdge]]:
        """Every edge between transactions that are not told to go, with the shards that report it."""
        found: dict[tuple[TxId, TxId], dict[ShardId, WaitEdge]] = {}
        for shard in sorted(self._heard):
            for edge in self._heard[shard].edges:
                if edge.waiter not in self._gone and edge.holder not in self._gone:
                    found.setdefault((edge.waiter, edge.holder), {})[shard] = edge
        return found

    def _lock_counts(self) -> dict[TxId, int]:
        """How many locks each transaction holds, on all shards where somebody waits for it."""
        counts: dict[TxId, int] = {}
        for heard in self._heard.values():
            for tx, locks in {edge.holder: edge.locks for edge in heard.edges}.items():
                counts[tx] = counts.get(tx, 0) + locks
        return counts

    def _graph(self, edges: Iterable[tuple[TxId, TxId]]) -> WaitForGraph:
        graph = WaitForGraph()
        holders: dict[TxId, list[TxId]] = {}
        for waiter, holder in edges:
            holders.setdefault(waiter, []).append(holder)
        about: dict[TxId, WaitEdge] = {}
        for shard in sorted(self._heard, reverse=True):
            about.update((edge.waiter, edge) for edge in self._heard[shard].edges)
        for waiter, some in holders.items():
            said = about[waiter]
            graph.wait(waiter, some, started_ms=self._began[waiter], born_ms=said.born_ms, priority=said.priority)
        return graph

    # ---- what is done ----------------------------------------------------------------------------------------------

    def _ask(
        self, info: DeadlockInfo, edges: dict[tuple[TxId, TxId], dict[ShardId, WaitEdge]], now_ms: int
    ) -> list[DetectionEffect]:
        by_shard: dict[ShardId, list[tuple[TxId, TxId]]] = {}
        for pair in _edges(info):
            for shard in edges[pair]:
                by_shard.setdefault(shard, []).append(pair)
        first = min(edges[_edges(info)[0]].items())[1]
        self._last_check += 1
        self._checks[self._last_check] = _Check(info, now_ms, set(by_shard), set(), first.coordinator)
        return [Say(shard, Recheck(self._last_check, shard, tuple(by_shard[shard]))) for shard in sorted(by_shard)]

    def _sentence(self, check: _Check, now_ms: int) -> list[DetectionEffect]:
        config, info = self._config, check.info
        stood_ms = now_ms - max(self._began.get(tx, now_ms) for tx in info.cycle)
        self.stats.note(len(info.cycle), length_max=config.max_cycle_length, stood_ms=stood_ms)
        found = Found(info, stood_ms, config.auto_abort_victim)
        if not config.auto_abort_victim:
            self._gone[info.victim] = None
            return [found]
        self._gone[info.victim] = now_ms + ANSWER_INTERVALS * config.detection_interval_ms
        self.stats.victims += 1
        reason = f"deadlock: a circle of {len(info.cycle)} transactions that wait for each other"
        return [Say(check.coordinator, VictimMsg(info.victim, check.coordinator, reason)), found]


def _edges(info: DeadlockInfo) -> list[tuple[TxId, TxId]]:
    """The edges of a circle; the first is that of the victim."""
    return list(zip(info.cycle, (*info.cycle[1:], info.cycle[0]), strict=True))


# ---- the side of the shards ----------------------------------------------------------------------------------------


def wait_report(
    locks: LockManager, *, shard: ShardId, number: int, term: int, coordinator_of: Callable[[TxId], ShardId]
) -> WaitReport:
    """All waits of a shard, as they are now."""
    waits = locks.waits
    return WaitReport(
        shard,
        number,
        term,
        tuple(
            WaitEdge(
                waiter,
                holder,
                waits.wait_started[waiter],
                waits.born[waiter],
                waits.priorities[waiter],
                locks.count(holder),
                coordinator_of(waiter),
            )
            for waiter in sorted(waits.edges)
            for holder in sorted(waits.edges[waiter])
        ),
    )


def recheck(waits: WaitForGraph, message: Recheck) -> Rechecked:
    """Which of the edges that are asked for stand now."""
    standing = tuple((waiter, holder) for waiter, holder in message.edges if holder in waits.edges.get(waiter, ()))
    return Rechecked(message.number, message.shard, standing)

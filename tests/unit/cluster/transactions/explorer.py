"""Every order of events of one transaction over two shards, as far as budgets go.

Messages are never used up: whatever was once said may arrive at any later time, once, often or never. That covers loss,
duplication, delay and reordering at once. A leader may be lost at any time, with any of its writes under way done or
not; the lost one may go on speaking, for it does not know. What is asserted after every step:

T1  no participant has committed while another one that has promised aborted
T3  a commit is said only after the decision is durable, an abort never after that
T4  a promise ends only by a message that stems from the decision
T5  one decision, whoever leads

and, from every state that leads to none that was not met before, that a fair run brings everything to its end.
"""

from collections.abc import Hashable, Iterator
from random import Random
from typing import TypeVar

from bobbin.cluster.settings import DistributedTxConfig
from bobbin.cluster.transactions.conduct import Conduct
from bobbin.cluster.transactions.coordinator import Coordinator, _Denial
from bobbin.cluster.transactions.delivery import Delivery
from bobbin.cluster.transactions.effects import CoordinatorEffect, End, Send, Write
from bobbin.cluster.transactions.messages import (
    No,
    ShardMessage,
    TxAbortMsg,
    TxAckMsg,
    TxCommitMsg,
    TxDecisionMsg,
    TxPrepareMsg,
    TxPrepareResponse,
    TxQueryMsg,
)
from bobbin.cluster.transactions.names import ShardId
from bobbin.cluster.transactions.ongoing import Ongoing
from bobbin.cluster.transactions.phases import Ended, TxPhase
from bobbin.cluster.transactions.recovery import TxRecoveryState
from bobbin.cluster.transactions.stats import TxStats
from bobbin.cluster.transactions.timers import Timers
from tests.unit.cluster.transactions.driven import HOME, ONE, TWO, X, delta_of, parts, yes

T = TypeVar("T")
Action = tuple[str, ShardMessage | int | None, bool]
"""What happens, with what, and whether to or by the leader that was deposed, or the promise that is made."""
CONFIG = DistributedTxConfig()
BUDGETS = ("abort", "again", "ask", "crash", "lose", "refuse", "tick")
FOR_COORDINATORS = (TxPrepareResponse, TxAckMsg, TxQueryMsg)
FINAL = (Ended.ABORTED, Ended.CONFLICT, Ended.REFUSED)


class World:
    """One coordinator, perhaps one that was deposed, and two participants."""

    def __init__(self, **budgets: int) -> None:
        self.budgets = dict.fromkeys(BUDGETS, 0) | budgets
        self.state = TxRecoveryState()
        self.leader = Coordinator(HOME, CONFIG, TxStats(), self.state, delta_of=delta_of)
        self.stale: Coordinator | None = None
        self.writes: list[Write] = []
        self.soup: set[ShardMessage] = set()
        self.standing = {ONE: "", TWO: ""}
        self.decision: bool | None = None
        """The first that was ever made."""
        self.now_ms = 0
        self.requests = 0
        self.hear(self.leader.tick(now_ms=0))
        self.begin(self.leader)

    # ---- what can happen -------------------------------------------------------------------------------------------

    def actions(self) -> Iterator[Action]:
        for message in self.soup:
            if isinstance(message, TxPrepareMsg):
                yield "prepare", message.shard, True
                if self.budgets["refuse"]:
                    yield "refuse", message.shard, False
            elif isinstance(message, FOR_COORDINATORS):
                yield "hear", message, False
                if self.stale is not None:
                    yield "hear", message, True
            else:
                yield "obey", message, False
        if self.budgets["ask"]:
            yield from (("ask", shard, False) for shard in self.standing if self.standing[shard] == "promised")
        if self.writes:
            yield "write", None, False
            if self.budgets["lose"]:
                yield "lose", None, False
        if self.budgets["crash"]:
            yield from (("crash", survivors, False) for survivors in range(len(self.writes) + 1))
        for name in ("tick", "abort", "again"):
            if self.budgets[name]:
                yield name, None, False
                if self.stale is not None:
                    yield name, None, True

    def do(self, action: Action) -> None:
        name, what, flag = action
        if name in self.budgets:
            self.budgets[name] -= 1
        if isinstance(what, int):
            if name == "crash":
                self.crash(what)
            elif name == "ask":
                self.soup.add(TxQueryMsg(X, HOME, ShardId(what), HOME))
            else:
                self.prepare(ShardId(what), does_promise=flag)
        elif what is not None:
            if name == "hear":
                self.tell(what, is_stale=flag)
            else:
                self.obey(what)
        elif name == "write":
            self.write()
        elif name == "lose":
            self.hear(self.leader.lost(self.writes.pop(0).ticket, "", now_ms=self.now_ms))
        else:
            self.by_hand(name, is_stale=flag)
        self.check()

    def by_hand(self, name: str, *, is_stale: bool) -> None:
        who = self.stale if is_stale else self.leader
        assert who is not None
        if name == "tick":
            self.now_ms = max(self.now_ms, who.due_ms or 0)
            self.hear(who.tick(now_ms=self.now_ms), is_stale=is_stale)
        elif name == "abort":
            self.requests += 1
            self.hear(who.abort(X, self.requests, now_ms=self.now_ms), is_stale=is_stale)
        else:
            self.begin(who, is_stale=is_stale)

    def begin(self, who: Coordinator, *, is_stale: bool = False) -> None:
        self.requests += 1
        effects = who.begin(X, parts(X), 60_000, self.requests, now_ms=self.now_ms, at_ms=0)
        self.hear(effects, is_stale=is_stale)

    def write(self) -> None:
        write = self.writes.pop(0)
        wrong = self.state.apply(write.entries)
        assert wrong is None, wrong
        self.decide_by_log()
        self.hear(self.leader.written(write.ticket, now_ms=self.now_ms))

    def crash(self, survivors: int) -> None:
        """A new leader, who has so many of the writes that were under way; the old one has not heard of any."""
        after = TxRecoveryState()
        after.restore(self.state.snapshot())
        for write in self.writes[:survivors]:
            assert after.apply(write.entries) is None
        self.stale, self.state, self.writes = self.leader, after, []
        self.decide_by_log()
        self.leader = Coordinator(HOME, CONFIG, TxStats(), after, delta_of=delta_of)
        self.hear(self.leader.tick(now_ms=self.now_ms))

    # ---- participants ----------------------------------------------------------------------------------------------

    def prepare(self, shard: ShardId, *, does_promise: bool) -> None:
        standing = self.standing[shard]
        if standing in ("", "promised") and (does_promise or standing == "promised"):
            self.standing[shard] = "promised"
            self.soup.add(TxPrepareResponse(X, shard, yes(shard)))
        else:
            self.soup.add(TxPrepareResponse(X, shard, No("")))

    def obey(self, message: ShardMessage) -> None:
        assert isinstance(message, TxCommitMsg | TxAbortMsg | TxDecisionMsg)
        if isinstance(message, TxDecisionMsg):
            shard, commits = message.shard, bool(message.commits)
        else:
            shard, commits = message.shard, isinstance(message, TxCommitMsg)
        if commits:
            assert self.standing[shard] in ("promised", "committed"), "T1: told to commit what was not promised"
            self.standing[shard] = "committed"
        else:
            assert self.standing[shard] != "committed", "T1: told to abort what was committed"
            self.standing[shard] = "aborted"
        self.soup.add(TxAckMsg(X, shard, success=True))

    # ---- the coordinator -------------------------------------------------------------------------------------------

    def tell(self, message: ShardMessage, *, is_stale: bool) -> None:
        who = self.stale if is_stale else self.leader
        assert who is not None
        match message:
            case TxPrepareResponse():
                effects = who.vote(message, now_ms=self.now_ms)
            case TxAckMsg():
                effects = who.ack(message, now_ms=self.now_ms)
            case TxQueryMsg():
                effects = who.query(message, now_ms=self.now_ms)
            case _:
                raise AssertionError(message)
        self.hear(effects, is_stale=is_stale)

    def hear(self, effects: list[CoordinatorEffect], *, is_stale: bool = False) -> None:
        for effect in effects:
            match effect:
                case Write() if not is_stale:
                    self.writes.append(effect)
                case Send(shard, TxDecisionMsg(commits=commits)):
                    if commits is not None:
                        self.decide(commits=commits)
                        # Here it says whom it is for.
                        self.soup.add(TxDecisionMsg(X, shard, commits))
                case Send(shard, TxAbortMsg()):
                    self.decide(commits=False)
                    self.soup.add(TxAbortMsg(X, HOME, shard, ""))
                case Send(_, message):
                    if isinstance(message, TxCommitMsg):
                        self.decide(commits=True)
                    self.soup.add(message)
                case End(ended=Ended.COMMITTED):
                    self.decide(commits=True)
                case End(ended=ended) if ended in FINAL:
                    self.decide(commits=False)

    def decide(self, *, commits: bool) -> None:
        """Somebody says so. A commit must be durable by then."""
        if commits:
            assert self.decision is True, "T3: a commit is said without a durable decision"
        if self.decision is None:
            self.decision = commits
        assert self.decision is commits, "T5: two decisions"

    def decide_by_log(self) -> None:
        record = self.state.open.get(X)
        if record is not None and record.phase in (TxPhase.COMMITTING, TxPhase.COMMITTED):
            assert self.decision in (None, True), "T5: a durable commit after an abort was said"
            self.decision = True

    # ---- what must hold --------------------------------------------------------------------------------------------

    def check(self) -> None:
        assert set(self.standing.values()) != {"committed", "aborted"}, "T1"
        commits = self.state.outcome(X)
        if commits is not None:
            assert self.decision in (None, commits), "T5: remembered otherwise"
            if commits:
                assert set(self.standing.values()) == {"committed"}, "L15: forgotten before everybody has done it"

    def key(self) -> Hashable:
        """What makes a difference to what can happen next. Moments are left out: a tick goes to whatever is due."""
        return (
            self.state.snapshot(),
            _inside(self.leader),
            None if self.stale is None else _inside(self.stale),
            tuple(write.entries for write in self.writes),
            frozenset(self.soup),
            tuple(self.standing.values()),
            self.decision,
            tuple(self.budgets.values()),
        )

    def finish(self) -> None:
        """Everything arrives, nobody is lost any more, and time passes: it must come to an end."""
        for _ in range(200):
            if self.writes:
                self.write()
            else:
                for message in tuple(self.soup):
                    if isinstance(message, TxPrepareMsg):
                        self.prepare(message.shard, does_promise=True)
                    elif isinstance(message, FOR_COORDINATORS):
                        self.tell(message, is_stale=False)
                    else:
                        self.obey(message)
                self.check()
                for shard, standing in self.standing.items():
                    if standing == "promised":
                        self.soup.add(TxQueryMsg(X, HOME, shard, HOME))
                due_ms = self.leader.due_ms
                if not self.writes and due_ms is None and "promised" not in self.standing.values():
                    break
                self.now_ms = max(self.now_ms, due_ms or 0)
                if not self.writes:
                    self.hear(self.leader.tick(now_ms=self.now_ms))
        assert not self.state.open, "T2: something is open for ever"
        assert self.leader.pending() == ()
        assert "promised" not in self.standing.values(), "T2: somebody is left with a promise"


def _inside(coordinator: Coordinator) -> Hashable:
    conduct = coordinator._conduct
    return (
        tuple(
            (
                one.phase,
                one.durable,
                tuple(sorted(one.votes)),
                one.ticket is None,
                one.writes_lost > 0,
                one.wish,
                one.verdict,
                one.prepare_due_ms is None,
                one.is_overdue,
                None
                if one.delivery is None
                else (tuple(one.delivery.waiting), tuple(one.delivery.acknowledged), one.delivery.is_given_up),
            )
            for one in conduct.ongoing.values()
        ),
        tuple((tx, tuple(sorted(denial.askers))) for tx, denial in coordinator._denials.items()),
    )


def fork(world: World) -> World:
    """A world that goes its own way. Values that never change, and counters, are shared."""
    return _copy(world, {})


def _copy(thing: T, made: dict[int, object]) -> T:
    kind = type(thing)
    names = _FIELDS.get(kind)
    if names is None:
        return thing
    copy = made.get(id(thing))
    if copy is None:
        copy = made[id(thing)] = kind.__new__(kind)
        if isinstance(thing, dict):
            assert isinstance(copy, dict)
            copy.update({key: _copy(value, made) for key, value in thing.items()})
        elif isinstance(thing, list):
            assert isinstance(copy, list)
            copy += [_copy(value, made) for value in thing]
        elif isinstance(thing, set):
            assert isinstance(copy, set)
            copy |= thing
        else:
            for name in names or vars(thing):
                setattr(copy, name, _copy(getattr(thing, name), made))
    assert isinstance(copy, kind)
    return copy


_FIELDS: dict[type, tuple[str, ...]] = {
    kind: getattr(kind, "__slots__", ())
    for kind in (dict, list, set, World, Coordinator, Conduct, Ongoing, Delivery, Timers, TxRecoveryState, _Denial)
}
"""What has a life of its own, with its slots."""


def explore(**budgets: int) -> tuple[int, set[bool | None]]:
    """Every state that can be reached; gives how many there are, and the decisions that they end with."""
    stack = [World(**budgets)]
    seen = {stack[0].key()}
    decisions = set[bool | None]()
    while stack:
        world = stack.pop()
        has_news = False
        for action in tuple(world.actions()):
            after = fork(world)
            after.do(action)
            key = after.key()
            if key not in seen:
                seen.add(key)
                stack.append(after)
                has_news = True
        if not has_news:
            world.finish()
            decisions.add(world.decision)
    return len(seen), decisions


def wander(random: Random, steps: int, **budgets: int) -> bool | None:
    """One long way, by chance, to its end; gives the decision."""
    world = World(**budgets)
    for _ in range(steps):
        actions = sorted(world.actions(), key=repr)
        if not actions:
            break
        world.do(random.choice(actions))
    world.finish()
    return world.decision

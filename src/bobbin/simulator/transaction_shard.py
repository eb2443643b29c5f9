"""One shard of a world: a log, two nodes that apply it, and whoever leads or thinks so.

The state and the leader are the real ones. A leader dies, and what it has not written is gone; or it is deposed and
goes on for a while, with a state that stands still, proposals that come to nothing, and words that still arrive. It can
be struck at every durable write: before it, after it, when it has heard of it and said nothing, or in the middle of
what it says. Nodes restart from a snapshot of their own or from the whole log. What every place of the log came to, and
the root of the state after it, must be the same on both nodes and in all their lives.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Final, NoReturn, Protocol

from msgspec import Struct

from bobbin.cluster.identity import Identity
from bobbin.cluster.names import MILLISECOND_NS, Index, Term
from bobbin.cluster.shard.commands import Append, Command, Kind, Outcome
from bobbin.cluster.shard.effects import Alarm, Answer, Effect, Propose, Send, WakeAt
from bobbin.cluster.shard.events import Abort, Applied, Begin, Commit, Commits, Event, Heard, Lost, Tick, Validate
from bobbin.cluster.shard.leader import ShardLeader
from bobbin.cluster.shard.machine import Shard
from bobbin.cluster.transactions.messages import ShardMessage
from bobbin.cluster.transactions.names import ShardId
from bobbin.simulator.clock import NodeClock, Timeline
from bobbin.simulator.transaction_checker import TransactionChecker
from bobbin.simulator.transaction_forgery import FORGERIES, forge
from bobbin.simulator.transaction_log import Entry, ReplicatedLog
from bobbin.simulator.transaction_shape import Shape
from bobbin.wire.cluster import shard_commands

STRIKES: Final = ("before", "after", "heard", "half said")
NOBODYS: Final = -1
"""The number of a proposal that no leader has made."""
ROOTS_EVERY: Final = 4
"""Places of the log between two looks at the roots of both nodes; what a place came to is looked at everywhere."""
HALF_HEARD: Final = 0.3
"""Of what comes for a shard with a deposed leader, the share that still goes there."""


class Surroundings(Protocol):
    """What a shard asks of its world."""

    @property
    def timeline(self) -> Timeline: ...

    @property
    def shape(self) -> Shape: ...

    @property
    def checker(self) -> TransactionChecker: ...

    @property
    def is_traced(self) -> bool: ...

    is_troubled: bool

    def send(self, sender: ShardId, to: ShardId, message: ShardMessage) -> None: ...

    def count(self, what: str) -> None: ...

    def tell(self, line: str) -> None: ...

    def fail(self, message: str) -> NoReturn: ...

    def stepped(self, shard: "SimulatedShard") -> None:
        """A leader has taken a step."""
        ...


class Reading(Struct, frozen=True):
    """What somebody has read at one moment."""

    items: tuple[tuple[bytes | None, int], ...]
    """Values and versions, in the order in which they were asked for."""
    height: int
    newest_id: int
    """The height of which new ids are made."""


class Copy:
    """One node of a shard: a state, and clocks."""

    def __init__(self, make: Callable[[], Shard], identity: Identity, clock: NodeClock) -> None:
        self.identity: Final = identity
        self.clock: Final = clock
        self.leap_ms = 0
        """By how much the forward clock has leapt ahead, while the node stood still."""
        self.applied = Index(0)
        self.state = make()
        self._make: Final = make

    @property
    def now_ms(self) -> int:
        return self.clock.read().monotonic_ns // MILLISECOND_NS + self.leap_ms

    @property
    def wall_ms(self) -> int:
        return self.clock.read().tai_ns // MILLISECOND_NS

    def delay_until(self, at_ms: int) -> int:
        """World time until the forward clock shows so much."""
        return max(self.clock.delay_until((at_ms - self.leap_ms) * MILLISECOND_NS), MILLISECOND_NS // 10)

    def restart(self, entries: Sequence[Entry], *, from_snapshot: bool) -> None:
        """Become the same state anew."""
        before = self.state
        self.state = self._make()
        if from_snapshot:
            self.state.restore(list(before.snapshot()))
        else:
            for entry in entries[: self.applied]:
                self.state.do(entry.index, entry.command)


class Chair:
    """A leader, or one that was."""

    def __init__(self, copy: Copy, term: Term, machine: ShardLeader) -> None:
        self.copy: Final = copy
        self.term: Final = term
        self.machine: Final = machine
        self.is_alive = True
        self.is_deposed = False
        self.replies: Final[dict[int, tuple[Callable[[Answer], None], bool]]] = {}
        """By request: whom to tell, and whether it is a transaction over several shards."""
        self.commits: list[Commit] = []
        """What came in this turn of the node, for the leader to hear of together."""
        self.wake_token = 0


class SimulatedShard:
    """One shard."""

    def __init__(
        self,
        shard: ShardId,
        world: Surroundings,
        random: Random,
        copies: Sequence[Copy],
        make_leader: Callable[[Copy, Term], ShardLeader],
    ) -> None:
        self.shard: Final = shard
        self.copies: Final = copies
        self.log: Final = ReplicatedLog()
        self.chair: Chair | None = None
        self.deposed: Chair | None = None
        self._world: Final = world
        self._random: Final = random
        self._make_leader: Final = make_leader
        self._requests = 0
        self._outcomes: Final[list[Outcome]] = []
        self._roots: Final[dict[int, bytes]] = {}
        self._judged: Final[dict[tuple[Term, int], str | None]] = {}
        self._forged: Final[list[Command]] = []

    # ---- leaders ---------------------------------------------------------------------------------------------------

    def elect(self, copy: Copy | None = None) -> None:
        """Somebody leads, unless somebody does; one by chance if it does not matter who."""
        if self.chair is not None:
            return
        world, random = self._world, self._random
        copy = random.choice(self.copies) if copy is None else copy
        if self.deposed is not None and self.deposed.copy is copy:
            self._give_up(self.deposed)
            self.deposed = None
        self.catch_up(copy)
        copy.state.drop_drafts()
        self.chair = Chair(copy, self.log.term, self._make_leader(copy, self.log.term))
        world.count("leaders")
        self._step(self.chair, Tick())

    def lose_leader(self, *, is_deposed: bool) -> None:
        """The leader dies, or is deposed and does not know it. Somebody else leads after a while."""
        chair, world, random = self.chair, self._world, self._random
        if chair is None:
            return
        world.count("leaders deposed" if is_deposed else "leaders dead")
        world.tell(f"shard {self.shard}: the leader of term {chair.term} {'is deposed' if is_deposed else 'dies'}")
        self.chair = None
        chair.is_deposed = True
        survived = self.log.change_leader(random)
        for entry in survived:
            world.count("proposals that survived their leader")
            self._note(entry, self._apply_elsewhere(chair, entry))
        if is_deposed and self.deposed is None:
            self.deposed = chair
            world.timeline.after(random.randrange(10, 6_000) * MILLISECOND_NS, lambda: self._undeceive(chair))
        else:
            self._give_up(chair)
        for copy in self.copies:
            if self.deposed is None or self.deposed.copy is not copy:
                copy.state.drop_drafts()
        world.timeline.after(random.randrange(1, 800) * MILLISECOND_NS, self.elect)

    def _apply_elsewhere(self, chair: Chair, entry: Entry) -> Outcome:
        """On a node that does not belong to whoever has just gone, which may yet stand still."""
        copy = next(copy for copy in self.copies if copy is not chair.copy)
        if self.deposed is not None and self.deposed.copy is copy:
            self._give_up(self.deposed)
            self.deposed = None
        self.catch_up(copy)
        return self._outcomes[entry.index - 1]

    def _undeceive(self, chair: Chair) -> None:
        if self.deposed is chair:
            self._give_up(chair)
            self.deposed = None
            self._follow(chair.copy)

    def _give_up(self, chair: Chair) -> None:
        chair.is_alive = False
        chair.replies.clear()

    # ---- what comes in ---------------------------------------------------------------------------------------------

    def hear(self, sender: ShardId, message: ShardMessage) -> None:
        """A message for whoever leads, or thinks so."""
        chair = self._whoever()
        if chair is not None:
            self._step(chair, Heard(sender, message))

    def ask(self, make: Callable[[int], Event], reply: Callable[[Answer], None]) -> bool:
        """A request of a client; False if nobody takes it. A check of reads needs one who leads for certain."""
        chair = self._whoever()
        if chair is None:
            return False
        self._requests += 1
        event = make(self._requests)
        if isinstance(event, Validate) and chair is not self.chair:
            return False
        chair.replies[self._requests] = (reply, isinstance(event, Begin | Abort))
        if isinstance(event, Commit) and self._world.shape.turn_ns:
            self._gather(chair, event)
        else:
            self._step(chair, event)
        return True

    def _gather(self, chair: Chair, commit: Commit) -> None:
        """All that come in one turn are one event, as at a real node."""
        if not chair.commits:
            self._world.timeline.after(self._world.shape.turn_ns, lambda: self._commit_all(chair))
        chair.commits.append(commit)

    def _commit_all(self, chair: Chair) -> None:
        commits, chair.commits = tuple(chair.commits), []
        if chair.is_alive:
            if len(commits) > 1:
                self._world.count("turns with several commits")
            self._step(chair, Commits(commits))

    def read(self, keys: Sequence[bytes]) -> Reading | None:
        """Values with versions; perhaps of a state that stands still."""
        chair = self._whoever()
        if chair is None:
            return None
        state = chair.copy.state
        height = state.ledger.height
        items = [state.ledger.get(key, height) for key in keys]
        found = tuple((None, 0) if item is None else (item.value, item.version) for item in items)
        return Reading(found, height, state.newest_id)

    def _whoever(self) -> Chair | None:
        if self.deposed is not None and (self.chair is None or self._random.random() < HALF_HEARD):
            return self.deposed
        return self.chair

    # ---- a step of a leader ----------------------------------------------------------------------------------------

    def _step(self, chair: Chair, event: Event, *, effects_max: int | None = None) -> None:
        world = self._world
        now_ms = chair.copy.now_ms
        effects = chair.machine.step(event, now_ms=now_ms, wall_ms=chair.copy.wall_ms)
        is_at_once = any(isinstance(one, WakeAt) and one.at_ms <= now_ms for one in effects)
        if isinstance(event, Tick) and is_at_once:
            world.fail(f"a tick at {now_ms} of shard {self.shard} asks for another one at once: {effects}")
        if world.is_traced:
            world.tell(f"shard {self.shard} term {chair.term}: {event} -> {effects}")
        for effect in effects[:effects_max]:
            if chair.is_alive:
                self._perform(chair, effect)
        world.stepped(self)

    def _perform(self, chair: Chair, effect: Effect) -> None:
        world = self._world
        match effect:
            case Propose(proposal=proposal, command=command):
                self._propose(chair, proposal, command)
            case Send(shard=to, message=message):
                world.checker.said(self.shard, message)
                world.send(self.shard, to, message)
            case Answer(request=request):
                reply, is_begun = chair.replies.pop(request, (None, False))
                if reply is None:
                    world.fail(
                        f"shard {self.shard} answers request {request}, which nobody has made or it has answered"
                    )
                world.checker.answered(self.shard, effect, is_begun_here=is_begun)
                reply(effect)
            case WakeAt(at_ms=at_ms):
                chair.wake_token += 1
                token = chair.wake_token
                world.timeline.after(chair.copy.delay_until(at_ms), lambda: self._wake(chair, token))
            case Alarm(code=code):
                world.count(f"alarm: {code}")

    def _wake(self, chair: Chair, token: int) -> None:
        if chair.is_alive and chair.wake_token == token:
            self._step(chair, Tick())

    def _propose(self, chair: Chair, proposal: int, command: Command) -> None:
        world, random = self._world, self._random
        if chair.is_deposed:
            return
        if world.is_troubled and random.random() < world.shape.refusals:
            world.count("proposals refused")
            world.timeline.after(MILLISECOND_NS, lambda: self._tell_lost(chair, proposal))
            return
        if isinstance(command, Append):
            self._count_block(command)
            if world.shape.is_judging:
                self._judge(chair, proposal, command)
        self.log.propose(chair.term, proposal, command)
        delay = random.randrange(1, world.shape.commit_ns_max)
        world.timeline.after(delay, lambda: self._commit(chair))

    def _count_block(self, command: Append) -> None:
        several = len(command.block.transactions) > 1
        behind = self.log.open_count > 0
        if several:
            self._world.count("blocks of several transactions")
        if behind:
            self._world.count("blocks behind something under way")
        if several and behind:
            self._world.count("blocks of several transactions behind something under way")

    def _tell_lost(self, chair: Chair, proposal: int) -> None:
        if chair.is_alive:
            self._step(chair, Lost(proposal, "no room"))

    def _judge(self, chair: Chair, proposal: int, command: Append) -> None:
        """The other node judges a block, if it has all that stands before it."""
        other = next(copy for copy in self.copies if copy is not chair.copy)
        if other.applied == self.log.last and self.log.open_count == 0:
            self._judged[chair.term, proposal] = other.state.judge(command.block)
            self._world.count("blocks judged")

    # ---- what is committed -----------------------------------------------------------------------------------------

    def _commit(self, chair: Chair) -> None:
        """The oldest open proposal has its quorum; and this is the moment to strike."""
        world, random = self._world, self._random
        if chair is not self.chair:
            return
        strike = world.is_troubled and random.random() < world.shape.strikes
        how = random.choice(STRIKES) if strike else ""
        is_deposed = strike and random.random() < 0.4
        if strike:
            world.count(f"struck at a write: {how}")
        if how == "before":
            self.lose_leader(is_deposed=is_deposed)
            return
        entry = self.log.commit(chair.term)
        assert entry is not None, "each proposal is committed by its own event"
        if how == "after":
            # The leader has not heard of it; the other node has it.
            self._apply_elsewhere(chair, entry)
            self.lose_leader(is_deposed=is_deposed)
            return
        outcome = self._apply(chair.copy, entry)
        self._schedule_other(chair)
        event = Applied(entry.index, entry.command, outcome, None if entry.proposal == NOBODYS else entry.proposal)
        if not how:
            self._step(chair, event)
            return
        self._step(chair, event, effects_max=0 if how == "heard" else random.randint(0, 2))
        if chair is self.chair:
            self.lose_leader(is_deposed=is_deposed)

    def _schedule_other(self, chair: Chair) -> None:
        other = next(copy for copy in self.copies if copy is not chair.copy)
        lag = self._world.shape.lag_ns_max
        if lag == 0:
            self._follow(other)
        else:
            self._world.timeline.after(self._random.randrange(lag), lambda: self._follow(other))

    def _follow(self, copy: Copy) -> None:
        """A node takes in what is committed, unless it leads or stands still."""
        leading = [chair.copy for chair in (self.chair, self.deposed) if chair is not None]
        if copy not in leading:
            self.catch_up(copy)

    def catch_up(self, copy: Copy) -> None:
        """Apply everything that is committed."""
        for entry in self.log.entries[copy.applied :]:
            self._apply(copy, entry)

    def _apply(self, copy: Copy, entry: Entry) -> Outcome:
        assert entry.index == copy.applied + 1
        if self._world.shape.is_bytes:
            raw = copy.state.apply(entry.index, entry.term, shard_commands.encode_command(entry.command))
            outcome = shard_commands.decode_outcome(raw)
        else:
            outcome = copy.state.do(entry.index, entry.command)
        copy.applied = entry.index
        self._note(entry, outcome)
        if entry.index % ROOTS_EVERY == 0:
            root = copy.state.root
            if self._roots.setdefault(entry.index, root) != root:
                self._world.fail(f"chain: the two nodes of shard {self.shard} differ after entry {entry.index}")
        return outcome

    def _note(self, entry: Entry, outcome: Outcome) -> None:
        """Every place came to one thing; the first time it is looked at by the checker."""
        world = self._world
        if entry.index <= len(self._outcomes):
            if self._outcomes[entry.index - 1] != outcome:
                world.fail(f"chain: entry {entry.index} of shard {self.shard} came to {outcome} on another node")
            return
        self._outcomes.append(outcome)
        world.count(f"applied: {outcome.kind.name}")
        is_forged = entry.command in self._forged
        if is_forged and not outcome.kind.is_refusal:
            world.fail(f"chain: shard {self.shard} takes a block that was forged")
        # A leader whose clock leaps while a promise is on its way gives up the keys of that, and others may take them.
        is_leap = any(one.leap_ms for one in self.copies) and "is locked by" in outcome.reason
        if outcome.kind is Kind.BAD_BLOCK and not (is_forged or is_leap):
            world.fail(f"chain: the leader of shard {self.shard} makes a block that is refused: {outcome.reason}")
        world.checker.applied(self.shard, entry.command, outcome)
        self._expect_judgement(entry, outcome)

    def _expect_judgement(self, entry: Entry, outcome: Outcome) -> None:
        """What a node has judged good is good where it is applied, and the other way round."""
        key = (entry.term, entry.proposal)
        if key not in self._judged:
            return
        reason = self._judged.pop(key)
        if (reason is None) != (outcome.kind is Kind.APPENDED):
            self._world.fail(
                f"chain: a block of shard {self.shard} was judged {reason or 'good'!r} and came to {outcome}"
            )

    def forge(self) -> None:
        """A block that nobody may put on the chain comes into the log."""
        chair, random = self.chair, self._random
        if chair is None or self.log.open_count:
            return
        kind = random.choice(FORGERIES)
        command = Append(forge(kind, chair.copy.state, chair.copy.identity, random))
        self._forged.append(command)
        self._world.count("forged blocks")
        self._world.tell(f"shard {self.shard}: a block {kind}")
        self.write(command)

    def write(self, command: Command) -> None:
        """Something comes into the log that the present leader has not proposed."""
        chair = self.chair
        assert chair is not None, "without a leader nothing is written"
        self.log.propose(chair.term, NOBODYS, command)
        self._world.timeline.after(MILLISECOND_NS, lambda: self._commit(chair))

    def restart(self, copy: Copy) -> None:
        """A node begins anew; if it leads, it leads no more."""
        for chair in (self.chair, self.deposed):
            if chair is not None and chair.copy is copy:
                if chair is self.chair:
                    self.lose_leader(is_deposed=False)
                else:
                    self._undeceive(chair)
        root = copy.state.root
        # What a snapshot is read into remembers as much as usual.
        from_snapshot = self._random.random() < 0.5 and not self._world.shape.is_forgetful
        copy.restart(self.log.entries, from_snapshot=from_snapshot)
        if copy.state.root != root:
            self._world.fail(f"chain: a node of shard {self.shard} is not what it was after it began anew")

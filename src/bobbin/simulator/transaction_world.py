"""A world of transactions: one to four shards do things together while their leaders die, are deposed and are cut off.

One world is one seed. Each shard is the real state and the real leader, on a log that keeps what Raft promises
(``transaction_log``); two nodes apply it, one of which hashes in C where that is faster. Clients move money, write
lists, keep watches, count and look (``transaction_clients``); in some worlds many want something at once, and in most a
leader hears of what came in one turn together. After every step T1 to T6 are asserted
(``transaction_checker``), and both nodes of a shard are compared at every place of its log. Then the troubles end:
within a bound everything must have ended and nothing be left of it (T2), every transaction that was acknowledged be in
the chain once and none that was refused, the money be all there, and one order explain all (T7): ``transaction_audit``.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from random import Random
from typing import Final, NoReturn

from bobbin.cluster.chain.hashing import PLAIN, Hashing
from bobbin.cluster.chain.ledger import Ledger
from bobbin.cluster.codebook.global_book import GlobalCodebook
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.identity import Identity
from bobbin.cluster.names import MILLISECOND_NS, Term
from bobbin.cluster.settings import MessageValidationConfig
from bobbin.cluster.shard.effects import Answer
from bobbin.cluster.shard.events import Event, ReplaceCodebookWanted
from bobbin.cluster.shard.leader import ShardLeader
from bobbin.cluster.shard.machine import Shard
from bobbin.cluster.transactions.messages import ShardMessage
from bobbin.cluster.transactions.names import ShardId
from bobbin.cluster.transactions.participant import Participant
from bobbin.cluster.transactions.recovery import TxRecoveryState
from bobbin.native.hashing import hashing
from bobbin.simulator.clock import SECOND_NS, Action, NodeClock, Timeline
from bobbin.simulator.transaction_audit import expect_all_well
from bobbin.simulator.transaction_checker import TransactionChecker
from bobbin.simulator.transaction_clients import Client, Status, Wanted
from bobbin.simulator.transaction_network import ShardNetwork
from bobbin.simulator.transaction_shape import HOUR_NS, TROUBLES, Shape, draw_roughness, draw_shape
from bobbin.simulator.transaction_shard import Copy, Reading, SimulatedShard
from bobbin.simulator.world import Broken
from bobbin.wire.cluster import shard_messages
from bobbin.wire.cluster.shard_commands import shard_machine

CALM_NS_MAX: Final = 180 * SECOND_NS
"""Within which everything must have ended after the troubles."""
LOOK_NS: Final = 500 * MILLISECOND_NS
FEW_HEIGHTS: Final = 12
FEW_OUTCOMES: Final = 3
SILENCE_NS_MAX: Final = 60 * SECOND_NS


class _Coding:
    """The codec of the wire."""

    def __init__(self) -> None:
        self._config: Final = MessageValidationConfig()

    def encode(self, message: ShardMessage) -> bytes:
        return shard_messages.encode(message)

    def decode(self, payload: bytes) -> ShardMessage:
        return shard_messages.decode(payload, config=self._config)


class TransactionWorld:
    """One seeded world."""

    def __init__(self, seed: int, *, is_traced: bool = False, shape: Shape | None = None) -> None:
        self.seed: Final = seed
        self.tally: Final[Counter[str]] = Counter()
        self.trace: Final[list[str]] = []
        self.timeline: Final = Timeline()
        self.is_traced: Final = is_traced
        self.is_troubled = True
        self._random: Final = Random(f"transactions {seed}")  # noqa: S311 (a seed is the point)
        self.shape: Final = shape or draw_shape(self._random)
        self.checker: Final = TransactionChecker(self.shape.shards, self.fail, is_forgetful=self.shape.is_forgetful)
        coding = _Coding() if self.shape.is_bytes else None
        self.network: Final = ShardNetwork(self.timeline, self._random, self._deliver, coding=coding)
        self.book: Final[list[Wanted]] = []
        self.shards: Final = [self._make_shard(ShardId(number)) for number in range(self.shape.shards)]
        self.clients: Final = [
            Client(number, self, self._random, self.book) for number in range(self.shape.clients + self.shape.crowd)
        ]
        """The last of them are the crowd."""
        self._steps = 0

    def run(self) -> Counter[str]:
        """Live through the world; raises ``Broken`` at the first broken promise."""
        try:
            self.dawn()
            self._trouble()
            self.calm_down()
        except AssertionError as error:
            if isinstance(error, Broken):
                raise
            self.fail(f"an invariant does not hold: {error}")
        self._count()
        return self.tally

    @property
    def digest(self) -> str:
        """Of the whole trace."""
        return sha256("\n".join(self.trace).encode()).hexdigest()

    # ---- dawn ------------------------------------------------------------------------------------------------------

    def _make_shard(self, shard: ShardId) -> SimulatedShard:
        random, shape = self._random, self.shape

        def make(hashing: Hashing) -> Shard:
            made = shard_machine(shard=shard, config=shape.chain, hashing=hashing)
            if shape.is_forgetful:
                made.ledger = Ledger(config=shape.chain, keep_heights=FEW_HEIGHTS, hashing=hashing)
                made.participant = Participant(outcomes_max=FEW_OUTCOMES)
                made.recovery = TxRecoveryState(outcomes_max=FEW_OUTCOMES)
            return made

        def lead(copy: Copy, term: Term) -> ShardLeader:
            return ShardLeader(
                copy.state,
                identity=copy.identity,
                term=term,
                shards=shape.shards,
                config=shape.config,
                detector=shape.detector,
            )

        copies = []
        # One hashes as this machine does it best, and must come to the same.
        for way in (PLAIN, hashing()):
            clock = NodeClock(
                self.timeline,
                # By up to an hour clocks differ, and jump.
                skew_ns=random.randint(-HOUR_NS, HOUR_NS),
                drift_ppm=random.randint(-20_000, 20_000),
                started_ns=random.randrange(HOUR_NS),
            )
            copies.append(Copy(partial(make, way), Identity(random.randbytes(32)), clock))
        return SimulatedShard(shard, self, random, copies, lead)

    def dawn(self) -> None:
        """Every shard has a leader."""
        for one in self.shards:
            one.elect()

    # ---- what shards and clients ask for ---------------------------------------------------------------------------

    def send(self, sender: ShardId, to: ShardId, message: ShardMessage) -> None:
        self.network.send(sender, to, message)

    def _deliver(self, to: ShardId, sender: ShardId, message: ShardMessage) -> None:
        self.shards[to].hear(sender, message)

    def carry(self, arrive: Action) -> int:
        return self.network.carry(arrive)

    def read(self, shard: ShardId, keys: list[bytes]) -> Reading | None:
        return self.shards[shard].read(keys)

    def ask(self, shard: ShardId, make: Callable[[int], Event], reply: Callable[[Answer], None]) -> bool:
        return self.shards[shard].ask(make, reply)

    def count(self, what: str) -> None:
        self.tally[what] += 1

    def stepped(self, shard: SimulatedShard) -> None:
        del shard
        self.tally["steps of leaders"] += 1

    def ended(self, wanted: Wanted) -> None:
        client = self.clients[wanted.client]
        if wanted.client >= self.shape.clients:
            # Some of the crowd want more at once, while what others want is still on its way.
            if self._random.random() < 0.5:
                self._join_crowd(client, wanted.parts[0][0])
            return
        self.timeline.after(self._random.randrange(1, self.shape.think_ns_max), lambda: self._go_on(client))

    # ---- the course of a world -------------------------------------------------------------------------------------

    def _trouble(self) -> None:
        random, shape = self._random, self.shape
        if shape.is_rough:
            self.network.roughness = draw_roughness(random)
        for client in self.clients[: shape.clients]:
            self._go_on(client)
        for _ in range(shape.bursts if shape.crowd else 0):
            self.timeline.after(random.randrange(shape.window_ns), self._burst)
        for _ in range(shape.troubles):
            trouble = random.choices(TROUBLES, weights=shape.weights)[0]
            self.timeline.after(random.randrange(shape.window_ns), self._troubles(trouble))
        self.pass_time(shape.window_ns)

    def _go_on(self, client: Client) -> None:
        """A client does one thing after the other as long as there is trouble."""
        if self.is_troubled and len(self.book) < self.shape.transactions_max and not client.act():
            self.timeline.after(self._random.randrange(1, self.shape.think_ns_max), lambda: self._go_on(client))

    def _burst(self) -> None:
        """Many want something at once, most of them of one shard."""
        shard = self._random.choice(self.shards).shard
        for client in self.clients[self.shape.clients :]:
            self._join_crowd(client, shard)

    def _join_crowd(self, client: Client, shard: ShardId) -> None:
        if self.is_troubled and len(self.book) < self.shape.transactions_max:
            client.act(crowded=shard)

    def _troubles(self, trouble: str) -> Action:
        def happen() -> None:
            if self.is_troubled:
                self.tell(f"trouble: {trouble}")
                self.tally[f"trouble: {trouble}"] += 1
                self._happen(trouble)

        return happen

    def _happen(self, trouble: str) -> None:
        random, network = self._random, self.network
        one = random.choice(self.shards)
        copy = random.choice(one.copies)
        names = [other.shard for other in self.shards]
        match trouble:
            case "leader dies" | "leader is deposed":
                one.lose_leader(is_deposed=trouble == "leader is deposed")
            case "all leaders die":
                for each in self.shards:
                    each.lose_leader(is_deposed=False)
            case "cut" | "cut one way":
                network.cut([one.shard], random.sample(names, random.randint(1, len(names))), one_way=trouble != "cut")
            case "heal":
                network.heal()
            case "weather":
                network.roughness = draw_roughness(random)
            case "wall clock jumps":
                copy.clock.jump(random.choice((-1, 1)) * HOUR_NS)
            case "forward clock leaps":
                copy.leap_ms += random.choice((3_000, HOUR_NS // MILLISECOND_NS))
            case "node restarts":
                self.tally["nodes restarted"] += 1
                one.restart(copy)
            case "forged block":
                one.forge()
            case "codebook":
                self._replace_codebook(one)
            case _:
                # Nobody hears anybody for a long while.
                network.cut(names, names)
                self.timeline.after(random.randrange(SILENCE_NS_MAX), network.heal)

    def _replace_codebook(self, one: SimulatedShard) -> None:
        random, size = self._random, self.shape.chain.embedding_dimension
        centroids = [
            Embedding.dense(tuple(random.uniform(0.1, 1.0) for _ in range(size))) for _ in range(random.randint(1, 4))
        ]
        encoded = GlobalCodebook(1, centroids).encode()
        one.ask(lambda request: ReplaceCodebookWanted(request, encoded), lambda _: None)

    # ---- calm ------------------------------------------------------------------------------------------------------

    def calm_down(self) -> None:
        """Nothing fails any more. In bounded time everything must have ended, and be right."""
        self.is_troubled = False
        self.tell("the troubles end")
        self.network.calm()
        began = self.timeline.now_ns
        self.run_until(self.is_at_rest, CALM_NS_MAX, self._what_is_left)
        self.tally["ms until at rest"] += (self.timeline.now_ns - began) // MILLISECOND_NS
        self._act_afresh()
        for one in self.shards:
            for copy in one.copies:
                one.catch_up(copy)
            if one.copies[0].state.root != one.copies[1].state.root:
                self.fail(f"chain: the two nodes of shard {one.shard} end in different states")
        is_thorough = self.seed % 4 == 0
        expect_all_well(
            self.shards, self.checker, self.book, keys=self.shape.keys, is_thorough=is_thorough, fail=self.fail
        )

    def _act_afresh(self) -> None:
        """Whoever comes now gets what it wants: money moves, and everything can be looked at."""
        client = self.clients[0]
        for wish in ("transfer", "pair", "audit"):
            for _ in range(20):
                if client.act(wish):
                    self.run_until(
                        lambda: client.current is None, CALM_NS_MAX, lambda: "a fresh transaction does not end"
                    )
                    if self.book[-1].status is Status.COMMITTED:
                        break
                self.pass_time(LOOK_NS)
            else:
                self.fail(f"calm: a fresh {wish} is not committed, but {self.book[-1].answers}")
        self.run_until(self.is_at_rest, CALM_NS_MAX, self._what_is_left)

    def is_at_rest(self) -> bool:
        """Whether nothing is under way any more."""
        if any(client.current is not None for client in self.clients):
            return False
        for one in self.shards:
            if one.chair is None or one.deposed is not None or one.log.open_count or one.chair.commits:
                return False
            state = one.chair.copy.state
            if state.participant.promises or state.recovery.open or one.chair.machine.leftovers():
                return False
        return True

    def _what_is_left(self) -> str:
        left = []
        for one in self.shards:
            if one.chair is not None:
                state = one.chair.copy.state
                left.append((one.chair.machine.leftovers(), state.participant.promises, state.recovery.open))
        return f"T2: after the troubles this does not end: {left}"

    # ---- small parts -----------------------------------------------------------------------------------------------

    def pass_time(self, for_ns: int) -> None:
        """Let so much time pass."""
        until = self.timeline.now_ns + for_ns
        self.timeline.after(for_ns, lambda: None)
        while self.timeline.step(until_ns=until):
            self._steps += 1
            if self._steps > self.shape.steps_max:
                self.fail(f"after {self._steps} steps there is no end")

    def run_until(self, is_reached: Callable[[], bool], for_ns_max: int, otherwise: Callable[[], str]) -> None:
        """Let time pass until something is so; it must be within a bound."""
        end = self.timeline.now_ns + for_ns_max
        while not is_reached():
            if self.timeline.now_ns >= end:
                self.fail(f"{otherwise()}, within {for_ns_max // SECOND_NS} s")
            self.pass_time(LOOK_NS)

    def tell(self, line: str) -> None:
        if self.is_traced:
            self.trace.append(f"{self.timeline.now_ns / SECOND_NS:12.6f} {line}")

    def fail(self, message: str) -> NoReturn:
        self.tell(f"BROKEN: {message}")
        raise Broken(f"seed {self.seed}: {message}")

    def _count(self) -> None:
        tally, shape = self.tally, self.shape
        tally["worlds"] += 1
        tally[f"worlds: {shape.shards} shards"] += 1
        for name in ("is_bytes", "is_rough", "is_judging", "is_forgetful"):
            tally[f"worlds: {name.removeprefix('is_')}"] += getattr(shape, name)
        tally["worlds: waiting"] += shape.config.lock_wait
        tally["worlds: wounding"] += shape.config.wound_wait
        tally["worlds: optimistic"] += shape.config.optimistic_locking
        tally["worlds: crowded"] += shape.crowd > 0
        tally["worlds: gathering"] += shape.turn_ns > 0
        tally["transactions"] += len(self.book)
        tally["blocks"] += sum(one.copies[0].state.ledger.height for one in self.shards)
        tally["log entries"] += sum(one.log.last for one in self.shards)
        for client in self.clients:
            tally.update(client.tally)
        tally.update(self.network.tally)
        tally["world steps"] += self._steps

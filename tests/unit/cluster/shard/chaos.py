"""A disordered life of a few shards: messages lost, doubled and out of order, proposals lost, leaders replaced."""

from random import Random

from bobbin.cluster.operations import CounterAdd, Put, Transaction
from bobbin.cluster.settings import DeadlockDetectorConfig, DistributedTxConfig
from bobbin.cluster.shard.events import Commit, Heard
from bobbin.cluster.transactions.names import TxId
from bobbin.cluster.transactions.phases import Ended
from tests.unit.cluster.shard.driven import DrivenShards

KEYS = 4
QUIET_ROUNDS_MAX = 400


class Chaos:
    """Transfers between counters of two shards, and blind writes on one, until it is quiet again."""

    def __init__(self, seed: int, *, config: DistributedTxConfig, detector: DeadlockDetectorConfig) -> None:
        self.random = Random(seed)
        self.world = DrivenShards(2, config=config, detector=detector)
        self.transfers: dict[int, Transaction] = {}
        """By request, the part on shard 0."""
        self.locals: dict[int, Transaction] = {}
        self.plain = self.world.key(0, "plain")
        self.accounts = [[self.world.key(shard, f"{number}-") for number in range(KEYS)] for shard in range(2)]

    def live(self, steps: int) -> None:
        for _ in range(steps):
            self.random.choices(
                (self._transfer, self._write, self._apply, self._deliver, self._wait, self._fail),
                weights=(3, 3, 12, 14, 2, 1),
            )[0]()
        self.calm()

    def _transfer(self) -> None:
        world, random = self.world, self.random
        tx, amount = world.tx(0), random.randint(1, 9)
        first, second = random.choice(self.accounts[0]), random.choice(self.accounts[1])
        mine = world.transaction(CounterAdd(first, amount), tx=tx, born_ms=world.now_ms)
        other = world.transaction(CounterAdd(second, -amount), shard=1, tx=tx, born_ms=world.now_ms)
        self.transfers[world.begin((0, mine), (1, other))] = mine

    def _write(self) -> None:
        world = self.world
        if self.locals and self.random.random() < 0.3:
            again = self.random.choice(list(self.locals.values()))
        else:
            key = self.random.choice(self.accounts[0])
            since = max(0, world[0].height - self.random.randint(0, 3))
            again = world.transaction(self.random.choice((CounterAdd(key, 0), Put(self.plain, key))), since=since)
        request = world.request()
        self.locals[request] = again
        world[0].step(Commit(request, again))

    def _apply(self) -> None:
        shard = self.random.choice(self.world.shards)
        if shard.proposals:
            if self.random.random() < 0.05:
                shard.lose_next()
            else:
                shard.apply_next()

    def _deliver(self) -> None:
        messages = self.world.messages
        if not messages:
            return
        messages.rotate(-self.random.randrange(len(messages)))
        sender, receiver, message = messages.popleft()
        chance = self.random.random()
        if chance < 0.1:
            return
        self.world[receiver].step(Heard(sender, message))
        if chance > 0.85:
            messages.append((sender, receiver, message))

    def _wait(self) -> None:
        self.world.pass_time(self.random.choice((10, 200, 3_000)))

    def _fail(self) -> None:
        """A leader goes; some of what it has proposed is in the log all the same."""
        shard = self.random.choice(self.world.shards)
        for _ in range(self.random.randint(0, len(shard.proposals))):
            shard.write(shard.proposals.popleft().command)
        shard.lead()

    def calm(self) -> None:
        """Everything arrives from now on, until nothing is under way."""
        world = self.world
        for _ in range(QUIET_ROUNDS_MAX):
            world.run()
            if all(not shard.leader.leftovers() and not shard.state.recovery.open for shard in world.shards):
                return
            world.pass_time(1_000)
        raise AssertionError([shard.leader.leftovers() for shard in world.shards])

    def check(self) -> None:
        """What must hold, however it went."""
        world = self.world
        world.check_quiet()
        total = 0
        for number, keys in enumerate(self.accounts):
            total += sum(int(world.value(key, number) or b"0") for key in keys)
        assert total == 0, "a transfer was done in part, or twice"
        for request, part in self.transfers.items():
            heights = [shard.state.committed_at(TxId(part.id)) for shard in world.shards]
            assert (heights[0] is None) == (heights[1] is None), "all or nothing"
            self._check_answer(request, is_done=heights[0] is not None)
        for request, local in self.locals.items():
            self._check_answer(request, is_done=world[0].state.committed_at(TxId(local.id)) is not None)
        for shard in world.shards:
            ids = [one.id for block in shard.state.ledger.blocks(1, shard.height) for one in block.transactions]
            assert len(ids) == len(set(ids)), "a transaction was done twice"
            assert shard.state.ledger.verify() is None

    def _check_answer(self, request: int, *, is_done: bool) -> None:
        answer = self.world.answers.get(request)
        if answer is None or answer.ended is Ended.BUSY:
            return
        assert (answer.ended is Ended.COMMITTED) == is_done, answer

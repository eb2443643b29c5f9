"""Shards by hand: each with a log, a leader, and a second replica that gets everything as bytes and must stay equal."""

from collections import deque
from typing import TYPE_CHECKING

from bobbin.cluster.identity import Identity
from bobbin.cluster.names import Index, Term
from bobbin.cluster.operations import Operation, Put, ReadVersion, Transaction
from bobbin.cluster.settings import ChainConfig, DeadlockDetectorConfig, DistributedTxConfig
from bobbin.cluster.shard.commands import Append, Command, Outcome
from bobbin.cluster.shard.effects import Alarm, Answer, Effect, Propose, Send, WakeAt
from bobbin.cluster.shard.events import Applied, Begin, Commit, Event, Heard, Lost, Tick
from bobbin.cluster.shard.leader import ShardLeader
from bobbin.cluster.shard.machine import Shard
from bobbin.cluster.shard.placing import shard_of
from bobbin.cluster.transactions.names import ShardId, TxId, tx_id
from bobbin.cluster.transactions.phases import Ended
from bobbin.wire.cluster.shard_commands import decode_outcome, encode_command, encode_outcome, shard_machine

if TYPE_CHECKING:
    from bobbin.cluster.transactions.messages import ShardMessage

NOBODY = DeadlockDetectorConfig(enabled=False)
CHAIN = ChainConfig(embedding_dimension=16)


class DrivenShard:
    """One shard: what its leader wants is done when the test says so."""

    def __init__(self, world: "DrivenShards", shard: ShardId) -> None:
        self.world = world
        self.id = shard
        self.state = shard_machine(shard=shard, config=world.chain)
        self.replica = shard_machine(shard=shard, config=world.chain)
        self.log: list[tuple[Command, Outcome]] = []
        self.proposals: deque[Propose] = deque()
        self.term = 0
        self.lead()

    def lead(self) -> None:
        """A new leader over the applied state, with nothing else."""
        self.term += 1
        self.proposals.clear()
        identity = Identity(bytes([self.id + 1, self.term]) + bytes(30))
        self.leader = ShardLeader(
            self.state,
            identity=identity,
            term=Term(self.term),
            shards=self.world.count,
            config=self.world.config,
            detector=self.world.detector,
        )
        self.step(Tick())

    def step(self, event: Event) -> list[Effect]:
        effects = self.leader.step(event, now_ms=self.world.now_ms, wall_ms=1_000_000 + self.world.now_ms)
        for effect in effects:
            match effect:
                case Propose():
                    self.proposals.append(effect)
                case Send(shard=shard, message=message):
                    self.world.messages.append((self.id, shard, message))
                case Answer(request=request):
                    assert request not in self.world.answers, "a request is answered once"
                    self.world.answers[request] = effect
                case Alarm():
                    self.world.alarms.append(effect)
                case WakeAt(at_ms=at_ms):
                    self.world.wakes.append(at_ms)
        return effects

    def write(self, command: Command) -> Outcome:
        """Put a command into the log and apply it on both replicas."""
        index = Index(len(self.log) + 1)
        if isinstance(command, Append):
            self.replica.judge(command.block)
        outcome = self.state.do(index, command)
        raw = self.replica.apply(index, Term(self.term), encode_command(command))
        assert decode_outcome(raw) == outcome == decode_outcome(encode_outcome(outcome))
        assert self.replica.root == self.state.root
        self.log.append((command, outcome))
        return outcome

    def apply_next(self) -> Outcome:
        """The next proposal reaches the state."""
        proposal = self.proposals.popleft()
        outcome = self.write(proposal.command)
        self.step(Applied(Index(len(self.log)), proposal.command, outcome, proposal.proposal))
        return outcome

    def lose_next(self) -> None:
        """The next proposal will never reach it."""
        self.step(Lost(self.proposals.popleft().proposal, "refused"))

    @property
    def height(self) -> int:
        return self.state.ledger.height


class DrivenShards:
    """Several of them, with messages in between."""

    def __init__(
        self,
        count: int = 1,
        config: DistributedTxConfig = DistributedTxConfig(),  # noqa: B008 -- a value that never changes
        detector: DeadlockDetectorConfig = NOBODY,
        chain: ChainConfig = CHAIN,
    ) -> None:
        self.count = count
        self.config = config
        self.detector = detector
        self.chain = chain
        self.now_ms = 0
        self.messages: deque[tuple[ShardId, ShardId, ShardMessage]] = deque()
        self.answers: dict[int, Answer] = {}
        self.alarms: list[Alarm] = []
        self.wakes: list[int] = []
        self._requests = 0
        self._chance = 0
        self.shards = [DrivenShard(self, ShardId(number)) for number in range(count)]

    def __getitem__(self, shard: int) -> DrivenShard:
        return self.shards[shard]

    def request(self) -> int:
        self._requests += 1
        return self._requests

    def tx(self, shard: int = 0) -> TxId:
        """A new id of the present height of a shard."""
        self._chance += 1
        return tx_id(self.shards[shard].height, self._chance.to_bytes(8, "big"))

    def transaction(
        self,
        *operations: Operation,
        shard: int = 0,
        reads: tuple[ReadVersion, ...] = (),
        since: int | None = None,
        tx: TxId | None = None,
        born_ms: int = 0,
    ) -> Transaction:
        height = self.shards[shard].height if since is None else since
        return Transaction(self.tx(shard) if tx is None else tx, operations, reads, height, born_ms)

    def commit(self, transaction: Transaction, shard: int = 0) -> int:
        """Ask for a transaction of one shard; the number of the request."""
        request = self.request()
        self.shards[shard].step(Commit(request, transaction))
        return request

    def put(self, key: bytes, value: bytes = b"v", shard: int = 0) -> Answer:
        """Commit one, all the way."""
        request = self.commit(self.transaction(Put(key, value), shard=shard), shard)
        self.run()
        return self.answers[request]

    def begin(self, *parts: tuple[int, Transaction], home: int = 0, timeout_ms: int = 5_000) -> int:
        """Ask for a transaction over several shards."""
        request = self.request()
        placed = tuple((ShardId(shard), part) for shard, part in parts)
        self.shards[home].step(Begin(request, TxId(parts[0][1].id), placed, timeout_ms))
        return request

    def transfer(self, first: bytes, second: bytes, *, home: int = 0, born_ms: int = 0) -> int:
        """Put the same value under a key of shard 0 and a key of shard 1."""
        tx = self.tx(home)
        return self.begin(
            (0, self.transaction(Put(first, tx), shard=0, tx=tx, born_ms=born_ms)),
            (1, self.transaction(Put(second, tx), shard=1, tx=tx, born_ms=born_ms)),
            home=home,
        )

    def key(self, shard: int, name: str = "k") -> bytes:
        """A key that belongs to a shard."""
        number = 0
        while shard_of(f"{name}{number}".encode(), self.count) != shard:
            number += 1
        return f"{name}{number}".encode()

    def deliver(self, *, times: int = 1) -> None:
        """The next message arrives, perhaps more than once."""
        sender, receiver, message = self.messages.popleft()
        for _ in range(times):
            self.shards[receiver].step(Heard(sender, message))

    def run(self) -> None:
        """Until nothing is left to be done without time passing."""
        while self.messages or any(shard.proposals for shard in self.shards):
            for shard in self.shards:
                while shard.proposals:
                    shard.apply_next()
            if self.messages:
                self.deliver()

    def pass_time(self, ms: int) -> None:
        """Time passes for everybody."""
        self.now_ms += ms
        for shard in self.shards:
            shard.step(Tick())

    def ended(self, request: int) -> Ended:
        return self.answers[request].ended

    def value(self, key: bytes, shard: int = 0) -> bytes | None:
        item = self.shards[shard].state.ledger.get(key)
        return None if item is None else item.value

    def check_quiet(self) -> None:
        """Nothing is left of anything."""
        for shard in self.shards:
            assert shard.leader.leftovers() == {}
            assert not shard.state.participant.promises
            assert not shard.state.recovery.open
            shard.state.participant.check()


def restored(state: Shard) -> Shard:
    """The same state, over a snapshot."""
    other = shard_machine(shard=state.shard, config=state.config)
    other.restore(list(state.snapshot()))
    return other

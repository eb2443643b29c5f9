"""Sets of shards with real nodes in one process: real sockets with TLS, real disks, one event loop."""

import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Final

from bobbin.cluster.chain.block import Block
from bobbin.cluster.chain.draft import Draft
from bobbin.cluster.identity import Identity
from bobbin.cluster.names import Index
from bobbin.cluster.operations import Operation, ReadVersion, Transaction, affected_key
from bobbin.cluster.raft.entries import Configuration
from bobbin.cluster.settings import ChainConfig, DeadlockDetectorConfig, DistributedTxConfig
from bobbin.cluster.shard.commands import Append, Kind
from bobbin.cluster.shard.machine import Shard
from bobbin.cluster.shard.placing import shard_of
from bobbin.cluster.transactions.names import ShardId, TxId, tx_id
from bobbin.runtime.cluster_audit import Audit
from bobbin.runtime.cluster_certificate import Credentials, make
from bobbin.runtime.cluster_client import ClusterClient
from bobbin.runtime.cluster_members import Caller, Directory, KnownMembers, Member, Rights
from bobbin.runtime.cluster_settings import ClusterSettings
from bobbin.runtime.log import make_log
from bobbin.runtime.shard_node import ShardNode, introduce
from bobbin.runtime.shard_settings import ShardSettings
from bobbin.store.raft_storage import RaftStorage
from bobbin.store.wal.files import RealFiles
from bobbin.wire import address as addresses
from bobbin.wire.cluster.chain import ChainBegin, ChainCommit, ChainEnded, ChainItem, ChainItems, ChainRead
from bobbin.wire.cluster.shard_commands import shard_machine
from tests.support.clusters import GOSSIP, OPERATOR, RAFT, free_ports, until

DIMENSION: Final = 8
CHAIN: Final = ChainConfig(embedding_dimension=DIMENSION)


class Seat:
    """One node of one shard; it may be running or not."""

    def __init__(self, folder: Path, shard: ShardId, number: int, port: int) -> None:
        self.folder: Final = folder / f"n{number}" / f"s{shard}"
        self.shard: Final = shard
        self.number: Final = number
        self.own: Final[Credentials] = make(Identity(bytes([100 + shard, number]) * 16))
        self.address: Final = f"tls:127.0.0.1:{port}"
        self.node: ShardNode | None = None
        self.log: Final = StringIO()

    @property
    def running(self) -> ShardNode:
        assert self.node is not None
        return self.node


class Shards:
    """All nodes of a set. The nodes of one number stand for one process."""

    def __init__(
        self,
        folder: Path,
        *,
        nodes: int,
        shards: int,
        transactions: DistributedTxConfig = DistributedTxConfig(),  # noqa: B008 -- it is frozen
        deadlock: DeadlockDetectorConfig = DeadlockDetectorConfig(),  # noqa: B008 -- it is frozen
        checking: bool = True,
    ) -> None:
        self.checking: Final = checking
        self.transactions: Final = transactions
        self.deadlock: Final = deadlock
        self.count: Final = shards
        ports = iter(free_ports(nodes * shards))
        self.seats: Final = [
            [Seat(folder, ShardId(shard), number, next(ports)) for number in range(1, nodes + 1)]
            for shard in range(shards)
        ]
        self.known: Final = [
            KnownMembers(
                directory=Directory(
                    [Member(certificate=seat.own.certificate, address=seat.address) for seat in some],
                    [Caller(certificate=OPERATOR.certificate, rights=Rights.OPERATOR)],
                )
            )
            for some in self.seats
        ]

    async def start(self, number: int) -> None:
        """Run one node of each shard, as one process would."""
        here = [next(seat for seat in some if seat.number == number) for some in self.seats]
        for seat in here:
            self._make(seat)
        introduce({seat.shard: seat.running for seat in here})
        for seat in here:
            await seat.running.start(seat.folder / "node.sock")

    def _make(self, seat: Seat) -> None:
        seat.folder.mkdir(parents=True, exist_ok=True)
        cluster = bytes([seat.shard]) * 16
        ids = sorted(one.own.identity.node for one in self.seats[seat.shard])
        place = addresses.parse(seat.address)
        settings = ClusterSettings(
            cluster=cluster,
            listen=place,
            address=seat.address,
            bootstrap=Configuration(tuple(ids)),
            raft=RAFT,
            gossip=GOSSIP,
            checkpoint_entries=20,
        )
        node = seat.own.identity.node
        storage = RaftStorage.open(RealFiles(seat.folder / "log"), node=node, cluster=cluster, free_bytes_min=0)
        seat.node = ShardNode(
            settings,
            ShardSettings(
                shard=seat.shard,
                shards=self.count,
                transactions=self.transactions,
                deadlock=self.deadlock,
                chain=CHAIN,
            ),
            seat.own,
            node,
            self.known[seat.shard],
            storage,
            operator=OPERATOR,
            others={
                ShardId(other): partial(self._known_of, other) for other in range(self.count) if other != seat.shard
            },
            audit=Audit(seat.folder / "audit.jsonl"),
            log=make_log(output=seat.log),
            checking=self.checking,
        )

    def _known_of(self, shard: int) -> KnownMembers:
        return self.known[shard]

    async def stop(self, number: int) -> None:
        """Stop all nodes of one process."""
        for some in self.seats:
            for seat in some:
                if seat.number == number and seat.node is not None:
                    node, seat.node = seat.node, None
                    await node.stop()

    @property
    def running(self) -> list[ShardNode]:
        return [seat.node for some in self.seats for seat in some if seat.node is not None]

    def leader(self, shard: int) -> Seat | None:
        """Who leads a shard, and is ready for transactions."""
        leading = [seat for seat in self.seats[shard] if seat.node is not None and seat.node.driver.is_leading]
        return leading[0] if len(leading) == 1 else None

    async def led(self) -> None:
        """Wait until every shard is led."""
        await until(lambda: all(self.leader(shard) is not None for shard in range(self.count)))

    async def close(self) -> None:
        for some in zip(*self.seats, strict=True):
            await self.stop(some[0].number)


@asynccontextmanager
async def shards(folder: Path, **settings: object) -> AsyncIterator[Shards]:
    """A set that runs and is led."""
    made = Shards(folder, **settings)  # type: ignore[arg-type]
    try:
        for seat in made.seats[0]:
            await made.start(seat.number)
        await made.led()
        yield made
    finally:
        await made.close()


class Asker:
    """A client of a set, as simple as can be."""

    def __init__(self, clients: Sequence[ClusterClient]) -> None:
        """``clients``: of each shard."""
        self.clients: Final = clients

    def shard_of(self, key: bytes) -> int:
        return shard_of(key, len(self.clients))

    def keys(self, shard: int, count: int) -> list[bytes]:
        """Keys that belong to a shard."""
        found: list[bytes] = []
        number = 0
        while len(found) < count:
            key = b"key-%d" % number
            if self.shard_of(key) == shard:
                found.append(key)
            number += 1
        return found

    async def look(self, shard: int, *keys: bytes, stale: bool = False) -> ChainItems:
        """What keys of one shard hold, and how high its chain is."""
        request = partial(_read, keys, linearizable=not stale)
        return await self.clients[shard].ask(ChainItems, request, anywhere=stale)

    async def get(self, key: bytes) -> ChainItem:
        """What a plain key holds now."""
        return (await self.look(self.shard_of(key), key)).items[0]

    async def prepare(
        self, *operations: Operation, reads: Sequence[ReadVersion] = (), born_ms: int = 0
    ) -> tuple[TxId, dict[int, Transaction]]:
        """The parts of a transaction that begins now, by shard. The lowest shard coordinates."""
        by_shard: dict[int, list[Operation]] = {}
        for operation in operations:
            by_shard.setdefault(self.shard_of(affected_key(operation)), []).append(operation)
        for read in reads:
            by_shard.setdefault(self.shard_of(read.key), [])
        looks = {shard: await self.look(shard) for shard in sorted(by_shard)}
        tx = tx_id(looks[min(looks)].horizon, secrets.token_bytes(8))
        parts = {
            shard: Transaction(
                tx,
                tuple(by_shard[shard]),
                tuple(read for read in reads if self.shard_of(read.key) == shard),
                looks[shard].height,
                born_ms,
            )
            for shard in looks
        }
        return tx, parts

    async def finish(self, tx: TxId, parts: dict[int, Transaction], *, timeout_ms: int = 5_000) -> ChainEnded:
        """Have it done, asking again under the same id until it is known how it ended."""
        home = min(parts)
        if len(parts) == 1:
            return await self.clients[home].ask(ChainEnded, lambda number: ChainCommit(number, parts[home]))
        pairs = tuple((ShardId(shard), parts[shard]) for shard in sorted(parts))
        return await self.clients[home].ask(ChainEnded, lambda number: ChainBegin(number, tx, pairs, timeout_ms))

    async def commit(self, *operations: Operation, reads: Sequence[ReadVersion] = ()) -> ChainEnded:
        """All or nothing, on whatever shards it takes."""
        return await self.finish(*await self.prepare(*operations, reads=reads))


@asynccontextmanager
async def asking(made: Shards, *, seconds: float = 30.0) -> AsyncIterator[Asker]:
    """A client of all shards."""
    clients = [ClusterClient(known, own=OPERATOR, seconds=seconds) for known in made.known]
    try:
        yield Asker(clients)
    finally:
        for client in clients:
            await client.close()


def _read(keys: tuple[bytes, ...], number: int, *, linearizable: bool) -> ChainRead:
    return ChainRead(number, keys, linearizable=linearizable)


SIGNER: Final = Identity(bytes([7]) * 32)


def new_shard(shard: int = 0) -> Shard:
    """An empty one."""
    return shard_machine(shard=ShardId(shard), config=CHAIN)


def block_of(
    shard: Shard, *operations: Operation, number: int, on: Draft | None = None, signer: Identity = SIGNER
) -> tuple[Block, Draft]:
    """A block that follows the tip, or a draft, with one transaction."""
    height = shard.ledger.height if on is None else on.header.height
    transaction = Transaction(tx_id(0, b"%08d" % number), operations, (), height)
    draft = shard.ledger.draft([transaction], proposer=signer.node, timestamp_ms=number, on=on)
    return shard.ledger.seal(draft, signer), draft


def put_block(shard: Shard, *operations: Operation, number: int) -> Block:
    """The same, put on the chain."""
    block, _ = block_of(shard, *operations, number=number)
    outcome = shard.do(Index(number), Append(block))
    assert outcome.kind is Kind.APPENDED, outcome
    return block

"""How a follower of a shard judges the blocks in a leader's entries before it acknowledges them.

Everything that ``raft.fast_path`` never skips is looked at for every block. Blocks of an earlier term have an earlier
leader's signature, so they are judged without the fast path.

A block that does not rest on the last one of the log is let through: it will not be put on the chain, on any node. A
leader whose proposal was refused by its own log may leave such a one behind.
"""

from collections.abc import Callable
from typing import Final

from bobbin.cluster.chain.block import Block
from bobbin.cluster.chain.checks import ChainChecks
from bobbin.cluster.chain.encoding import header_hash
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.names import NodeId, Term
from bobbin.cluster.raft.entries import Entry
from bobbin.cluster.raft.fast_path import (
    AUDITS_WAITING_MAX,
    Check,
    FailedAudit,
    FastPathStats,
    FastPathValidator,
    Meaning,
)
from bobbin.cluster.raft.judging import Judgement
from bobbin.cluster.settings import RaftConfig
from bobbin.cluster.shard.commands import Append
from bobbin.cluster.shard.machine import Shard
from bobbin.cluster.transactions.names import TxId
from bobbin.errors import PeerError
from bobbin.wire.cluster.shard_commands import decode_command

_APPEND: Final = 32
"""The second byte of the commands that bring a block."""
_FINE: Final = Judgement()
NOTED_MAX: Final = 2 * AUDITS_WAITING_MAX
"""Blocks with promised parts that wait for an audit, or were refused by another check of their meaning."""


class _Promised:
    """Parts that no codebook is in the way of, in the block that is looked at now.

    An audit comes when the block may be applied, and nothing of it is promised any more: what was promised when it was
    judged is noted. A promise that stood below the block in the log and was applied later has ended as a commit.
    """

    def __init__(self, shard: Callable[[], Shard]) -> None:
        self.noted: frozenset[bytes] = frozenset()
        self._shard: Final = shard

    def __contains__(self, tx: object) -> bool:
        assert isinstance(tx, bytes), "the id of a transaction"
        participant = self._shard().participant
        if tx in self.noted or tx in participant.promises:
            return True
        ended = participant.ended(TxId(tx))
        return ended is not None and ended.commits


class _Checks:
    """The checks of the chain as it is now: a snapshot may have put another one in its place."""

    def __init__(self, shard: Callable[[], Shard]) -> None:
        self._shard: Final = shard
        self._promised: Final = _Promised(shard)
        self._noted: Final[dict[bytes, frozenset[bytes]]] = {}
        """By the hash of a block that has passed: the promised parts in it, until it is looked at for its meaning."""
        self._made_for: object = None
        self._checks: ChainChecks | None = None

    def _present(self) -> ChainChecks:
        shard = self._shard()
        if self._checks is None or self._made_for is not shard.ledger:
            self._made_for = shard.ledger
            self._checks = ChainChecks(shard.ledger, below=shard.draft_of, keep=shard.keep, promised=self._promised)
        return self._checks

    def fault(self, check: Check, block: Block, *, leader: NodeId, term: Term) -> str | None:
        found = self._present().fault(check, block, leader=leader, term=term)
        if check is Check.STATE_ROOT and found is None:
            self._note(block)
        return found

    def _note(self, block: Block) -> None:
        promises = self._shard().participant.promises
        promised = frozenset(one.id for one in block.transactions if one.id in promises) if promises else None
        if promised:
            while len(self._noted) >= NOTED_MAX:
                del self._noted[next(iter(self._noted))]
            self._noted[header_hash(block.header)] = promised

    def meaning_fault(self, meaning: Meaning, block: Block) -> str | None:
        if meaning is Meaning.TRANSITION and self._noted:
            self._promised.noted = self._noted.pop(header_hash(block.header), frozenset())
        found = self._present().meaning_fault(meaning, block)
        self._promised.noted = frozenset()
        return found

    def delta(self, block: Block) -> Embedding:
        return self._present().delta(block)

    def digest(self, block: Block) -> bytes:
        return self._present().digest(block)


class ShardJudge:
    """A ``raft.judging.Judge``."""

    def __init__(
        self,
        shard: Callable[[], Shard],
        config: RaftConfig,
        *,
        secret: bytes,
        names_of: Callable[[NodeId], frozenset[NodeId]],
        read: Callable[[bytes, Append], None] = lambda raw, command: None,  # noqa: ARG005
    ) -> None:
        """``names_of``: the ids that follow from the keys of a node, which sign its blocks.

        ``read`` hears what the bytes of a command say that was judged: they need not be read again.
        """
        self._shard: Final = shard
        self._names_of: Final = names_of
        self._read: Final = read
        self._validator: Final = FastPathValidator(config, _Checks(shard), secret=secret)
        self._is_blind = False
        """Something of the log could not be judged, so what rests on it cannot be either."""

    @property
    def stats(self) -> FastPathStats:
        return self._validator.stats

    def audit(self, blocks_max: int) -> list[FailedAudit]:
        """Make up for what was spared."""
        return self._validator.audit(blocks_max)

    def wants(self, entry: Entry) -> bool:
        payload = entry.payload
        return type(payload) is bytes and len(payload) > 1 and payload[1] == _APPEND

    def judge(self, entry: Entry, *, leader: NodeId | None, term: Term) -> Judgement:
        assert isinstance(entry.payload, bytes), "it was wanted"
        try:
            command = decode_command(entry.payload)
        except PeerError:
            return _FINE  # no command, on any node
        assert isinstance(command, Append)
        shard, header = self._shard(), command.block.header
        if header.prev_hash != shard.ledger.tip and shard.draft_of(header.prev_hash) is None:
            if self._is_blind:
                return Judgement(fault="it rests on a block that this node has not applied yet", is_lag=True)
            return _FINE
        if header.codebook_version > shard.ledger.codebook.version:
            self._is_blind |= leader is None
            return Judgement(fault="its codebook is not applied here yet", is_lag=True)
        if leader is None or entry.term != term:
            fault = shard.judge(command.block)
            self._is_blind |= leader is None and fault is not None
            return Judgement(fault=fault)
        # A node whose key was changed signs with an id of its own.
        name = header.proposer if header.proposer in self._names_of(leader) else leader
        self._validator.follow(name, term)
        verdict = self._validator.validate(command.block, leader=name, term=term)
        if verdict.fault is None:
            self._read(entry.payload, command)
        return Judgement(fault=verdict.fault, used_fast_path=verdict.used_fast_path)

    def forget(self) -> None:
        self._is_blind = False
        self._shard().drop_drafts()

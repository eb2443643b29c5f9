"""Commands, outcomes and snapshot entries of a shard: the same after a journey back, or a ``PeerError``.

A command is also done: whatever it is, a shard takes it, and two shards say the same. A block is moved to where it
follows the tip, so that all the rest of it is looked at, too.
"""

from msgspec.structs import replace

from bobbin.cluster.names import Index, Term
from bobbin.cluster.settings import ChainConfig
from bobbin.cluster.shard.commands import Append
from bobbin.cluster.shard.machine import Shard
from bobbin.cluster.transactions.names import ShardId
from bobbin.errors import PeerError, UsageError
from bobbin.wire.cluster.shard_commands import (
    ShardCodec,
    decode_command,
    decode_outcome,
    encode_command,
    encode_outcome,
    shard_machine,
)

_CONFIG = ChainConfig(embedding_dimension=8)


def one_input(data: bytes) -> None:
    # Bytes are compared and not values, for a number that is none is not equal to itself.
    try:
        raw = encode_command(decode_command(data))
    except (PeerError, UsageError):
        pass
    else:
        assert encode_command(decode_command(raw)) == raw
    try:
        raw = encode_outcome(decode_outcome(data))
    except PeerError:
        pass
    else:
        assert encode_outcome(decode_outcome(raw)) == raw
    try:
        raw = ShardCodec.entry(ShardCodec.read_entry(data))
    except PeerError:
        pass
    else:
        assert ShardCodec.entry(ShardCodec.read_entry(raw)) == raw
    one, other = (shard_machine(shard=ShardId(3), config=_CONFIG) for _ in range(2))
    for index in (Index(1), Index(2)):
        answer = one.apply(index, Term(1), data)
        assert other.apply(index, Term(1), data) == answer
        decode_outcome(answer)
    _append_anyhow(data, one, other)
    assert one.root == other.root


def _append_anyhow(data: bytes, one: Shard, other: Shard) -> None:
    try:
        command = decode_command(data)
    except PeerError:
        return
    if isinstance(command, Append):
        header = replace(command.block.header, height=one.ledger.height + 1, prev_hash=one.ledger.tip)
        block = replace(command.block, header=header)
        one.judge(block)
        assert one.do(Index(3), Append(block)) == other.do(Index(3), Append(block))

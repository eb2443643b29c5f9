"""The bytes of a shard: the commands of its log, their outcomes, and the entries of its snapshots.

MessagePack arrays. A command or an entry begins with the number of its kind, from 32 to 47, so that its second byte
tells it from what other machines of the same log take. The same value has always the same bytes.
"""

from typing import Final

import msgspec

from bobbin.cluster.chain.hashing import PLAIN, Hashing
from bobbin.cluster.chain.snapshot import SnapshotEntry as ChainEntry
from bobbin.cluster.settings import ChainConfig
from bobbin.cluster.shard.commands import Command, Outcome
from bobbin.cluster.shard.machine import Shard, SnapshotEntry
from bobbin.cluster.transactions.names import ShardId
from bobbin.errors import PeerError, UsageError
from bobbin.wire.cluster.faults import UNREADABLE

MALFORMED: Final = "malformed"

_encoder: Final = msgspec.msgpack.Encoder()
_commands: Final[msgspec.msgpack.Decoder[Command]] = msgspec.msgpack.Decoder(Command)
_outcomes: Final = msgspec.msgpack.Decoder(Outcome)
_chain_entries: Final[msgspec.msgpack.Decoder[ChainEntry]] = msgspec.msgpack.Decoder(ChainEntry)
_entries: Final[msgspec.msgpack.Decoder[SnapshotEntry]] = msgspec.msgpack.Decoder(SnapshotEntry)


def encode_command(command: Command) -> bytes:
    """The bytes to propose. Raises ``UsageError`` for numbers of more than 64 bits, and text that is none."""
    try:
        return _encoder.encode(command)
    except (OverflowError, UnicodeEncodeError) as error:
        raise UsageError(f"a command that cannot be written down: {error}") from error


def decode_command(raw: bytes) -> Command:
    """A command, or ``PeerError``. What it holds is looked at when it is done."""
    try:
        return _commands.decode(raw)
    except UNREADABLE as error:
        raise PeerError(MALFORMED, f"no command: {error}") from error


def encode_outcome(outcome: Outcome) -> bytes:
    """The bytes of an answer."""
    return _encoder.encode(outcome)


def decode_outcome(raw: bytes) -> Outcome:
    """An answer, or ``PeerError``."""
    try:
        return _outcomes.decode(raw)
    except UNREADABLE as error:
        raise PeerError(MALFORMED, f"no outcome: {error}") from error


class ChainCodec:
    """The part of it that a chain wants."""

    @staticmethod
    def entry(entry: ChainEntry) -> bytes:
        return _encoder.encode(entry)

    @staticmethod
    def read_entry(raw: bytes) -> ChainEntry:
        try:
            return _chain_entries.decode(raw)
        except UNREADABLE as error:
            raise PeerError(MALFORMED, f"no entry of a chain's snapshot: {error}") from error


class ShardCodec:
    """All of it, as a shard wants it."""

    chain: Final = ChainCodec()
    read_command = staticmethod(decode_command)
    outcome = staticmethod(encode_outcome)

    @staticmethod
    def entry(entry: SnapshotEntry) -> bytes:
        return _encoder.encode(entry)

    @staticmethod
    def read_entry(raw: bytes) -> SnapshotEntry:
        try:
            return _entries.decode(raw)
        except UNREADABLE as error:
            raise PeerError(MALFORMED, f"no entry of a snapshot: {error}") from error


def shard_machine(*, shard: ShardId, config: ChainConfig, hashing: Hashing = PLAIN) -> Shard:
    """An empty shard."""
    return Shard(ShardCodec(), shard=shard, config=config, hashing=hashing)

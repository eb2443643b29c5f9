"""The bytes of the key-value table: its commands in the log, its answers, and the entries of its snapshots.

MessagePack arrays. A command or an entry begins with the number of its kind; an answer is its kind and a version. The
same value has always the same bytes, which the hash of a snapshot rests on.
"""

from typing import Final

import msgspec

from bobbin.cluster.key_value import SESSIONS_MAX, Command, KeyValue, Outcome, SnapshotEntry
from bobbin.errors import PeerError

MALFORMED: Final = "malformed"
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""Everything that the decoders below raise for bytes they do not accept."""

_encoder: Final = msgspec.msgpack.Encoder()
_commands: Final[msgspec.msgpack.Decoder[Command]] = msgspec.msgpack.Decoder(Command)
_outcomes: Final = msgspec.msgpack.Decoder(Outcome)
_entries: Final[msgspec.msgpack.Decoder[SnapshotEntry]] = msgspec.msgpack.Decoder(SnapshotEntry)


def encode_command(command: Command) -> bytes:
    """The bytes to propose."""
    return _encoder.encode(command)


def decode_command(raw: bytes) -> Command:
    """A command of a client, or ``PeerError``. Its lengths and numbers are ``why_invalid``'s part."""
    try:
        return _commands.decode(raw)
    except _UNREADABLE as error:
        raise PeerError(MALFORMED, f"no command: {error}") from error


def encode_outcome(outcome: Outcome) -> bytes:
    """The bytes of an answer."""
    return _encoder.encode(outcome)


def decode_outcome(raw: bytes) -> Outcome:
    """An answer of the table, or ``PeerError``."""
    try:
        return _outcomes.decode(raw)
    except _UNREADABLE as error:
        raise PeerError(MALFORMED, f"no answer: {error}") from error


class KeyValueCodec:
    """All of it, as the table wants it."""

    read_command = staticmethod(decode_command)
    outcome = staticmethod(encode_outcome)

    @staticmethod
    def entry(entry: SnapshotEntry) -> bytes:
        return _encoder.encode(entry)

    @staticmethod
    def read_entry(raw: bytes) -> SnapshotEntry:
        try:
            return _entries.decode(raw)
        except _UNREADABLE as error:
            raise PeerError(MALFORMED, f"no entry of a snapshot: {error}") from error


def key_value(*, sessions_max: int = SESSIONS_MAX) -> KeyValue:
    """An empty table."""
    return KeyValue(KeyValueCodec(), sessions_max=sessions_max)

"""What a replicated lace has in its log and in its snapshots, as bytes.

A command and an entry of a snapshot are MessagePack arrays that begin with the number of their kind, 48 to 63: by it
the machines on one log are told apart (``cluster.composite``). A command has a token that nobody else draws. One whose
fate is not known is proposed again under the same token, and done once.

Times are those of whoever proposes. What applies a command looks at no clock.
"""

from collections.abc import Sequence
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta, Struct

from bobbin.errors import PeerError
from bobbin.records.ids import HashText
from bobbin.store.base import Outcome, Put, StoreRecordId

TAGS: Final = range(48, 64)
CLIENT_TAGS: Final = range(48, 55)
"""Of commands that a client may have proposed. The root is compared by nodes alone: a false one stops them."""
TOKEN_BYTES: Final = 16
COMMAND_BYTES: Final = 256 * 1024
"""About so much of records is in one command; a longer record stands alone."""
COMMAND_RECORDS_MAX: Final = 1_024
PIECE_BYTES: Final = 2 * 1024 * 1024
"""A record beyond this comes in pieces of this size; the log takes 3 MB at a time."""
KEPT_BYTES_MAX: Final = 2 * 1024 * 1024
"""A longer value that only saves work is kept by the node alone that wants it."""
MALFORMED: Final = "malformed"
_UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

_Token = Annotated[bytes, Meta(min_length=TOKEN_BYTES, max_length=TOKEN_BYTES)]
_Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_Text = Annotated[str, Meta(max_length=4_096)]


# ---- commands -------------------------------------------------------------------------------------------------------


class PutRecords(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=48):
    """Store records, which were found valid before they were proposed."""

    token: _Token
    raws: Annotated[list[bytes], Meta(min_length=1, max_length=COMMAND_RECORDS_MAX)]


class PutPiece(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=49):
    """A piece of a record that is too long for one command; whichever comes last has it stored."""

    token: _Token
    record: _Token
    """What the pieces of one record have in common."""
    number: _Count
    raw: bytes
    count: _Count
    """How many pieces there are."""


class Remove(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=50):
    """Take a record out and refuse it."""

    token: _Token
    hash: _Text
    reason: str
    tai: _Count


class Lift(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=51):
    """End a refusal."""

    token: _Token
    hash: _Text


class Keep(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=52):
    """Keep a value that saves work and is worth having at every node; None takes it out."""

    token: _Token
    kind: _Text
    key: _Text
    value: bytes | None


class RaiseFence(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=53):
    """A leader shows its term: from now on no older right to fire effects counts."""

    token: _Token
    fence: _Count


class SetEffect(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=54):
    """An effect is about to be fired (no outcome), or was fired with this outcome."""

    token: _Token
    id: _Text
    fence: _Count
    outcome: _Text | None = None
    settles: bool = False
    """Whoever knows what became of an effect that is in doubt says so, whoever had begun it."""


class CompareRoot(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=55):
    """The leader's root at some place: whoever had another one there has other data, and stops."""

    index: _Count
    root: bytes


Answered: TypeAlias = PutRecords | PutPiece | Remove | Lift | Keep | RaiseFence | SetEffect
"""Commands that somebody waits for."""
Command: TypeAlias = Answered | CompareRoot


# ---- answers --------------------------------------------------------------------------------------------------------


class Stored(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=1):
    """What became of the records of a command: the usual case, all are new, is two numbers."""

    first: int
    """The number of the first; 0 where ``each`` tells."""
    count: int
    each: list[tuple[Outcome, int | None, str | None]] = []
    """Of each its outcome, its number and the reason of a refusal."""


class Truth(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=2):
    """Whether something was so: there, lifted, admitted."""

    value: bool


class NotDone(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=3):
    """The command makes no sense, and nothing was changed; the same at every node."""

    why: str


Answer: TypeAlias = Stored | Truth | NotDone


def stored(puts: Sequence[Put]) -> Stored:
    """The answer for records that were put."""
    first = puts[0].id if puts else None
    if first is not None and all(put.outcome is Outcome.STORED for put in puts):
        return Stored(first, len(puts))
    return Stored(0, len(puts), [(put.outcome, put.id, put.reason) for put in puts])


def puts_of(answer: Stored, names: Sequence[HashText]) -> list[Put]:
    """The answer as a store gives it, for records of these names."""
    if not answer.each:
        return [
            Put(Outcome.STORED, name, StoreRecordId(number)) for number, name in enumerate(names, start=answer.first)
        ]
    return [
        Put(outcome, name, None if number is None else StoreRecordId(number), reason)
        for name, (outcome, number, reason) in zip(names, answer.each, strict=True)
    ]


def is_news(command: Answered, answer: Answer) -> bool:
    """Whether records have come by it, or gone, or may come again."""
    if isinstance(answer, Stored):
        return not answer.each or any(outcome is Outcome.STORED for outcome, _, _ in answer.each)
    if isinstance(answer, Truth):
        return isinstance(command, Remove) or (isinstance(command, Lift) and answer.value)
    return False


# ---- entries of a snapshot ------------------------------------------------------------------------------------------


class Head(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=56):
    """The first entry: how far the state is, and what it must come to."""

    format: int
    high_water: _Count
    changes: _Count
    fence: _Count
    root: bytes


class RecordEntry(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=57):
    """A record under its number, ascending."""

    id: _Count
    raw: bytes


class RefusalEntry(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=58):
    """A refusal, in the order in which they were made."""

    hash: str
    reason: str
    tai: int


class ChangeEntry(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=59):
    """What was written down of a removal, under its number."""

    id: _Count
    what: int
    kind: int
    digest: bytes


class KeptEntry(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=60):
    """A value that saves work."""

    kind: str
    key: str
    value: bytes


class AnswerEntry(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=61):
    """The answer to one of the newest commands."""

    id: _Count
    token: bytes
    answer: bytes


class EffectEntry(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=62):
    """What is known of an effect."""

    id: str
    fence: _Count
    outcome: str | None


class PieceEntry(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=63):
    """A piece of a long record that waits for the rest."""

    token: bytes
    number: _Count
    since: _Count
    raw: bytes


SnapshotEntry: TypeAlias = (
    Head | RecordEntry | RefusalEntry | ChangeEntry | KeptEntry | AnswerEntry | EffectEntry | PieceEntry
)

_encoder: Final = msgspec.msgpack.Encoder()
_commands: Final[msgspec.msgpack.Decoder[Command]] = msgspec.msgpack.Decoder(Command)
_answers: Final[msgspec.msgpack.Decoder[Answer]] = msgspec.msgpack.Decoder(Answer)
_entries: Final[msgspec.msgpack.Decoder[SnapshotEntry]] = msgspec.msgpack.Decoder(SnapshotEntry)


def encode(value: Command | Answer | SnapshotEntry) -> bytes:
    """The bytes of any of them; the same value has always the same."""
    return _encoder.encode(value)


def decode_command(raw: bytes) -> Command:
    """A command, or ``PeerError``."""
    try:
        return _commands.decode(raw)
    except _UNREADABLE as error:
        raise PeerError(MALFORMED, f"no command of a lace: {error}") from error


def decode_answer(raw: bytes) -> Answer:
    """An answer, or ``PeerError``."""
    try:
        return _answers.decode(raw)
    except _UNREADABLE as error:
        raise PeerError(MALFORMED, f"no answer of a lace: {error}") from error


def decode_entry(raw: bytes) -> SnapshotEntry:
    """An entry of a snapshot, or ``PeerError``."""
    try:
        return _entries.decode(raw)
    except _UNREADABLE as error:
        raise PeerError(MALFORMED, f"no entry of a lace's snapshot: {error}") from error

"""The bytes of what shards say to one another, and the bounds on every field of it.

A message is a MessagePack array that begins with the number of its kind. What is too long is refused before it is read.
Fields are looked at in a fixed order: the shards first, then the timeout, then the vectors, then everything else; each
refusal names the field and the rule. A message that passes is one that the machines can compute with; whether it makes
sense where it arrives is for the leader of the shard to say.
"""

from collections.abc import Iterable
from typing import Final, assert_never

import msgspec

from bobbin.cluster.operations import (
    HEIGHT_MAX,
    Average,
    Embed,
    Transaction,
    VectorAdd,
    affected_key,
    why_invalid,
)
from bobbin.cluster.settings import MessageValidationConfig
from bobbin.cluster.transactions.messages import (
    Conflict,
    No,
    PrepareVote,
    Recheck,
    Rechecked,
    ShardMessage,
    TxAbortMsg,
    TxAckMsg,
    TxCommitMsg,
    TxDecisionMsg,
    TxPrepareMsg,
    TxPrepareResponse,
    TxQueryMsg,
    VictimMsg,
    WaitReport,
    Yes,
)
from bobbin.cluster.transactions.names import TX_ID_BYTES, ShardId
from bobbin.wire.cluster.faults import UNREADABLE, MessageRefused, Refusal, unreadable
from bobbin.wire.cluster.validation import Bounds

MESSAGE_BYTES_MAX: Final = 15 * 1_048_576
"""Leaves room for the envelope in a frame."""
EDGES_MAX: Final = 100_000
"""Of one report or question about waits."""
REASON_BYTES_MAX: Final = 4_096
KEYS_MAX: Final = 12_000
"""That one vote names: of so many operations and reads as a transaction may have."""

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final[msgspec.msgpack.Decoder[ShardMessage]] = msgspec.msgpack.Decoder(ShardMessage)


def encode(message: ShardMessage) -> bytes:
    """The bytes to send."""
    return _encoder.encode(message)


def decode(raw: bytes, *, config: MessageValidationConfig) -> ShardMessage:
    """A message within its bounds, or ``MessageRefused``. Bounds that are switched off leave the size and the form."""
    if len(raw) > MESSAGE_BYTES_MAX:
        raise MessageRefused(Refusal.OVERSIZED, f"a message has at most {MESSAGE_BYTES_MAX} bytes, not {len(raw)}")
    try:
        message = _decoder.decode(raw)
    except UNREADABLE as error:
        raise unreadable(error) from error
    if config.enabled:
        validate(message, Bounds(config))
    return message


def validate(message: ShardMessage, bounds: Bounds) -> None:
    """Raise ``MessageRefused`` unless every field is within its bound."""
    match message:
        case TxPrepareMsg():
            _prepare(message, bounds)
        case TxPrepareResponse():
            bounds.shard(message.shard)
            _vote(message.vote, bounds)
            _tx(message.tx)
        case TxCommitMsg() | TxAbortMsg():
            bounds.shard(message.coordinator, "coordinator")
            bounds.shard(message.shard)
            _tx(message.tx)
            if isinstance(message, TxAbortMsg):
                _text(message.reason, "reason")
        case TxAckMsg():
            bounds.shard(message.shard)
            _tx(message.tx)
            _text(message.error, "error")
        case TxQueryMsg():
            bounds.shard(message.coordinator, "coordinator")
            bounds.shard(message.asker, "asker")
            bounds.shard(message.shard)
            _tx(message.tx)
        case TxDecisionMsg():
            bounds.shard(message.shard)
            _tx(message.tx)
        case WaitReport():
            _report(message, bounds)
        case Recheck(edges=edges) | Rechecked(standing=edges):
            bounds.shard(message.shard)
            bounds.number(message.number, "number")
            _pairs(edges)
        case VictimMsg():
            bounds.shard(message.coordinator, "coordinator")
            _tx(message.tx)
            _text(message.reason, "reason")
        case _:
            assert_never(message)


def _prepare(message: TxPrepareMsg, bounds: Bounds) -> None:
    bounds.shard(message.coordinator, "coordinator")
    bounds.shard(message.shard)
    _participants(message.participants, bounds)
    bounds.timeout(message.timeout_ms)
    bounds.embedding(message.delta, "delta")
    for at, operation in enumerate(message.part.operations):
        if isinstance(operation, Embed | VectorAdd | Average):
            bounds.embedding(operation.vector, f"part.operations[{at}].vector")
    _tx(message.tx)
    _part(message.part, bounds)


def _participants(shards: tuple[ShardId, ...], bounds: Bounds) -> None:
    before = -1
    for at, shard in enumerate(shards):
        bounds.shard(shard, f"participants[{at}]")
        if shard <= before:
            _refuse(Refusal.SHARD, "participants stand in ascending order, once", f"participants[{at}]")
        before = shard


def _part(part: Transaction, bounds: Bounds) -> None:
    for at, operation in enumerate(part.operations):
        bounds.key(affected_key(operation), f"part.operations[{at}].key")
    wrong = why_invalid(part)
    if wrong is not None:
        _refuse(Refusal.COMMAND, wrong, "part")


def _vote(vote: PrepareVote, bounds: Bounds) -> None:
    match vote:
        case Yes():
            bounds.embedding(vote.delta, "vote.delta")
            bounds.number(vote.handle, "vote.handle")
            if len(vote.keys) > KEYS_MAX:
                _refuse(Refusal.ENTRIES, f"at most {KEYS_MAX} keys, not {len(vote.keys)}", "vote.keys")
        case No():
            _text(vote.reason, "vote.reason")
        case Conflict():
            if not -1.0 <= vote.similarity <= 1.0:
                _refuse(Refusal.EMBEDDING, f"a similarity lies in [-1, 1], not at {vote.similarity}", "vote.similarity")
            if vote.other is not None:
                _tx(vote.other, "vote.other")
            _text(vote.reason, "vote.reason")
        case _:
            assert_never(vote)


def _report(message: WaitReport, bounds: Bounds) -> None:
    bounds.shard(message.shard)
    bounds.number(message.round, "round")
    bounds.term(message.term)
    if len(message.edges) > EDGES_MAX:
        _refuse(Refusal.ENTRIES, f"at most {EDGES_MAX} waits, not {len(message.edges)}", "edges")
    for at, edge in enumerate(message.edges):
        bounds.shard(edge.coordinator, f"edges[{at}].coordinator")
        _tx(edge.waiter, f"edges[{at}].waiter")
        _tx(edge.holder, f"edges[{at}].holder")
        for name in ("started_ms", "born_ms", "locks"):
            bounds.number(getattr(edge, name), f"edges[{at}].{name}")
        if not -HEIGHT_MAX <= edge.priority <= HEIGHT_MAX:
            _refuse(Refusal.NUMBER, f"a priority has 64 bits, not {edge.priority}", f"edges[{at}].priority")


def _pairs(edges: Iterable[tuple[bytes, bytes]]) -> None:
    for at, (waiter, holder) in enumerate(edges):
        if at >= EDGES_MAX:
            _refuse(Refusal.ENTRIES, f"at most {EDGES_MAX} waits", "edges")
        _tx(waiter, f"edges[{at}]")
        _tx(holder, f"edges[{at}]")


def _tx(tx: bytes, field: str = "tx") -> None:
    if len(tx) != TX_ID_BYTES:
        _refuse(Refusal.NUMBER, f"the id of a transaction has {TX_ID_BYTES} bytes, not {len(tx)}", field)


def _text(text: str, field: str) -> None:
    if len(text) > REASON_BYTES_MAX:
        _refuse(Refusal.QUERY, f"a reason has at most {REASON_BYTES_MAX} characters, not {len(text)}", field)


def _refuse(refusal: Refusal, reason: str, field: str) -> None:
    raise MessageRefused(refusal, reason, field=field)

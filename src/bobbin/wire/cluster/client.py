"""What clients and operators ask of a node, and what it answers: many in one frame, each with its number.

The payload of a frame is an array of requests, or of answers, in MessagePack; each is an array that begins with its
kind. A client numbers its requests as it likes and gets every number back once, in whatever order the node is done.
Nothing is signed here: the link has shown who the client is.

A write carries the client's id and a sequence number of that client's own. The state machine does the same pair once,
so that a request whose outcome is unknown may be sent again, to any node.
"""

from collections.abc import Sequence
from typing import Annotated, Final, TypeAlias, get_args

import msgspec
from msgspec import Meta, Struct

from bobbin.cluster.names import NodeId
from bobbin.cluster.operations import HEIGHT_MAX, Transaction, bytes_of_put
from bobbin.cluster.raft.entries import Configuration
from bobbin.errors import UsageError
from bobbin.wire.cluster.chain import ChainAnswer, ChainCommit, ChainRequest, check_chain_request
from bobbin.wire.cluster.faults import UNREADABLE, MessageRefused, Refusal, unreadable
from bobbin.wire.cluster.frame import PAYLOAD_BYTES_MAX
from bobbin.wire.cluster.lace import LaceRequest, LaceSettle, LaceWrite, check_lace_request

KEY_BYTES_MAX: Final = 4_096
VALUE_BYTES_MAX: Final = 1_048_576
CLIENT_BYTES_MAX: Final = 64
ROWS_MAX: Final = 1_000
REQUESTS_MAX: Final = 10_000
"""In one frame."""
CERTIFICATE_BYTES_MAX: Final = 16_384
TEXT_CHARACTERS_MAX: Final = 4_096
NODE_ID_CHARACTERS_MAX: Final = 256
MEMBERS_MAX: Final = 10_000
REPLACED_MAX: Final = 64
"""Nodes that come, or go, in one change."""
CHAIN_BYTES_MAX: Final = 10 * 1_048_576
"""Of one request about a chain, which then has room in a frame beside others."""
NUMBER_MAX: Final = 2**64 - 1
GREETING: Final = b"\x90"
"""The payload that a node begins with: no answers. A client that hears it has been let in, and may ask."""

_Number = Annotated[int, Meta(ge=0)]
_Key = Annotated[bytes, Meta(min_length=1, max_length=KEY_BYTES_MAX)]
_Place = Annotated[bytes, Meta(max_length=KEY_BYTES_MAX)]
_Value = Annotated[bytes, Meta(max_length=VALUE_BYTES_MAX)]
_Client = Annotated[bytes, Meta(max_length=CLIENT_BYTES_MAX)]
_Certificate = Annotated[bytes, Meta(max_length=CERTIFICATE_BYTES_MAX)]
_Text = Annotated[str, Meta(max_length=TEXT_CHARACTERS_MAX)]
_Node = Annotated[NodeId, Meta(min_length=1, max_length=NODE_ID_CHARACTERS_MAX)]
_Limit = Annotated[int, Meta(ge=1, le=ROWS_MAX)]
_Replaced = Annotated[tuple[_Node, ...], Meta(max_length=REPLACED_MAX)]


class Put(Struct, frozen=True, array_like=True, tag=1, gc=False, forbid_unknown_fields=True):
    """Set a key."""

    number: _Number
    key: _Key
    value: _Value
    client: _Client
    """Who asks; nothing for a write that is never sent again."""
    sequence: _Number


class Delete(Struct, frozen=True, array_like=True, tag=2, gc=False, forbid_unknown_fields=True):
    """Remove a key; one that is not there is removed already."""

    number: _Number
    key: _Key
    client: _Client
    sequence: _Number


class CompareAndSwap(Struct, frozen=True, array_like=True, tag=3, gc=False, forbid_unknown_fields=True):
    """Set or remove a key if its value is as expected; None stands for a key that is not there."""

    number: _Number
    key: _Key
    expected: _Value | None
    value: _Value | None
    client: _Client
    sequence: _Number


class Get(Struct, frozen=True, array_like=True, tag=4, gc=False, forbid_unknown_fields=True):
    """The value of a key."""

    number: _Number
    key: _Key
    linearizable: bool = True
    """False reads what this node has applied, which may be old."""


class Scan(Struct, frozen=True, array_like=True, tag=5, gc=False, forbid_unknown_fields=True):
    """Keys with a prefix, in order, after a key."""

    number: _Number
    prefix: _Place
    after: _Place
    """Where the last page ended; empty for the first."""
    limit: _Limit = ROWS_MAX
    linearizable: bool = True


class Status(Struct, frozen=True, array_like=True, tag=16, gc=False, forbid_unknown_fields=True):
    """How this node sees the cluster."""

    number: _Number


class Transfer(Struct, frozen=True, array_like=True, tag=17, gc=False, forbid_unknown_fields=True):
    """Hand leadership to another voter."""

    number: _Number
    target: _Node


class Add(Struct, frozen=True, array_like=True, tag=18, gc=False, forbid_unknown_fields=True):
    """Take in a node that listens. Its id follows from its certificate."""

    number: _Number
    certificate: _Certificate
    """DER, of the new node."""
    address: _Text
    operator: _Certificate
    """DER, of whoever may operate the new node; nothing for nobody."""


class Promote(Struct, frozen=True, array_like=True, tag=19, gc=False, forbid_unknown_fields=True):
    """Let a node vote that has only listened."""

    number: _Number
    node: _Node


class Remove(Struct, frozen=True, array_like=True, tag=20, gc=False, forbid_unknown_fields=True):
    """Put a node out."""

    number: _Number
    node: _Node


class Snapshot(Struct, frozen=True, array_like=True, tag=21, gc=False, forbid_unknown_fields=True):
    """Compact the log of this node now."""

    number: _Number


class Invite(Struct, frozen=True, array_like=True, tag=22, gc=False, forbid_unknown_fields=True):
    """Let the holder of a certificate ask to be taken in, until then."""

    number: _Number
    certificate: _Certificate
    expires_ms: _Number


class Members(Struct, frozen=True, array_like=True, tag=23, gc=False, forbid_unknown_fields=True):
    """Who is known now: asked by a client, or by a node that was away."""

    number: _Number


class Renew(Struct, frozen=True, array_like=True, tag=24, gc=False, forbid_unknown_fields=True):
    """Let an operator go on under another certificate: that one may ask from then on, and the one before no more."""

    number: _Number
    certificate: _Certificate
    """DER, of the new key."""
    replaces: _Certificate
    """DER, of the key that the operator has had."""


class Replace(Struct, frozen=True, array_like=True, tag=25, forbid_unknown_fields=True):
    """Have these vote and those not, in one joint change. What is so already is done already."""

    number: _Number
    additions: _Replaced
    """Nodes that listen and have caught up."""
    removals: _Replaced
    """Voters; whoever leads may be among them."""


class AddListener(Add, frozen=True, array_like=True, tag=26, gc=False, forbid_unknown_fields=True):
    """Take in a node that listens for good: it votes when somebody says so, and not by itself."""


Operation: TypeAlias = Add | AddListener | Invite | Members | Renew | Replace
"""What takes several steps."""
Request: TypeAlias = (
    Put
    | Delete
    | CompareAndSwap
    | Get
    | Scan
    | Status
    | Transfer
    | Add
    | Promote
    | Remove
    | Snapshot
    | Invite
    | Members
    | Renew
    | Replace
    | AddListener
    | ChainRequest
    | LaceRequest
)
Write: TypeAlias = Put | Delete | CompareAndSwap


class Done(Struct, frozen=True, array_like=True, tag=1, gc=False, forbid_unknown_fields=True):
    """It is done: committed, and applied."""

    number: _Number
    index: _Number
    """Where in the log; 0 where the request took no place in it."""
    result: bytes = b""
    """What the state machine said, in the bytes of ``commands``."""


class Value(Struct, frozen=True, array_like=True, tag=2, gc=False, forbid_unknown_fields=True):
    """What a key holds; None where it is not there."""

    number: _Number
    value: bytes | None
    version: _Number
    """The index of the last write to it."""
    index: _Number
    """Applied when it was read."""


class Row(Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """One key of a scan."""

    key: bytes
    value: bytes
    version: _Number


class Rows(Struct, frozen=True, array_like=True, tag=3, forbid_unknown_fields=True):
    """A page of a scan."""

    number: _Number
    rows: Annotated[tuple[Row, ...], Meta(max_length=ROWS_MAX)]
    is_whole: bool
    """There are no more after these."""
    index: _Number


class Rejected(Struct, frozen=True, array_like=True, tag=4, gc=False, forbid_unknown_fields=True):
    """It will not be done, and nothing has changed."""

    number: _Number
    why: _Text
    """A word that programs understand: a ``Why`` of raft, or one of the node's own."""
    text: _Text
    leader: _Node | None = None
    """Whom to ask instead, if known."""
    address: _Text | None = None


class Unknown(Struct, frozen=True, array_like=True, tag=5, gc=False, forbid_unknown_fields=True):
    """Whether it is done, or will be, is not known: leadership was lost, or time is up. Ask again, same sequence."""

    number: _Number
    text: _Text
    leader: _Node | None = None
    address: _Text | None = None


class Joined(Struct, frozen=True, array_like=True, tag=6, gc=False, forbid_unknown_fields=True):
    """A node is in; these are the members, in the bytes of the members' file."""

    number: _Number
    members: bytes


class PeerReport(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """How a node sees another one."""

    node: _Node
    address: _Text
    health: _Text
    is_linked: bool
    match_index: _Number
    """0 where this node does not lead."""
    next_index: _Number
    contact_ms: _Number | None
    """How long ago it was last heard; None for never."""
    failures: _Number


class Report(Struct, frozen=True, array_like=True, tag=16, forbid_unknown_fields=True):
    """How a node sees itself and the cluster."""

    number: _Number
    node: _Node
    role: _Text
    term: _Number
    leader: _Node | None
    leader_address: _Text | None
    commit_index: _Number
    applied_index: _Number
    first_index: _Number
    last_index: _Number
    snapshot_index: _Number
    configuration: Configuration
    root: bytes
    """Of all that the log has made, at the applied index; b"" while what is kept in a database lags behind that."""
    peers: Annotated[tuple[PeerReport, ...], Meta(max_length=MEMBERS_MAX)]
    problems: Annotated[tuple[_Text, ...], Meta(max_length=MEMBERS_MAX)]
    """What is wrong, for people."""
    counters: dict[str, int | float]


Answer: TypeAlias = Done | Value | Rows | Rejected | Unknown | Joined | Report | ChainAnswer

_CHAIN: Final = frozenset(get_args(ChainRequest))
_encoder: Final = msgspec.msgpack.Encoder()
_Requests = Annotated[list[Request], Meta(min_length=1, max_length=REQUESTS_MAX)]
_Answers = Annotated[list[Answer], Meta(max_length=REQUESTS_MAX)]
_requests: Final[msgspec.msgpack.Decoder[list[Request]]] = msgspec.msgpack.Decoder(_Requests)
_answers: Final[msgspec.msgpack.Decoder[list[Answer]]] = msgspec.msgpack.Decoder(_Answers)


def encode_requests(requests: Sequence[Request]) -> bytes:
    """The payload of a frame. Raises ``UsageError`` for what no node would take."""
    for request in requests:
        check_request(request)
    return _encode(requests)


def decode_requests(payload: bytes, *, key_bytes_max: int = KEY_BYTES_MAX) -> list[Request]:
    """What a client asks, in its order; all of it is well-formed, or ``MessageRefused``."""
    _check_size(payload)
    try:
        requests = _requests.decode(payload)
    except UNREADABLE as error:
        raise unreadable(error) from error
    if key_bytes_max < KEY_BYTES_MAX:
        for request in requests:
            key = getattr(request, "key", b"")
            if len(key) > key_bytes_max:
                raise MessageRefused(
                    Refusal.KEY, f"a key has at most {key_bytes_max} bytes, not {len(key)}", field="key"
                )
    return requests


def encode_answers(answers: Sequence[Answer]) -> bytes:
    """The payload of a frame. Without any it is ``GREETING``."""
    return _encode(answers) if answers else GREETING


def decode_answers(payload: bytes) -> list[Answer]:
    """What a node answers; all of it is well-formed, or ``MessageRefused``."""
    _check_size(payload)
    try:
        return _answers.decode(payload)
    except UNREADABLE as error:
        raise unreadable(error) from error


def check_request(request: Request) -> None:
    """Refuse a request that a node would not take, before it is sent."""
    if type(request) is ChainCommit:
        return  # what it says is looked at by the leader of its shard
    if isinstance(request, Put | Delete | CompareAndSwap | Get) and not 0 < len(request.key) <= KEY_BYTES_MAX:
        raise UsageError(f"a key has 1 to {KEY_BYTES_MAX} bytes, not {len(request.key)}")
    if isinstance(request, Put | CompareAndSwap):
        expected = request.expected if isinstance(request, CompareAndSwap) else None
        longest = max(len(request.value or b""), len(expected or b""))
        if longest > VALUE_BYTES_MAX:
            raise UsageError(f"a value has at most {VALUE_BYTES_MAX} bytes, not {longest}")
    if isinstance(request, Put | Delete | CompareAndSwap) and len(request.client) > CLIENT_BYTES_MAX:
        raise UsageError(f"the id of a client has at most {CLIENT_BYTES_MAX} bytes, not {len(request.client)}")
    if isinstance(request, Scan):
        if not 1 <= request.limit <= ROWS_MAX:
            raise UsageError(f"a scan gives 1 to {ROWS_MAX} rows, not {request.limit}")
        if max(len(request.prefix), len(request.after)) > KEY_BYTES_MAX:
            raise UsageError(f"a key has at most {KEY_BYTES_MAX} bytes")
    if isinstance(request, Replace) and max(len(request.additions), len(request.removals)) > REPLACED_MAX:
        raise UsageError(f"at most {REPLACED_MAX} nodes are replaced in one change")
    if type(request) in _CHAIN:
        assert isinstance(request, ChainRequest)
        check_chain_request(request)
    if isinstance(request, LaceWrite | LaceSettle):
        check_lace_request(request)


def weight(request: Request) -> int:
    """How many bytes a request takes in a frame, roughly, where it may be many. Raises ``UsageError`` for too many."""
    kind = type(request)
    if kind is Put:
        assert isinstance(request, Put)
        return len(request.value)
    if kind is LaceWrite:
        assert isinstance(request, LaceWrite)
        return len(request.command)
    if kind not in _CHAIN:
        return 0
    if kind is ChainCommit:
        assert isinstance(request, ChainCommit)
        transaction = request.transaction
        plain = bytes_of_put(transaction)
        if plain is not None and plain <= CHAIN_BYTES_MAX and _has_numbers_of_messages(transaction):
            return plain
    size = len(_encode([request]))
    if size > CHAIN_BYTES_MAX:
        raise UsageError(f"a request has at most {CHAIN_BYTES_MAX} bytes, and this one would have {size}")
    return size


def _has_numbers_of_messages(transaction: Transaction) -> bool:
    """Whether all its numbers can be written down. Those of most are far smaller still."""
    least, most = -HEIGHT_MAX, HEIGHT_MAX
    return (
        least <= transaction.since <= most
        and least <= transaction.born_ms <= most
        and least <= transaction.priority <= most
    )


def _encode(items: Sequence[Request] | Sequence[Answer]) -> bytes:
    if not 0 < len(items) <= REQUESTS_MAX:
        raise UsageError(f"a frame has 1 to {REQUESTS_MAX} of them, not {len(items)}")
    try:
        payload = _encoder.encode(items)
    except (OverflowError, UnicodeEncodeError) as error:
        raise UsageError(f"numbers lie below 2^64, and texts are UTF-8: {error}") from error
    if len(payload) > PAYLOAD_BYTES_MAX:
        raise UsageError(f"a frame has at most {PAYLOAD_BYTES_MAX} bytes, and this one would have {len(payload)}")
    return payload


def _check_size(payload: bytes) -> None:
    if len(payload) > PAYLOAD_BYTES_MAX:
        raise MessageRefused(Refusal.OVERSIZED, f"a frame has at most {PAYLOAD_BYTES_MAX} bytes, not {len(payload)}")

"""What the fields of a message may be: one rule for each type, bounds on every nested field.

A message that passes is what the machines count on: ids that are ids, terms and indexes that cannot overflow, entries
that follow one another, embeddings that can be computed with. Each refusal names the field and the reason.

A rule says which field names the sender, which field must name this node, and how the rest is looked at. A new type is
one row of ``RULES`` beside its row of ``codec.KINDS``; a type without a rule is not let in. Who the sender is is looked
at even where the bounds are switched off: it belongs to the proof.

Term 0 is the term of a fresh cluster, and an embedding may be absent: neither is a fault.
"""

from collections.abc import Callable, Collection
from math import isinf, isnan
from typing import Final, TypeVar

from msgspec import Struct

from bobbin.cluster.geometry import Embedding
from bobbin.cluster.membership.messages import (
    Alive,
    BidirectionalAck,
    BidirectionalProbe,
    Ping,
    PingAck,
    PingReq,
    Pong,
    Suspect,
    Sync,
)
from bobbin.cluster.names import NodeId
from bobbin.cluster.raft.entries import Configuration, Entry, SnapshotMetadata
from bobbin.cluster.raft.messages import (
    AppendAnswer,
    AppendEntries,
    PreVote,
    PreVoteAnswer,
    RequestVote,
    SnapshotChunk,
    SnapshotOffer,
    SnapshotRequest,
    TimeoutNow,
    VoteAnswer,
)
from bobbin.cluster.settings import GossipConfig, MessageValidationConfig
from bobbin.errors import PeerError
from bobbin.wire.cluster.codec import Hello, Message
from bobbin.wire.cluster.commands import decode_command
from bobbin.wire.cluster.faults import MessageRefused, Refusal

NUMBER_MAX: Final = 2**64 - 1
TERM_JUMP_MAX: Final = 2**20
"""A term that is learnt is durable everywhere and never falls: one lie must not use up all that can be counted."""
FIRST_TERM_MAX: Final = 2**48
"""The same for a node that is in no term yet, and joins a cluster of any age."""
MEMBERS_MAX: Final = 1_000
"""Of a configuration, in each of its parts."""
DIGEST_SIZE: Final = 32

CheckCommand = Callable[[bytes], None]
"""Looks into a command of the log; raises a ``PeerError`` for one that must not be there."""

OwnTerm = Callable[[], int]
"""The term of the node that a message comes to, now."""

_M = TypeVar("_M", bound=Message)


class Bounds:
    """The bounds that are configured, one method for each kind of field. All raise ``MessageRefused``."""

    def __init__(
        self,
        config: MessageValidationConfig,
        *,
        states_max: int = GossipConfig().max_states_per_message,
        check_command: CheckCommand | None = None,
        own_term: OwnTerm | None = None,
    ) -> None:
        self.config: Final = config
        self.states_max: Final = states_max
        self.check_command: Final = check_command
        self.own_term: Final = own_term

    def node_id(self, value: str, field: str) -> None:
        """1 to ``max_node_id_len`` bytes; a character may be more than one."""
        size = len(value) if value.isascii() else len(value.encode())
        if not 0 < size <= self.config.max_node_id_len:
            _refuse(Refusal.NODE_ID, f"a node id has 1 to {self.config.max_node_id_len} bytes, not {size}", field)

    def term(self, value: int, field: str = "term") -> None:
        """0 to ``max_term``, and no further above the receiver's own than elections can have led."""
        if not 0 <= value <= self.config.max_term:
            _refuse(Refusal.TERM, f"a term lies between 0 and {self.config.max_term}, not at {value}", field)
        if self.own_term is None or value <= TERM_JUMP_MAX:
            return
        own = self.own_term()
        if value > (own + TERM_JUMP_MAX if own else FIRST_TERM_MAX):
            _refuse(Refusal.TERM, f"{value} lies too far above this node's own term, {own}", field)

    def number(self, value: int, field: str) -> None:
        """An index, a counter, a time."""
        if not 0 <= value <= NUMBER_MAX:
            _refuse(Refusal.NUMBER, f"between 0 and 2^64 - 1, not at {value}", field)

    def place(self, index: int, term: int, current: int, field: str) -> None:
        """The index and term of an entry that somebody holds who is at ``current``; 0 and 0 before the first."""
        self.number(index, f"{field}_index")
        self.term(term, f"{field}_term")
        if (index == 0) != (term == 0):
            _refuse(Refusal.NUMBER, f"no entry has the index {index} and the term {term}", f"{field}_index")
        if term > current:
            _refuse(Refusal.TERM, f"{term} lies above the sender's own term, {current}", f"{field}_term")

    def embedding(self, value: Embedding | None, field: str = "embedding") -> None:
        """Absent, or a vector that can be computed with."""
        if value is None:
            return
        dimension_max = self.config.max_embedding_dimension
        if not 0 < value.dimension <= dimension_max:
            reason = f"a dimension lies between 1 and {dimension_max}, not at {value.dimension}"
            _refuse(Refusal.EMBEDDING, reason, f"{field}.dimension")
        if len(value.positions) != len(value.values):
            reason = f"{len(value.positions)} positions for {len(value.values)} values"
            _refuse(Refusal.EMBEDDING, reason, f"{field}.positions")
        for at, number in enumerate(value.values):
            if isnan(number) or isinf(number):
                _refuse(Refusal.EMBEDDING, f"{number} at position {at}", f"{field}.values[{at}]")
        if value.norm > self.config.max_embedding_magnitude:
            reason = f"the norm is at most {self.config.max_embedding_magnitude}, not {value.norm}"
            _refuse(Refusal.EMBEDDING, reason, f"{field}.values")
        before = -1
        for at, position in enumerate(value.positions):
            if not before < position < value.dimension:
                reason = f"{position} after {before} is not ascending, or not below the dimension {value.dimension}"
                _refuse(Refusal.EMBEDDING, reason, f"{field}.positions[{at}]")
            before = position

    def digest(self, value: bytes, field: str) -> None:
        """A SHA-256."""
        if len(value) != DIGEST_SIZE:
            _refuse(Refusal.SNAPSHOT, f"a digest has {DIGEST_SIZE} bytes, not {len(value)}", field)

    def chunk(self, size: int, field: str) -> None:
        """Bytes of one chunk of a snapshot."""
        if not 0 <= size <= self.config.max_snapshot_chunk_size:
            reason = f"a chunk has at most {self.config.max_snapshot_chunk_size} bytes, not {size}"
            _refuse(Refusal.SNAPSHOT, reason, field)

    def key(self, value: bytes | str, field: str = "key") -> None:
        """A key of an operation; bytes, not characters."""
        size = len(value) if isinstance(value, bytes) else len(value.encode())
        if size > self.config.max_key_len:
            _refuse(Refusal.KEY, f"a key has at most {self.config.max_key_len} bytes, not {size}", field)

    def shard(self, value: int, field: str = "shard") -> None:
        """Shards count from 0, so that the bound itself is none."""
        if not 0 <= value < self.config.max_shard_id:
            _refuse(Refusal.SHARD, f"a shard lies below {self.config.max_shard_id}, not at {value}", field)

    def timeout(self, value_ms: int, field: str = "timeout_ms") -> None:
        """Of a transaction."""
        if not 1 <= value_ms <= self.config.max_tx_timeout_ms:
            reason = f"a timeout lies between 1 and {self.config.max_tx_timeout_ms} ms, not at {value_ms}"
            _refuse(Refusal.TIMEOUT, reason, field)

    def identifier(self, value: int, field: str) -> None:
        """The id of a transaction or a query: 0 is none."""
        if not 0 < value <= NUMBER_MAX:
            _refuse(Refusal.NUMBER, f"between 1 and 2^64 - 1, not at {value}", field)

    def query(self, value: str, field: str = "query") -> None:
        """The text of a query; bytes, not characters."""
        size = len(value.encode())
        if size > self.config.max_query_len:
            _refuse(Refusal.QUERY, f"a query has at most {self.config.max_query_len} bytes, not {size}", field)

    def count(self, value: int, field: str) -> None:
        """How many entries, or blocks, are asked for or sent at once."""
        if value > self.config.max_blocks_per_request:
            _refuse(Refusal.ENTRIES, f"at most {self.config.max_blocks_per_request} at once, not {value}", field)

    def configuration(self, value: Configuration, field: str) -> None:
        """Somebody votes; every part is ascending; nobody both votes and only listens."""
        if not value.voters:
            _refuse(Refusal.CONFIGURATION, "nobody votes", f"{field}.voters")
        for name, nodes in (("voters", value.voters), ("learners", value.learners), ("outgoing", value.outgoing)):
            if len(nodes) > MEMBERS_MAX:
                _refuse(Refusal.CONFIGURATION, f"at most {MEMBERS_MAX} nodes, not {len(nodes)}", f"{field}.{name}")
            before = ""
            for at, node in enumerate(nodes):
                self.node_id(node, f"{field}.{name}[{at}]")
                if node <= before:
                    _refuse(Refusal.CONFIGURATION, "nodes stand in ascending order, once", f"{field}.{name}[{at}]")
                before = node
        if not {*value.voters, *value.outgoing}.isdisjoint(value.learners):
            _refuse(Refusal.CONFIGURATION, "a node both votes and only listens", f"{field}.learners")

    def metadata(self, value: SnapshotMetadata, current: int, field: str = "metadata") -> None:
        """What a snapshot is said to be."""
        self.place(value.last_index, value.last_term, current, f"{field}.last")
        if not value.last_index:
            _refuse(Refusal.SNAPSHOT, "a snapshot stands in for at least one entry", f"{field}.last_index")
        self.digest(value.sha256, f"{field}.sha256")
        for name, number in (("size", value.size), ("created_s", value.created_s), ("epoch", value.epoch)):
            self.number(number, f"{field}.{name}")
        self.configuration(value.configuration, f"{field}.configuration")

    def entries(self, entries: tuple[Entry, ...], *, after: int, since: int, current: int) -> None:
        """Entries that follow the index ``after``, of terms from ``since`` on that never fall, up to ``current``."""
        self.count(len(entries), "entries")
        expected, term = after, since
        check_command = self.check_command
        for at, entry in enumerate(entries):
            expected += 1
            if entry.index != expected:
                _refuse(Refusal.ENTRIES, f"{entry.index} where {expected} follows", f"entries[{at}].index")
            if entry.term != term or not term:
                if not max(term, 1) <= entry.term <= current:
                    reason = f"{entry.term} where terms rise from {term} to {current}"
                    _refuse(Refusal.TERM, reason, f"entries[{at}].term")
                term = entry.term
            payload = entry.payload
            if isinstance(payload, bytes):
                if check_command is not None:
                    _check_command(check_command, payload, at)
            elif payload is not None:
                self.configuration(payload, f"entries[{at}].payload")
        self.number(expected, "entries")


class Rule(Struct, frozen=True):
    """How one type of message is looked at."""

    sender: str | None
    """The field that names the sender."""
    addressee: str | None
    """The field that must name the receiver: of an answer, whoever asked."""
    check: Callable[[Bounds, Message], None]


def _rule(
    message: type[_M], check: Callable[[Bounds, _M], None], *, sender: str | None, addressee: str | None = None
) -> tuple[type[object], Rule]:
    def checked(bounds: Bounds, found: Message) -> None:
        assert isinstance(found, message), "a rule is looked up by the type of the message"
        check(bounds, found)

    return message, Rule(sender, addressee, checked)


def _vote(bounds: Bounds, message: PreVote | RequestVote) -> None:
    bounds.term(message.term)
    bounds.place(message.last_index, message.last_term, message.term, "last")
    bounds.number(message.request, "request")
    bounds.embedding(message.embedding)


def _vote_answer(bounds: Bounds, message: PreVoteAnswer | VoteAnswer) -> None:
    bounds.term(message.term)
    bounds.number(message.request, "request")


def _timeout_now(bounds: Bounds, message: TimeoutNow) -> None:
    bounds.term(message.term)


def _append(bounds: Bounds, message: AppendEntries) -> None:
    bounds.term(message.term)
    bounds.place(message.previous_index, message.previous_term, message.term, "previous")
    bounds.number(message.commit, "commit")
    bounds.number(message.round, "round")
    bounds.entries(message.entries, after=message.previous_index, since=message.previous_term, current=message.term)


def _append_answer(bounds: Bounds, message: AppendAnswer) -> None:
    bounds.term(message.term)
    bounds.number(message.match_index, "match_index")
    bounds.number(message.round, "round")


def _snapshot_offer(bounds: Bounds, message: SnapshotOffer) -> None:
    bounds.term(message.term)
    bounds.metadata(message.metadata, message.term)
    bounds.number(message.round, "round")


def _snapshot_request(bounds: Bounds, message: SnapshotRequest) -> None:
    bounds.term(message.term)
    bounds.digest(message.sha256, "sha256")
    bounds.number(message.offset, "offset")
    bounds.chunk(message.size, "size")
    if not message.size:
        _refuse(Refusal.SNAPSHOT, "no bytes are asked for", "size")
    bounds.number(message.round, "round")


def _snapshot_chunk(bounds: Bounds, message: SnapshotChunk) -> None:
    bounds.term(message.term)
    bounds.chunk(len(message.data), "data")
    bounds.digest(message.sha256, "sha256")
    bounds.place(message.last_index, message.last_term, message.term, "last")
    bounds.number(message.offset, "offset")
    bounds.number(message.total, "total")
    end = message.offset + len(message.data)
    if end > message.total:
        _refuse(Refusal.SNAPSHOT, f"bytes up to {end} of a snapshot of {message.total}", "data")
    if message.is_last != (end == message.total):
        _refuse(Refusal.SNAPSHOT, f"bytes up to {end} of {message.total}", "is_last")


def _sync(bounds: Bounds, message: Sync) -> None:
    bounds.number(message.sender_time, "sender_time")
    if len(message.states) > bounds.states_max:
        _refuse(Refusal.STATES, f"at most {bounds.states_max} states, not {len(message.states)}", "states")
    for at, state in enumerate(message.states):
        bounds.node_id(state.node, f"states[{at}].node")
        bounds.node_id(state.writer, f"states[{at}].writer")
        bounds.number(state.timestamp, f"states[{at}].timestamp")
        bounds.number(state.incarnation, f"states[{at}].incarnation")


def _suspect(bounds: Bounds, message: Suspect) -> None:
    bounds.node_id(message.suspect, "suspect")
    bounds.number(message.incarnation, "incarnation")


def _alive(bounds: Bounds, message: Alive) -> None:
    bounds.number(message.incarnation, "incarnation")


def _sequence(bounds: Bounds, message: Ping | Pong) -> None:
    bounds.number(message.sequence, "sequence")


def _indirect(bounds: Bounds, message: PingReq | PingAck) -> None:
    bounds.node_id(message.origin, "origin")
    bounds.node_id(message.target, "target")
    bounds.number(message.sequence, "sequence")


def _probe(bounds: Bounds, message: BidirectionalProbe) -> None:
    bounds.number(message.id, "id")
    bounds.number(message.time_ms, "time_ms")


def _probe_answer(bounds: Bounds, message: BidirectionalAck) -> None:
    bounds.number(message.id, "id")


def _nothing(_bounds: Bounds, _message: Hello) -> None:
    """All that it says is who says it."""


RULES: Final = dict(
    (
        _rule(Hello, _nothing, sender="node"),
        _rule(PreVote, _vote, sender="candidate"),
        _rule(PreVoteAnswer, _vote_answer, sender="voter"),
        _rule(RequestVote, _vote, sender="candidate"),
        _rule(VoteAnswer, _vote_answer, sender="voter"),
        _rule(TimeoutNow, _timeout_now, sender="leader"),
        _rule(AppendEntries, _append, sender="leader"),
        _rule(AppendAnswer, _append_answer, sender="follower"),
        _rule(SnapshotOffer, _snapshot_offer, sender="leader"),
        _rule(SnapshotRequest, _snapshot_request, sender="requester"),
        _rule(SnapshotChunk, _snapshot_chunk, sender="leader"),
        _rule(Sync, _sync, sender="sender"),
        _rule(Suspect, _suspect, sender="reporter"),
        _rule(Alive, _alive, sender="node_id"),
        _rule(Ping, _sequence, sender="origin"),
        _rule(Pong, _sequence, sender="responder"),
        _rule(PingReq, _indirect, sender="origin"),
        _rule(PingAck, _indirect, sender=None, addressee="origin"),
        _rule(BidirectionalProbe, _probe, sender="origin"),
        _rule(BidirectionalAck, _probe_answer, sender="responder", addressee="origin"),
    )
)


def validate(message: Message, *, sender: NodeId, receiver: NodeId, bounds: Bounds) -> None:
    """Raise ``MessageRefused`` unless a message of a proven sender is one that the machines can take."""
    rule = RULES.get(type(message))
    if rule is None:
        raise MessageRefused(Refusal.UNKNOWN_TYPE, f"there is no rule for {type(message).__name__}", field="type")
    is_bounded = bounds.config.enabled
    for field, expected in ((rule.sender, sender), (rule.addressee, receiver)):
        if field is None:
            continue
        named = getattr(message, field)
        if is_bounded:
            bounds.node_id(named, field)
        if named != expected:
            raise MessageRefused(Refusal.SENDER_FIELD, f"{named!r} is not {expected!r}", field=field)
    if is_bounded:
        rule.check(bounds, message)


def command_check(config: MessageValidationConfig, others: Collection[int] = ()) -> CheckCommand:
    """Looks into the commands of the key-value table: they can be read, and their keys are within the bound.

    ``others``: kinds of commands that other machines of this node have, which refuse by themselves what makes no sense.
    """
    bounds = Bounds(config)
    kinds = frozenset(others)

    def check(command: bytes) -> None:
        if len(command) > 1 and command[1] in kinds:
            return
        bounds.key(decode_command(command).key)

    return check


def _check_command(check: CheckCommand, command: bytes, at: int) -> None:
    try:
        check(command)
    except MessageRefused as refused:
        field = f"entries[{at}].payload.{refused.field}"
        raise MessageRefused(refused.refusal, refused.reason, field=field) from refused
    except PeerError as error:
        raise MessageRefused(Refusal.COMMAND, str(error), field=f"entries[{at}].payload") from error


def _refuse(refusal: Refusal, reason: str, field: str) -> None:
    raise MessageRefused(refusal, reason, field=field)

"""Bounds: every field of every type at its edge, named in the refusal."""

import math
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from bobbin.cluster.geometry import Embedding
from bobbin.cluster.key_value import CompareAndSwap, Delete, Put
from bobbin.cluster.membership.messages import GossipNodeState, Health, Sync
from bobbin.cluster.names import NodeId
from bobbin.cluster.raft.entries import Configuration
from bobbin.cluster.raft.messages import AppendEntries, PreVote, RequestVote, SnapshotChunk, SnapshotOffer
from bobbin.cluster.settings import MessageValidationConfig
from bobbin.wire.cluster.codec import KINDS, Hello, Message, decode
from bobbin.wire.cluster.commands import encode_command
from bobbin.wire.cluster.faults import MessageRefused, Refusal
from bobbin.wire.cluster.validation import MEMBERS_MAX, RULES, Bounds, command_check, validate
from tests.support.cluster_wire import (
    ALICE,
    BOB,
    CAROL,
    CONFIGURATION,
    METADATA,
    append,
    entry,
    messages,
    refusal_of,
    request_vote,
)

CONFIG = MessageValidationConfig()
BOUNDS = Bounds(CONFIG)
MB = 1_048_576


def refused(message: Message, bounds: Bounds = BOUNDS) -> tuple[Refusal, str] | None:
    """Under which code and at which field a message of Alice to Bob is refused."""
    try:
        validate(message, sender=ALICE.node, receiver=BOB.node, bounds=bounds)
    except MessageRefused as found:
        return found.refusal, found.field
    return None


def sample(kind: type[Message]) -> Message:
    """The message of this type among all."""
    return next(message for message in messages() if type(message) is kind)


@pytest.mark.parametrize("message", messages(), ids=lambda message: type(message).__name__)
def test_a_proper_message_passes(message: Message) -> None:
    assert refused(message) is None


def test_every_type_has_a_rule_and_every_rule_a_type() -> None:
    """CL-266: the next type is one row here and one in the codec."""
    assert set(RULES) == {kind.message for kind in KINDS}
    for kind, rule in RULES.items():
        assert issubclass(kind, msgspec.Struct)
        fields = set(kind.__struct_fields__)
        assert {rule.sender, rule.addressee} - {None} <= fields
        assert rule.sender or rule.addressee


def test_a_type_without_a_rule_does_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """CL-266."""
    others = {kind: rule for kind, rule in RULES.items() if kind is not Hello}
    monkeypatch.setattr("bobbin.wire.cluster.validation.RULES", others)
    assert refused(Hello(node=ALICE.node)) == (Refusal.UNKNOWN_TYPE, "type")


SENDERS = [
    (type(message), name)
    for message in messages()
    for name in (RULES[type(message)].sender, RULES[type(message)].addressee)
    if name is not None
]


@pytest.mark.parametrize(("kind", "field"), SENDERS, ids=lambda value: getattr(value, "__name__", value))
@pytest.mark.parametrize("enabled", [True, False])
def test_who_says_it_is_who_has_proven_it(kind: type[Message], field: str, enabled: bool) -> None:  # noqa: FBT001
    """CL-260, CL-343: of every type, whether bounds are on or not."""
    bounds = Bounds(MessageValidationConfig(enabled=enabled))
    message = replace(sample(kind), **{field: CAROL.node})
    assert refused(message, bounds) == (Refusal.SENDER_FIELD, field)


def test_every_type_but_one_names_its_sender() -> None:
    assert [kind.__name__ for kind, rule in RULES.items() if rule.sender is None] == ["PingAck"]
    assert {rule.sender for rule in RULES.values()} >= {
        "leader",
        "candidate",
        "voter",
        "follower",
        "requester",
        "reporter",
        "responder",
        "origin",
    }


# Every number of every message, at both ends. The name of a field says which bound it has.
NUMBERS = [
    (type(message), field.name)
    for message in messages()
    for field in msgspec.structs.fields(type(message))
    if type(getattr(message, field.name)) is int
]


@pytest.mark.parametrize(("kind", "field"), NUMBERS, ids=lambda value: getattr(value, "__name__", value))
def test_no_number_is_negative_or_overflows(kind: type[Message], field: str) -> None:
    """CL-266, CL-344."""
    found = refused(replace(sample(kind), **{field: -1}))
    assert found is not None
    assert found[1].startswith(field)
    above = refused(replace(sample(kind), **{field: 2**64}))
    assert above is not None
    assert above[1].partition("_")[0] in {field.partition("_")[0], "data", "is"}


@pytest.mark.parametrize("kind", [type(message) for message in messages() if hasattr(message, "term")])
def test_the_highest_term_is_two_below_the_end(kind: type[Message]) -> None:
    """CL-344, CL-262: of every raft message, TimeoutNow and snapshots included."""
    assert CONFIG.max_term == 2**64 - 2
    assert refused(replace(sample(kind), term=2**64 - 2)) is None
    assert refused(replace(sample(kind), term=2**64 - 1)) == (Refusal.TERM, "term")
    low = Bounds(MessageValidationConfig(max_term=2))
    assert refused(replace(sample(kind), term=3), low) == (Refusal.TERM, "term")


def test_a_fresh_cluster_at_term_0_passes() -> None:
    """CL-271: nobody has an entry, a term or an embedding yet; an absent embedding is not one of dimension 0."""
    for kind in (PreVote, RequestVote):
        fresh = replace(sample(kind), term=0, last_index=0, last_term=0, embedding=None)
        assert refused(fresh) is None
        assert refused(replace(fresh, embedding=Embedding(0, (), ()))) == (Refusal.EMBEDDING, "embedding.dimension")
    assert refused(append(term=0, previous=(0, 0))) is None
    assert refused(append(entry(1, 1, None), term=1, previous=(0, 0))) is None
    for message in messages():
        if hasattr(message, "granted") or hasattr(message, "match_index"):
            assert refused(replace(message, term=0)) is None


@pytest.mark.parametrize("kind", [PreVote, RequestVote])
def test_term_first_and_then_the_embedding_each_with_its_own_reason(kind: type[Message]) -> None:
    """CL-262."""
    bad = Embedding(4, (0,), (math.nan,))
    assert refused(replace(sample(kind), embedding=bad)) == (Refusal.EMBEDDING, "embedding.values[0]")
    assert refused(replace(sample(kind), embedding=bad, term=2**64 - 1)) == (Refusal.TERM, "term")


@pytest.mark.parametrize("kind", [PreVote, RequestVote])
@pytest.mark.parametrize(("index", "term"), [(0, 1), (1, 0), (5, 4)])
def test_the_last_entry_of_a_candidate_is_one_that_it_can_have(kind: type[Message], index: int, term: int) -> None:
    assert refused(replace(sample(kind), last_index=index, last_term=term)) is not None


@pytest.mark.parametrize(("dimension", "passes"), [(0, False), (-1, False), (1, True), (65_536, True), (65_537, False)])
def test_the_dimension_of_an_embedding(dimension: int, passes: bool) -> None:  # noqa: FBT001
    """CL-267, CL-349."""
    assert CONFIG.max_embedding_dimension == 65_536
    found = refused(request_vote(Embedding(dimension, (), ())))
    assert found == (None if passes else (Refusal.EMBEDDING, "embedding.dimension"))


def test_a_dimension_is_refused_before_anything_else_is_looked_at() -> None:
    """CL-349: nothing is walked over, and nothing is built that has the size of the dimension."""

    class Untouchable(tuple[float, ...]):
        __slots__ = ()

        def __iter__(self) -> None:  # type: ignore[override]
            raise AssertionError("looked at")

        __len__ = __iter__  # type: ignore[assignment]

    embedding = Embedding(65_537, Untouchable(), Untouchable())  # type: ignore[arg-type]
    assert refusal_of(lambda: BOUNDS.embedding(embedding)) is Refusal.EMBEDDING
    low = Bounds(MessageValidationConfig(max_embedding_dimension=3))
    assert refused(request_vote(Embedding(4, (), ())), low) == (Refusal.EMBEDDING, "embedding.dimension")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("at", [0, 2])
def test_a_value_that_is_no_number_is_refused_by_its_position(value: float, at: int) -> None:
    """CL-268."""
    values = [1.0, 1.0, 1.0]
    values[at] = value
    message = request_vote(Embedding(9, (1, 5, 7), tuple(values)))
    assert refused(message) == (Refusal.EMBEDDING, f"embedding.values[{at}]")
    with pytest.raises(MessageRefused, match=f"position {at}"):
        BOUNDS.embedding(message.embedding)


@pytest.mark.parametrize(
    ("values", "passes"),
    [
        ((1_000_000.0,), True),
        ((-1_000_000.0,), True),
        ((math.nextafter(1_000_000.0, math.inf),), False),
        ((600_000.0, 800_000.0), True),
        ((600_000.0, 800_001.0), False),
        ((900_000.0, 900_000.0), False),
        ((1e300, 1e300), False),
    ],
)
def test_the_norm_of_an_embedding_is_bounded(values: tuple[float, ...], passes: bool) -> None:  # noqa: FBT001
    """CL-269, CL-350: the norm and not the largest value; exactly the bound passes."""
    assert CONFIG.max_embedding_magnitude == 1_000_000.0
    found = refused(request_vote(Embedding(4, tuple(range(len(values))), values)))
    assert found == (None if passes else (Refusal.EMBEDDING, "embedding.values"))


def test_the_norm_that_is_configured_counts() -> None:
    """CL-350."""
    low = Bounds(MessageValidationConfig(max_embedding_magnitude=5.0))
    assert refused(request_vote(Embedding(4, (0, 1), (3.0, 4.0))), low) is None
    assert refused(request_vote(Embedding(4, (0, 1), (3.0, 4.1))), low) == (Refusal.EMBEDDING, "embedding.values")


@pytest.mark.parametrize(
    ("positions", "at"),
    [((0, 3), None), ((0, 4), 1), ((4, 5), 0), ((2, 2), 1), ((2, 1), 1), ((-1, 1), 0), ((0, 0), 1)],
)
def test_positions_ascend_below_the_dimension(positions: tuple[int, ...], at: int | None) -> None:
    """CL-270."""
    found = refused(request_vote(Embedding(4, positions, (1.0, 1.0))))
    assert found == (None if at is None else (Refusal.EMBEDDING, f"embedding.positions[{at}]"))


@pytest.mark.parametrize(("positions", "values"), [((0,), ()), ((), (1.0,)), ((0, 1), (1.0,))])
def test_there_is_a_value_at_each_position(positions: tuple[int, ...], values: tuple[float, ...]) -> None:
    found = refused(request_vote(Embedding(4, positions, values)))
    assert found == (Refusal.EMBEDDING, "embedding.positions")


@pytest.mark.parametrize(
    ("node", "passes"),
    [("x", True), ("x" * 256, True), ("é" * 128, True), ("", False), ("x" * 257, False), ("é" * 129, False)],
)
def test_an_id_has_1_to_256_bytes(node: str, passes: bool) -> None:  # noqa: FBT001
    """CL-347, CL-266: bytes and not characters, wherever an id stands."""
    assert CONFIG.max_node_id_len == 256
    state = GossipNodeState(CAROL.node, Health.HEALTHY, 1, 1, CAROL.node)
    places: dict[str, Message] = {
        "suspect": replace(messages()[12], suspect=node),
        "target": replace(messages()[16], target=node),
        "states[1].node": replace(messages()[11], states=(state, replace(state, node=NodeId(node)))),
        "states[0].writer": replace(messages()[11], states=(replace(state, writer=NodeId(node)),)),
        "entries[0].payload.voters[0]": append(entry(11, payload=Configuration((NodeId(node),)))),
        "entries[0].payload.learners[0]": append(entry(11, payload=Configuration((ALICE.node,), (NodeId(node),)))),
        "entries[0].payload.outgoing[0]": append(entry(11, payload=Configuration((ALICE.node,), (), (NodeId(node),)))),
        "metadata.configuration.voters[0]": replace(
            sample(SnapshotOffer), metadata=replace(METADATA, configuration=Configuration((NodeId(node),)))
        ),
    }
    for field, message in places.items():
        assert refused(message) == (None if passes else (Refusal.NODE_ID, field))


def test_the_form_of_the_senders_id_comes_before_the_rest_of_its_message() -> None:
    """CL-261."""
    message = replace(request_vote(), candidate=NodeId(""), term=2**64 - 1)
    assert refused(message) == (Refusal.NODE_ID, "candidate")


@pytest.mark.parametrize(
    ("message", "found"),
    [
        (append(entry(12)), (Refusal.ENTRIES, "entries[0].index")),
        (append(entry(10)), (Refusal.ENTRIES, "entries[0].index")),
        (append(entry(11), entry(13)), (Refusal.ENTRIES, "entries[1].index")),
        (append(entry(11), entry(11)), (Refusal.ENTRIES, "entries[1].index")),
        (append(entry(11), entry(12, 2)), (Refusal.TERM, "entries[1].term")),
        (append(entry(11, 1)), (Refusal.TERM, "entries[0].term")),
        (append(entry(11, 4)), (Refusal.TERM, "entries[0].term")),
        (append(entry(11, -1)), (Refusal.TERM, "entries[0].term")),
        (append(entry(1, 0), term=0, previous=(0, 0)), (Refusal.TERM, "entries[0].term")),
        (append(entry(1, 1), term=0, previous=(0, 0)), (Refusal.TERM, "entries[0].term")),
        (append(previous=(0, 2)), (Refusal.NUMBER, "previous_index")),
        (append(previous=(3, 0)), (Refusal.NUMBER, "previous_index")),
        (append(previous=(3, 4)), (Refusal.TERM, "previous_term")),
        (append(entry(2**64), previous=(2**64 - 1, 2)), (Refusal.NUMBER, "entries")),
        (append(entry(11, 2), entry(12, 3), entry(13, 3)), None),
    ],
)
def test_entries_follow_one_another(message: AppendEntries, found: tuple[Refusal, str] | None) -> None:
    """CL-266: the entries inside are looked at, each of them."""
    assert refused(message) == found


def nodes(*names: str) -> tuple[NodeId, ...]:
    """Nodes of these names."""
    return tuple(NodeId(name) for name in names)


MANY = [f"{number:05}" for number in range(MEMBERS_MAX + 1)]


@pytest.mark.parametrize(
    ("configuration", "field"),
    [
        (Configuration(()), "voters"),
        (Configuration(nodes("b", "a")), "voters[1]"),
        (Configuration(nodes("a", "a")), "voters[1]"),
        (Configuration(nodes("a"), nodes("c", "b")), "learners[1]"),
        (Configuration(nodes("a"), (), nodes("b", "b")), "outgoing[1]"),
        (Configuration(nodes("a"), nodes("a")), "learners"),
        (Configuration(nodes("a"), nodes("b"), nodes("b")), "learners"),
        (Configuration(nodes(*MANY)), "voters"),
        (Configuration(nodes("a"), nodes(*MANY)), "learners"),
        (Configuration(nodes("a"), nodes("b"), nodes("a", "c")), None),
        (Configuration(nodes(*MANY[1:])), None),
    ],
)
def test_a_configuration_inside_of_an_entry_is_looked_at(configuration: Configuration, field: str | None) -> None:
    """CL-266."""
    found = refused(append(entry(11), entry(12, payload=configuration)))
    assert found == (None if field is None else (Refusal.CONFIGURATION, f"entries[1].payload.{field}"))


@pytest.mark.parametrize(("count", "found"), [(1_000, None), (1_001, (Refusal.ENTRIES, "entries"))])
def test_at_most_a_thousand_blocks_at_once(count: int, found: tuple[Refusal, str] | None) -> None:
    """CL-353: the entries of a message are the blocks of this cluster."""
    assert CONFIG.max_blocks_per_request == 1_000
    assert refused(append(*(entry(11 + at) for at in range(count)))) == found
    assert refusal_of(lambda: BOUNDS.count(count, "blocks")) is (found and found[0])
    low = Bounds(MessageValidationConfig(max_blocks_per_request=2))
    assert refused(append(entry(11), entry(12), entry(13)), low) == (Refusal.ENTRIES, "entries")


@pytest.mark.parametrize(
    ("size", "refusal"), [(0, None), (4_096, None), (4_097, (Refusal.KEY, "entries[1].payload.key"))]
)
def test_keys_inside_of_entries_are_bounded(size: int, refusal: tuple[Refusal, str] | None) -> None:
    """CL-348, CL-266: in every operation."""
    assert CONFIG.max_key_len == 4_096
    bounds = Bounds(CONFIG, check_command=command_check(CONFIG))
    key = bytes(size)
    fine = encode_command(Put(b"", 0, b"key", b"value"))
    for command in (Put(b"", 0, key, b""), Delete(b"", 0, key), CompareAndSwap(b"", 0, key, b"", None)):
        message = append(entry(11, payload=fine), entry(12, payload=encode_command(command)), entry(13, payload=None))
        assert refused(message, bounds) == refusal
    low = MessageValidationConfig(max_key_len=2)
    bounds = Bounds(low, check_command=command_check(low))
    assert refused(append(entry(11, payload=fine)), bounds) == (Refusal.KEY, "entries[0].payload.key")


@given(st.binary(max_size=30))
def test_a_command_that_is_none_is_refused(raw: bytes) -> None:
    """CL-266, CL-272."""
    bounds = Bounds(CONFIG, check_command=command_check(CONFIG))
    found = refused(append(entry(11), entry(12, payload=b"\xc1" + raw)), bounds)
    assert found == (Refusal.COMMAND, "entries[0].payload")
    found = refused(append(entry(11, payload=raw)), bounds)
    assert found is None or found[0] in {Refusal.COMMAND, Refusal.KEY}


@pytest.mark.parametrize(("size", "refusal"), [(4_096, None), (4_097, Refusal.KEY)])
def test_a_key_is_counted_in_bytes(size: int, refusal: Refusal | None) -> None:
    """CL-348."""
    assert refusal_of(lambda: BOUNDS.key(bytes(size))) is refusal
    assert refusal_of(lambda: BOUNDS.key("é" * (size // 2) + "x" * (size % 2))) is refusal


@pytest.mark.parametrize(
    ("shard", "refusal"), [(0, None), (65_535, None), (65_536, Refusal.SHARD), (-1, Refusal.SHARD)]
)
def test_shards_lie_below_their_bound(shard: int, refusal: Refusal | None) -> None:
    """CL-345."""
    assert CONFIG.max_shard_id == 65_536
    assert refusal_of(lambda: BOUNDS.shard(shard)) is refusal
    assert refusal_of(lambda: Bounds(MessageValidationConfig(max_shard_id=9)).shard(9)) is Refusal.SHARD


@pytest.mark.parametrize(
    ("timeout_ms", "refusal"), [(0, Refusal.TIMEOUT), (1, None), (300_000, None), (300_001, Refusal.TIMEOUT)]
)
def test_the_timeout_of_a_transaction(timeout_ms: int, refusal: Refusal | None) -> None:
    """CL-346."""
    assert CONFIG.max_tx_timeout_ms == 300_000
    assert refusal_of(lambda: BOUNDS.timeout(timeout_ms)) is refusal
    assert refusal_of(lambda: Bounds(MessageValidationConfig(max_tx_timeout_ms=9)).timeout(10)) is Refusal.TIMEOUT


@pytest.mark.parametrize(("size", "refusal"), [(MB, None), (MB + 1, Refusal.QUERY)])
def test_the_length_of_a_query(size: int, refusal: Refusal | None) -> None:
    """CL-351: MB is 1,048,576 bytes, and bytes are counted."""
    assert CONFIG.max_query_len == MB
    assert refusal_of(lambda: BOUNDS.query("x" * size)) is refusal
    assert refusal_of(lambda: BOUNDS.query("é" * (size // 2) + "x" * (size % 2))) is refusal
    assert refusal_of(lambda: Bounds(MessageValidationConfig(max_query_len=9)).query("x" * 10)) is Refusal.QUERY


@pytest.mark.parametrize(
    ("value", "refusal"), [(0, Refusal.NUMBER), (1, None), (2**64 - 1, None), (2**64, Refusal.NUMBER)]
)
def test_the_id_of_a_transaction_or_query_is_not_0(value: int, refusal: Refusal | None) -> None:
    """CL-271."""
    assert refusal_of(lambda: BOUNDS.identifier(value, "transaction")) is refusal


@pytest.mark.parametrize(("size", "found"), [(10 * MB, None), (10 * MB + 1, (Refusal.SNAPSHOT, "data"))])
def test_a_chunk_has_at_most_10_megabytes(size: int, found: tuple[Refusal, str] | None) -> None:
    """CL-354: at the receiver, before anybody stores it."""
    assert CONFIG.max_snapshot_chunk_size == 10 * MB
    chunk = replace(sample(SnapshotChunk), offset=0, total=size, data=bytes(size))
    assert refused(chunk) == found
    request = replace(messages()[9], size=size)
    assert refused(request) == (found and (Refusal.SNAPSHOT, "size"))
    low = Bounds(MessageValidationConfig(max_snapshot_chunk_size=9))
    assert refused(sample(SnapshotChunk), low) == (Refusal.SNAPSHOT, "data")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"offset": 991}, "data"),
        ({"offset": 2**64 - 1}, "data"),
        ({"total": 1_001}, "is_last"),
        ({"is_last": False}, "is_last"),
        ({"sha256": bytes(31)}, "sha256"),
        ({"last_index": 0}, "last_index"),
        ({"last_term": 4}, "last_term"),
    ],
)
def test_the_parts_of_a_chunk_fit_together(change: dict[str, object], field: str) -> None:
    """CL-266."""
    found = refused(replace(sample(SnapshotChunk), **change))
    assert found is not None
    assert found[1] == field


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"last_index": 0, "last_term": 0}, "last_index"),
        ({"last_index": 0}, "last_index"),
        ({"last_term": 4}, "last_term"),
        ({"sha256": b""}, "sha256"),
        ({"size": -1}, "size"),
        ({"created_s": -1}, "created_s"),
        ({"epoch": -1}, "epoch"),
        ({"configuration": Configuration(())}, "configuration.voters"),
        ({"configuration": replace(CONFIGURATION, learners=(BOB.node,))}, "configuration.learners"),
    ],
)
def test_what_a_snapshot_is_said_to_be(change: dict[str, object], field: str) -> None:
    """CL-266."""
    found = refused(replace(sample(SnapshotOffer), metadata=replace(METADATA, **change)))
    assert found is not None
    assert found[1] == f"metadata.{field}"


def test_a_request_asks_for_bytes_of_a_whole_digest() -> None:
    assert refused(replace(messages()[9], size=1)) is None
    assert refused(replace(messages()[9], size=0)) == (Refusal.SNAPSHOT, "size")
    assert refused(replace(messages()[9], sha256=bytes(33))) == (Refusal.SNAPSHOT, "sha256")


@pytest.mark.parametrize(
    ("change", "field"),
    [({"timestamp": -1}, "timestamp"), ({"incarnation": -1}, "incarnation"), ({"incarnation": 2**64}, "incarnation")],
)
def test_every_state_of_a_sync_is_looked_at(change: dict[str, object], field: str) -> None:
    """CL-266."""
    state = GossipNodeState(CAROL.node, Health.HEALTHY, 1, 1, CAROL.node)
    message = replace(sample(Sync), states=(state, replace(state, **change)))
    assert refused(message) == (Refusal.NUMBER, f"states[1].{field}")


def test_the_states_of_a_sync_are_counted() -> None:
    state = GossipNodeState(CAROL.node, Health.HEALTHY, 1, 1, CAROL.node)
    assert refused(replace(sample(Sync), states=(state,) * 20)) is None
    assert refused(replace(sample(Sync), states=(state,) * 21)) == (Refusal.STATES, "states")
    assert refused(replace(sample(Sync), states=(state,) * 21), Bounds(CONFIG, states_max=21)) is None


def test_bounds_can_be_switched_off() -> None:
    """CL-343: on unless they are; then what a message says is not looked at."""
    assert CONFIG.enabled
    off = Bounds(MessageValidationConfig(enabled=False))
    for message in (
        request_vote(Embedding(0, (), ()), term=2**64 - 1),
        append(entry(99)),
        replace(sample(SnapshotChunk), is_last=False),
    ):
        assert refused(message) is not None
        assert refused(message, off) is None


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=40)
)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=4), max_leaves=12)


@given(st.sampled_from([kind.number for kind in KINDS]), VALUES, st.data())
def test_whatever_can_be_decoded_passes_or_is_refused(number: int, value: object, data: st.DataObject) -> None:
    """CL-272: fields of any type in messages of any type."""
    kind = next(kind for kind in KINDS if kind.number == number)
    said = msgspec.to_builtins(sample(kind.message), builtin_types=(bytes,))
    said[data.draw(st.sampled_from(sorted(said)))] = value
    try:
        message = decode(number, msgspec.msgpack.encode(said))
        validate(message, sender=ALICE.node, receiver=BOB.node, bounds=BOUNDS)
    except MessageRefused as found:
        assert found.code in set(Refusal)  # noqa: PT017 -- both ways are right here
        assert found.reason  # noqa: PT017


def test_all_kinds_are_covered_here() -> None:
    assert {type(message) for message in messages()} == set(get_args(Message))


@pytest.mark.parametrize("kind", [type(message) for message in messages() if hasattr(message, "term")])
def test_a_term_that_leaps_is_refused(kind: type[Message]) -> None:
    """One lie must not use up what can be counted: a term that is learnt is durable and never falls."""
    here = Bounds(CONFIG, own_term=lambda: 7)
    assert refused(replace(sample(kind), term=7 + 2**20), here) is None
    assert refused(replace(sample(kind), term=8 + 2**20), here) == (Refusal.TERM, "term")
    assert refused(replace(sample(kind), term=2**64 - 2), here) == (Refusal.TERM, "term")
    far = Bounds(CONFIG, own_term=lambda: 2**40)
    assert refused(replace(sample(kind), term=2**40 + 2**20), far) is None, "it is the leap that is bounded"


def test_a_node_that_is_in_no_term_yet_can_join_an_old_cluster() -> None:
    fresh = Bounds(CONFIG, own_term=lambda: 0)
    assert refused(replace(sample(PreVote), term=2**48), fresh) is None
    assert refused(replace(sample(PreVote), term=2**48 + 1), fresh) == (Refusal.TERM, "term")

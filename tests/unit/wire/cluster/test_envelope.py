"""Envelopes: fixed bytes, put together a second time here; what a signature binds; and who may speak for whom."""

import struct
from typing import Any

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st
from nacl.signing import VerifyKey

from bobbin.cluster.identity import Identity
from bobbin.cluster.names import NodeId
from bobbin.errors import UsageError
from bobbin.wire.cluster import codec
from bobbin.wire.cluster.codec import Hello, number_of
from bobbin.wire.cluster.envelope import (
    ENVELOPE_BYTES_MAX,
    TAG,
    Envelope,
    Sealer,
    pack,
    signed_bytes,
    unpack,
    verify,
)
from bobbin.wire.cluster.faults import MessageRefused, Refusal
from tests.support.cluster_wire import (
    ALICE,
    ALICE_BOOT,
    BOB,
    BOB_BOOT,
    CAROL,
    CLUSTER,
    NOW_MS,
    altered,
    envelope,
    messages,
    refusal_of,
    sealer,
    unsigned,
)
from tests.vectors.load import load

VECTORS = load("cluster/envelope.json")["envelopes"]
NAMES = [vector["name"] for vector in VECTORS]
SIGNED = envelope(20, b"payload", sequence=3)
FORGED = Identity(b"forged".ljust(32, b"\0"))

NUMBERS = st.integers(0, 2**64 - 1)
ENVELOPES = st.builds(
    Envelope,
    sender=st.text(max_size=40).map(NodeId),
    destination=st.text(max_size=40).map(NodeId),
    destination_boot=NUMBERS,
    cluster=st.binary(min_size=16, max_size=16),
    type=st.integers(0, 2**16 - 1),
    boot_id=st.integers(1, 2**64 - 1),
    sequence=NUMBERS,
    time_ms=NUMBERS,
    payload=st.binary(max_size=60),
)


def from_vector(vector: dict[str, Any]) -> Envelope:
    return Envelope(
        sender=vector["sender"],
        destination=vector["destination"],
        destination_boot=vector["destination_boot"],
        cluster=bytes.fromhex(vector["cluster"]),
        type=vector["type"],
        boot_id=vector["boot_id"],
        sequence=vector["sequence"],
        time_ms=vector["time_ms"],
        payload=bytes.fromhex(vector["payload"]),
        public=Identity(bytes.fromhex(vector["seed"])).public,
        signature=bytes.fromhex(vector["signature"]),
    )


@pytest.mark.parametrize("vector", VECTORS, ids=NAMES)
def test_the_bytes_are_those_of_the_vectors(vector: dict[str, Any]) -> None:
    """CL-253."""
    whole = from_vector(vector)
    assert signed_bytes(whole).hex() == vector["signed"]
    assert pack(whole).hex() == vector["envelope"]
    assert unpack(bytes.fromhex(vector["envelope"])) == whole
    verify(whole)
    assert Identity(bytes.fromhex(vector["seed"])).sign(signed_bytes(whole)) == whole.signature


@pytest.mark.parametrize("vector", VECTORS, ids=NAMES)
def test_the_payloads_of_the_vectors_are_messages_of_their_types(vector: dict[str, Any]) -> None:
    payload = bytes.fromhex(vector["payload"])
    assert codec.encode(codec.decode(vector["type"], payload)) == (vector["type"], payload)


@pytest.mark.parametrize("vector", VECTORS, ids=NAMES)
def test_what_is_signed_is_the_tag_and_every_part_in_order(vector: dict[str, Any]) -> None:
    """CL-253: put together here by hand, and verified with another library."""
    whole = from_vector(vector)
    destination = whole.destination.encode()
    parts = (
        b"bobbin cluster envelope 2\0",
        whole.cluster,
        len(destination).to_bytes(2, "big") + destination + whole.destination_boot.to_bytes(8, "big"),
        whole.type.to_bytes(2, "big"),
        whole.boot_id.to_bytes(8, "big"),
        whole.sequence.to_bytes(8, "big"),
        whole.time_ms.to_bytes(8, "big"),
        len(whole.payload).to_bytes(4, "big") + blake3(whole.payload).digest(),
    )
    VerifyKey(whole.public).verify(b"".join(parts), whole.signature)


@pytest.mark.parametrize(
    "change",
    [
        {"cluster": bytes(16)},
        {"destination": CAROL.node},
        {"destination": NodeId(BOB.node[:-1])},
        {"destination_boot": BOB_BOOT + 1},
        {"type": 19},
        {"boot_id": ALICE_BOOT + 1},
        {"sequence": 4},
        {"time_ms": NOW_MS + 1},
        {"payload": b"payloae"},
        {"payload": b"payload\0"},
        {"payload": b""},
    ],
    ids="-".join,
)
def test_a_change_of_any_part_breaks_the_signature(change: dict[str, object]) -> None:
    """CL-253, CL-254: also another type, another boot id, another destination, another cluster."""
    verify(SIGNED)
    assert refusal_of(lambda: verify(altered(SIGNED, **change))) is Refusal.INVALID_SIGNATURE


@given(ENVELOPES, ENVELOPES)
def test_two_envelopes_that_differ_are_never_the_same_signed_bytes(one: Envelope, other: Envelope) -> None:
    """CL-253: the sender is bound by its key and need not be among them."""
    is_same = altered(one, sender="") == altered(other, sender="")
    assert (signed_bytes(one) == signed_bytes(other)) is is_same


@given(st.text(max_size=6), st.text(max_size=6), st.binary(max_size=6), st.binary(max_size=6))
def test_bytes_cannot_move_between_destination_and_payload(one: str, other: str, first: bytes, second: bytes) -> None:
    """CL-253: every part says how long it is."""
    left = altered(SIGNED, destination=one, payload=first)
    right = altered(SIGNED, destination=other, payload=second)
    assert (signed_bytes(left) == signed_bytes(right)) is ((one, first) == (other, second))


@given(ENVELOPES, st.booleans())
def test_every_envelope_is_the_same_after_the_journey(bare: Envelope, signs: bool) -> None:  # noqa: FBT001
    """CL-252."""
    whole = altered(bare, public=ALICE.public, signature=ALICE.sign(signed_bytes(bare))) if signs else bare
    assert unpack(pack(whole)) == whole
    assert whole.is_signed is signs


@given(st.binary(max_size=200) | st.binary(max_size=200).map(lambda rest: b"BCE\x02" + rest))
def test_other_bytes_are_refused_and_raise_nothing_else(raw: bytes) -> None:
    """CL-272."""
    try:
        found = unpack(raw)
    except MessageRefused:
        return
    assert pack(found) == raw


def test_every_cut_and_every_added_byte_is_refused() -> None:
    raw = pack(SIGNED)
    for size in range(len(raw)):
        assert refusal_of(unpack, raw[:size]) is Refusal.TRUNCATED
    assert refusal_of(lambda: unpack(raw + b"\0")) is Refusal.MALFORMED


@pytest.mark.parametrize(
    ("at", "value", "refusal"),
    [(0, b"X", Refusal.MALFORMED), (3, b"\x01", Refusal.VERSION), (4, b"\x03", Refusal.MALFORMED)],
)
def test_another_head_is_refused(at: int, value: bytes, refusal: Refusal) -> None:
    raw = pack(SIGNED)
    assert refusal_of(lambda: unpack(raw[:at] + value + raw[at + 1 :])) is refusal


def test_no_life_of_a_node_has_the_boot_id_0() -> None:
    assert refusal_of(lambda: unpack(pack(altered(SIGNED, boot_id=0)))) is Refusal.MALFORMED


def test_an_envelope_that_is_too_long_is_refused_unread() -> None:
    assert ENVELOPE_BYTES_MAX == 16 * 1024 * 1024
    longest = ENVELOPE_BYTES_MAX - len(pack(altered(SIGNED, payload=b"")))
    raw = pack(altered(SIGNED, payload=bytes(longest)))
    assert unpack(raw).payload == bytes(longest)
    assert refusal_of(lambda: unpack(raw + b"\0")) is Refusal.OVERSIZED
    with pytest.raises(UsageError):
        pack(altered(SIGNED, payload=bytes(longest + 1)))


def test_ids_that_are_no_text_are_refused() -> None:
    raw = pack(SIGNED)
    for text in (ALICE.node.encode(), BOB.node.encode()):
        bad = raw.replace(text, b"\xff" + text[1:])
        with pytest.raises(MessageRefused) as caught:
            unpack(bad)
        assert caught.value.refusal is Refusal.NODE_ID
        assert caught.value.field in {"sender", "destination"}


def test_verification_needs_a_key_its_holder_and_a_signature_each_on_its_own() -> None:
    """CL-252: each of the three fails while the others hold."""
    verify(SIGNED)
    verify(SIGNED, ALICE.public_identity)
    verify(SIGNED, BOB.public_identity)
    no_point = altered(SIGNED, public=b"\xff" * 32)
    assert refusal_of(lambda: verify(no_point)) is Refusal.INVALID_KEY
    assert refusal_of(lambda: verify(no_point, ALICE.public_identity)) is Refusal.INVALID_KEY
    # Signed properly with a key that exists, for somebody else.
    another = envelope(20, b"payload", identity=FORGED, sender=ALICE.node)
    VerifyKey(another.public).verify(signed_bytes(another), another.signature)
    assert refusal_of(lambda: verify(another)) is Refusal.WRONG_SENDER
    assert refusal_of(lambda: verify(another, ALICE.public_identity)) is Refusal.WRONG_SENDER
    assert refusal_of(lambda: verify(another, FORGED.public_identity)) is Refusal.WRONG_SENDER
    flipped = altered(SIGNED, signature=SIGNED.signature[:-1] + bytes([SIGNED.signature[-1] ^ 1]))
    assert refusal_of(lambda: verify(flipped)) is Refusal.INVALID_SIGNATURE
    assert refusal_of(lambda: verify(unpack(unsigned(SIGNED)))) is Refusal.UNSIGNED
    assert len(SIGNED.public) == 32
    assert len(SIGNED.signature) == 64


def test_the_tag_keeps_signatures_for_other_purposes_apart() -> None:
    signature = ALICE.sign(signed_bytes(SIGNED).removeprefix(TAG))
    assert refusal_of(lambda: verify(altered(SIGNED, signature=signature))) is Refusal.INVALID_SIGNATURE


def test_a_sealer_counts_for_each_destination_from_0() -> None:
    """CL-258."""
    own = sealer()
    own.learn(CAROL.node, 1)
    heartbeat = messages()[6]
    sealed = [unpack(own.seal(to, heartbeat, now_ms=NOW_MS)) for to in (BOB.node, BOB.node, CAROL.node, BOB.node)]
    assert [(one.destination, one.sequence) for one in sealed] == [
        (BOB.node, 0),
        (BOB.node, 1),
        (CAROL.node, 0),
        (BOB.node, 2),
    ]
    assert {one.boot_id for one in sealed} == {ALICE_BOOT}
    assert {one.time_ms for one in sealed} == {NOW_MS}
    for one in sealed:
        verify(one)


def test_every_message_is_sealed_with_a_signature() -> None:
    """CL-118, CL-260, CL-365: gossip and raft alike."""
    own = sealer()
    for message in messages():
        sealed = unpack(own.seal(BOB.node, message, now_ms=NOW_MS))
        assert sealed.is_signed
        assert sealed.type == number_of(message)
        assert sealed.sender == ALICE.node
        verify(sealed)


def test_what_cannot_be_signed_is_not_said() -> None:
    """CL-118: no bare message instead, and no sequence is used up."""
    identity = Identity(b"closing".ljust(32, b"\0"))
    own = sealer(identity)
    own.seal(BOB.node, Hello(node=identity.node), now_ms=NOW_MS)
    identity.close()
    for message in messages():
        with pytest.raises(UsageError, match="closed"):
            own.seal(BOB.node, message, now_ms=NOW_MS)


def test_only_hello_is_said_to_a_node_whose_life_is_not_known() -> None:
    own = Sealer(ALICE, cluster=CLUSTER, boot_id=ALICE_BOOT)
    assert not own.knows(BOB.node)
    hello = unpack(own.seal(BOB.node, Hello(node=ALICE.node), now_ms=NOW_MS))
    assert hello.destination_boot == 0
    for message in messages()[1:]:
        with pytest.raises(UsageError, match="Hello"):
            own.seal(BOB.node, message, now_ms=NOW_MS)
    assert [own.learn(BOB.node, boot) for boot in (4, 4, 7, 5)] == [True, False, True, False]
    assert own.knows(BOB.node)
    sealed = unpack(own.seal(BOB.node, messages()[5], now_ms=NOW_MS))
    assert (sealed.destination_boot, sealed.sequence) == (7, 1)
    own.forget(BOB.node)
    assert not own.knows(BOB.node)
    assert unpack(own.seal(BOB.node, Hello(node=ALICE.node), now_ms=NOW_MS)).sequence == 2


@pytest.mark.parametrize(
    ("cluster", "boot_id"), [(b"", 1), (bytes(15), 1), (bytes(17), 1), (CLUSTER, 0), (CLUSTER, 2**64)]
)
def test_a_sealer_needs_a_cluster_and_a_boot_id(cluster: bytes, boot_id: int) -> None:
    with pytest.raises(UsageError):
        Sealer(ALICE, cluster=cluster, boot_id=boot_id)


@pytest.mark.parametrize("now_ms", [-1, 2**64])
def test_a_clock_that_no_envelope_can_tell_is_refused(now_ms: int) -> None:
    with pytest.raises(UsageError, match="1970"):
        sealer().seal(BOB.node, messages()[0], now_ms=now_ms)


def test_the_head_is_as_the_page_says() -> None:
    raw = pack(SIGNED)
    assert raw[:5] == b"BCE\x02\x01"
    assert struct.unpack(">HQQQ", raw[5:31]) == (20, ALICE_BOOT, 3, NOW_MS)
    assert raw[31:47] == CLUSTER
    assert struct.unpack(">QHHI", raw[47:63]) == (BOB_BOOT, 32, 32, 7)
    assert raw[63:95].decode() == ALICE.node
    assert raw[95:127].decode() == BOB.node
    assert raw[127:159] == ALICE.public
    assert raw[159:223] == SIGNED.signature
    assert raw[223:] == b"payload"

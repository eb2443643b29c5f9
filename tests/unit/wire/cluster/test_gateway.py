"""The door: who gets in, in which order the questions are asked, and that a refusal changes nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from bobbin.cluster.geometry import Embedding
from bobbin.cluster.identity import Identity
from bobbin.cluster.key_value import Put
from bobbin.cluster.membership.messages import Alive, Ping, Suspect, Sync
from bobbin.cluster.names import NodeId
from bobbin.cluster.settings import GossipConfig, MessageValidationConfig
from bobbin.errors import UsageError
from bobbin.wire.cluster import codec
from bobbin.wire.cluster import gateway as module
from bobbin.wire.cluster.codec import Hello, Message, number_of
from bobbin.wire.cluster.commands import encode_command
from bobbin.wire.cluster.envelope import Envelope, Sealer, pack, unpack
from bobbin.wire.cluster.faults import MessageRefused, Refusal
from bobbin.wire.cluster.gateway import GOSSIP_TYPES, Admitted, Gateway
from bobbin.wire.cluster.registry import Registry
from bobbin.wire.cluster.replay import SequenceTracker
from bobbin.wire.cluster.validation import command_check
from tests.support.cluster_wire import (
    ALICE,
    ALICE_BOOT,
    BOB,
    BOB_BOOT,
    CAROL,
    CLUSTER,
    MALLORY,
    NOW_MS,
    altered,
    append,
    entry,
    envelope,
    gateway,
    messages,
    refusal_of,
    registry,
    request_vote,
    sealer,
    unsigned,
)

HEARTBEAT = append()
SIGNATURES = GossipConfig(require_signatures=True)


def sealed(message: Message, **changes: object) -> Envelope:
    """A message of Alice for Bob, signed as it is."""
    number, payload = codec.encode(message)
    return envelope(number, payload, **changes)  # type: ignore[arg-type]


def admit(door: Gateway, raw: bytes, *, now_ms: int = NOW_MS, link: NodeId | None = None) -> Refusal | None:
    return refusal_of(lambda: door.admit(raw, now_ms=now_ms, link=link))


@pytest.mark.parametrize("message", messages(), ids=lambda message: type(message).__name__)
def test_every_message_of_a_registered_node_gets_in(message: Message) -> None:
    door = gateway(gossip=SIGNATURES)
    found = door.admit(sealer().seal(BOB.node, message, now_ms=NOW_MS), now_ms=NOW_MS, link=ALICE.node)
    assert found == Admitted(ALICE.node, ALICE_BOOT, message)
    assert (door.admitted, door.refused) == (1, {})


def test_a_message_for_another_node_cluster_or_life_is_refused() -> None:
    """CL-254."""
    raw = sealer().seal(BOB.node, HEARTBEAT, now_ms=NOW_MS)
    assert admit(gateway(), raw) is None
    assert admit(gateway(cluster=bytes(16)), raw) is Refusal.WRONG_CLUSTER
    carol = Gateway(CLUSTER, CAROL.node, registry(), SequenceTracker(), MessageValidationConfig(), boot_id=BOB_BOOT)
    assert admit(carol, raw) is Refusal.WRONG_DESTINATION
    # Whoever changes the address to fit has no signature for it.
    for change, door in (
        ({"cluster": bytes(16)}, gateway(cluster=bytes(16))),
        ({"destination": CAROL.node}, carol),
        ({"type": 19}, gateway()),
        ({"boot_id": ALICE_BOOT + 1}, gateway()),
        ({"destination_boot": BOB_BOOT + 1}, gateway(boot_id=BOB_BOOT + 1)),
    ):
        assert admit(door, pack(altered(unpack(raw), **change))) is Refusal.INVALID_SIGNATURE


def test_what_was_said_before_a_restart_of_this_node_is_refused_after_it() -> None:
    """CL-254, CL-135: the restarted node remembers no sequence, and needs none: it has another boot id."""
    raws = [sealer().seal(BOB.node, message, now_ms=NOW_MS) for message in messages()[1:]]
    door = gateway(boot_id=BOB_BOOT + 1, tracker=SequenceTracker())
    for raw in raws:
        assert admit(door, raw) is Refusal.WRONG_DESTINATION
    assert door.refused == {Refusal.WRONG_DESTINATION: len(raws)}


def test_hello_gets_in_whatever_the_sender_knows_and_teaches_the_other_side() -> None:
    own = Sealer(ALICE, cluster=CLUSTER, boot_id=ALICE_BOOT)
    door = gateway()
    admitted = door.admit(own.seal(BOB.node, Hello(node=ALICE.node), now_ms=NOW_MS), now_ms=NOW_MS)
    assert admitted == Admitted(ALICE.node, ALICE_BOOT, Hello(node=ALICE.node))
    bob = Sealer(BOB, cluster=CLUSTER, boot_id=BOB_BOOT)
    bob.learn(admitted.sender, admitted.boot_id)
    alice = Gateway(CLUSTER, ALICE.node, registry(), SequenceTracker(), MessageValidationConfig(), boot_id=ALICE_BOOT)
    own.learn(BOB.node, alice.admit(bob.seal(ALICE.node, Hello(node=BOB.node), now_ms=NOW_MS), now_ms=NOW_MS).boot_id)
    assert admit(door, own.seal(BOB.node, HEARTBEAT, now_ms=NOW_MS)) is None


def test_a_message_gets_in_once() -> None:
    """CL-135, CL-257: gossip and raft alike."""
    own, door = sealer(), gateway(gossip=SIGNATURES)
    raws = [own.seal(BOB.node, message, now_ms=NOW_MS) for message in messages()]
    for raw in reversed(raws):
        assert admit(door, raw) is None
    for raw in raws:
        assert admit(door, raw) is Refusal.REPLAYED
    assert (door.admitted, door.refused[Refusal.REPLAYED]) == (len(raws), len(raws))


def test_a_restarted_sender_is_heard_at_once_and_its_earlier_life_no_more() -> None:
    """CL-258."""
    before, after = sealer(), sealer(boot_id=ALICE_BOOT + 1)
    raws = [before.seal(BOB.node, HEARTBEAT, now_ms=NOW_MS) for _ in range(3)]
    door = gateway()
    assert admit(door, raws[0]) is None
    assert admit(door, after.seal(BOB.node, HEARTBEAT, now_ms=NOW_MS)) is None
    assert admit(door, raws[1]) is Refusal.OLD_BOOT


@pytest.mark.parametrize(
    ("time_ms", "refusal"),
    [
        (NOW_MS + 60_000, None),
        (NOW_MS + 60_001, Refusal.FUTURE),
        (NOW_MS - 300_000, None),
        (NOW_MS - 300_001, Refusal.STALE),
    ],
)
@pytest.mark.parametrize("message", [HEARTBEAT, Alive(node_id=ALICE.node, incarnation=1)])
def test_times_are_looked_at(message: Message, time_ms: int, refusal: Refusal | None) -> None:
    """CL-255, CL-256, CL-337, CL-352, CL-135."""
    assert admit(gateway(), sealer().seal(BOB.node, message, now_ms=time_ms)) is refusal


def test_gossip_and_the_rest_have_ages_of_their_own() -> None:
    """CL-337, CL-352: each setting counts where it should."""
    alive: Message = Alive(node_id=ALICE.node, incarnation=1)
    for config, gossip, of_raft, of_gossip in (
        (MessageValidationConfig(max_message_age_ms=10), GossipConfig(), Refusal.STALE, None),
        (MessageValidationConfig(), GossipConfig(max_message_age_ms=10), None, Refusal.STALE),
    ):
        door = gateway(config=config, gossip=gossip)
        own = sealer()
        assert admit(door, own.seal(BOB.node, HEARTBEAT, now_ms=NOW_MS - 11)) is of_raft
        assert admit(door, own.seal(BOB.node, alive, now_ms=NOW_MS - 11)) is of_gossip
        assert admit(door, own.seal(BOB.node, HEARTBEAT, now_ms=NOW_MS - 10)) is None
        assert admit(door, own.seal(BOB.node, alive, now_ms=NOW_MS - 10)) is None
    assert MessageValidationConfig().max_message_age_ms == GossipConfig().max_message_age_ms == 300_000


def test_a_tracker_that_forgets_too_early_is_refused() -> None:
    """CL-259."""
    with pytest.raises(UsageError, match="remember"):
        gateway(tracker=SequenceTracker(max_age_ms=299_999))
    with pytest.raises(UsageError, match="remember"):
        gateway(config=MessageValidationConfig(max_message_age_ms=10), tracker=SequenceTracker(max_age_ms=100))


def test_strangers_and_forgers_leave_no_trace() -> None:
    """CL-259, CL-265: the registry is asked first, and then the signature, before anything is recorded."""
    tracker = SequenceTracker()
    door = gateway(tracker=tracker)
    stranger = pack(sealed(append(leader=MALLORY.node), identity=MALLORY))
    forged = pack(sealed(HEARTBEAT, identity=MALLORY, sender=ALICE.node))
    good = sealed(HEARTBEAT)
    broken = pack(altered(good, signature=bytes(64)))
    for raw, refusal in (
        (stranger, Refusal.STRANGER),
        (forged, Refusal.WRONG_SENDER),
        (broken, Refusal.INVALID_SIGNATURE),
    ):
        for _ in range(3):
            assert admit(door, raw) is refusal
    assert len(tracker) == 0
    # The sequence that the forger has used is still free for the one it belongs to.
    assert admit(door, pack(good)) is None
    assert len(tracker) == 1


def test_a_key_that_is_no_point_is_refused() -> None:
    """CL-252."""
    assert admit(gateway(), pack(altered(sealed(HEARTBEAT), public=b"\xff" * 32))) is Refusal.INVALID_KEY


@pytest.mark.parametrize("message", messages(MALLORY.node), ids=lambda message: type(message).__name__)
def test_nobody_speaks_for_another(message: Message) -> None:
    """CL-260: a registered node that names another one in its message, of every type that names its sender."""
    door = gateway(known=registry(ALICE, BOB, MALLORY))
    raw = pack(sealed(message, identity=ALICE))
    expected = None if type(message).__name__ == "PingAck" else Refusal.SENDER_FIELD
    assert admit(door, raw) is expected


@pytest.mark.parametrize("message", messages(), ids=lambda message: type(message).__name__)
def test_unsigned_messages(message: Message) -> None:
    """CL-118, CL-336, CL-260, CL-264: gossip where signatures are not required; anything else never."""
    assert not GossipConfig().require_signatures
    raw = unsigned(sealed(message))
    is_gossip = number_of(message) in GOSSIP_TYPES
    assert is_gossip is (number_of(message) >= 32)
    assert admit(gateway(), raw) is (None if is_gossip else Refusal.UNSIGNED)
    assert admit(gateway(gossip=SIGNATURES), raw) is Refusal.UNSIGNED
    for config in (MessageValidationConfig(enabled=False), MessageValidationConfig()):
        assert admit(gateway(gossip=SIGNATURES, config=config), raw) is Refusal.UNSIGNED


def test_unsigned_gossip_is_only_as_true_as_its_link_and_locks_nobody_out() -> None:
    """CL-118: of a registered node, over its own link, and nothing of it is remembered."""
    tracker = SequenceTracker()
    door = gateway(tracker=tracker)
    alive: Message = Alive(node_id=ALICE.node, incarnation=1)
    far = unsigned(sealed(alive, boot_id=2**64 - 1, sequence=2**64 - 1))
    assert admit(door, far, link=CAROL.node) is Refusal.WRONG_SENDER
    assert admit(door, far, link=ALICE.node) is None
    assert len(tracker) == 0
    assert admit(door, pack(sealed(alive))) is None
    stranger = unsigned(sealed(Alive(node_id=MALLORY.node, incarnation=1), identity=MALLORY))
    assert admit(door, stranger) is Refusal.STRANGER


@pytest.mark.parametrize(
    "message",
    [
        Sync(sender=ALICE.node, states=(), sender_time=1),
        Suspect(reporter=ALICE.node, suspect=BOB.node, incarnation=1),
        Alive(node_id=ALICE.node, incarnation=1),
        Ping(origin=ALICE.node, sequence=1),
    ],
    ids=lambda message: type(message).__name__,
)
def test_signed_gossip_works_where_signatures_are_required(message: Message) -> None:
    """CL-118, CL-336, CL-365: badly signed, of an unregistered sender, or bare, it is refused."""
    door = gateway(gossip=SIGNATURES, known=registry(ALICE, BOB))
    good = sealed(message)
    assert admit(door, unsigned(good)) is Refusal.UNSIGNED
    assert admit(door, pack(altered(good, signature=good.signature[::-1]))) is Refusal.INVALID_SIGNATURE
    assert admit(door, pack(sealed(message, identity=CAROL))) is Refusal.STRANGER
    assert admit(door, pack(good)) is None
    assert door.admitted == 1


def test_a_message_comes_over_the_link_of_its_sender() -> None:
    own, door = sealer(), gateway()
    assert admit(door, own.seal(BOB.node, HEARTBEAT, now_ms=NOW_MS), link=CAROL.node) is Refusal.WRONG_SENDER
    assert admit(door, own.seal(BOB.node, HEARTBEAT, now_ms=NOW_MS), link=ALICE.node) is None


def test_a_node_takes_nothing_of_its_own() -> None:
    door = gateway()
    raw = pack(sealed(append(leader=BOB.node), identity=BOB))
    assert admit(door, raw) is Refusal.WRONG_SENDER


@pytest.mark.parametrize(
    ("sender", "refusal"),
    [("", Refusal.NODE_ID), ("x" * 257, Refusal.NODE_ID), ("é" * 129, Refusal.NODE_ID), ("x" * 256, Refusal.STRANGER)],
)
def test_the_form_of_the_senders_id_is_looked_at_before_the_type(sender: str, refusal: Refusal) -> None:
    """CL-261, CL-347: the type of this message is not known, and nobody gets as far as that."""
    bad = envelope(999, b"", sender=NodeId(sender))
    assert admit(gateway(), pack(bad)) is refusal
    alive = sealed(Alive(node_id=ALICE.node, incarnation=1), sender=NodeId(sender))
    assert admit(gateway(), unsigned(alive)) is refusal
    low = gateway(config=MessageValidationConfig(max_node_id_len=31))
    assert admit(low, pack(sealed(HEARTBEAT))) is Refusal.NODE_ID


def test_a_signature_alone_does_not_let_a_message_in() -> None:
    """CL-264: a payload of a proven sender still meets the rules of its type; without a registry nobody is proven."""
    assert admit(gateway(), pack(sealed(request_vote(Embedding(0, (), ()))))) is Refusal.EMBEDDING
    assert admit(gateway(), pack(sealed(append(entry(99))))) is Refusal.ENTRIES
    assert admit(gateway(known=Registry()), pack(sealed(HEARTBEAT))) is Refusal.STRANGER


def test_keys_inside_of_commands_meet_their_bound() -> None:
    """CL-266, CL-348."""
    config = MessageValidationConfig()
    door = gateway(check_command=command_check(config))
    own = sealer()
    for size, refusal in ((4_096, None), (4_097, Refusal.KEY)):
        command = encode_command(Put(b"", 0, bytes(size), b""))
        raw = own.seal(BOB.node, append(entry(11, payload=command)), now_ms=NOW_MS)
        assert admit(door, raw) is refusal


@pytest.mark.parametrize("number", [0, 2, 26, 41, 48, 999, 65_535])
def test_a_type_that_is_not_known_does_not_get_in(number: int) -> None:
    """CL-266."""
    assert admit(gateway(), pack(envelope(number, b"\x80"))) is Refusal.UNKNOWN_TYPE


def test_authentication_comes_before_the_payload_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """CL-265: of whatever is not proven, fresh and new, no byte of the payload is decoded."""
    read: list[int] = []

    def decode(number: int, payload: bytes) -> Message:
        read.append(number)
        return codec.decode(number, payload)

    class Spy:
        pass

    spy = Spy()
    spy.decode = decode  # type: ignore[attr-defined]
    monkeypatch.setattr(module, "codec", spy)
    door = gateway()
    good = sealed(HEARTBEAT)
    big = append(*(entry(11 + at, payload=bytes(10_000)) for at in range(900)))
    assert admit(door, pack(good)) is None
    assert read == [21]
    for raw, refusal in (
        (pack(good), Refusal.REPLAYED),
        (pack(altered(sealed(big, sequence=1), signature=bytes(64))), Refusal.INVALID_SIGNATURE),
        (pack(sealed(big, sequence=1, identity=MALLORY)), Refusal.STRANGER),
        (unsigned(sealed(big, sequence=1)), Refusal.UNSIGNED),
        (pack(sealed(big, sequence=1, time_ms=0)), Refusal.STALE),
        (pack(sealed(big, sequence=1, destination_boot=1)), Refusal.WRONG_DESTINATION),
        (pack(sealed(big, sequence=1, boot_id=1)), Refusal.OLD_BOOT),
    ):
        assert admit(door, raw) is refusal
    assert read == [21]


def test_a_refusal_is_counted_under_its_code_and_changes_nothing_else() -> None:
    """CL-265, CL-272."""
    tracker, known = SequenceTracker(), registry()
    door = gateway(tracker=tracker, known=known)
    good = pack(sealed(HEARTBEAT))
    for raw in (b"", b"BCE\x03" + bytes(100), good[:-1], pack(sealed(HEARTBEAT, identity=MALLORY))):
        with pytest.raises(MessageRefused) as caught:
            door.admit(raw, now_ms=NOW_MS)
        assert caught.value.reason
    assert door.refused == {Refusal.TRUNCATED: 2, Refusal.VERSION: 1, Refusal.STRANGER: 1}
    assert (door.admitted, len(tracker), len(known)) == (0, 0, 3)


def test_bounds_can_be_switched_off_and_proofs_cannot() -> None:
    """CL-343."""
    door = gateway(config=MessageValidationConfig(enabled=False))
    odd = request_vote(Embedding(0, (), ()), term=2**64 - 1)
    assert admit(gateway(), pack(sealed(odd))) is Refusal.TERM
    assert admit(door, pack(sealed(odd))) is None
    assert admit(door, pack(sealed(odd))) is Refusal.REPLAYED
    assert admit(door, pack(sealed(odd, sequence=1, time_ms=0))) is Refusal.STALE
    assert admit(door, pack(altered(sealed(odd, sequence=1), signature=bytes(64)))) is Refusal.INVALID_SIGNATURE
    assert admit(door, unsigned(sealed(odd, sequence=1))) is Refusal.UNSIGNED
    assert admit(door, pack(sealed(odd, sequence=1, identity=MALLORY))) is Refusal.STRANGER
    assert admit(door, pack(envelope(20, b"\xc1", sequence=1))) is Refusal.UNREADABLE
    assert admit(door, pack(envelope(20, b"\xc1" * 5_000, sequence=2))) is Refusal.OVERSIZED
    assert admit(door, pack(sealed(replace(odd, candidate=CAROL.node), sequence=3))) is Refusal.SENDER_FIELD


def test_a_change_of_key() -> None:
    """CL-366: the new key speaks for the seat, the old one for nobody, and the sequence of lives goes on."""
    fresh = Identity(b"alice, later".ljust(32, b"\0"))
    known = registry()
    door = gateway(known=known)
    old = sealer()
    assert admit(door, old.seal(BOB.node, HEARTBEAT, now_ms=NOW_MS)) is None
    new = sealer(fresh, boot_id=ALICE_BOOT + 1)
    assert admit(door, new.seal(BOB.node, HEARTBEAT, now_ms=NOW_MS)) is Refusal.STRANGER
    # Both are registered: the process that started last is heard, and the other refused.
    known.register(fresh.public, seat=ALICE.node)
    assert admit(door, old.seal(BOB.node, HEARTBEAT, now_ms=NOW_MS)) is None
    admitted = door.admit(new.seal(BOB.node, HEARTBEAT, now_ms=NOW_MS), now_ms=NOW_MS, link=fresh.node)
    assert (admitted.sender, admitted.message) == (ALICE.node, HEARTBEAT)
    assert admit(door, old.seal(BOB.node, HEARTBEAT, now_ms=NOW_MS)) is Refusal.OLD_BOOT
    known.remove(ALICE.node)
    assert admit(door, old.seal(BOB.node, HEARTBEAT, now_ms=NOW_MS)) is Refusal.STRANGER
    assert admit(door, new.seal(BOB.node, HEARTBEAT, now_ms=NOW_MS)) is None


def test_a_removed_key_is_refused_at_once() -> None:
    """CL-366: no verification is remembered."""
    known = registry()
    door, own = gateway(known=known), sealer()
    assert admit(door, own.seal(BOB.node, HEARTBEAT, now_ms=NOW_MS)) is None
    waiting = own.seal(BOB.node, HEARTBEAT, now_ms=NOW_MS)
    known.remove(ALICE.node)
    assert admit(door, waiting) is Refusal.STRANGER


@given(st.binary(max_size=300) | st.binary(max_size=300).map(lambda rest: b"BCE\x02" + rest))
def test_arbitrary_bytes_are_refused_and_raise_nothing_else(raw: bytes) -> None:
    """CL-272."""
    door = gateway()
    assert admit(door, raw) is not None
    assert sum(door.refused.values()) == 1


@given(st.integers(0, 47), st.binary(max_size=200))
def test_arbitrary_payloads_of_a_proven_sender_raise_nothing_else(number: int, payload: bytes) -> None:
    """CL-272."""
    door = gateway(check_command=command_check(MessageValidationConfig()))
    refusal = admit(door, pack(envelope(number, payload)))
    assert door.admitted == (refusal is None)


GOOD = sealer().seal(BOB.node, HEARTBEAT, now_ms=NOW_MS)


@given(st.integers(0, 8 * len(GOOD) - 1))
def test_a_flipped_bit_anywhere_is_refused(bit: int) -> None:
    """CL-253, CL-265."""
    raw = bytearray(GOOD)
    raw[bit // 8] ^= 1 << bit % 8
    tracker = SequenceTracker()
    assert admit(gateway(tracker=tracker), bytes(raw)) is not None
    assert len(tracker) == 0


@pytest.mark.parametrize(("cluster", "boot_id"), [(bytes(15), 1), (CLUSTER, 0)])
def test_a_gateway_needs_a_cluster_and_a_boot_id(cluster: bytes, boot_id: int) -> None:
    with pytest.raises(UsageError):
        gateway(cluster=cluster, boot_id=boot_id)


def test_a_leap_of_the_term_is_measured_from_where_this_node_is_now() -> None:
    own = 3
    door = gateway(own_term=lambda: own)
    voice = sealer()

    def ask(term: int) -> Refusal | None:
        return admit(door, voice.seal(BOB.node, replace(request_vote(None), term=term), now_ms=NOW_MS))

    assert ask(2**64 - 2) is Refusal.TERM
    assert ask(2**21) is Refusal.TERM
    assert (door.admitted, door.refused) == (0, {Refusal.TERM: 2})
    assert ask(2**20) is None
    own = 2**20
    assert ask(2**21) is None


def test_a_hello_of_a_proven_link_shows_the_clock_of_its_sender() -> None:
    """A node that started with a wrong clock is heard; whoever has recorded its Hello cannot play it as a new one."""
    wrong_ms = NOW_MS + 3_600_000
    own, door = sealer(), gateway()
    assert admit(door, own.seal(BOB.node, HEARTBEAT, now_ms=wrong_ms), link=ALICE.node) is Refusal.FUTURE
    # Over another way than the sender's own link it proves nothing about the present.
    assert admit(door, own.seal(BOB.node, Hello(node=ALICE.node), now_ms=wrong_ms)) is Refusal.FUTURE
    assert admit(door, own.seal(BOB.node, Hello(node=ALICE.node), now_ms=wrong_ms), link=ALICE.node) is None
    assert admit(door, own.seal(BOB.node, HEARTBEAT, now_ms=wrong_ms), link=ALICE.node) is None
    # The machine slept, and its clock with it.
    assert admit(door, own.seal(BOB.node, HEARTBEAT, now_ms=wrong_ms - 300_001), link=ALICE.node) is Refusal.STALE
    assert admit(door, own.seal(BOB.node, Hello(node=ALICE.node), now_ms=wrong_ms - 300_001), link=ALICE.node) is None
    assert admit(door, own.seal(BOB.node, HEARTBEAT, now_ms=wrong_ms - 300_001), link=ALICE.node) is None

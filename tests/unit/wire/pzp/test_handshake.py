"""The extended secret handshake: recorded values, every way to lie, and any way to cut the bytes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nacl import bindings

from bobbin.errors import UsageError
from bobbin.tangles import base58
from bobbin.tangles.keys import Keypair
from bobbin.wire.pzp.faults import Fault, WireFault
from bobbin.wire.pzp.handshake import NETWORK_KEY, TIMEOUT_SECONDS, Client, Server
from tests.support.pzp_wire import ALICE, BOB, CAROL, cut, recorded, shaken

RECORDED = recorded("shse-handshake")["handshakes"]
FRESH, OTHER = b"\x01" * 32, b"\x02" * 32


def _sides() -> tuple[Client, Server]:
    return Client(ALICE, BOB.public_bytes, ephemeral_seed=FRESH), Server(BOB, ephemeral_seed=OTHER)


def _of(values: dict[str, Any]) -> tuple[Client, Server]:
    network = bytes.fromhex(values["app_key"])
    server = Keypair.from_words(values["server_key_seed"])
    return (
        Client(
            Keypair.from_words(values["client_key_seed"]),
            server.public_bytes,
            ephemeral_seed=bytes.fromhex(values["client_ephemeral_ed_seed"]),
            network_key=network,
            extra=bytes.fromhex(values["extra"]),
        ),
        Server(server, ephemeral_seed=bytes.fromhex(values["server_ephemeral_ed_seed"]), network_key=network),
    )


@pytest.mark.parametrize("values", RECORDED, ids=lambda values: f"{values['client_key_seed']}-{values['extra'][:4]}")
def test_recorded_handshakes_are_made_byte_for_byte(values: dict[str, Any]) -> None:
    """TG-108, TG-109, TG-110, TG-111."""
    client, server = _of(values)
    messages = [client.start()]
    messages.append(server.feed(messages[0]))
    messages.append(client.feed(messages[1]))
    assert server.feed(messages[2]) == b""
    assert server.peer is not None
    assert server.peer.hex() == values["server_saw_public"]
    messages.append(server.accept())
    assert client.feed(messages[3]) == b""
    names = ("msg1_client_challenge", "msg2_server_challenge", "msg3_client_auth", "msg4_server_accept")
    assert [message.hex() for message in messages] == [values[name] for name in names]
    assert [len(message) for message in messages] == [64, 64, 144, 80]
    assert client.session is not None
    assert server.session is not None
    assert client.session.sending_key.hex() == values["client_encrypt_key"]
    assert client.session.receiving_key.hex() == values["client_decrypt_key"]
    assert server.session.sending_key.hex() == values["server_encrypt_key"]
    assert server.session.receiving_key.hex() == values["server_decrypt_key"]
    seen = values["server_saw_extra"]
    assert server.session.extra == (None if seen is None else bytes.fromhex(seen))


def test_the_key_of_the_public_network() -> None:
    """TG-108."""
    assert base58.encode(NETWORK_KEY) == "p2pLq5VZKvNWaaafMUEcxH9BKm2WjNBCxsc8TRQV5gS"
    assert {bytes.fromhex(values["app_key"]) for values in RECORDED} == {NETWORK_KEY}
    assert TIMEOUT_SECONDS == 15


def test_both_sides_know_each_other() -> None:
    ours, theirs = shaken(*_sides())
    assert ours.peer == BOB.public_bytes
    assert theirs.peer == ALICE.public_bytes
    assert (ours.sending_key, ours.receiving_key) == (theirs.receiving_key, theirs.sending_key)
    assert ours.sending_key != ours.receiving_key


def test_another_fresh_pair_gives_other_keys() -> None:
    first, _ = shaken(*_sides())
    second, _ = shaken(Client(ALICE, BOB.public_bytes, ephemeral_seed=b"\x03" * 32), Server(BOB, ephemeral_seed=OTHER))
    assert first.sending_key != second.sending_key


@given(st.lists(st.integers(0, 150), max_size=8), st.binary(max_size=40))
def test_how_the_bytes_are_cut_makes_no_difference(sizes: list[int], behind: bytes) -> None:
    client, server = _sides()
    from_client = client.start()
    said = b"".join(server.feed(part) for part in cut(from_client, sizes))
    proof = b"".join(client.feed(part) for part in cut(said, sizes))
    for part in cut(proof, sizes):
        server.feed(part)
    rest = b""
    for part in cut(server.accept() + behind, sizes):
        if client.session is None:
            client.feed(part)
        else:
            rest += part
    assert client.session is not None
    assert client.session.rest + rest == behind
    assert client.buffered == 0


def test_what_follows_the_last_message_is_the_beginning_of_the_stream() -> None:
    client, server = _sides()
    server.feed(client.feed(server.feed(client.start())) + b"early")
    assert server.peer == ALICE.public_bytes
    server.accept()
    assert server.session is not None
    assert server.session.rest == b"early"


@pytest.mark.parametrize("at", [0, 31, 32, 63])
def test_an_altered_challenge_is_refused(at: int) -> None:
    """TG-108."""
    client, server = _sides()
    altered = bytearray(client.start())
    altered[at] ^= 1
    with pytest.raises(WireFault) as caught:
        server.feed(bytes(altered))
    assert caught.value.fault is Fault.WRONG_NETWORK
    with pytest.raises(WireFault) as again:
        server.feed(client.start())
    assert again.value.fault is Fault.WRONG_NETWORK


def test_another_network_is_refused() -> None:
    """TG-108."""
    client = Client(ALICE, BOB.public_bytes, ephemeral_seed=FRESH, network_key=b"\x07" * 32)
    _, server = _sides()
    with pytest.raises(WireFault) as caught:
        server.feed(client.start())
    assert caught.value.fault is Fault.WRONG_NETWORK


@pytest.mark.parametrize("at", [0, 16, 80, 143])
def test_an_altered_proof_of_the_client_is_refused(at: int) -> None:
    """TG-109."""
    client, server = _sides()
    proof = bytearray(client.feed(server.feed(client.start())))
    proof[at] ^= 1
    with pytest.raises(WireFault) as caught:
        server.feed(bytes(proof))
    assert caught.value.fault is Fault.NOT_PROVEN
    assert server.peer is None


@pytest.mark.parametrize("at", [0, 16, 79])
def test_an_altered_answer_of_the_server_is_refused(at: int) -> None:
    """TG-110."""
    client, server = _sides()
    server.feed(client.feed(server.feed(client.start())))
    answer = bytearray(server.accept())
    answer[at] ^= 1
    with pytest.raises(WireFault) as caught:
        client.feed(bytes(answer))
    assert caught.value.fault is Fault.NOT_PROVEN
    assert client.session is None


def test_a_client_that_expects_another_server_is_not_understood() -> None:
    client = Client(ALICE, CAROL.public_bytes, ephemeral_seed=FRESH)
    _, server = _sides()
    with pytest.raises(WireFault) as caught:
        server.feed(client.feed(server.feed(client.start())))
    assert caught.value.fault is Fault.NOT_PROVEN


def test_a_proof_from_an_earlier_handshake_is_refused() -> None:
    """A replay: the same client, the same fresh key, another server's turn."""
    client, first = _sides()
    proof = client.feed(first.feed(client.start()))
    later = Server(BOB, ephemeral_seed=b"\x05" * 32)
    later.feed(client.start())
    with pytest.raises(WireFault) as caught:
        later.feed(proof)
    assert caught.value.fault is Fault.NOT_PROVEN


@pytest.mark.parametrize("point", [bytes(32), (1).to_bytes(32, "little")], ids=["zero", "one"])
def test_a_fresh_key_of_small_order_is_refused(point: bytes) -> None:
    _, server = _sides()
    made = Server(BOB, ephemeral_seed=OTHER)._make_challenge(point)
    with pytest.raises(WireFault) as caught:
        server.feed(made)
    assert caught.value.fault is Fault.WRONG_NETWORK


def test_a_lasting_key_that_is_no_point_is_refused() -> None:
    """What a client says it is must be a key, whatever it signs."""
    with pytest.raises(UsageError, match="no point"):
        Client(ALICE, bytes(32), ephemeral_seed=FRESH)
    server = Server(BOB, ephemeral_seed=OTHER)
    with pytest.raises(WireFault) as caught:
        server._point_of(bytes(32))
    assert caught.value.fault is Fault.NOT_PROVEN


def test_a_classic_proof_without_the_extra_field_is_refused() -> None:
    """TG-109: 112 bytes are not enough, and what comes after them does not make them a proof."""
    client, server = _sides()
    proof = client.feed(server.feed(client.start()))
    assert server.feed(proof[:112]) == b""
    assert server.peer is None
    assert server.buffered == 112
    with pytest.raises(WireFault) as caught:
        server.feed(bytes(32))
    assert caught.value.fault is Fault.NOT_PROVEN


@pytest.mark.parametrize("size", [0, 1, 63])
def test_a_handshake_that_is_broken_off_says_so(size: int) -> None:
    client, server = _sides()
    server.feed(client.start()[:size])
    with pytest.raises(WireFault, match=f"{size} of 64") as caught:
        server.finish()
    assert caught.value.fault is Fault.TRUNCATED


def test_a_handshake_that_is_done_needs_no_more() -> None:
    client, server = _sides()
    shaken(client, server)
    client.finish()
    server.finish()
    with pytest.raises(UsageError, match="done"):
        client.feed(b"x")
    with pytest.raises(UsageError, match="done"):
        server.feed(b"x")
    with pytest.raises(UsageError, match="nobody"):
        server.accept()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Client(ALICE, b"short", ephemeral_seed=FRESH),
        lambda: Client(ALICE, BOB.public_bytes, ephemeral_seed=b"short"),
        lambda: Client(ALICE, BOB.public_bytes, ephemeral_seed=FRESH, extra=b"short"),
        lambda: Client(ALICE, BOB.public_bytes, ephemeral_seed=FRESH, network_key=b"short"),
        lambda: Server(BOB, ephemeral_seed=OTHER).accept(),
    ],
)
def test_what_we_give_has_the_right_size(make: Any) -> None:  # noqa: ANN401
    with pytest.raises(UsageError):
        make()


def test_the_ephemeral_key_is_the_x25519_form_of_an_ed25519_key() -> None:
    """TG-108: both halves are converted, as real peers do."""
    client, _ = _sides()
    public, _ = bindings.crypto_sign_seed_keypair(FRESH)
    assert client.start()[32:] == bindings.crypto_sign_ed25519_pk_to_curve25519(public)

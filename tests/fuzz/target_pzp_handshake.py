"""The secret handshake: whatever comes, in whatever pieces, a side is convinced by what is genuine and nothing else.

The first byte says where in the handshake the bytes arrive, and whether they are as they are or what a genuine message
is changed by.
"""

from bobbin.tangles.keys import Keypair
from bobbin.wire.pzp.faults import Fault, WireFault
from bobbin.wire.pzp.handshake import Client, Server

_ALICE, _BOB = Keypair.from_words("alice"), Keypair.from_words("bob")


def one_input(data: bytes) -> None:
    place, raw = (data[0], data[1:]) if data else (0, b"")
    whole = _shake(place, raw, pieces=False)
    assert _shake(place, raw, pieces=True) == whole
    changed = place & 4
    if whole[0] and changed:
        assert not any(raw[: whole[2]]), "a changed message was taken for genuine"


def _shake(place: int, raw: bytes, *, pieces: bool) -> tuple[bool, str, int]:
    """Whether the side was convinced, the fault if there was one, and how long the genuine message is."""
    client = Client(_ALICE, _BOB.public_bytes, ephemeral_seed=b"\x01" * 32)
    server = Server(_BOB, ephemeral_seed=b"\x02" * 32)
    to_server, to_client = [client.start()], []
    to_client.append(server.feed(to_server[0]))
    to_server.append(client.feed(to_client[0]))
    server.feed(to_server[1])
    to_client.append(server.accept())
    stage = place & 1
    side: Client | Server
    if place & 2:
        side, genuine = Client(_ALICE, _BOB.public_bytes, ephemeral_seed=b"\x01" * 32), to_client
    else:
        side, genuine = Server(_BOB, ephemeral_seed=b"\x02" * 32), to_server
    message = genuine[stage]
    if place & 4:
        raw = bytes(byte ^ change for byte, change in zip(message, raw.ljust(len(message), b"\0"), strict=False))
    try:
        for before in genuine[:stage]:
            side.feed(before)
        for part in [raw[at : at + 1] for at in range(len(raw))] if pieces else [raw]:
            if side.session is None:
                side.feed(part)
            assert side.buffered <= len(raw)
        convinced = bool(stage) and (side.session is not None or (isinstance(side, Server) and side.peer is not None))
        if not convinced:
            side.finish()
    except WireFault as fault:
        return False, Fault(fault.code).value, len(message)
    return convinced, "", len(message)

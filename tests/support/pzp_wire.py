"""What the tests of the PZP wire share: the recorded values, key pairs, and ways to cut a stream."""

from collections.abc import Iterable, Sequence
from typing import Any

from bobbin.tangles.keys import Keypair
from bobbin.wire.pzp.frames import Decoder, Packet
from bobbin.wire.pzp.handshake import Client, Server, Session
from tests.vectors.load import load

ALICE = Keypair.from_words("alice")
BOB = Keypair.from_words("bob")
CAROL = Keypair.from_words("carol")


def recorded(name: str) -> Any:  # noqa: ANN401 -- whatever the file holds
    """A file of recorded values of the wire."""
    return load(f"pzp/wire/{name}.json")


def cut(data: bytes, sizes: Iterable[int]) -> list[bytes]:
    """These bytes in pieces of these sizes, and what is left as one more."""
    parts = []
    for size in sizes:
        parts.append(data[:size])
        data = data[size:]
    return [*parts, data]


def shaken(client: Client, server: Server) -> tuple[Session, Session]:
    """What both sides of a handshake come to."""
    client.feed(b"")
    said = server.feed(client.start())
    server.feed(client.feed(said))
    client.feed(server.accept())
    assert client.session is not None
    assert server.session is not None
    return client.session, server.session


def packets(parts: Sequence[bytes], **bounds: int) -> list[Packet]:
    """The frames in these bytes."""
    decoder = Decoder(**bounds)
    found: list[Packet] = []
    for part in parts:
        decoder.feed(part)
        while (packet := decoder.next()) is not None:
            found.append(packet)
    return found

"""Peers of a node, in the process of the test: honest ones, and raw sockets that say whatever a test wants."""

import asyncio
import re
import socket
import ssl
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from secrets import token_bytes
from threading import Thread
from typing import Final, TypedDict, Unpack

from bobbin.errors import BobbinError
from bobbin.interlace.choice import Strategy
from bobbin.interlace.config import Bounded, Open
from bobbin.interlace.result import Result
from bobbin.lace import Lace
from bobbin.records.record import Record
from bobbin.records.signing import SigningKey
from bobbin.runtime.accounts import SyncReport
from bobbin.runtime.connection import Destination
from bobbin.runtime.local_peer import now
from bobbin.runtime.pair import Clock
from bobbin.transport.dial import dial
from bobbin.transport.tls import TlsClient
from bobbin.wire import address as addresses
from bobbin.wire import proof
from bobbin.wire.address import Scheme
from bobbin.wire.elements import Elements
from bobbin.wire.greeting import Greeting, encode_preface, encode_proof
from bobbin.wire.proof import Nonces, Role
from tests.faults.served import BOB, CAROL, NODE, PATIENCE_SECONDS, Served, make_lace
from tests.policy_worlds import EVERYTHING
from tests.support.exchanges import selector
from tests.support.nodes import Client


class Settings(TypedDict, total=False):
    """What a test sets up of a peer."""

    key: SigningKey
    records: Iterable[Record]
    rules: str
    lifecycle: Bounded | Open
    clock: Clock


PREFACE: Final = re.compile("🪢: lace/1 ".encode() + rb"[0-9A-Z_a-z~]{43}\n\n")
"""All that a stranger may ever hear."""


def sync(folder: Path, address: str, policy: str = EVERYTHING) -> SyncReport:
    """An honest exchange with a node, to its end."""

    async def run(lace: Lace) -> SyncReport:
        destination = Destination(address=addresses.parse(address), verifier=NODE.verifier)
        async with lace.connect(destination, policy) as link:
            return await link.sync()

    with Lace.open(folder) as lace:
        return asyncio.run(run(lace))


def serves_carol(served: Served, folder: Path, records: int, *, scheme: str = "tcp") -> None:
    """The node gives a second, honest peer everything there is, on a new link."""
    if not folder.exists():
        make_lace(folder, CAROL)
    report = sync(folder, served.addresses[scheme])
    assert report.fixed_point, report
    with Lace.open(folder, read_only=True) as lace:
        assert sum(lace.stat().records.values()) >= records


class Raw:
    """A socket to a node."""

    def __init__(self, port: int, *, host: str = "127.0.0.1", tls: bool = False) -> None:
        connection = socket.create_connection((host, port), timeout=PATIENCE_SECONDS)
        self.binding: bytes | None = None
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            secure = context.wrap_socket(connection)
            self.binding = _fingerprint(secure)
            connection = secure
        self.socket: Final = connection
        self.heard = b""
        """Everything that the node has said."""

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send_quietly(self, data: bytes) -> None:
        """Send, unless the node has gone already."""
        with suppress(ConnectionError, ssl.SSLError):
            self.socket.sendall(data)

    def hear(self, size: int) -> bytes:
        """Until the node has said so much in all."""
        while len(self.heard) < size:
            data = self.socket.recv(65536)
            assert data, f"the node has closed the link after {self.heard!r}"
            self.heard += data
        return self.heard

    def hear_all(self) -> bytes:
        """Until the node ends the link, however it does."""
        with suppress(ConnectionError, ssl.SSLError):
            while data := self.socket.recv(65536):
                self.heard += data
        return self.heard

    def send_until_refused(self, piece: bytes, bytes_max: int) -> int:
        """Send one piece again and again; returns how much the node took before it let go."""
        sent = 0
        with suppress(ConnectionError, ssl.SSLError):
            while sent < bytes_max:
                sent += self.socket.send(piece)
            raise AssertionError(f"the node took {sent} bytes")
        return sent

    def close(self) -> None:
        self.socket.close()


@contextmanager
def raw(port: int, *, host: str = "127.0.0.1", tls: bool = False) -> Iterator[Raw]:
    """A socket to a node, closed afterwards."""
    with closing(Raw(port, host=host, tls=tls)) as connection:
        yield connection


def greet(connection: Raw, key: SigningKey | None, *, binding: bytes | None = None, nonce: bytes | None = None) -> None:
    """Say the preface and the proof, rightly unless told otherwise; ``binding`` replaces that of the channel."""
    own = nonce or token_bytes(32)
    connection.send(encode_preface(own))
    greeting = Greeting(Elements())
    greeting.feed(connection.hear(len(encode_preface(own))))
    assert greeting.nonce is not None
    made = None
    if key is not None:
        nonces = Nonces(initiator=own, responder=greeting.nonce)
        made = proof.make(key, Role.INITIATOR, nonces, binding=binding or connection.binding, auxiliary=token_bytes(32))
    connection.send(encode_proof(made))


def admitted(connection: Raw, key: SigningKey) -> None:
    """Greet, and hear that the node has proven itself too, which it does only to whom it lets in."""
    greet(connection, key)
    while b"KnotProof(" not in connection.heard:
        connection.hear(len(connection.heard) + 1)


def converse(
    folder: Path,
    address: str,
    key: SigningKey = BOB,
    *,
    records: Iterable[Record] = (),
    rules: str = EVERYTHING,
    lifecycle: Bounded | Open = Bounded(),  # noqa: B008 (a frozen value)
    clock: Clock = now,
) -> Result:
    """Let an honest machine, set up as a test wants it, exchange with a node to the end."""

    async def run() -> Result:
        where = addresses.parse(address)
        tls = TlsClient(unverified=True) if where.scheme in (Scheme.TLS, Scheme.WSS) else None
        return await client.run(await dial(where, tls=tls))

    # In words that tell the phases apart: a fault is placed by them.
    client = Client(folder, key, rules=selector(rules), lifecycle=lifecycle, clock=clock, strategy=Strategy.LISTING)
    try:
        client.store.put_records(list(records))
        return asyncio.run(run())
    finally:
        client.close()


class Talking:
    """Such an exchange in a thread of its own. A fault on its way may end it with an error; that is not asked here."""

    def __init__(self, folder: Path, address: str, **settings: Unpack[Settings]) -> None:
        self.result: Result | None = None
        self._thread = Thread(target=self._run, args=(folder, address, settings), daemon=True)
        self._thread.start()

    def _run(self, folder: Path, address: str, settings: Settings) -> None:
        with suppress(BobbinError):
            self.result = converse(folder, address, **settings)

    def join(self) -> None:
        """Wait until it is over."""
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive(), "the exchange does not end"


def _fingerprint(connection: ssl.SSLSocket) -> bytes:
    der = connection.getpeercert(binary_form=True)
    assert der is not None
    return sha256(der).digest()

"""Before anybody is let in: whatever comes at the door ends with a name, costs little, and keeps nobody else out."""

import random
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from bobbin.wire.greeting import encode_preface
from tests.faults.clients import PREFACE, Raw, admitted, greet, raw, serves_carol
from tests.faults.proxy import Act, Fault, Proxy, Way
from tests.faults.served import BOB, MB, Served, fsck
from tests.support.exchanges import records

_RECORDS: Final = 5
_INTRODUCTION_SECONDS: Final = 5.0
_MEMORY: Final = 64 * MB
_MUCH: Final = 10_000_000_000


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One node for all of this page: what one test does to it must not matter to the next."""
    folder = tmp_path_factory.mktemp("greeting") / "node"
    listen = tuple(f"{scheme}:127.0.0.1:0" for scheme in ("tcp", "tls", "ws"))
    settings = f"[links]\nintroduction_seconds_max = {_INTRODUCTION_SECONDS}\n"
    with Served(folder, records=records(_RECORDS), listen=listen, settings=settings) as node:
        yield node
        assert node.is_running
    assert not node.noise, "a stranger can make the node write nothing but its log"
    assert not node.entries("link-crashed")
    fsck(folder)


def test_slow_loris(served: Served, tmp_path: Path) -> None:
    """Streams that say nothing, little, or something now and then, are let go when their time is over."""
    before, handshakes = served.refusals("introduction-timeout"), served.refusals("handshake-timeout")
    preface = encode_preface(bytes(32))
    with ExitStack() as stack:
        silent, begun, slow = (
            [stack.enter_context(raw(served.port)) for _ in range(15)] for _ in ("silent", "begun", "slow")
        )
        for one in begun:
            one.send(preface)
        shaking = stack.enter_context(socket.create_connection(("127.0.0.1", served.port_of("tls"))))
        shaking.sendall(b"\x16\x03\x01")
        # The honest one is served while they are all there.
        serves_carol(served, tmp_path / "carol", _RECORDS)
        for byte in preface:
            for one in slow:
                one.send(bytes([byte]))
        end = time.monotonic() + _INTRODUCTION_SECONDS
        while time.monotonic() < end:
            for one in slow:
                _drip(one)
            time.sleep(0.2)
        served.refuses("introduction-timeout", before + 45)
        served.refuses("handshake-timeout", handshakes + 1)
        shaking.settimeout(30)
        assert shaking.recv(1) == b""
        for one in (*silent, *begun, *slow):
            assert PREFACE.fullmatch(one.hear_all())
    serves_carol(served, tmp_path / "carol", _RECORDS)


def test_a_flood_keeps_no_newcomer_out(served: Served, tmp_path: Path) -> None:
    """More streams and handshakes than there are places for, from several addresses, and an honest peer comes in."""
    streams, handshakes = served.refusals("too-many-introductions"), served.refusals("too-many-handshakes")
    with ExitStack() as stack:
        for number in range(5):
            for scheme, count in (("tcp", 20), ("tls", 70)):
                where = "127.0.0.1", served.port_of(scheme)
                for _ in range(count):
                    stack.enter_context(socket.create_connection(where, source_address=(f"127.0.0.{number + 2}", 0)))
        # For 100 streams this machine has 48 places, and for 70 handshakes of an origin there are 64.
        served.refuses("too-many-introductions", streams + 1)
        served.refuses("too-many-handshakes", handshakes + 1)
        for scheme in ("tcp", "tls"):
            serves_carol(served, tmp_path / f"carol-{scheme}", _RECORDS, scheme=scheme)


def _drip(one: Raw) -> None:
    """One more byte of a proof that never comes to its end. It may be over already."""
    try:
        one.send(b"K")
    except OSError:
        return


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (random.Random(1).randbytes(100_000), "out-of-phase-message"),
        (b"\x00" * 100_000, "out-of-phase-message"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "out-of-phase-message"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100), "out-of-phase-message"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "out-of-phase-message"),
        (encode_preface(bytes(32)) + random.Random(2).randbytes(1000), "malformed-fact-block"),
        (encode_preface(bytes(32)) + b"KnotProof('x')\n\n", "malformed-fact-block"),
        (encode_preface(bytes(32)) + b"ExchangeOperand('0')\n\n", "out-of-phase-message"),
        (encode_preface(bytes(32)) + "🧩: R.x\n".encode(), "out-of-phase-message"),
        (encode_preface(bytes(32)) + "🖧: P.x\n".encode(), "out-of-phase-message"),
    ],
)
def test_garbage(served: Served, tmp_path: Path, said: bytes, reason: str) -> None:
    """What is no greeting is refused at its first wrong byte."""
    before = served.refusals(reason)
    with raw(served.port) as connection:
        connection.send(said)
        assert PREFACE.fullmatch(connection.hear_all())
    served.refuses(reason, before + 1)
    serves_carol(served, tmp_path / "carol", _RECORDS)


@pytest.mark.parametrize(
    "said",
    [
        "🪢: lace/2 ".encode() + b"A" * 43 + b"\n\n",
        "🪢: lace/1".encode() + b"A" * 43 + b"\n\n",
        "🪢:lace/1 ".encode() + b"A" * 43 + b"\n\n",
        b"\n\n",
    ],
)
def test_wrong_preface(served: Served, tmp_path: Path, said: bytes) -> None:
    """Another version, or another protocol, is told by its first line."""
    before = served.refusals("out-of-phase-message")
    with raw(served.port) as connection:
        connection.send(said)
        assert PREFACE.fullmatch(connection.hear_all())
    served.refuses("out-of-phase-message", before + 1)
    serves_carol(served, tmp_path / "carol", _RECORDS)


@pytest.mark.parametrize(
    ("before_it", "piece", "reason"),
    [
        (b"", "🪢".encode() * 16_384, "out-of-phase-message"),
        (encode_preface(bytes(32)), b"K" * 65_536, "oversized-fact-block"),
        (encode_preface(bytes(32)), b"#" * 65_536, "oversized-fact-block"),
    ],
)
def test_a_line_of_10_gb_from_a_stranger(
    served: Served, tmp_path: Path, before_it: bytes, piece: bytes, reason: str
) -> None:
    """A line without end is refused at its bound, and what comes after it is not kept."""
    count, start = served.refusals(reason), served.forget_peak()
    with raw(served.port) as connection:
        connection.send(before_it)
        connection.send_until_refused(piece, _MUCH)
    served.refuses(reason, count + 1)
    assert served.memory_peak < start + _MEMORY
    serves_carol(served, tmp_path / "carol", _RECORDS)


def test_half_open_before_the_greeting(served: Served, tmp_path: Path) -> None:
    """A peer that is gone without a word, or with half of one, is a stream that never says who it is."""
    timeouts, closed = served.refusals("introduction-timeout"), served.refusals("closed-before-proof")
    fault = Fault(act=Act.STALL, after=20)
    with Proxy(served.port, fault) as proxy:
        gone = Raw(proxy.port)
        gone.send(encode_preface(bytes(32)))
        assert proxy.struck.wait(30)
        gone.close()
        with raw(served.port) as half:
            half.send(encode_preface(bytes(32))[:10])
            half.socket.shutdown(socket.SHUT_WR)
            assert PREFACE.fullmatch(half.hear_all())
        with raw(served.port) as reset:
            reset.hear(10)
            reset.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        serves_carol(served, tmp_path / "carol", _RECORDS)
        served.refuses("closed-before-proof", closed + 2)
        served.refuses("introduction-timeout", timeouts + 1)


def test_proof_replay(served: Served, tmp_path: Path) -> None:
    """A proof that was recorded on a good link is worth nothing on another one, even with the same preface."""
    before = served.refusals("negotiation-failure")
    nonce = bytes(range(32))
    with Proxy(served.port) as proxy:
        honest = Raw(proxy.port)
        greet(honest, BOB, nonce=nonce)
        while b"KnotProof(" not in honest.heard:
            honest.hear(len(honest.heard) + 1)
        honest.close()
        recorded = bytes(proxy.passed[Way.TO_SERVER])
    assert b"KnotProof(" in recorded
    with raw(served.port) as connection:
        connection.send(recorded)
        assert PREFACE.fullmatch(connection.hear_all())
    served.refuses("negotiation-failure", before + 1)
    with raw(served.port) as again:
        admitted(again, BOB)
    serves_carol(served, tmp_path / "carol", _RECORDS)


def test_a_proof_for_another_certificate(served: Served, tmp_path: Path) -> None:
    """A middleman with a certificate of its own can pass everything on but the proof, which is for the wrong one."""
    before = served.refusals("negotiation-failure")
    with raw(served.port_of("tls"), tls=True) as connection:
        greet(connection, BOB, binding=b"\x01" * 32)
        assert PREFACE.fullmatch(connection.hear_all())
    served.refuses("negotiation-failure", before + 1)
    serves_carol(served, tmp_path / "carol", _RECORDS, scheme="tls")


_REQUEST: Final = (
    b"GET /interlace HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Extensions: permessage-deflate; server_max_window_bits=15\r\n\r\n"
)


@pytest.mark.parametrize(
    "frame",
    [
        # Marked as compressed: a few bytes that would unpack to many.
        b"\xc2\x8c\x00\x00\x00\x00\xec\xc1\x01\x0d\x00\x00\x00\xc2\xa0\xf7Om",
        # It says that it has 2^62 bytes.
        b"\x82\xff\x40\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00x",
        # Not masked; text; before the answer.
        b"\x82\x01x",
        b"\x81\x81\x00\x00\x00\x00x",
    ],
)
def test_frames_that_unpack_to_more_than_they_are(served: Served, tmp_path: Path, frame: bytes) -> None:
    """Nothing is ever compressed, and a frame has its bound before any of it is read."""
    before, start = served.refusals("closed-before-proof"), served.forget_peak()
    with raw(served.port_of("ws")) as connection:
        connection.send(_REQUEST + frame)
        heard = connection.hear_all()
        assert heard.startswith(b"HTTP/1.1 101 ")
        assert b"permessage-deflate" not in heard
    served.refuses("closed-before-proof", before + 1)
    assert served.memory_peak < start + _MEMORY
    serves_carol(served, tmp_path / "carol", _RECORDS, scheme="ws")


def test_what_strangers_do_leaves_nothing_behind(served: Served, tmp_path: Path) -> None:
    """After a thousand streams of strangers the node has no more open files, and hardly more memory, than before."""
    _knock(served, 50)
    served_before = served.forget_peak(), served.descriptors
    _knock(served, 1_000)
    serves_carol(served, tmp_path / "carol", _RECORDS)
    assert served.memory < served_before[0] + _MEMORY // 4
    assert served.descriptors <= served_before[1] + 5


def _knock(served: Served, times: int) -> None:
    for number in range(times):
        with raw(served.port) as connection:
            connection.send(b"x" * (number % 3) * 1000)
            connection.socket.shutdown(socket.SHUT_WR)
            connection.hear_all()

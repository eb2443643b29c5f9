"""TCP sockets: how they are set up and what the other end is called."""

import socket

import pytest

from bobbin.transport import tcp


@pytest.mark.parametrize(
    ("name", "text", "origin", "loopback"),
    [
        (("127.0.0.1", 5), "127.0.0.1:5", "127.0.0.1", True),
        (("127.9.9.9", 5), "127.9.9.9:5", "127.9.9.9", True),
        (("192.0.2.7", 5), "192.0.2.7:5", "192.0.2.7", False),
        (("::1", 5, 0, 0), "[::1]:5", "::1", True),
        (("::ffff:127.0.0.1", 5, 0, 0), "127.0.0.1:5", "127.0.0.1", True),
        (("::ffff:192.0.2.7", 5, 0, 0), "192.0.2.7:5", "192.0.2.7", False),
        (("2001:db8:1:2:3:4:5:6", 5, 0, 0), "[2001:db8:1:2:3:4:5:6]:5", "2001:db8:1:2::/64", False),
        (("fe80::1%eth0", 5, 0, 2), "[fe80::1%eth0]:5", "fe80::/64", False),
        (None, "unknown", "unknown", False),
    ],
)
def test_the_other_end_is_described(name: object, text: str, origin: str, loopback: bool) -> None:  # noqa: FBT001
    remote = tcp.describe(name)
    assert (remote.text, remote.origin, remote.loopback) == (text, origin, loopback)


def test_an_ip_address_is_told_from_a_name() -> None:
    assert [tcp.is_literal(host) for host in ("127.0.0.1", "::1", "localhost", "a.example")] == [
        True,
        True,
        False,
        False,
    ]


def test_a_connection_notices_a_dead_peer_and_sends_at_once() -> None:
    with socket.socket() as connection:
        tcp.prepare(connection)
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT, socket.TCP_USER_TIMEOUT)
        assert [connection.getsockopt(socket.IPPROTO_TCP, one) for one in options] == [60, 15, 4, 120_000]
        # Who cannot wait for that says so, also later.
        tcp.prepare(connection, tcp.Patience(idle_seconds=1, probe_seconds=2, probes=3, unacknowledged_ms=4))
        assert [connection.getsockopt(socket.IPPROTO_TCP, one) for one in options] == [1, 2, 3, 4]


def test_the_system_chooses_a_port_for_one_address() -> None:
    (listening,) = tcp.bind("localhost", 0, backlog=1)
    with listening:
        assert listening.getsockname()[1] != 0
        assert listening.gettimeout() == 0


def test_a_port_that_is_taken_leaves_nothing_open() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        with pytest.raises(OSError, match="in use"):
            tcp.bind("127.0.0.1", taken.getsockname()[1], backlog=1)


def test_a_name_is_listened_on_at_all_its_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    places = [("127.0.0.1", port), ("127.0.0.2", port), ("127.0.0.1", port)]
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", place) for place in places]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    listening = tcp.bind("node.example", port, backlog=1)
    assert [one.getsockname() for one in listening] == places[:2]
    for one in listening:
        one.close()

"""Addresses of PZP peers: where to dial, and whom to expect there."""

import pytest

from bobbin.tangles import base58
from bobbin.wire.address import AddressError
from bobbin.wire.address import parse as parse_place
from bobbin.wire.pzp.address import at, parse
from tests.support.pzp_wire import ALICE, BOB

KEY = ALICE.public
EXTRA = base58.encode(b"\x09" * 32)


@pytest.mark.parametrize(
    ("text", "host", "port", "extra"),
    [
        (f"net:localhost:8008~shse:{KEY}", "localhost", 8008, None),
        (f"net:192.0.2.1:1~shse:{KEY}", "192.0.2.1", 1, None),
        (f"net:::1:65535~shse:{KEY}", "::1", 65535, None),
        (f"net:peer.example:8008~shse:{KEY}:{EXTRA}", "peer.example", 8008, b"\x09" * 32),
    ],
)
def test_an_address_is_read_and_written(text: str, host: str, port: int, extra: bytes | None) -> None:
    """TG-114."""
    address = parse(text)
    assert (address.place.host, address.place.port_number) == (host, port)
    assert (address.key, address.extra) == (ALICE.public_bytes, extra)
    assert str(address) == text


def test_the_first_address_that_can_be_dialled_is_taken() -> None:
    """A peer says all of its addresses in one text."""
    text = f"ws://host.example~shse:{KEY};net:first.example:1~shse:{KEY};net:second.example:2~shse:{KEY}"
    assert parse(text).place.host == "first.example"


def test_brackets_around_an_ipv6_address_are_understood() -> None:
    assert str(parse(f"net:[::1]:8008~shse:{KEY}")) == f"net:::1:8008~shse:{KEY}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        "net:localhost:8008",
        f"net:localhost~shse:{KEY}",
        f"net::8008~shse:{KEY}",
        f"net:localhost:~shse:{KEY}",
        f"net:localhost:0~shse:{KEY}",
        f"net:localhost:65536~shse:{KEY}",
        f"net:localhost:8008~shs:{KEY}",
        f"tcp:localhost:8008~shse:{KEY}",
        "net:localhost:8008~shse:",
        f"net:localhost:8008~shse:{KEY[:-1]}",
        f"net:localhost:8008~shse:{KEY[:-1]}0",
        f"net:localhost:8008~shse:{KEY}:{EXTRA[:-1]}",
        f"net:local!:host:8008~shse:{KEY}",
        f"net:{'a' * 5000}:8008~shse:{KEY}",
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    """TG-114."""
    with pytest.raises(AddressError):
        parse(text)


def test_the_address_of_a_listener() -> None:
    address = at(parse_place("tcp:127.0.0.1:8008"), BOB.public_bytes)
    assert str(address) == f"net:127.0.0.1:8008~shse:{BOB.public}"
    with pytest.raises(AddressError, match="tcp"):
        at(parse_place("ws:localhost"), BOB.public_bytes)

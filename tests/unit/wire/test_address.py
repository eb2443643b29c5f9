"""Addresses are read exactly and written back as they were."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.errors import UsageError
from bobbin.wire.address import PORTS, Address, AddressError, Scheme, parse, same_place

EXAMPLES = [
    ("stdio", Address(scheme=Scheme.STDIO)),
    ("unix:/tmp/lace.sock", Address(scheme=Scheme.UNIX, path="/tmp/lace.sock")),
    ("tcp:127.0.0.1:4790", Address(scheme=Scheme.TCP, host="127.0.0.1", port=4790)),
    ("tcp:example.com:9000", Address(scheme=Scheme.TCP, host="example.com", port=9000)),
    ("tcp:[::1]:4790", Address(scheme=Scheme.TCP, host="::1", port=4790)),
    ("ws:127.0.0.1:4790/interlace", Address(scheme=Scheme.WS, host="127.0.0.1", port=4790, path="/interlace")),
    ("wss:example.com/interlace", Address(scheme=Scheme.WSS, host="example.com", path="/interlace")),
]


@pytest.mark.parametrize(("text", "address"), EXAMPLES)
def test_the_examples_of_the_protocol_page(text: str, address: Address) -> None:
    """ILC-086."""
    assert parse(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    ("text", "port"),
    [("tcp:h", 4790), ("tls:h", 4791), ("ws:h", 80), ("wss:h", 443), ("tls:[::1]:7", 7), ("ws:h:9", 9)],
)
def test_the_port_that_is_not_written(text: str, port: int) -> None:
    """ILC-084, ILC-143."""
    assert parse(text).port_number == port
    assert str(parse(text)) == text


def test_a_file_has_no_port() -> None:
    with pytest.raises(UsageError, match="no port"):
        _ = parse("unix:/a").port_number


@pytest.mark.parametrize(
    "text",
    [
        "",
        "stdio:",
        "STDIO",
        "TCP:h:1",
        "http:h",
        "tcp",
        "tcp:",
        "tcp::1",
        "unix:",
        "unix:relative",
        "unix:./a",
        "unix:/",
        "unix:/a/",
        "unix:/a\x00b",
        "unix:/e\u0301",
        "unix:/" + "x" * 4096,
        "unix://h/a\n",
    ],
)
def test_what_is_no_address(text: str) -> None:
    """ILC-084: a relative path, an unknown scheme."""
    with pytest.raises(AddressError):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "tcp:::1:4790",
        "tcp:::1",
        "tcp:[::1",
        "tcp:[]:1",
        "tcp:[127.0.0.1]:1",
        "tcp:[fe80::1%eth0]:1",
        "tcp:[example.com]:1",
        "tcp:1.2.3.256:1",
        "tcp:1.2.3:1",
        "tcp:01.2.3.4:1",
        "tcp:h:0",
        "tcp:h:01",
        "tcp:h:65536",
        "tcp:h:+1",
        "tcp:h:",
        "tcp:h:1:2",
        "tcp:h /interlace",
        "tcp:h/interlace",
        "tls:h/interlace",
        "tcp:-h:1",
        "tcp:h_:1",
        "tcp:é:1",
        "tcp:h..i:1",
        "tcp:user@h:1",
        "tcp:" + "a" * 64 + ":1",
        "tcp:" + ".".join(["a" * 60] * 5),
        "tcp:h:1\n",
        "tcp:h\n",
        "ws://h",
        "ws:h/",
        "ws:h/other",
        "ws:h/interlace/",
        "ws:h/?x",
        "ws:h/interlace?x",
        "ws:h?x",
        "ws:h#x",
        "wss:/interlace",
    ],
)
def test_what_is_no_host(text: str) -> None:
    """ILC-085."""
    with pytest.raises(AddressError):
        parse(text)


def test_the_port_0_is_for_those_who_listen() -> None:
    """The system chooses a port then."""
    assert parse("tcp:127.0.0.1:0", to_listen=True) == Address(scheme=Scheme.TCP, host="127.0.0.1", port=0)
    assert str(parse("ws:h:0/interlace", to_listen=True)) == "ws:h:0/interlace"
    for text in ("tcp:h:00", "tcp:h:65536", "tcp:h:-0"):
        with pytest.raises(AddressError):
            parse(text, to_listen=True)


_HOSTS = (
    st.ip_addresses(v=4).map(str)
    | st.ip_addresses(v=6).map(lambda ip: f"[{ip}]")
    | st.from_regex(r"[a-z]([a-z0-9-]{0,9}[a-z0-9])?(\.[a-z]{1,5}){0,3}", fullmatch=True)
)


@given(
    st.sampled_from(sorted(PORTS)),
    _HOSTS,
    st.just("") | st.integers(1, 65535).map(lambda port: f":{port}"),
    st.sampled_from(["", "/interlace"]),
)
def test_what_is_read_is_written_back(scheme: Scheme, host: str, port: str, path: str) -> None:
    """ILC-084."""
    text = f"{scheme.value}:{host}{port}{path if scheme in (Scheme.WS, Scheme.WSS) else ''}"
    assert str(parse(text)) == text


@given(st.text(max_size=30) | st.from_regex(r"(tcp|ws|unix|tls|wss):[ -~]{0,30}", fullmatch=True))
def test_any_text_is_an_address_or_is_refused(text: str) -> None:
    try:
        address = parse(text)
    except AddressError:
        return
    assert str(address) == text


@pytest.mark.parametrize(
    ("text", "verified", "confidential"),
    [
        ("tls:example.com:4791", True, True),
        ("wss:example.com/interlace", True, True),
        ("tls:example.com:4791", False, False),
        ("wss:example.com", False, False),
        ("tcp:127.0.0.1:4790", True, False),
        ("ws:example.com", True, False),
        ("unix:/tmp/lace.sock", True, False),
        ("stdio", True, False),
    ],
)
def test_only_a_verified_encrypted_transport_is_confidential(text: str, *, verified: bool, confidential: bool) -> None:
    """ILC-101: plain streams and certificates that nobody verified give no ``TransportEncrypted``."""
    assert parse(text).is_confidential(verified=verified) is confidential


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("tls:lab.example", "tls:lab.example:4791", True),
        ("tls:lab.example", "tls:LAB.example", True),
        ("ws:lab.example", "ws:lab.example:80/interlace", True),
        ("tcp:[::1]", "tcp:[0:0::1]:4790", True),
        ("unix:/run/a", "unix:/run/a", True),
        ("stdio", "stdio", True),
        ("unix:/run/a", "unix:/run/A", False),
        ("tls:lab.example", "tcp:lab.example:4791", False),
        ("tls:lab.example", "tls:lab.example:4790", False),
        ("tls:lab.example", "tls:lab.example.org", False),
        ("stdio", "unix:/run/a", False),
    ],
)
def test_one_place_has_several_spellings(one: str, other: str, *, expected: bool) -> None:
    assert same_place(parse(one), parse(other)) is expected

"""What a request shows, and what an address must be before one is made."""

import pytest
from websockets.datastructures import Headers
from websockets.http11 import Request

from bobbin.runtime.web_sockets import RequestRefused, is_here, offered, open_socket, takes_origin, tokens_of
from bobbin.transport.base import TransportError
from bobbin.transport.dial import InsecureRoute
from bobbin.wire import address as addresses
from tests.support.graphs import Sample, run, serving

LISTED = frozenset({"https://console.example"})


def _request(*headers: tuple[str, str]) -> Request:
    return Request("/graph", Headers(headers))


@pytest.mark.parametrize(
    ("host", "origin", "is_taken"),
    [
        ("127.0.0.1:4794", None, True),
        ("127.0.0.1:4794", "http://127.0.0.1:4794", True),
        ("localhost", "http://localhost", True),
        ("localhost:80", "http://localhost", True),
        ("localhost", "https://localhost:443", True),
        ("[::1]:4794", "http://[::1]:4794", True),
        ("graphs.example", "https://graphs.example", True),
        ("graphs.example:4794", "https://graphs.example:4794", True),
        # Pages of other programs on the same host.
        ("127.0.0.1:4794", "http://127.0.0.1:8000", False),
        ("localhost:4794", "http://localhost", False),
        ("[::1]:4794", "http://[::1]:80", False),
        ("graphs.example:4794", "https://graphs.example", False),
        ("localhost", "https://localhost:80", False),
        ("127.0.0.1:4794", "http://127.0.0.1:99999", False),
        ("127.0.0.1:no", "http://127.0.0.1:no", False),
        ("127.0.0.1:4794", "https://console.example", True),
        ("127.0.0.1:4794", "https://console.example.evil", False),
        ("127.0.0.1:4794", "http://localhost:4794", False),
        ("127.0.0.1:4794", "null", False),
        ("127.0.0.1:4794", "", False),
        ("127.0.0.1:4794", "http://[", False),
        ("127.0.0.1:4794", "ftp://127.0.0.1", False),
        # A name that somebody has pointed at this machine (DNS rebinding).
        ("evil.example:4794", "http://evil.example:4794", False),
    ],
)
def test_which_pages_are_taken(host: str, origin: str | None, *, is_taken: bool) -> None:
    headers = [("Host", host), *([] if origin is None else [("Origin", origin)])]
    assert takes_origin(_request(*headers), origins=LISTED, host="graphs.example") is is_taken


def test_every_origin_that_is_named_counts() -> None:
    request = _request(("Host", "127.0.0.1"), ("Origin", "http://127.0.0.1"), ("Origin", "http://evil.example"))
    assert not takes_origin(request, origins=LISTED, host="127.0.0.1")
    assert not takes_origin(_request(("Origin", "http://127.0.0.1")), origins=LISTED, host="127.0.0.1")


def test_tokens_and_protocols() -> None:
    request = _request(
        ("Authorization", "Bearer one"), ("Sec-WebSocket-Protocol", "lazily-ipc, bearer.two"), ("X", "bearer.three")
    )
    assert offered(request) == ["lazily-ipc", "bearer.two"]
    assert tokens_of(request) == ["one", "two"]
    assert tokens_of(_request()) == []


def test_which_hosts_are_this_machine() -> None:
    assert [is_here(host) for host in ("localhost", "127.0.0.9", "::1", "192.0.2.1", "example.org")] == [
        True,
        True,
        True,
        False,
        False,
    ]


async def _open(text: str, path: str = "/graph") -> None:
    await open_socket(
        addresses.parse(text),
        path,
        protocols=(),
        headers={},
        demands=None,
        message_bytes_max=1_000,
        allow_insecure=False,
    )


def test_nothing_is_sent_in_the_clear_off_this_machine() -> None:
    with pytest.raises(InsecureRoute):
        run(_open("ws:192.0.2.1:80"))


def test_what_gives_no_websocket() -> None:
    async def main() -> None:
        sample = Sample()
        async with serving(sample.host, "ws:127.0.0.1:0", "tcp:127.0.0.1:0") as (web, plain):
            with pytest.raises(RequestRefused) as caught:
                await _open(str(web), "/elsewhere")
            assert (caught.value.status, caught.value.retry) == (404, False)
            with pytest.raises(TransportError):
                await _open(f"ws:127.0.0.1:{plain.port_number}")
        with pytest.raises(TransportError, match="nothing listens") as gone:
            await _open(str(web))
        assert gone.value.retry

    run(main())

"""What is known of a stream before anybody has spoken."""

from bobbin.errors import ResourceError
from bobbin.transport.base import Route, TransportError
from bobbin.wire import address


def test_a_route_claims_nothing_by_default() -> None:
    route = Route(address=address.parse("tcp:127.0.0.1"), remote="127.0.0.1:5", origin="127.0.0.1", loopback=False)
    assert route.binding is None
    assert not route.verified


def test_an_error_says_whether_to_try_again() -> None:
    error = TransportError("gone", retry=True)
    assert isinstance(error, ResourceError)
    assert error.retry

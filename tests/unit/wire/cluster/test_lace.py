"""Requests about a replicated lace."""

import pytest

from bobbin.errors import UsageError
from bobbin.wire.cluster.client import Request, decode_requests, encode_requests
from bobbin.wire.cluster.faults import MessageRefused
from bobbin.wire.cluster.lace import COMMAND_BYTES_MAX, LaceSettle, LaceWrite, check_lace_request


def test_requests_travel_like_any_other() -> None:
    requests: list[Request] = [LaceWrite(1, b"\x93\x30\x01"), LaceSettle(2)]
    assert decode_requests(encode_requests(requests)) == requests


@pytest.mark.parametrize("size", [0, 1, COMMAND_BYTES_MAX + 1])
def test_a_command_has_a_kind_and_a_bound(size: int) -> None:
    with pytest.raises(UsageError, match="bytes"):
        check_lace_request(LaceWrite(1, bytes(size)))
    check_lace_request(LaceWrite(1, bytes(COMMAND_BYTES_MAX)))
    check_lace_request(LaceSettle(1))


def test_what_a_client_must_not_send_is_refused() -> None:
    with pytest.raises(MessageRefused):
        decode_requests(b"\x91\x93\x30\x01\xc4\x01\x00")

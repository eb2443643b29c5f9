"""Requests of clients and answers of nodes: refused with a known code, or the same after a journey back."""

from bobbin.wire.cluster.chain import STORAGE_KEY_BYTES_MAX
from bobbin.wire.cluster.client import (
    REQUESTS_MAX,
    decode_answers,
    decode_requests,
    encode_answers,
    encode_requests,
)
from bobbin.wire.cluster.faults import MessageRefused, Refusal


def one_input(data: bytes) -> None:
    _requests(data)
    _answers(data)


def _requests(data: bytes) -> None:
    try:
        requests = decode_requests(data)
    except MessageRefused as refused:
        Refusal(refused.code)
        return
    assert 0 < len(requests) <= REQUESTS_MAX
    assert all(len(getattr(request, "key", b"")) <= STORAGE_KEY_BYTES_MAX for request in requests)
    raw = encode_requests(requests)
    # A vector may have a value that is not a number, which is not equal to itself: the bytes are compared.
    assert encode_requests(decode_requests(raw)) == raw


def _answers(data: bytes) -> None:
    try:
        answers = decode_answers(data)
    except MessageRefused as refused:
        Refusal(refused.code)
        return
    raw = encode_answers(answers)
    # A counter may be a value that is not a number, which is not equal to itself: the bytes are compared.
    assert encode_answers(decode_answers(raw)) == raw

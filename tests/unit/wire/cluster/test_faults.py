"""Refusals: a code, a field, and a reason that is not too long."""

import pytest
from msgspec import DecodeError

from bobbin.errors import PeerError
from bobbin.wire.cluster.faults import REASON_CHARACTERS_MAX, MessageRefused, Refusal, unreadable


def test_a_refusal_is_a_peer_error_with_field_and_reason() -> None:
    """CL-272."""
    refused = MessageRefused(Refusal.TERM, "too high", field="entries[3].term")
    assert isinstance(refused, PeerError)
    assert (refused.code, refused.refusal, refused.field, refused.reason) == (
        "term",
        Refusal.TERM,
        "entries[3].term",
        "too high",
    )
    assert str(refused) == "entries[3].term: too high"
    assert str(MessageRefused(Refusal.STRANGER, "unknown")) == "unknown"


def test_what_a_stranger_sent_is_quoted_in_part() -> None:
    refused = MessageRefused(Refusal.NODE_ID, "x" * 10_000)
    assert len(refused.reason) == REASON_CHARACTERS_MAX
    assert len(str(refused)) == REASON_CHARACTERS_MAX


@pytest.mark.parametrize(("error", "reason"), [(DecodeError("short"), "short"), (RecursionError(), "RecursionError")])
def test_what_a_decoder_raises_becomes_a_refusal(error: Exception, reason: str) -> None:
    refused = unreadable(error)
    assert (refused.refusal, refused.reason) == (Refusal.UNREADABLE, reason)

"""The last word on a stream."""

import pytest

from bobbin.interlace.reasons import Reason
from bobbin.wire import parting


def test_a_store_that_failed_is_told_and_understood() -> None:
    said = parting.encode(Reason.STORE)
    assert said == b"# ended: store-failure\n"
    assert parting.read(said) is Reason.PEER_STORE
    heard = parting.ended(Reason.PEER_STORE)
    assert heard.reason is Reason.PEER_STORE
    assert "cannot store" in str(heard)


def test_all_that_is_told_can_be_said_in_words() -> None:
    assert all(str(parting.ended(heard)) for heard in parting.TOLD.values())


@pytest.mark.parametrize("why", [None, *(reason for reason in Reason if reason is not Reason.STORE)])
def test_nothing_else_is_told(why: Reason | None) -> None:
    assert parting.encode(why) == b""


@pytest.mark.parametrize(
    "comment",
    [
        b"#\n",
        b"# store-failure\n",
        b"# ended: store-failure",
        b"# ended: store-failure \n",
        b"# ended: peer-store-failure\n",
        b"# ended: cancelled\n",
        b"# ended: \xff\n",
        b"# ended: " + b"a" * 65 + b"\n",
    ],
)
def test_other_comments_say_nothing(comment: bytes) -> None:
    assert parting.read(comment) is None

"""Messages: plain values that compare by content and never change."""

import pytest
from msgspec import Struct

from bobbin.interlace.messages import (
    Advertise,
    Advertisement,
    Delivered,
    Hello,
    Partition,
    Request,
    Response,
    Setup,
    Transfer,
    Unavailable,
)
from bobbin.interlace.schema import Schema
from bobbin.policy.operands import Operand, Origin
from tests.policy_worlds import DING_IDENTIFIER, plex

_PARTITION = Partition(prefix="ab", count=1, root=bytes(32))
_ADVERTISEMENT = Advertisement(record=plex(1), fields=(), digest=bytes(32))


def test_a_block_without_offer_or_question_says_nothing() -> None:
    assert Advertise().says_nothing


def test_a_tick_alone_says_nothing() -> None:
    assert Advertise(tick="1640995200:000000000").says_nothing


@pytest.mark.parametrize(
    "block",
    [
        Advertise(records=(_ADVERTISEMENT,)),
        Advertise(partitions=(_PARTITION,)),
        Advertise(partitions=(Partition(prefix="ab", count=0, root=bytes(32)),)),
        Advertise(lists=("ab",)),
        Advertise(narrows=("ab",)),
    ],
)
def test_an_offer_or_a_question_says_something(block: Advertise) -> None:
    assert not block.says_nothing


def test_a_hello_names_no_signer_plan_bytes_or_limits_by_itself() -> None:
    hello = Hello(plan="E.x", tai="t", tick_interval_ns=1, formats=frozenset(), schema=Schema())
    assert (hello.signer, hello.plan_bytes, dict(hello.limits)) == (None, None, {})
    with pytest.raises(TypeError):
        hello.limits["max_loop_iterations"] = 1  # type: ignore[index]


def test_a_part_of_a_transfer_is_not_the_last_by_itself() -> None:
    assert not Transfer(responses=(Unavailable(record=plex(1)),)).last


def test_no_bytes_are_not_the_same_as_not_available() -> None:
    answers: list[Response] = [Delivered(record=plex(1), raw=b""), Unavailable(record=plex(1))]
    assert answers[0] != answers[1]


@pytest.mark.parametrize(
    "message",
    [
        Setup(index=0, operand=Operand(module=DING_IDENTIFIER, origin=Origin("source:0"))),
        Hello(plan="E.x", tai="t", tick_interval_ns=1, formats=frozenset(), schema=Schema()),
        Advertise(),
        Request(),
        Transfer(),
        _PARTITION,
        _ADVERTISEMENT,
    ],
)
def test_a_message_never_changes(message: Struct) -> None:
    with pytest.raises(AttributeError):
        setattr(message, message.__struct_fields__[0], None)

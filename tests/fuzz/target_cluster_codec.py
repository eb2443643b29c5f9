"""Payloads of messages between nodes: refused with a known code, or the same after a journey back; then every rule."""

from bobbin.cluster.names import NodeId
from bobbin.cluster.settings import MessageValidationConfig
from bobbin.wire.cluster.codec import KINDS, Message, decode, encode
from bobbin.wire.cluster.faults import MessageRefused, Refusal
from bobbin.wire.cluster.validation import RULES, Bounds, validate

_NUMBERS = [kind.number for kind in KINDS]
_OFF = Bounds(MessageValidationConfig(enabled=False))
_ON = Bounds(MessageValidationConfig())


def one_input(data: bytes) -> None:
    """The first byte chooses the type."""
    number = _NUMBERS[data[0] % len(_NUMBERS)] if data else 0
    message = _decode(number, data[1:])
    if message is None:
        return
    again, payload = encode(message)
    assert again == number
    # A value that is not a number is not equal to itself, so the bytes are compared.
    assert encode(decode(number, payload)) == (number, payload)
    rule = RULES[type(message)]
    sender = NodeId(getattr(message, rule.sender) if rule.sender else "a")
    receiver = NodeId(getattr(message, rule.addressee) if rule.addressee else "b")
    validate(message, sender=sender, receiver=receiver, bounds=_OFF)
    try:
        validate(message, sender=sender, receiver=receiver, bounds=_ON)
    except MessageRefused as refused:
        found = refused
    else:
        return
    assert Refusal(found.code) is not Refusal.SENDER_FIELD
    assert found.field
    assert found.reason


def _decode(number: int, payload: bytes) -> Message | None:
    try:
        return decode(number, payload)
    except MessageRefused as refused:
        code = Refusal(refused.code)
    assert code in {Refusal.UNKNOWN_TYPE, Refusal.UNREADABLE, Refusal.OVERSIZED}
    return None

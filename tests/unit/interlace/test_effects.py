"""Effects: the unions are closed over what the module defines, in the order in which a driver performs them."""

from typing import get_args

from msgspec import Struct

from bobbin.interlace import effects
from bobbin.interlace.effects import Close, Effect, Notice, Notify, Persist, Remember, SaveCursor, Send, WakeAt


def test_effects_are_listed_in_the_order_of_a_step() -> None:
    """Persist, send, notify, wake, close: nothing is told before it is durable."""
    order = [effect for effect in get_args(Effect) if effect not in (SaveCursor, Remember)]
    assert order == [Persist, Send, Notify, WakeAt, Close]


def test_what_is_kept_comes_before_what_is_sent() -> None:
    """A cursor stands after the records that it speaks of, and before anybody hears of either."""
    order = get_args(Effect)
    assert order.index(Persist) < order.index(SaveCursor) < order.index(Remember) < order.index(Send)


def test_everything_that_is_defined_is_an_effect_or_a_notice() -> None:
    defined = {
        value
        for value in vars(effects).values()
        if isinstance(value, type) and issubclass(value, Struct) and value.__module__ == effects.__name__
    }
    assert set(get_args(Effect)) | set(get_args(Notice)) == defined


def test_a_notice_is_never_an_effect_of_its_own() -> None:
    """Whoever watches is told through ``Notify``, the peer never."""
    assert not set(get_args(Effect)) & set(get_args(Notice))

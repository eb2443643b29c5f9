"""Events are values: what each end of a link can be told."""

from typing import get_args

from bobbin.reactive import link_events
from bobbin.reactive.link_events import MirrorEvent, PublisherEvent, Sent


def test_every_event_is_for_one_of_the_two_ends() -> None:
    known = {*get_args(PublisherEvent), *get_args(MirrorEvent)}
    own = {one for one in vars(link_events).values() if getattr(one, "__module__", "") == link_events.__name__}
    assert {one for one in own if isinstance(one, type)} == known


def test_one_message_was_sent_unless_it_is_said_otherwise() -> None:
    assert Sent() == Sent(1)

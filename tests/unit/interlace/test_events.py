"""Events: the union is closed over what the module defines."""

from typing import get_args

from msgspec import Struct

from bobbin.interlace import events
from bobbin.interlace.events import Event, Fate, Now, Settled
from tests.policy_worlds import plex


def test_everything_that_can_happen_is_in_the_union() -> None:
    """A machine that handles the union handles every event there is."""
    defined = {
        value
        for value in vars(events).values()
        if isinstance(value, type) and issubclass(value, Struct) and value.__module__ == events.__name__
    }
    assert set(get_args(Event)) == defined - {Now, Settled}


def test_received_bytes_have_one_of_four_fates() -> None:
    assert {fate.value for fate in Fate} == {"stored", "duplicate", "refused", "rejected"}


def test_only_a_rejection_has_a_reason() -> None:
    assert Settled(record=plex(1), fate=Fate.STORED).reason == ""
    rejected = Settled(record=plex(1), fate=Fate.REJECTED, reason="hash-mismatch")
    assert rejected.reason == "hash-mismatch"

"""Events: the union is closed over what the module defines."""

from typing import get_args

from msgspec import Struct

from bobbin.tangles import session_events
from bobbin.tangles.errors import Rule
from bobbin.tangles.session_events import Committed, Event, OpenRuns, Refused


def test_everything_that_can_happen_is_in_the_union() -> None:
    """A session that handles the union handles every event there is."""
    defined = {
        value
        for value in vars(session_events).values()
        if isinstance(value, type) and issubclass(value, Struct) and value.__module__ == session_events.__name__
    }
    assert set(get_args(Event)) == defined - {Refused}


def test_a_refusal_names_the_rule_or_that_there_was_no_asking() -> None:
    assert Refused("m", Rule.DEPTH).rule is Rule.DEPTH
    assert Refused("m", None, "outside of what was wanted").rule is None


def test_defaults_are_the_harmless_ones() -> None:
    assert OpenRuns(()).anew is False
    assert Committed(token=1).added == ()
    assert Committed(token=1).refused == ()

"""Effects: the unions are closed over what the module defines, in the order in which a driver performs them."""

from typing import get_args

from msgspec import Struct

from bobbin.tangles import session_effects
from bobbin.tangles.session_effects import Commit, Effect, Finished, Notice, Notify, Role, Send


def test_effects_are_listed_in_the_order_of_a_step() -> None:
    """Commit, send, notify: nothing is told before it is durable."""
    assert get_args(Effect) == (Commit, Send, Notify)


def test_everything_that_is_defined_is_an_effect_or_a_notice() -> None:
    defined = {
        value
        for value in vars(session_effects).values()
        if isinstance(value, type) and issubclass(value, Struct) and value.__module__ == session_effects.__name__
    }
    assert set(get_args(Effect)) | set(get_args(Notice)) == defined


def test_a_commit_goes_by_the_rules_of_interop_unless_it_says_otherwise() -> None:
    commit = Commit(token=1, tangle="t", messages=())
    assert not commit.modern
    assert commit.newest is None


def test_a_run_of_nine_phases_claims_no_agreement() -> None:
    finished = Finished(tangle="t", role=Role.OPENER, sent=0, added=(), refused=())
    assert finished.agreed is None

"""The five families: who is to blame decides what a caller may do."""

import pytest

from bobbin import errors
from bobbin.errors import BobbinError, IntegrityError, PeerError, ProgramError, ResourceError, UsageError

FAMILIES = {UsageError, PeerError, ProgramError, IntegrityError, ResourceError}


def test_there_are_five_families_under_one_root() -> None:
    classes = {value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)}
    assert classes == FAMILIES | {BobbinError}
    assert all(family.__bases__ == (BobbinError,) for family in FAMILIES)


@pytest.mark.parametrize("family", [UsageError, ProgramError, IntegrityError])
def test_a_sentence_is_enough(family: type[BobbinError]) -> None:
    assert str(family("what is wrong")) == "what is wrong"


def test_a_peers_error_carries_the_wire_code() -> None:
    error = PeerError("bad-plan", "the plan names nobody")
    assert (error.code, str(error)) == ("bad-plan", "the plan names nobody")


@pytest.mark.parametrize("retry", [True, False])
def test_a_resource_error_says_whether_to_try_again(*, retry: bool) -> None:
    error = ResourceError("the disk is full", retry=retry)
    assert error.retry is retry
    assert str(error) == "the disk is full"

"""``tests/slow_tests.txt`` names tests that exist."""

from tests.architecture.conformance_page import why_unknown
from tests.architecture.source_tree import REPOSITORY


def test_every_test_that_is_called_slow_exists() -> None:
    lines = (REPOSITORY / "tests" / "slow_tests.txt").read_text("utf-8").splitlines()
    named = [line for line in lines if not line.startswith("#")]
    assert named == sorted(set(named))
    assert [reason for test in named if (reason := why_unknown(test)) is not None] == []

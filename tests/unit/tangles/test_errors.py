"""A rule has a name, and an error says which rule was broken."""

from bobbin.errors import IntegrityError, UsageError
from bobbin.tangles.errors import InvalidMessage, MalformedText, Rule, UnknownMessage


def test_an_invalid_message_names_its_rule() -> None:
    error = InvalidMessage(Rule.DEPTH, "7 after 5")
    assert error.rule is Rule.DEPTH
    assert str(error) == "tangle: depth is not max prev depth + 1: 7 after 5"
    assert str(InvalidMessage(Rule.SIGNATURE)) == "signature invalid"


def test_the_families() -> None:
    assert issubclass(InvalidMessage, IntegrityError)
    assert issubclass(MalformedText, IntegrityError)
    assert issubclass(UnknownMessage, UsageError)


def test_no_two_rules_share_a_name() -> None:
    assert len({rule.value for rule in Rule}) == len(list(Rule))

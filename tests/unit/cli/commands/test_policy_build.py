"""``bobbin policy build``."""

import pytest

from bobbin.policy import builder
from bobbin.policy.check import identify
from tests.unit.cli.command_line import AT, VERIFIER, Cli
from tests.unit.cli.policy_texts import PEER


def test_conditions_become_rules(cli: Cli) -> None:
    answer = cli(
        "policy", "build", "-g", "u", "-g", "v", "-a", "ding", "--name-prefix", "links/", "--signer", VERIFIER,
        "--signer", PEER, "--after", AT, "--before", "1740995200:000000000", "--last", "60", "--json",
    )  # fmt: skip
    expected = builder.write(
        builder.select(
            builder.group("u", "v"),
            builder.app("ding"),
            builder.name_prefix("links/"),
            builder.signer(VERIFIER, PEER),
            builder.after(AT),
            builder.before("1740995200:000000000"),
            builder.last(60),
        )
    )
    assert answer.json == {"identifier": identify(expected), "text": expected}


def test_without_conditions_every_record_is_meant(cli: Cli) -> None:
    answer = cli("policy", "build")
    assert answer.lines == ["SelectHave(P) :- Have(P).", "SelectAdvertised(P,S) :- Advertised(P,S)."]


@pytest.mark.parametrize(
    "condition", [("--signer", "somebody"), ("--after", "now"), ("--last", "0"), ("--name-prefix", "")]
)
def test_conditions_that_mean_nothing_are_code_2(cli: Cli, condition: tuple[str, str]) -> None:
    answer = cli("policy", "build", *condition)
    assert (answer.code, answer.out) == (2, b"")


@pytest.mark.parametrize(
    ("conditions", "words"),
    [
        (("-g", ""), "an empty group is no condition"),
        (("-a", ""), "an empty app is no condition"),
        (("-g", "u", "-g", "v", "-g", "u"), "the group 'u' is named twice"),
        (("--signer", VERIFIER, "--signer", VERIFIER), "is named twice"),
        (("-g", "a//b"), "the group 'a//b' is not a path"),
        (("--name-prefix", "/links"), "no name begins like this"),
        (("--after", "1740995200:000000000", "--before", AT), "nothing would be selected"),
        (("--name-prefix", "a", "--name-prefix", "b"), "--name-prefix is given 2 times"),
        (("-g", "u", "out.policy"), "out.policy"),
    ],
)
def test_what_would_select_nothing_is_refused_with_a_reason(cli: Cli, conditions: tuple[str, ...], words: str) -> None:
    answer = cli("policy", "build", *conditions)
    assert (answer.code, answer.out) == (2, b"")
    assert words in answer.err


def test_times_in_utc_become_tai_and_both_are_shown(cli: Cli) -> None:
    utc = cli("policy", "build", "--after", "2021-12-31T23:59:23Z", "--before", "2022-01-01T00:00:00Z")
    assert utc.text == cli("policy", "build", "--after", AT, "--before", "1640995237:000000000").text
    assert utc.err.splitlines() == [
        f"after {AT} (TAI) is 2021-12-31T23:59:23Z",
        "before 1640995237:000000000 (TAI) is 2022-01-01T00:00:00Z",
    ]

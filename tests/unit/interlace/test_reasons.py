"""Reasons: every row of the error table has its code, and the layers below use the same words."""

import re
from pathlib import Path

import pytest

import bobbin
from bobbin.errors import PeerError
from bobbin.facts import block
from bobbin.interlace.reasons import Abort, LimitReached, Reason
from bobbin.policy import modules, operands, plan

_ABORTING = (
    "peer verifier mismatch",
    "exchange plan identifier mismatch",
    "unsupported record format",
    "unsupported advertisement field schema",
    "malformed fact block",
    "malformed exchange module",
    "exchange-plan compilation failure",
    "malformed prepared policy",
    "malformed partition summary",
    "advertisement list root mismatch",
    "phase timeout",
    "oversized fact block",
    "transfer limit exceeded",
)
"""The rows of the error table that end a round, but one whose code is shorter than its condition."""


def test_every_row_of_the_error_table_has_its_code() -> None:
    """IL-264: the set of reasons is closed and complete."""
    codes = {reason.value for reason in Reason}
    assert {row.replace(" ", "-") for row in _ABORTING} | {"record-response-without-request"} <= codes
    assert len(_ABORTING) == 13


def test_what_does_not_end_a_round_is_no_reason() -> None:
    """A rejected record and one that is not available are answers, and the round goes on."""
    assert not [reason for reason in Reason if "validation" in reason.value or "available" in reason.value]


def test_codes_are_plain_words_and_unique() -> None:
    assert len({reason.value for reason in Reason}) == len(Reason.__members__)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)+|cancelled", reason.value) for reason in Reason)


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        (Reason.MALFORMED_BLOCK, block.MALFORMED),
        (Reason.OVERSIZED_BLOCK, block.OVERSIZED),
        (Reason.MALFORMED_MODULE, modules.MALFORMED_MODULE),
        (Reason.PLAN_COMPILATION, plan.COMPILATION_FAILURE),
        (Reason.PLAN_COMPILATION, operands.MALFORMED_OPERAND),
        (Reason.PLAN_MISMATCH, plan.IDENTIFIER_MISMATCH),
    ],
)
def test_an_error_of_a_lower_layer_has_the_code_of_a_reason(reason: Reason, code: str) -> None:
    assert Reason(code) is reason


def test_ilc_079_a_malformed_prepared_policy_is_never_raised() -> None:
    """ILC-079, IL-264: its name stands nowhere but in the enumeration."""
    name = "MALFORMED_PREPARED_POLICY"
    source = Path(bobbin.__file__).parent
    users = [path.name for path in source.rglob("*.py") if name in path.read_text(encoding="utf-8")]
    assert users == ["reasons.py"]
    assert Reason[name].value == "malformed-prepared-policy"


def test_an_abort_is_the_peers_doing_and_has_the_code() -> None:
    error = Abort(Reason.ROOT_MISMATCH, "the partition ab")
    assert isinstance(error, PeerError)
    assert (error.reason, error.code, str(error)) == (
        Reason.ROOT_MISMATCH,
        "advertisement-list-root-mismatch",
        "the partition ab",
    )


def test_a_limit_that_was_reached_is_named() -> None:
    error = LimitReached(Reason.LOOP_LIMIT, "max_loop_iterations", "sixteen loops")
    assert (error.reason, error.limit, error.code) == (
        Reason.LOOP_LIMIT,
        "max_loop_iterations",
        "loop-iteration-limit",
    )

import pytest

from bobbin.facts import block
from bobbin.facts.extract import Fact
from bobbin.policy.operands import (
    MalformedOperand,
    Operand,
    Origin,
    OriginError,
    anonymous_origin,
    is_verifier,
    label_origin,
    operand_fact,
    other,
    own_index,
    parse_origin,
    read_operand,
)
from tests.policy_worlds import ALICE, BOB, DING_IDENTIFIER

_A, _B = Origin(ALICE), Origin(BOB)
_LABEL = label_origin("x")


@pytest.mark.parametrize("text", [ALICE, BOB, "source:0", "source:é", "source:local", f"source:{ALICE}", "source: "])
def test_origins(text: str) -> None:
    assert parse_origin(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "local",
        "",
        "alice",
        "source:",
        "source",
        "source:a\nb",
        "source:\x7f",
        "source:e\u0301",
        "source:\ud800",
        f"source:{'x' * 4096}",
        ALICE[:-3],
        ALICE.replace("V.", "P.", 1),
        ALICE[:-4] + "1.H3",
        f" {ALICE}",
    ],
)
def test_what_is_no_origin(text: str) -> None:
    with pytest.raises(OriginError):
        parse_origin(text)


def test_a_label_spelled_like_a_verifier_is_no_verifier() -> None:
    assert is_verifier(_A)
    assert not is_verifier(parse_origin(f"source:{ALICE}"))


def test_the_smaller_verifier_is_operand_zero_whoever_dialled() -> None:
    assert BOB < ALICE
    for initiator in (True, False):
        assert own_index(_B, _A, initiator=initiator) == 0
        assert own_index(_A, _B, initiator=initiator) == 1


@pytest.mark.parametrize(("own", "peer"), [(_A, _A), (_LABEL, _A), (_A, _LABEL), (_LABEL, _LABEL)])
def test_otherwise_the_initiator_is_operand_zero(own: Origin, peer: Origin) -> None:
    assert own_index(own, peer, initiator=True) == 0
    assert own_index(own, peer, initiator=False) == 1


def test_both_sides_number_alike() -> None:
    for own, peer in ((_A, _B), (_A, _LABEL), (_LABEL, label_origin("y"))):
        mine = own_index(own, peer, initiator=True)
        assert own_index(peer, own, initiator=False) == other(mine)


def test_anonymous_origins_go_by_index() -> None:
    assert (anonymous_origin(0), anonymous_origin(1)) == ("source:0", "source:1")


def test_the_operand_fact_has_the_published_shape() -> None:
    operand = Operand(module=DING_IDENTIFIER, origin=_A)
    fact = operand_fact(0, operand)
    assert fact == ("ExchangeOperand", ("0", DING_IDENTIFIER, ALICE, "selector"))
    assert read_operand(fact) == (0, operand)


@pytest.mark.parametrize(
    "fact",
    [
        ("ExchangePlan", ("0", DING_IDENTIFIER, ALICE, "selector")),
        ("ExchangeOperand", ("0", DING_IDENTIFIER, ALICE)),
        ("ExchangeOperand", ("0", DING_IDENTIFIER, ALICE, "selector", "x")),
        ("ExchangeOperand", ("2", DING_IDENTIFIER, ALICE, "selector")),
        ("ExchangeOperand", ("00", DING_IDENTIFIER, ALICE, "selector")),
        ("ExchangeOperand", ("", DING_IDENTIFIER, ALICE, "selector")),
        ("ExchangeOperand", ("0", "R.GROUP_X", ALICE, "selector")),
        ("ExchangeOperand", ("0", f"{DING_IDENTIFIER}.H3", ALICE, "selector")),
        ("ExchangeOperand", ("0", DING_IDENTIFIER[:-1] + "1", ALICE, "selector")),
        ("ExchangeOperand", ("0", "E" + DING_IDENTIFIER[1:], ALICE, "selector")),
        ("ExchangeOperand", ("0", DING_IDENTIFIER, "local", "selector")),
        ("ExchangeOperand", ("0", DING_IDENTIFIER, "V.alice.H3", "selector")),
        ("ExchangeOperand", ("0", DING_IDENTIFIER, ALICE, "query")),
        ("ExchangeOperand", ("0", DING_IDENTIFIER, ALICE, "Selector")),
    ],
)
def test_a_peers_operand_that_is_none(fact: Fact) -> None:
    with pytest.raises(MalformedOperand) as refused:
        read_operand(fact)
    assert refused.value.code == "exchange-plan-compilation-failure"


def test_the_operand_line_of_the_protocol_page() -> None:
    """IL-088. Its identifiers are placeholders, so only the shape of the line is checked."""
    symbolic = Operand(module="R.GROUP_X", origin=Origin("V.alice.H3"))
    line = b"ExchangeOperand('0','R.GROUP_X','V.alice.H3','selector')\n"
    assert block.render([operand_fact(0, symbolic)]) == line

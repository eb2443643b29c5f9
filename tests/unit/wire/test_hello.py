"""Setup and hello blocks: what they may say, how often, and in which order."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.errors import PeerError
from bobbin.facts import block
from bobbin.interlace.limits import NAMES
from bobbin.interlace.messages import Hello, Setup
from bobbin.interlace.reasons import Reason
from bobbin.interlace.schema import Schema
from bobbin.policy.operands import Operand, Origin
from bobbin.wire import hello
from bobbin.wire.elements import Resource
from tests.policy_worlds import ALICE, BOB, DING_IDENTIFIER
from tests.unit.wire.streams import MODULE, PLAN, PLAN_BYTES, SOURCE, hellos

EXAMPLE = (
    f"HelloExchangePlan('{PLAN}')\n"
    f"HelloSigner('{ALICE}')\n"
    "HelloTAI('1640995200:000000000')\n"
    "HelloTickInterval('10000000000')\n"
    "HelloRecordFormat('H3')\n"
    "HelloAdvertisedField('Type')\n"
    "HelloAdvertisedField('Group')\n"
    "HelloAdvertisedField('App')\n"
    "HelloAdvertisedField('Signed-By')\n"
    "HelloLimit('max_total_transferred_bytes','1073741824')\n"
)
SMALLEST = "".join(EXAMPLE.splitlines(keepends=True)[i] for i in (0, 2, 3, 4))


def read(text: str, resource: Resource | None = None) -> Hello:
    return hello.read_hello(block.parse(text.encode()), resource)


def refusal(text: str, resource: Resource | None = None) -> str:
    with pytest.raises(PeerError) as refused:
        read(text, resource)
    return refused.value.code


# ---- setup ----------------------------------------------------------------------------------------------------------


def setup(text: str, resource: Resource | None = None) -> Setup:
    return hello.read_setup(block.parse(text.encode()), resource)


OPERAND = f"ExchangeOperand('0','{DING_IDENTIFIER}','{ALICE}','selector')\n"


def test_a_setup_with_and_without_module() -> None:
    """IL-081, IL-087, IL-088."""
    operand = Operand(module=DING_IDENTIFIER, origin=SOURCE)
    assert setup(OPERAND) == Setup(index=0, operand=operand)
    module = Resource(identifier=DING_IDENTIFIER, raw=MODULE)
    assert setup(OPERAND, module) == Setup(index=0, operand=operand, module=MODULE)
    assert block.render(hello.setup_facts(setup(OPERAND))) == OPERAND.encode()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", Reason.MALFORMED_BLOCK),
        (OPERAND * 2, Reason.MALFORMED_BLOCK),
        (OPERAND + OPERAND.replace("'0'", "'1'"), Reason.MALFORMED_BLOCK),
        (OPERAND + "TickReady('1640995200:000000000')\n", Reason.OUT_OF_PHASE),
        (OPERAND + "HelloTAI('1640995200:000000000')\n", Reason.OUT_OF_PHASE),
        (OPERAND + "Unknown()\n", Reason.MALFORMED_BLOCK),
        (OPERAND.replace("'0'", "'2'"), Reason.PLAN_COMPILATION),
        (OPERAND.replace("'0'", "'00'"), Reason.PLAN_COMPILATION),
        (OPERAND.replace("selector", "query"), Reason.PLAN_COMPILATION),
        (OPERAND.replace(f"'{ALICE}'", "'local'"), Reason.PLAN_COMPILATION),
        (OPERAND.replace(f",'{ALICE}'", ""), Reason.PLAN_COMPILATION),
        (OPERAND.replace(DING_IDENTIFIER, "R.GROUP_X"), Reason.PLAN_COMPILATION),
    ],
)
def test_a_setup_is_one_operand(text: str, reason: Reason) -> None:
    """IL-080, IL-081, IL-082, IL-084, IL-120, ILC-142."""
    with pytest.raises(PeerError) as refused:
        setup(text)
    assert refused.value.code == reason


def test_the_module_of_a_setup_is_the_one_that_it_names() -> None:
    """IL-087, ILC-091."""
    with pytest.raises(PeerError) as refused:
        setup(OPERAND, Resource(identifier="R." + PLAN[2:], raw=b"x"))
    assert refused.value.code == Reason.MALFORMED_MODULE


# ---- hello ----------------------------------------------------------------------------------------------------------


def test_the_example_of_the_protocol_page() -> None:
    """IL-090, IL-091, IL-092, IL-093, IL-094, IL-095, IL-097, IL-098."""
    assert read(EXAMPLE) == Hello(
        plan=PLAN,
        tai="1640995200:000000000",
        tick_interval_ns=10_000_000_000,
        formats=frozenset({"H3"}),
        schema=Schema(names=frozenset({"Type", "Group", "App", "Signed-By"})),
        signer=ALICE,
        limits={"max_total_transferred_bytes": 1_073_741_824},
    )


def test_the_lines_of_a_hello_have_no_order() -> None:
    """ILC-114."""
    lines = SMALLEST.splitlines(keepends=True)
    for order in permutations(lines):
        assert read("".join(order)) == read(SMALLEST)


@given(hellos(), st.randoms(use_true_random=False))
def test_a_hello_is_read_back_in_any_order(message: Hello, random: object) -> None:
    """ILC-114."""
    facts = list(hello.hello_facts(message))
    random.shuffle(facts)  # type: ignore[attr-defined]
    resource = None if message.plan_bytes is None else Resource(identifier=message.plan, raw=message.plan_bytes)
    assert hello.read_hello(facts, resource) == message


@pytest.mark.parametrize("missing", range(4))
def test_what_a_hello_must_have(missing: int) -> None:
    """ILC-114, IL-137."""
    lines = SMALLEST.splitlines(keepends=True)
    del lines[missing]
    assert refusal("".join(lines)) == Reason.MALFORMED_BLOCK
    assert refusal("") == Reason.MALFORMED_BLOCK


@pytest.mark.parametrize(
    "added",
    [
        f"HelloExchangePlan('E.{'0' * 43}')\n",
        "HelloTAI('1640995200:000000001')\n",
        "HelloTickInterval('1')\n",
        f"HelloSigner('{ALICE}')\nHelloSigner('{BOB}')\n",
    ],
)
def test_what_a_hello_has_once(added: str) -> None:
    """ILC-114."""
    assert refusal(SMALLEST + added) == Reason.MALFORMED_BLOCK


@pytest.mark.parametrize("line", [*EXAMPLE.splitlines(keepends=True), "HelloAllAdvertisedFields()\n"])
def test_no_line_stands_twice(line: str) -> None:
    """ILC-115."""
    text = EXAMPLE if line in EXAMPLE else EXAMPLE + line
    assert refusal(text + line) == Reason.MALFORMED_BLOCK


@pytest.mark.parametrize("line", ["HelloNew('x')\n", "Unknown()\n", "HelloTAI()\n", "HelloLimit('x')\n", "Hello()\n"])
def test_no_line_is_unknown(line: str) -> None:
    """ILC-115."""
    assert refusal(SMALLEST + line) == Reason.MALFORMED_BLOCK


@pytest.mark.parametrize(
    "line", ["TickReady('1640995200:000000000')\n", "KnotProof('a','b')\n", OPERAND, "MayRequest('x')\n"]
)
def test_no_line_is_of_another_phase(line: str) -> None:
    """ILC-095, ILC-098, ILC-142."""
    assert refusal(SMALLEST + line) == Reason.OUT_OF_PHASE


def test_a_limit_has_one_value() -> None:
    """ILC-115: whether or not its name is known."""
    for name in ("phase_timeout", "anything"):
        two = f"HelloLimit('{name}','1')\nHelloLimit('{name}','2')\n"
        assert refusal(SMALLEST + two) == Reason.MALFORMED_BLOCK


def test_all_fields_with_names_are_all_fields() -> None:
    """ILC-116, IL-096."""
    both = read(EXAMPLE + "HelloAllAdvertisedFields()\n")
    assert both.schema == Schema(all=True)
    assert read(SMALLEST + "HelloAllAdvertisedFields()\n").schema == Schema(all=True)


@pytest.mark.parametrize("name", NAMES)
def test_every_limit_by_its_name(name: str) -> None:
    """ILC-117, IL-097."""
    assert read(SMALLEST + f"HelloLimit('{name}','30')\n").limits == {name: 30}


def test_an_unknown_limit_is_of_no_consequence() -> None:
    """ILC-117, IL-143."""
    assert read(SMALLEST + "HelloLimit('max_moons','3')\nHelloLimit('phase_timeout','7')\n").limits == {
        "phase_timeout": 7
    }


@pytest.mark.parametrize("name", ["phase_timeout", "anything"])
@pytest.mark.parametrize("value", ["", "0", "00", "01", "+1", "-1", "1.0", "1e3", str(2**64), "1" * 21])
def test_the_range_of_a_limit(name: str, value: str) -> None:
    """ILC-109, ILC-138, IL-145: a bad value fails the negotiation, also under a name that is not known."""
    assert refusal(SMALLEST + f"HelloLimit('{name}','{value}')\n") == Reason.NEGOTIATION


@pytest.mark.parametrize("value", [1, 2**64 - 1])
def test_the_ends_of_the_range_of_a_limit(value: int) -> None:
    """ILC-138."""
    assert read(SMALLEST + f"HelloLimit('phase_timeout','{value}')\n").limits == {"phase_timeout": value}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (PLAN, "R" + PLAN[1:]),
        (PLAN, PLAN + ".H3"),
        (PLAN, PLAN[:-1]),
        (PLAN, "E.EXAMPLE"),
        ("'1640995200:000000000'", "'1640995200'"),
        ("'10000000000'", "'1s'"),
        ("'10000000000'", "'010'"),
        ("'10000000000'", f"'{2**64}'"),
        ("'H3'", "'h3'"),
        ("'H3'", "''"),
    ],
)
def test_the_values_of_a_hello_are_well_formed(old: str, new: str) -> None:
    """ILC-109, IL-090, IL-092, IL-093, IL-142."""
    assert refusal(SMALLEST.replace(old, new)) == Reason.MALFORMED_BLOCK


@pytest.mark.parametrize(
    "line",
    [
        "HelloSigner('alice')\n",
        f"HelloSigner('P{ALICE[1:]}')\n",
        "HelloAdvertisedField('')\n",
        "HelloAdvertisedField('a\\tb')\n",
    ],
)
def test_signers_and_names_are_well_formed(line: str) -> None:
    """IL-091, IL-095."""
    assert refusal(SMALLEST + line) == Reason.MALFORMED_BLOCK


def test_every_format_and_name_is_kept() -> None:
    """IL-094, IL-095."""
    said = read(SMALLEST + "HelloRecordFormat('H4')\nHelloAdvertisedField('A')\nHelloAdvertisedField('B')\n")
    assert said.formats == {"H3", "H4"}
    assert said.schema.names == {"A", "B"}


def test_the_plan_of_a_hello_is_the_one_that_it_names() -> None:
    """IL-136, ILC-091."""
    assert read(SMALLEST, Resource(identifier=PLAN, raw=PLAN_BYTES)).plan_bytes == PLAN_BYTES
    assert refusal(SMALLEST, Resource(identifier=DING_IDENTIFIER, raw=MODULE)) == Reason.PLAN_MISMATCH


def test_a_label_is_an_origin() -> None:
    assert setup(OPERAND.replace(ALICE, "source:0")).operand.origin == Origin("source:0")


def test_the_capability_for_sketches_is_a_limit_with_another_name() -> None:
    said = read(f"{SMALLEST}HelloLimit('bobbin_reconcile_1','77')\nHelloLimit('somebody_elses','5')\n")
    assert said.reconcile == 77
    assert said.limits == {}
    lines = block.render(hello.hello_facts(said)).decode()
    assert lines == f"{SMALLEST}HelloLimit('bobbin_reconcile_1','77')\n"
    assert read(SMALLEST).reconcile is None


@pytest.mark.parametrize("value", ["0", "-1", "x", "18446744073709551616"])
def test_a_capability_has_a_share_that_can_be(value: str) -> None:
    assert refusal(f"{SMALLEST}HelloLimit('bobbin_reconcile_1','{value}')\n") == Reason.NEGOTIATION

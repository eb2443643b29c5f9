"""docs/protocols/transactions.md shows the tables of the machines as they are. ``make rewrite`` draws them anew."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from bobbin.cluster.conflicts.classify import ACTIONS, ConflictClass, Thresholds
from bobbin.cluster.settings import DistributedTxConfig
from bobbin.cluster.transactions.effects import Mistake
from bobbin.cluster.transactions.messages import ShardMessage
from bobbin.cluster.transactions.phases import COORDINATOR, PARTICIPANT, Ended, Standing, TxPhase

_PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "protocols" / "transactions.md"


def _diagram(ways: list[tuple[str, str, str]]) -> str:
    lines = [f"    {was} --> {after}: {why}" if why else f"    {was} --> {after}" for was, after, why in ways]
    return "\n".join(["```mermaid", "stateDiagram-v2", *lines, "```"]) + "\n"


def draw_coordinator() -> str:
    """The ways between phases; nothing leaves the last ones but the end."""
    ways = [("[*]" if was is None else was.value, after.value, why) for (was, after), why in COORDINATOR.items()]
    return _diagram([*ways, *((phase.value, "[*]", "") for phase in TxPhase if phase.is_terminal)])


def draw_participant() -> str:
    """The ways of a part. Mermaid takes no hyphens in names."""
    left = {was for was, _ in PARTICIPANT}
    ways = [(was.value, after.value, why) for (was, after), why in PARTICIPANT.items()]
    ends = [(standing.value, "[*]", "") for standing in Standing if standing not in left]
    start = ("[*]", Standing.IDLE.value, "")
    return _diagram(
        [(was.replace("-", "_"), after.replace("-", "_"), why) for was, after, why in (start, *ways, *ends)]
    )


def draw_settings() -> str:
    """A row for each setting."""
    config = DistributedTxConfig()
    rows = [f"| `{name}` | {_spelled(getattr(config, name))} |" for name in config.__struct_fields__]
    return "\n".join(["| setting | default |", "|---|---|", *rows]) + "\n"


def draw_classes() -> str:
    """The tests in their order, with the thresholds that are in force."""
    at = Thresholds()
    when = {
        ConflictClass.IDENTICAL: f"c ≥ {at.identical}, all keys shared",
        ConflictClass.OPPOSITE: f"c ≤ {at.opposite}, all keys shared",
        ConflictClass.ORTHOGONAL: f"\\|c\\| < {at.orthogonal} and j < {at.structural}",
        ConflictClass.CONFLICTING: f"c ≥ {at.conflicting}, or j ≥ {at.structural}",
        ConflictClass.AMBIGUOUS: "a key is shared",
        ConflictClass.LOW_CONFLICT: "whatever remains",
    }
    rows = [f"| `{one.value}` | {when[one]} | `{ACTIONS[one].value}` |" for one in ConflictClass]
    return "\n".join(["| class | when | its action |", "|---|---|---|", *rows]) + "\n"


def _spelled(value: object) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:,}"


_DRAWINGS: dict[str, Callable[[], str]] = {
    "coordinator": draw_coordinator,
    "participant": draw_participant,
    "settings": draw_settings,
    "classes": draw_classes,
}


@pytest.mark.parametrize("name", sorted(_DRAWINGS))
def test_the_page_shows_the_tables(name: str, request: pytest.FixtureRequest) -> None:
    page = _PAGE.read_text(encoding="utf-8")
    block = re.compile(rf"(<!-- drawn: {name} -->\n)(.*?)(<!-- end -->\n)", flags=re.DOTALL)
    found = block.search(page)
    assert found is not None
    drawn = f"\n{_DRAWINGS[name]()}\n"
    if request.config.getoption("--rewrite"):
        _PAGE.write_text(block.sub(lambda match: match[1] + drawn + match[3], page), encoding="utf-8")
        return
    assert found[2] == drawn, "the page does not show the tables of the machines; `make rewrite` draws them"


def test_the_page_names_every_message_mistake_answer_and_setting() -> None:
    page = _PAGE.read_text(encoding="utf-8")
    for message in get_args(ShardMessage):
        assert f"| `{message.__name__}` |" in page
    for mistake in Mistake:
        assert f"| `{mistake.value}` |" in page
    for ended in Ended:
        assert f"| `{ended.value}` |" in page
    for name in DistributedTxConfig.__struct_fields__:
        assert f"`{name}`" in page

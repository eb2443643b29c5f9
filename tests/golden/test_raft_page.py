"""docs/protocols/raft.md shows the tables of the machine as they are. ``make rewrite`` draws them anew."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from bobbin.cluster.raft.effects import Role
from bobbin.cluster.raft.messages import RaftMessage
from bobbin.cluster.raft.state import TRANSITIONS
from bobbin.cluster.settings import PRESETS, RaftConfig

_PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "protocols" / "raft.md"


def draw_roles() -> str:
    """The ways between roles, as a diagram."""
    ways = [f"    {role.value} --> {after.value}" for role in Role for after in TRANSITIONS[role] if after is not role]
    return "\n".join(["```mermaid", "stateDiagram-v2", f"    [*] --> {Role.FOLLOWER.value}", *ways, "```"]) + "\n"


def draw_settings() -> str:
    """A row for each setting, with its value in every preset."""
    rows = [f"| setting | {' | '.join(f'`{name}`' for name in PRESETS)} |", f"|---|{'---|' * len(PRESETS)}"]
    for name in RaftConfig.__struct_fields__:
        values = [_spelled(getattr(preset, name)) for preset in PRESETS.values()]
        rows.append(f"| `{name}` | {' | '.join(values)} |")
    return "\n".join(rows) + "\n"


def _spelled(value: object) -> str:
    if isinstance(value, tuple):
        return " to ".join(map(_spelled, value))
    if isinstance(value, bool):
        return "on" if value else "off"
    return "none" if value is None else f"{value:,}"


_DRAWINGS: dict[str, Callable[[], str]] = {"roles": draw_roles, "settings": draw_settings}


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
    assert found[2] == drawn, "the page does not show the tables of the machine; `make rewrite` draws them"


def test_the_page_names_every_message_and_setting() -> None:
    page = _PAGE.read_text(encoding="utf-8")
    for message in get_args(RaftMessage):
        assert f"| `{message.__name__}` |" in page
    for name in RaftConfig.__struct_fields__:
        assert f"`{name}`" in page

"""docs/protocols/interlace.md shows the tables of the machine as they are. ``make rewrite`` draws them anew."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from bobbin.interlace import state
from bobbin.interlace.limits import LARGE, NAMES, Limits
from bobbin.interlace.messages import Message
from bobbin.interlace.state import AWAITS, MAY_COME, NEXT, Phase

_PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "protocols" / "interlace.md"


def _words(phase: Phase) -> str:
    """What a phase means, from the text under its name in the source."""
    source = Path(state.__file__).read_text(encoding="utf-8")
    found = re.search(rf'^    {phase.name} = "{phase}"\n    """(.+?)"""$', source, flags=re.MULTILINE)
    return "" if found is None else found[1]


def draw_phases() -> str:
    """A row for each phase: what it means, what may come, and what may follow."""
    rows = ["| phase | | reads as | may come | may be followed by |", "|---|---|---|---|---|"]
    for phase in Phase:
        comes = ", ".join(f"`{message.__name__}`" for message in MAY_COME[phase]) or "nothing"
        follows = ", ".join(f"`{after}`" for after in NEXT[phase]) or "nothing"
        rows.append(f"| `{phase}` | {_words(phase)} | {AWAITS[phase]} | {comes} | {follows} |")
    return "\n".join(rows) + "\n"


def draw_diagram() -> str:
    """The ways between phases, as a diagram."""
    names = {phase: phase.replace("-", "_") for phase in Phase}
    ways = [f"    {names[phase]} --> {names[after]}" for phase in Phase for after in NEXT[phase]]
    return "\n".join(["```mermaid", "stateDiagram-v2", f"    [*] --> {names[Phase.READY]}", *ways, "```"]) + "\n"


_DRAWINGS: dict[str, Callable[[], str]] = {"phases": draw_phases, "diagram": draw_diagram}


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
    assert found[2] == drawn, "the page does not show the tables of interlace/state.py; `make rewrite` draws them"


def test_the_page_names_every_message_and_limit() -> None:
    page = _PAGE.read_text(encoding="utf-8")
    for message in get_args(Message):
        assert f"| `{message.__name__}` |" in page
    for name in NAMES:
        row = re.search(rf"^\| `{name}` \| (.+) \| (.+) \|$", page, flags=re.MULTILINE)
        assert row is not None, name
        assert (_spelled(row[1]), _spelled(row[2])) == (getattr(Limits(), name), getattr(LARGE, name)), name


def _spelled(text: str) -> int:
    number, _, unit = text.partition(" ")
    return int(number.replace(",", "")) * {"": 1, "s": 1, "MiB": 1024**2, "GiB": 1024**3}[unit]

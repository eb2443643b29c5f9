"""docs/node.md shows every setting as the schema has it. ``make rewrite`` draws the tables anew."""

import re
from pathlib import Path

import pytest
from msgspec import Struct

from bobbin.config.node import NodeTable
from bobbin.config.peers import PeersTable
from bobbin.config.schema import rows

_PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "node.md"
_SCHEMAS: dict[str, type[Struct]] = {"node settings": NodeTable, "peers settings": PeersTable}


def _draw(schema: type[Struct]) -> str:
    """A row for each setting. Single limits are those of the interlace page and have their rows there."""
    lines = ["| setting | is | default | |", "|---|---|---|---|"]
    lines += [
        f"| `{row.key}` | {row.kind} | {row.default or 'must be given'} | {row.description} |"
        for row in rows(schema)
        if ".limits." not in row.key
    ]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", sorted(_SCHEMAS))
def test_the_page_shows_every_setting(name: str, request: pytest.FixtureRequest) -> None:
    page = _PAGE.read_text(encoding="utf-8")
    block = re.compile(rf"(<!-- drawn: {name} -->\n)(.*?)(<!-- end -->\n)", flags=re.DOTALL)
    found = block.search(page)
    assert found is not None
    drawn = f"\n{_draw(_SCHEMAS[name])}\n"
    if request.config.getoption("--rewrite"):
        _PAGE.write_text(block.sub(lambda match: match[1] + drawn + match[3], page), encoding="utf-8")
        return
    assert found[2] == drawn, "the page does not show the settings as they are; `make rewrite` draws them"


@pytest.mark.parametrize("name", sorted(_SCHEMAS))
def test_every_setting_of_the_page_is_described(name: str) -> None:
    silent = [row.key for row in rows(_SCHEMAS[name]) if not row.description and ".limits." not in row.key]
    assert silent == []

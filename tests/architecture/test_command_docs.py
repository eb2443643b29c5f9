"""The documentation knows every command of the command line, and names none that does not exist."""

import importlib
import importlib.util
import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from tests.architecture.source_tree import REPOSITORY

_PAGE = REPOSITORY / "docs" / "cli.md"


def _leaves(command: Any, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:  # noqa: ANN401 -- click's own class
    children = getattr(command, "commands", None)
    if not children:
        yield path
        return
    for name, child in children.items():
        if not child.hidden:
            yield from _leaves(child, (*path, name))


def _group(name: str) -> dict[str, Any]:
    """The commands of a group, by their names."""
    children: dict[str, Any] = typer.main.get_command(importlib.import_module("bobbin.cli").app).commands  # type: ignore[attr-defined]
    return dict(children[name].commands)


def _commands() -> set[str]:
    found = importlib.util.find_spec("bobbin.cli")
    if found is None or found.origin is None:
        pytest.skip("there is no command line yet")
    app = importlib.import_module("bobbin.cli").app
    return {" ".join(path) for path in _leaves(typer.main.get_command(app), ("bobbin",))}


def test_every_command_is_documented() -> None:
    commands = _commands()
    page = _PAGE.read_text(encoding="utf-8")
    assert sorted(command for command in commands if not re.search(rf"\b{re.escape(command)}\b", page)) == []


def test_every_documented_command_exists() -> None:
    """Headings of the page that start with `bobbin` name commands or groups of commands."""
    commands = _commands()
    known = {command.rpartition(" ")[0] for command in commands} | commands
    headings = re.findall(r"^#+ +`?(bobbin(?: [a-z][a-z-]*)+)", _PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert sorted(set(headings) - known) == []


def test_the_page_about_the_chain_has_every_command_and_option_of_it() -> None:
    page = (REPOSITORY / "docs" / "chain.md").read_text(encoding="utf-8")
    commands = _group("chain")
    assert len(commands) > 5
    wanted = {f"`bobbin chain {name} DIR" for name in commands}
    for command in commands.values():
        wanted |= {f"`{name}" for one in command.params for name in one.opts if name.startswith("--")}
    assert sorted(text for text in wanted - {"`--help"} if text not in page) == []

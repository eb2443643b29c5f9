"""The tree of commands: every one has help, an example and ``--json``."""

from typing import Any

import pytest
import typer

import bobbin
from bobbin.cli.app import app
from bobbin.cli.entry import run

_ROOT: Any = typer.main.get_command(app)


def _leaves(command: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:  # noqa: ANN401 -- typer's own class
    children = getattr(command, "commands", None)
    if not children:
        return {path: command}
    return {name: leaf for key, child in children.items() for name, leaf in _leaves(child, (*path, key)).items()}


_COMMANDS = _leaves(_ROOT)


def test_the_commands_are_those_that_were_promised() -> None:
    assert {" ".join(path) for path in _COMMANDS} >= {
        "init", "key new", "key show", "key list", "put", "get", "list", "show", "import", "export", "verify", "fsck",
        "stat", "remove", "lift", "refusals", "quarantine list", "quarantine show", "quarantine release", "backup",
        "compact", "facts", "sign",
    }  # fmt: skip


@pytest.mark.parametrize("path", _COMMANDS, ids=" ".join)
def test_every_command_has_json_and_an_example_and_each_option_a_word(path: tuple[str, ...]) -> None:
    command = _COMMANDS[path]
    assert any("--json" in parameter.opts for parameter in command.params)
    assert "Example" in command.help
    assert f"bobbin {' '.join(path)}" in command.help
    assert [parameter.name for parameter in command.params if not parameter.help] == []


@pytest.mark.parametrize("path", [(), ("key",), ("quarantine",), *_COMMANDS], ids=" ".join)
def test_every_help_page_can_be_shown(path: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*path, "--help"]) == 0
    assert "Usage: bobbin" in capsys.readouterr().out


def test_help_groups_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    run(["--help"])
    shown = capsys.readouterr().out
    places = [shown.index(f" {panel} ─") for panel in ("Start", "Records", "In and out", "Care")]
    assert places == sorted(places)


def test_the_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"bobbin {bobbin.__version__}\n"

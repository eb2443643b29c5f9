"""``bobbin policy fmt``."""

from pathlib import Path

import pytest

from tests.unit.cli.command_line import Cli

UGLY = b"# first\n\n\n\nSelectHave(P):-Have(P) ,\n  Field(P,'App',_,'x').   # why\n"
NEAT = b"# first\n\nSelectHave(P) :- Have(P), Field(P,'App',_,'x').  # why\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "x.policy"
    path.write_bytes(UGLY)
    path.chmod(0o640)
    return path


def test_the_layout_is_printed_and_nothing_changed(file: Path, cli: Cli) -> None:
    assert cli("policy", "fmt", file).out == NEAT
    assert file.read_bytes() == UGLY
    assert cli("policy", "fmt", "-", "--json", stdin=UGLY).json == {
        "file": "stdin",
        "changed": True,
        "text": NEAT.decode(),
    }


def test_check_and_write(file: Path, cli: Cli) -> None:
    assert cli("policy", "fmt", file, "--check").code == 1
    assert file.read_bytes() == UGLY
    assert cli("policy", "fmt", file, "--write", "--json").json == {"file": str(file), "changed": True}
    assert file.read_bytes() == NEAT
    assert file.stat().st_mode & 0o777 == 0o640
    answer = cli("policy", "fmt", file, "--check")
    assert (answer.code, answer.out) == (0, b"")
    assert cli("policy", "fmt", file, "--write").text.endswith("unchanged\n")


@pytest.mark.parametrize("text", [b"SelectHave(P :- Have(P).\n", b"\xff"])
def test_what_cannot_be_read_is_left_alone(file: Path, cli: Cli, text: bytes) -> None:
    file.write_bytes(text)
    answer = cli("policy", "fmt", file, "--write")
    assert answer.code == 7
    assert f"{file}:1:" in answer.err
    assert file.read_bytes() == text


def test_options_that_contradict_are_code_2(file: Path, cli: Cli) -> None:
    assert cli("policy", "fmt", file, "--write", "--check").code == 2
    assert cli("policy", "fmt", "-", "--write", stdin=UGLY).code == 2

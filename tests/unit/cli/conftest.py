"""Running a command in this process, and a lace with something in it."""

import io
import sys
from pathlib import Path

import pytest

from bobbin.cli.entry import run
from tests.unit.cli.command_line import AT, PLACE, PLEX_1, SECRET, Answer, Cli


@pytest.fixture
def cli(capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """``cli("put", folder, …, stdin=b"…")`` runs a command line in this process."""

    def call(*arguments: str | Path, stdin: bytes = b"") -> Answer:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsysbinary.readouterr()
        code = run([str(argument) for argument in arguments])
        captured = capsysbinary.readouterr()
        return Answer(int(code), captured.out, captured.err.decode())

    return call


@pytest.fixture
def folder(tmp_path: Path, cli: Cli) -> Path:
    """A new lace with the key of the protocol page."""
    path = tmp_path / "x.lace"
    assert cli("init", path).code == 0
    assert cli("key", "new", path, "--from", "-", stdin=SECRET.encode()).code == 0
    return path


@pytest.fixture
def filled(folder: Path, cli: Cli) -> Path:
    """The same with Plex 1 in it."""
    answer = cli("put", folder, "-", *PLACE, "--tai", AT, stdin=b"hello")
    assert answer.text == PLEX_1 + "\n"
    return folder

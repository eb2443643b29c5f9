"""Running a command in this process, and a lace with something in it."""

import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bobbin.cli.entry import run
from tests.support.served import Served, served
from tests.unit.cli.command_line import AT, PLACE, PLEX_1, SECRET, VERIFIER, Answer, Cli
from tests.unit.cli.policy_texts import DING
from tests.unit.cli.tangle_laces import Woven, weave


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


@pytest.fixture(scope="session")
def woven_once(tmp_path_factory: pytest.TempPathFactory) -> Woven:
    """A lace with tangles, made once and then copied."""
    return weave(tmp_path_factory.mktemp("woven") / "w.lace")


@pytest.fixture
def woven(tmp_path: Path, woven_once: Woven) -> Woven:
    """A lace with tangles."""
    return woven_once.copied(tmp_path / "w.lace")


@pytest.fixture
def ding(tmp_path: Path) -> Path:
    """A policy in a file."""
    path = tmp_path / "ding.policy"
    path.write_text(DING, encoding="utf-8")
    return path


@pytest.fixture
def elsewhere(tmp_path: Path, ding: Path, cli: Cli) -> Path:
    """Another lace with a key of its own, which knows the first one, with one record for it and one for nobody."""
    path = tmp_path / "y.lace"
    cli("init", path)
    cli("key", "new", path)
    cli("put", path, "-g", "u", "-a", "ding", "-N", "links/2", "-", stdin=b"theirs")
    cli("put", path, "-g", "private", "-a", "ding", "-N", "links/3", "-", stdin=b"private")
    assert cli("peers", "add", path, "x", "--verifier", VERIFIER, "--policy", ding).code == 0
    return path


@pytest.fixture
def node(elsewhere: Path) -> Iterator[Served]:
    """That lace, served on loopback."""
    with served(elsewhere, "tcp:127.0.0.1:0", "tls:127.0.0.1:0") as running:
        yield running

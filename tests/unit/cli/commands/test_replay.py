"""``bobbin replay``."""

import io
from pathlib import Path

import pytest

from bobbin.interlace.wants import Wants
from bobbin.runtime.local_peer import run_local
from bobbin.runtime.recording import Recorder
from tests.local_exchanges import Clock, plex, side
from tests.unit.cli.command_line import Cli


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "r.recording"
    with path.open("wb") as stream:
        run_local(side([plex("a")]), side([plex("b")]), clock=Clock(), recorder=Recorder(stream))
    return path


def test_an_equal_course(recording: Path, cli: Cli) -> None:
    answer = cli("replay", recording)
    assert answer.code == 0
    assert answer.text.startswith("equal · ")
    assert "to the end of the exchange" in answer.text
    piped = cli("replay", "-", stdin=recording.read_bytes())
    assert piped.text == answer.text


def test_another_course(recording: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Wants, "choose", lambda *_: ())
    answer = cli("replay", recording)
    assert answer.code == 1
    assert answer.lines[0].startswith("another course at step ")
    value = cli("replay", recording, "--json").json
    assert not value["equal"]
    assert value["difference"]["step"] == value["steps"] + 1


def test_a_file_that_was_cut_off(recording: Path, cli: Cli) -> None:
    recording.write_bytes(recording.read_bytes()[:-3])
    answer = cli("replay", recording)
    assert answer.code == 1
    assert "as far as it was recorded" in answer.text
    assert "ends within a step" in answer.err


def test_a_recording_that_was_full(tmp_path: Path, cli: Cli) -> None:
    stream = io.BytesIO()
    run_local(side([plex("a")]), side([plex("b")]), clock=Clock(), recorder=Recorder(stream, bytes_max=2_500))
    path = tmp_path / "full.recording"
    path.write_bytes(stream.getvalue())
    answer = cli("replay", path)
    assert answer.code == 0
    assert "size limit" in answer.err


def test_what_is_no_recording(tmp_path: Path, cli: Cli) -> None:
    other = tmp_path / "x"
    other.write_bytes(b"something else")
    assert cli("replay", other).code == 2
    assert cli("replay", tmp_path / "nothing").code == 4

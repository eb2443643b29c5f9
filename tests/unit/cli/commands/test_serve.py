"""``bobbin serve``: what is refused, and how it speaks. Real processes are in ``tests/end_to_end/test_serve.py``."""

import json
import os
from pathlib import Path

import pytest

from bobbin.cli import output
from bobbin.cli.commands.serve import Announcer
from bobbin.cli.output import Output, ReaderGone
from tests.support.served import Served
from tests.unit.cli.command_line import Cli

_STARTED = {
    "listening": ["tcp:127.0.0.1:4790"],
    "verifier": "V.x",
    "certificate": None,
    "peers": 2,
    "socket": "x.lace/node.sock",
    "metrics": None,
    "process": 1,
}


def test_what_makes_no_sense(folder: Path, tmp_path: Path, cli: Cli) -> None:
    assert cli("serve", tmp_path / "nothing", "--listen", "tcp:127.0.0.1:0").code == 2
    assert "nothing to do" in cli("serve", folder).err
    assert cli("serve", folder, "--listen", "127.0.0.1:0").code == 2
    assert cli("serve", folder, "--config", tmp_path / "no.toml").code == 4
    assert cli("serve", folder, "--listen", "tcp:127.0.0.1:0", "--peers", tmp_path / "no.toml").code == 4
    exposed = cli("serve", folder, "--listen", "tcp:0.0.0.0:0")
    assert (exposed.code, "--allow-insecure" in exposed.err) == (2, True)
    mixed = cli("serve", folder, "--listen", "stdio", "--json")
    assert (mixed.code, "the link has stdout" in mixed.error["message"]) == (2, True)


def test_every_mistake_of_a_configuration_is_said(folder: Path, tmp_path: Path, cli: Cli) -> None:
    file = tmp_path / "node.toml"
    file.write_text('listen = ["tcp"]\n[default]\npolicy = "no.policy"\n')
    answer = cli("serve", folder, "--config", file)
    assert answer.code == 2
    assert "listen 1" in answer.err
    assert "default.policy" in answer.err


def test_a_lace_that_is_served_already(node: Served, cli: Cli) -> None:
    answer = cli("serve", node.folder, "--listen", "tcp:127.0.0.1:0")
    assert (answer.code, "another node" in answer.err) == (5, True)


def test_events_are_lines_of_json(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    announcer = Announcer(Output(as_json=True), for_people=True)
    announcer("started", dict(_STARTED))
    announcer("stopped", {})
    captured = capsysbinary.readouterr()
    assert [json.loads(line) for line in captured.out.splitlines()] == [
        {"event": "started", **_STARTED},
        {"event": "stopped"},
    ]
    assert captured.err == b""


def test_people_read_what_they_need(capsys: pytest.CaptureFixture[str]) -> None:
    announcer = Announcer(Output(as_json=False), for_people=True)
    announcer("started", dict(_STARTED))
    announcer("reloaded", {"peers": 2, "listening": []})
    announcer("stopping", {"signal": "SIGINT"})
    assert capsys.readouterr().err.splitlines() == [
        "listening    tcp:127.0.0.1:4790",
        "our key      V.x",
        "known peers  2",
        "stopping; once more stops at once",
    ]
    Announcer(Output(as_json=False), for_people=False)("started", dict(_STARTED))
    assert capsys.readouterr() == ("", ""), "then the log says it"


def test_a_reader_that_has_gone_does_not_end_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    abandoned: list[int] = []
    monkeypatch.setattr(output, "abandon", lambda: abandoned.append(os.getpid()))

    def gone(*_: object) -> None:
        raise ReaderGone

    out = Output(as_json=True)
    monkeypatch.setattr(out, "row", gone)
    announcer = Announcer(out, for_people=False)
    announcer("started", dict(_STARTED))
    announcer("stopped", {})
    assert len(abandoned) == 1

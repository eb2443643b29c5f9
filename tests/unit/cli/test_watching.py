"""What somebody who watches an exchange sees of it."""

import io
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from bobbin.cli import progress
from bobbin.cli.commands.remote import remote_list
from bobbin.cli.elsewhere import Chosen, Demands, find_elsewhere
from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.progress import Silence
from bobbin.cli.watching import watching
from bobbin.interlace.effects import Send
from bobbin.interlace.events import Started
from bobbin.interlace.messages import Request
from tests.support.served import Served


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _use_terminal(monkeypatch: pytest.MonkeyPatch) -> _Terminal:
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    return terminal


def test_an_exchange_that_takes_long_shows_its_phase_and_its_count(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _use_terminal(monkeypatch)
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.0)
    with watching("get lab") as observers:
        for observe in observers:
            observe(Started(), (Send(Request(records=("P.a.H3", "P.b.H3"))),))
    assert "get lab · request" in terminal.getvalue()
    assert "0/2" in terminal.getvalue()


def test_a_quick_one_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _use_terminal(monkeypatch)
    monkeypatch.setattr(progress, "QUIET_SECONDS", 3_600.0)
    with watching("get lab") as observers:
        for observe in observers:
            observe(Started(), (Send(Request(records=("P.a.H3",))),))
    assert terminal.getvalue() == ""


def test_where_nothing_moves_it_is_said_what_is_waited_for(
    filled: Path, ding: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = find_elsewhere(filled, "tcp:127.0.0.1:1", Demands(), Chosen(policy=str(ding)))
    said: list[str] = []
    spoken = threading.Event()

    def say(text: str) -> None:
        said.append(text)
        spoken.set()

    _use_terminal(monkeypatch)
    monkeypatch.setattr(progress, "say", say)
    monkeypatch.setattr(progress, "Silence", partial(Silence, seconds=0.001))
    for who, sentence in ((there, "connecting to tcp:127.0.0.1:1 …"), (None, "evaluating policy …")):
        spoken.clear()
        with watching("sync", who):
            assert spoken.wait(60)
        assert said[-1] == sentence


def test_single_records_of_a_peer_are_watched_too(
    filled: Path, node: Served, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    terminal = _use_terminal(monkeypatch)
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.0)
    assert remote_list(filled, node.addresses["tcp"], "//u//") is ExitCode.OK
    assert f"list {node.addresses['tcp']}" in terminal.getvalue()
    sys.stdout.flush()
    assert b"links/2" in capsysbinary.readouterr().out

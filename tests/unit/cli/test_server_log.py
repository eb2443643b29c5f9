"""Lines that a server tells, into a pipe that somebody reads or does not."""

import io
import json
import os
import sys
from collections.abc import Iterator

import pytest

from bobbin.cli import output
from bobbin.cli.output import Output
from bobbin.cli.server_log import ServerLog, has_room

MANY = 3_000
"""Lines that no pipe has room for."""


class _Pipe:
    """What stdout, or stderr, is in a test."""

    def __init__(self) -> None:
        self.reading, writing = os.pipe()
        self.stream = os.fdopen(writing, "w", encoding="utf-8")

    def lines(self) -> list[str]:
        """All that is there."""
        os.set_blocking(self.reading, False)
        found = b""
        while True:
            try:
                found += os.read(self.reading, 1 << 16)
            except BlockingIOError:
                return found.decode().splitlines()


@pytest.fixture
def pipe() -> Iterator[_Pipe]:
    made = _Pipe()
    yield made
    os.close(made.reading)
    made.stream.close()


def test_nobody_reads_and_the_server_goes_on(pipe: _Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", pipe.stream)
    log = ServerLog(Output(as_json=True))
    for number in range(MANY):
        log.hear("turned-away", {"reason": "404", "remote": "127.0.0.1:1", "number": number})
    told = [json.loads(line) for line in pipe.lines()]
    assert 100 < len(told) < MANY
    assert [one["number"] for one in told] == list(range(len(told)))
    log.hear("linked", {"peer": 7})
    assert [json.loads(line) for line in pipe.lines()] == [
        {"event": "dropped", "events": MANY - len(told)},
        {"event": "linked", "peer": 7},
    ]


def test_on_stdio_lines_go_to_stderr_by_the_same_rule(pipe: _Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", pipe.stream)
    log = ServerLog(Output(as_json=False), is_stdio=True)
    for _ in range(MANY):
        log.tell("linked", {}, "somebody is here, whose name and whereabouts make for a line of some length")
    told = len(pipe.lines())
    assert 100 < told < MANY
    log.tell("stopped", {}, "stopped")
    assert pipe.lines() == [f"dropped  events {MANY - told}", "stopped"]


def test_what_a_peer_has_chosen_makes_no_long_line(pipe: _Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", pipe.stream)
    ServerLog(Output(as_json=False)).hear("refused", {"peer": 7, "why": "x" * 100_000})
    (line,) = pipe.lines()
    assert line.startswith("refused  peer 7  why xxx")
    assert len(line) < 400


def test_a_reader_that_has_gone_ends_the_log_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = _Pipe()
    os.close(pipe.reading)
    monkeypatch.setattr(sys, "stdout", pipe.stream)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    given_up: list[int] = []

    def abandon() -> None:
        given_up.append(1)
        os.dup2(nowhere, pipe.stream.fileno())

    monkeypatch.setattr(output, "abandon", abandon)
    log = ServerLog(Output(as_json=True))
    log.hear("linked", {"peer": 7})
    log.hear("linked", {"peer": 8})
    assert given_up == [1]
    pipe.stream.close()
    os.close(nowhere)


def test_what_is_no_file_always_has_room() -> None:
    assert has_room(io.StringIO())
    assert has_room(None)

"""A bar appears only where someone watches and only when there is time to watch it."""

import io
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue

import pytest

from bobbin.cli import progress
from bobbin.cli.progress import CountingReader, Meter, Silence
from bobbin.cli.text import printable


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _use_terminal(monkeypatch: pytest.MonkeyPatch) -> _Terminal:
    # Not a fixture: between setup and test pytest puts its own stderr back.
    terminal = _Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    return terminal


def test_nothing_is_drawn_before_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _use_terminal(monkeypatch)
    assert progress.QUIET_SECONDS == 1.0
    monkeypatch.setattr(progress, "QUIET_SECONDS", 3600.0)
    with progress.progress("work", "records") as meter:
        meter(1, 100)
        meter(2, 100)
    assert terminal.getvalue() == ""


def test_nothing_is_drawn_where_nobody_watches(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.0)
    with progress.progress("work", "records") as meter:
        meter(50, 100)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("unit", "total"), [("records", 100), ("bytes", 100_000), ("records", 0)])
def test_a_long_command_shows_title_count_and_time_left(
    monkeypatch: pytest.MonkeyPatch, unit: progress.Unit, total: int
) -> None:
    terminal = _use_terminal(monkeypatch)
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.0)
    with progress.progress("checking", unit) as meter:
        meter(50, total)
        meter(60, total)
        with meter.paused():
            shown = terminal.getvalue()
            terminal.write("a line in between")
    assert "checking" in shown
    assert "ETA" in shown
    assert "a line in between" in terminal.getvalue()


def test_what_else_there_is_to_say_stands_beside_the_title(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _use_terminal(monkeypatch)
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.0)
    phase = "hello"
    with progress.progress("sync", "records") as meter:
        meter.words = lambda: f"{phase} · \x1b[2J"
        meter(50, 100)
        phase = "transfer"
        meter(60, 100)
        with meter.paused():
            shown = terminal.getvalue()
    assert "sync · transfer · \\x1b[2J" in shown


def test_a_meter_that_never_drew_can_be_paused(capsys: pytest.CaptureFixture[str]) -> None:
    meter = Meter("x", "records", watched=False)
    with meter.paused():
        meter(1, 2)
    meter.close()
    assert capsys.readouterr() == ("", "")


def test_a_counting_reader_reads_the_same_bytes_and_says_how_far() -> None:
    seen: list[tuple[int, int]] = []
    reader = CountingReader(io.BytesIO(b"abcdef"), 6, lambda done, total: seen.append((done, total)))
    assert reader.read(4) + reader.read(4) + reader.read(4) == b"abcdef"
    assert seen == [(4, 6), (6, 6), (6, 6)]


@pytest.mark.parametrize("title", ["import a[/b].bundle", "import [red]x", "import {x} \x1b]0;gotcha\x07\udcff"])
def test_a_title_is_text_and_nothing_in_it_is_obeyed(monkeypatch: pytest.MonkeyPatch, title: str) -> None:
    terminal = _use_terminal(monkeypatch)
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.0)
    with progress.progress(title, "bytes") as meter:
        meter(1, 10)
        meter(2, 10)
    shown = terminal.getvalue()
    assert printable(title) in shown
    assert "\x1b]0;" not in shown


SECONDS_MAX = 60
"""Far above what any of these takes."""


def test_a_silence_is_broken_once_and_again_after_the_next_step() -> None:
    said: SimpleQueue[str] = SimpleQueue()
    listening = Silence(lambda: said.put("evaluating"), seconds=0.001)
    listening.begin()
    try:
        assert said.get(timeout=SECONDS_MAX) == "evaluating"
        listening.observe("an event", ())
        assert said.get(timeout=SECONDS_MAX) == "evaluating"
    finally:
        listening.end()
    assert said.empty(), "one silence, one sentence"


def test_work_without_a_count_is_named_in_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _use_terminal(monkeypatch)
    monkeypatch.setattr(progress, "Silence", partial(Silence, seconds=0.001))
    with progress.progress("sync", "records") as meter, progress.silence(meter, "evaluating policy …"):
        _wait_for(lambda: "evaluating policy …\n" in terminal.getvalue())


def test_nobody_is_told_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    meter = Meter("x", "records", watched=False)
    with progress.silence(meter, "evaluating policy …") as listening:
        listening.observe()
    assert capsys.readouterr() == ("", "")
    assert not any(thread.name == "bobbin-silence" for thread in threading.enumerate())


def test_a_bar_says_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _use_terminal(monkeypatch)
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.0)
    asked = threading.Event()

    def listen(say: Callable[[], None]) -> Silence:
        def say_and_tell() -> None:
            say()
            asked.set()

        return Silence(say_and_tell, seconds=0.001)

    monkeypatch.setattr(progress, "Silence", listen)
    with progress.progress("sync", "records") as meter:
        meter(1, 2)
        with progress.silence(meter, "evaluating policy …"):
            assert asked.wait(SECONDS_MAX)
    assert "evaluating" not in terminal.getvalue()


def _wait_for(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS_MAX
    while not holds():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.001)


def test_a_counting_reader_takes_what_is_there_and_counts_it() -> None:
    seen: list[tuple[int, int]] = []
    reader = CountingReader(io.BytesIO(b"abcdef"), 6, lambda done, total: seen.append((done, total)))
    assert reader.read1(4) + reader.read(4) == b"abcdef"
    assert seen == [(4, 6), (6, 6)]
    with pytest.raises(io.UnsupportedOperation):
        reader.fileno()

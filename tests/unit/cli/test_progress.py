"""A bar appears only where someone watches and only when there is time to watch it."""

import io
import sys

import pytest

from bobbin.cli import progress
from bobbin.cli.progress import CountingReader, Meter
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

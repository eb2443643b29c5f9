"""Which files a command reads, how many workers it takes, and what it says about what it could not take."""

import os
from pathlib import Path

import pytest

from bobbin.cli import sources
from bobbin.cli.output import Output
from bobbin.cli.progress import Meter
from bobbin.cli.sources import MissingFile, ProblemPrinter
from bobbin.errors import UsageError
from bobbin.runtime.transfer import Problem
from bobbin.store.base import Outcome

PROBLEM = Problem(
    outcome=Outcome.REJECTED, source="a\x1bb", offset=7, size=3, hash=None, reason="no-mark", detail="bad \x1b[1m"
)


def test_names_that_are_no_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    sources.check_files([str(tmp_path / "file"), "-"])
    for names in (["-", "-"], [str(tmp_path)]):
        with pytest.raises(UsageError):
            sources.check_files(names)
    with pytest.raises(MissingFile, match="there is no file") as caught:
        sources.check_files([str(tmp_path / "missing")])
    assert not caught.value.retry


def test_a_file_knows_its_size_and_a_pipe_does_not(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    with sources.open_source(str(tmp_path / "file")) as source:
        assert (source.size, source.stream.read()) == (5, b"12345")
    reading, writing = os.pipe()
    os.close(writing)
    with sources.open_source(f"/dev/fd/{reading}") as source:
        assert source.size == 0
    os.close(reading)


def test_a_limit_is_an_error_and_never_a_truncation(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert sources.read_whole(str(tmp_path / "file"), bytes_max=5, what="it") == b"12345"
    with pytest.raises(UsageError, match="at most 4 bytes"):
        sources.read_whole(str(tmp_path / "file"), bytes_max=4, what="it")


def test_workers_are_taken_where_they_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)
    assert sources.choose_workers(None, 1000) == 0
    assert sources.choose_workers(None, 10**9) == 4
    assert sources.choose_workers(None, 0) == 4, "nobody knows how much will come"
    assert sources.choose_workers(7, 1000) == 7
    assert sources.choose_workers(0, 10**9) == 0
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0}, raising=False)
    assert sources.choose_workers(None, 10**9) == 0


def test_problems_are_printed_safely_and_all_of_them(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    printer = ProblemPrinter(Output(as_json=False), Meter("x", "bytes", watched=False))
    for _ in range(1001):
        printer.report(PROBLEM)
    printer.flush()
    printer.flush()
    lines = capsysbinary.readouterr().out.decode().splitlines()
    assert lines == ["rejected  a\\x1bb:7         no-mark             bad \\x1b[1m"] * 1001

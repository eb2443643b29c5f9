"""Data goes to stdout, words to stderr; JSON is JSON; a reader that leaves is no error, a full disk is one."""

import errno
import io
import json
import os
import sys

import pytest

from bobbin.cli import output
from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.output import Output, ReaderGone
from bobbin.errors import ResourceError


class _Stdout(io.TextIOWrapper):
    """A stdout that is, or is not, a terminal."""

    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal

    def written(self) -> bytes:
        buffer = self.buffer
        assert isinstance(buffer, io.BytesIO)
        return buffer.getvalue()


class _Failing(io.RawIOBase):
    def __init__(self, code: int) -> None:
        self._code = code

    def writable(self) -> bool:
        return True

    def write(self, _data: object) -> int:
        raise OSError(self._code, os.strerror(self._code))


def _use(monkeypatch: pytest.MonkeyPatch, *, is_terminal: bool) -> _Stdout:
    stdout = _Stdout(is_terminal=is_terminal)
    monkeypatch.setattr(sys, "stdout", stdout)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    return stdout


def test_a_result_is_lines_or_one_json_value(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    Output(as_json=False).result({"a": 1}, "first", "second")
    Output(as_json=True).result({"a": 1}, "first", "second")
    assert capsysbinary.readouterr() == (b'first\nsecond\n{"a":1}\n', b"")


def test_notes_are_silent_in_json_and_warnings_are_not(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    for as_json in (False, True):
        out = Output(as_json=as_json)
        out.note("by the way")
        out.warn("look \x1b here")
    captured = capsysbinary.readouterr()
    assert captured.out == b""
    assert captured.err.decode().splitlines() == [
        "by the way",
        "warning: look \\x1b here",
        '{"warning":"look \\u001b here"}',
    ]


def test_colour_needs_a_terminal_that_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    _use(monkeypatch, is_terminal=False)
    assert Output(as_json=False).style("x", fg="red") == "x"
    _use(monkeypatch, is_terminal=True)
    assert Output(as_json=False).style("x", fg="red") == "\x1b[31mx\x1b[0m"
    monkeypatch.setenv("TERM", "dumb")
    assert Output(as_json=False).style("x", fg="red") == "x"
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert Output(as_json=False).style("x", fg="red") == "x"
    monkeypatch.setenv("NO_COLOR", "")
    assert Output(as_json=False).style("x", fg="red") != "x", "an empty NO_COLOR means nothing"


def test_styled_text_is_safe_text(monkeypatch: pytest.MonkeyPatch) -> None:
    _use(monkeypatch, is_terminal=True)
    assert Output(as_json=False).style("\x1b[2J", bold=True) == "\x1b[1m\\x1b[2J\x1b[0m"


@pytest.mark.parametrize("data", [b"", b"hello", bytes(range(256))])
def test_raw_data_reaches_a_pipe_byte_for_byte(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    stdout = _use(monkeypatch, is_terminal=False)
    Output(as_json=False).raw(data)
    output.flush()
    assert stdout.written() == data


def test_raw_data_cannot_act_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    stdout = _use(monkeypatch, is_terminal=True)
    out = Output(as_json=False)
    out.raw("grüße\tx".encode())
    assert stdout.written() == "grüße\tx\n".encode()
    out.raw(b"a\x1b[2Jb\xff\n")
    assert stdout.written().endswith(b"a\\x1b[2Jb\\xff\n")
    assert "redirect" in capsys.readouterr().err


def test_json_is_compact_and_spells_even_names_that_are_no_text() -> None:
    assert output.encode({"a": ["ä", None, True]}) == '{"a":["ä",null,true]}'.encode()
    assert json.loads(output.encode({"file": "x\udcff"})) == {"file": "x\udcff"}
    assert output.encode("\u202e") == b'"\\u202e"'


def test_a_reader_that_left_and_a_full_disk_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    def use(code: int) -> None:
        stdout = io.TextIOWrapper(io.BufferedWriter(_Failing(code)), encoding="utf-8")
        monkeypatch.setattr(sys, "stdout", stdout)

    for code, error in ((errno.EPIPE, ReaderGone), (errno.ENOSPC, ResourceError)):
        use(code)
        out = Output(as_json=False)
        out.result(None, "buffered, so nothing is wrong yet")
        with pytest.raises(error):
            output.flush()
        monkeypatch.setattr(sys, "stdout", None)


def test_a_closed_stdout_is_an_error_only_for_those_who_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    out = Output(as_json=False)
    output.flush()
    with pytest.raises(ResourceError, match="closed"):
        out.result(None, "x")


def test_what_is_not_there_is_said_on_stderr(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert output.not_found(Output(as_json=False), "no such thing") is ExitCode.NOT_ALL
    assert output.not_found(Output(as_json=True), "no such thing") is ExitCode.NOT_ALL
    captured = capsysbinary.readouterr()
    assert captured.out == b""
    human, machine = captured.err.decode().splitlines()
    assert human == "not found: no such thing"
    assert json.loads(machine) == {"error": "not-found", "message": "no such thing", "exit_code": 1}

"""Where a command's answer goes: data to stdout, words about it to stderr.

With ``--json`` stdout gets exactly one JSON value, or one per line for listings, and stderr stays silent unless
something is wrong. Without it stdout gets lines for people, coloured only in a terminal.

Whoever reads stdout may stop reading (``| head``): then ``ReaderGone`` ends the command quietly. A write that fails
for another reason (disk full) is an error like any other.
"""

import contextlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import BinaryIO, Final, TextIO, TypeAlias, cast

import orjson
import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.text import escape_json, is_plain_text, printable
from bobbin.errors import ResourceError

Json: TypeAlias = bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None


class ReaderGone(Exception):
    """Nobody reads stdout any more."""


class Output:
    """The two streams of one command."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json: Final = as_json
        self._styled: Final = _takes_colour(sys.stdout)

    def result(self, value: Json, *lines: str) -> None:
        """The answer: one JSON value, or these lines."""
        if self.as_json:
            self._write(encode(value))
        else:
            for line in lines:
                self._write(line.encode("utf-8", "backslashreplace"))

    def json_text(self, text: bytes) -> None:
        """The answer, where it is compact JSON already."""
        self._write(escape_json(text.decode()).encode())

    row = result
    """One line of a listing."""

    def raw(self, data: bytes) -> None:
        """Bytes as they are, unless a terminal would obey them: there they are shown with escapes instead."""
        stream = _stdout()
        if not sys.stdout.isatty():
            _guarded(stream, data)
            return
        if not is_plain_text(data):
            self.note("not plain text, so shown with escapes; redirect stdout to get the bytes as they are")
            data = printable(data.decode("utf-8", "backslashreplace"), keep="\n\t").encode()
        _guarded(stream, data if data.endswith(b"\n") else data + b"\n")

    def stream(self) -> BinaryIO:
        """Stdout as a stream of bytes, for data of any length."""
        return cast(BinaryIO, _GuardedStream(_stdout()))

    def note(self, text: str) -> None:
        """A word to the user. Silent with ``--json``."""
        if not self.as_json:
            say(printable(text))

    def event(self, value: Json, text: str) -> None:
        """What has happened meanwhile: a word to the user, or with ``--json`` one line of JSON beside the results."""
        if self.as_json:
            say(encode(value).decode())
        else:
            say(printable(text))

    def warn(self, text: str) -> None:
        """Something that the user should look at. Also with ``--json``, as JSON."""
        if self.as_json:
            say(encode({"warning": text}).decode())
        else:
            say(stderr_style("warning: ", fg="yellow") + printable(text))

    def style(self, text: str, *, fg: str | None = None, bold: bool = False, dim: bool = False) -> str:
        """Text for stdout, safe to show, with colour where stdout takes it."""
        safe = printable(text)
        return typer.style(safe, fg=fg, bold=bold or None, dim=dim or None) if self._styled else safe

    def _write(self, line: bytes) -> None:
        _guarded(_stdout(), line + b"\n")


def encode(value: Json) -> bytes:
    """A value as compact JSON in UTF-8, safe for terminals."""
    try:
        text = orjson.dumps(value).decode()
    except orjson.JSONEncodeError:
        # File names may hold bytes that are no text; only this encoder can spell them.
        text = json.dumps(value, separators=(",", ":"))
    return escape_json(text).encode()


def flush() -> None:
    """Hand over everything that was written, or say why not."""
    if sys.stdout is not None:
        _guarded(sys.stdout.buffer, b"", flush=True)


def abandon(descriptor: int = 1) -> None:
    """Let what is still unwritten go nowhere, so that the last flush, at the latest on exit, cannot fail or wait."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _takes_colour(stream: TextIO | None) -> bool:
    return (
        stream is not None and stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    )


def _stdout() -> BinaryIO:
    if sys.stdout is None:
        raise ResourceError("stdout is closed, so there is nowhere to write to", retry=False)
    return sys.stdout.buffer


def _guarded(stream: BinaryIO, data: bytes, *, flush: bool = False) -> None:
    try:
        if data:  # writing nothing can fail, too
            stream.write(data)
        if flush:
            stream.flush()
    except BrokenPipeError as error:
        raise ReaderGone from error
    except OSError as error:
        raise ResourceError(f"cannot write to stdout: {error.strerror}", retry=False) from error


class _GuardedStream:
    """Stdout, with the two ways in which writing to it can end told apart."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream: Final = stream

    def write(self, data: bytes, /) -> int:
        _guarded(self._stream, data)
        return len(data)


def say(line: str) -> None:
    """One line on stderr, after what was written before it. Where nobody listens, nothing is lost."""
    if sys.stdout is not None:
        with contextlib.suppress(OSError):  # whoever needs stdout will hear of it
            sys.stdout.flush()
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            print(line, file=sys.stderr, flush=True)


def stderr_style(text: str, *, fg: str, bold: bool = False) -> str:
    """Our own text for stderr, with colour where stderr takes it."""
    return typer.style(text, fg=fg, bold=bold or None) if _takes_colour(sys.stderr) else text


def not_found(out: Output, sentence: str) -> ExitCode:
    """Say that there is no such thing; returns the exit code for that."""
    return _no(out, "not-found", "not found: ", sentence)


def refused(out: Output, sentence: str) -> ExitCode:
    """Say that something was not taken, on purpose; returns the exit code for that."""
    return _no(out, "refused", "refused: ", sentence)


def _no(out: Output, kind: str, label: str, sentence: str) -> ExitCode:
    if out.as_json:
        say(encode({"error": kind, "message": sentence, "exit_code": int(ExitCode.NOT_ALL)}).decode())
    else:
        say(stderr_style(label, fg="yellow") + printable(sentence))
    return ExitCode.NOT_ALL

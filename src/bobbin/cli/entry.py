"""The way in and the way out: runs one command, and turns whatever ends it into words and an exit code.

No error of ours ever shows a traceback; a bug of ours always does. ``--json`` anywhere on the command line makes
errors JSON too, one object on stderr.
"""

import os
import signal
import sys
import traceback
from collections.abc import Mapping, Sequence
from types import FrameType

import typer

from bobbin.cli import output
from bobbin.cli.app import app
from bobbin.cli.exit_codes import ExitCode, of_error
from bobbin.cli.output import Json, ReaderGone
from bobbin.cli.policy_files import InvalidPolicyFile
from bobbin.cli.text import printable
from bobbin.errors import BobbinError, ResourceError
from bobbin.store.lake.errors import DamagedLake

_PROGRAM = "bobbin"


def main() -> None:
    """The entry point of the ``bobbin`` command."""
    if "_BOBBIN_COMPLETE" in os.environ:  # a shell asks what could come next
        app(prog_name=_PROGRAM)
    signal.signal(signal.SIGTERM, _terminate)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line; returns its exit code."""
    as_json = "--json" in (arguments[: arguments.index("--")] if "--" in arguments else arguments)
    try:
        code = _invoke(arguments)
        output.flush()
    except ReaderGone:
        output.abandon()
        return ExitCode.READER_GONE
    except KeyboardInterrupt:
        output.abandon()
        _report(as_json, "interrupted", "interrupted", ExitCode.INTERRUPTED)
        return ExitCode.INTERRUPTED
    except typer.TyperException as error:
        return _report_typer(as_json, error)
    except (BobbinError, OSError) as error:
        if isinstance(error, ResourceError) and not _is_writable():
            output.abandon()
        return _report_error(as_json, error)
    except Exception:  # noqa: BLE001  (whatever this is, it is our bug, and it must not look like an answer)
        traceback.print_exc()
        _report(as_json, "bug", "this is a bug in Bobbin; please report it with the lines above", ExitCode.BUG)
        return ExitCode.BUG
    return code


def _invoke(arguments: Sequence[str]) -> int:
    command = typer.main.get_command(app)
    try:
        with command.make_context(_PROGRAM, list(arguments)) as context:
            answer = command.invoke(context)
    except typer.Exit as leave:
        return leave.exit_code
    return answer if isinstance(answer, int) else ExitCode.OK


def _report_typer(as_json: bool, error: typer.TyperException) -> int:
    # The library below says first which of its checks it was, and lists what may be chosen on lines of their own.
    message = error.format_message().replace(": Value error, ", ": ").replace("\n\t", " ")
    if message:
        context = getattr(error, "ctx", None)
        option = getattr(error, "option_name", None)
        if context is not None and option is not None and _is_known_below(context.command, option):
            example = f"{context.command_path} COMMAND … {option}"
            message = f"{option} stands too early: options follow their command, as in '{example}'"
        hint = None if context is None else f"Try '{context.command_path} --help'."
        _report(as_json, "usage", message, ExitCode.USAGE, hint=hint)
    return ExitCode.USAGE


def _is_known_below(command: object, option: str) -> bool:
    """Whether a command in this group takes an option that the group itself does not know."""
    below: Mapping[str, object] = getattr(command, "commands", {})
    return any(
        _is_known_below(child, option)
        or any(option in getattr(parameter, "opts", ()) for parameter in getattr(child, "params", ()))
        for child in below.values()
    )


def _report_error(as_json: bool, error: BobbinError | OSError) -> int:
    code = of_error(error)
    message = str(error)
    if isinstance(error, OSError) and error.strerror:
        message = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    extra: dict[str, Json] = {}
    if isinstance(error, ResourceError):
        extra["retry"] = error.retry
    if isinstance(reason := getattr(error, "reason", None), str):
        extra["reason"] = reason
    if isinstance(error, InvalidPolicyFile):
        extra["mistakes"] = [mistake.value() for mistake in error.mistakes]
    is_told = "bobbin fsck" in message or "bobbin lake check" in message
    is_damage = isinstance(error, ResourceError) and code is ExitCode.INTEGRITY and not is_told
    hint = None
    if is_damage:
        what = "`bobbin lake check LAKE`" if isinstance(error, DamagedLake) else "`bobbin fsck DIR`"
        where = "a lake" if isinstance(error, DamagedLake) else "a lace"
        hint = f"{what} lists what is damaged in {where}, and changes nothing."
    _report(as_json, code.name.lower().replace("_", "-"), message, code, hint=hint, extra=extra)
    return code


def _report(
    as_json: bool,
    kind: str,
    message: str,
    code: ExitCode,
    *,
    hint: str | None = None,
    extra: dict[str, Json] | None = None,
) -> None:
    if as_json:
        output.say(output.encode({"error": kind, "message": message, "exit_code": int(code), **(extra or {})}).decode())
        return
    output.say(output.stderr_style("error: ", fg="red", bold=True) + printable(message, keep="\n"))
    if hint:
        output.say(hint)


def _is_writable() -> bool:
    try:
        output.flush()
    except (ReaderGone, ResourceError):
        return False
    return True


def _terminate(_number: int, _frame: FrameType | None) -> None:
    """End in order: temporary files go away, and what was acknowledged stays."""
    output.abandon()
    raise SystemExit(ExitCode.TERMINATED)

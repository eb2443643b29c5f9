"""``bobbin policy fmt``: a policy text in house layout."""

import os
from pathlib import Path
from typing import Annotated

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson
from bobbin.cli.output import Output
from bobbin.cli.policy_files import PolicyFile, naming, read_policy, shown_name
from bobbin.cli.sources import STDIN
from bobbin.errors import ResourceError, UsageError


def policy_fmt(
    file: PolicyFile,
    check: Annotated[bool, typer.Option("--check", metavar="", help="Only say whether the layout is right.")] = False,
    write: Annotated[bool, typer.Option("--write", "-w", metavar="", help="Rewrite FILE instead of printing.")] = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Lay out a policy text.

    Every rule on one line in its one spelling, every comment kept where it stands. Neither the meaning nor the
    identifier changes. With --check nothing is written, and the exit code is 1 if the layout is not right.

    Example: bobbin policy fmt ward.policy --write
    """
    from bobbin.datalog.parse import parse
    from bobbin.policy.layout import lay_out

    out = Output(as_json=as_json)
    if check and write:
        raise UsageError("--check writes nothing; leave it out or leave out --write")
    if write and file == STDIN:
        raise UsageError("stdin cannot be rewritten; name a file")
    found = read_policy(file)
    with naming(file):
        parse(found)  # bytes that are no text are a mistake like any other
        text = lay_out(found.decode())
    laid_out = text.encode()
    changed = laid_out != found
    name = shown_name(file)
    if check:
        out.result({"file": name, "changed": changed}, *([f"{out.style(name)} is not in layout"] if changed else []))
        return ExitCode.NOT_ALL if changed else ExitCode.OK
    if write:
        if changed:
            _rewrite(file, laid_out)
        out.result({"file": name, "changed": changed}, f"{out.style(name)}  {'rewritten' if changed else 'unchanged'}")
    elif as_json:
        out.result({"file": name, "changed": changed, "text": text})
    else:
        out.raw(laid_out)
    return ExitCode.OK


def _rewrite(file: str, text: bytes) -> None:
    from bobbin.config.durable import replacing

    target = Path(file).resolve()
    try:
        with replacing(target) as stream:
            os.fchmod(stream.fileno(), target.stat().st_mode & 0o7777)
            stream.write(text)
    except OSError as error:
        raise ResourceError(f"cannot write {file}: {error.strerror or error}", retry=False) from error

"""``bobbin export``: write records to a file."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO, Final

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson, Form, FormChoice, LaceFolder, chosen_form, parse_place
from bobbin.cli.output import Json, Output, abandon, encode, say
from bobbin.cli.progress import progress
from bobbin.cli.sources import MissingFile, check_outside
from bobbin.cli.text import count_text, size_text
from bobbin.errors import ResourceError, UsageError

_STDOUT: Final = "-"
_JSONL_SUFFIXES: Final = (".jsonl", ".ndjson", ".json")


def export(
    folder: LaceFolder,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Where to; - for stdout.", show_default=False)],
    form: Form = FormChoice.AUTO,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="PLACE", help="Only the records at this coordinate or below this prefix."),
    ] = None,
    as_json: AsJson = False,
) -> ExitCode:
    """Write the records to a file.

    Those of this moment, in the order in which they were stored. FILE appears only when it is complete and on disk;
    a file of that name is replaced. Each record is checked against its name first; a damaged one ends the export with
    3. The form auto goes by the name: .jsonl is JSONL, anything else a bundle.

    Example: bobbin export notes.lace to-lab.bundle --at //u//ding//
    """
    from bobbin.lace import Lace

    out = Output(as_json=as_json)
    place = None if at is None else parse_place(at)
    check_outside(folder, file)
    chosen = chosen_form(form) or ("jsonl" if file.endswith(_JSONL_SUFFIXES) else "bundle")
    with (
        Lace.open(folder, read_only=True) as lace,
        _destination(out, file) as stream,
        progress(f"export {file}", "records") as meter,
    ):
        done = lace.export(stream, form=chosen, at=place, progress=meter)
    answer: dict[str, Json] = {"file": file, "form": chosen, "records": done.records, "bytes": done.bytes}
    words = f"{count_text(done.records, 'record')}, {size_text(done.bytes)} as {chosen}"
    if file != _STDOUT:
        out.result(answer, f"{words} → {out.style(file, bold=True)}")
    elif as_json:
        say(encode(answer).decode())
    else:
        out.note(words)
    return ExitCode.OK


@contextmanager
def _destination(out: Output, file: str) -> Iterator[BinaryIO]:
    from bobbin.config.durable import replacing

    if file == _STDOUT:
        if sys.stdout is not None and sys.stdout.isatty():
            raise UsageError("records are not for terminals; name a file, or redirect stdout")
        yield out.stream()
        return
    target = Path(file).resolve()
    if target.is_dir():
        raise UsageError(f"{file} is a folder; name a file in it")
    if not target.parent.is_dir():
        raise MissingFile(f"there is no folder {target.parent}")
    # A pipe or a device is written to, not replaced.
    opened = _writing(target) if target.exists() and not target.is_file() else replacing(target)
    try:
        with opened as stream:
            yield stream
    except OSError as error:
        raise ResourceError(f"cannot write {file}: {error.strerror or error}", retry=False) from error


@contextmanager
def _writing(target: Path) -> Iterator[BinaryIO]:
    with target.open("wb") as stream:
        try:
            yield stream
        except BaseException:
            # Whoever reads the other end may have stopped; closing must not wait for them.
            abandon(stream.fileno())
            raise

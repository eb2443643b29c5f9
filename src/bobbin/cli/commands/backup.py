"""``bobbin backup``: a copy of a lace while it goes on."""

from pathlib import Path
from typing import Annotated

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson, LaceFolder
from bobbin.cli.output import Output
from bobbin.cli.progress import progress
from bobbin.cli.text import count_text


def backup(
    folder: LaceFolder,
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="New folder for the copy.", show_default=False)],
    with_keys: Annotated[bool, typer.Option("--with-keys", metavar="", help="Copy the signing secrets too.")] = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Copy a lace while it is in use.

    The copy is of one moment, and a lace of its own. Signing secrets stay behind unless you ask for them.

    Example: bobbin backup notes.lace /mnt/backup/notes.lace
    """
    from bobbin.lace import Lace

    out = Output(as_json=as_json)
    with Lace.open(folder, read_only=True) as lace:
        keys = lace.key_names()
        with progress(f"backup {folder}", "steps") as meter:
            lace.backup(target, with_keys=with_keys, progress=meter)
    with Lace.open(target, read_only=True) as copy:
        records = sum(copy.stat().records.values())
    copied = list(keys) if with_keys else []
    out.result(
        {"lace": str(folder), "backup": str(target), "records": records, "keys": copied},
        f"{count_text(records, 'record')} → {out.style(str(target), bold=True)}",
    )
    if keys and not with_keys:
        out.note(f"keys were not copied ({', '.join(keys)}); --with-keys copies them")
    return ExitCode.OK

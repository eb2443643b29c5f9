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
    with_keys: Annotated[
        bool, typer.Option("--with-keys", metavar="", help="Copy the secrets too, also of tangles.")
    ] = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Copy a lace while it is in use.

    The copy is of one moment, and a lace of its own. Signing secrets and the private keys of accounts of tangles stay
    behind unless you ask for them. What stays behind is named.

    Example: bobbin backup notes.lace /mnt/backup/notes.lace
    """
    from bobbin.lace import Lace

    out = Output(as_json=as_json)
    with Lace.open(folder, read_only=True) as lace:
        keys, account_keys = list(lace.key_names()), lace.account_keys.names()
        with progress(f"backup {folder}", "steps") as meter:
            lace.backup(target, with_keys=with_keys, progress=meter)
    with Lace.open(target, read_only=True) as copy:
        records = sum(copy.stat().records.values())
    left = [] if with_keys else [*keys, *(f"{name} of tangles" for name in account_keys)]
    out.result(
        {
            "lace": str(folder),
            "backup": str(target),
            "records": records,
            "keys": keys if with_keys else [],
            "account_keys": account_keys if with_keys else [],
            "left_behind": {"keys": [] if with_keys else keys, "account_keys": [] if with_keys else account_keys},
        },
        f"{count_text(records, 'record')} → {out.style(str(target), bold=True)}",
    )
    if left:
        lost = "; nobody can restore an account without its key" if account_keys else ""
        out.note(f"keys were not copied ({', '.join(left)}); --with-keys copies them{lost}")
    return ExitCode.OK

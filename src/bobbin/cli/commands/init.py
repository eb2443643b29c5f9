"""``bobbin init``: make a new lace."""

from pathlib import Path
from typing import Annotated

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson, LaceFolder
from bobbin.cli.output import Output

LakeOption = Annotated[
    Path | None,
    typer.Option("--lake", metavar="LAKE", help="Over the records of this lake, only to be read.", show_default=False),
]


def init(folder: LaceFolder, lake: LakeOption = None, as_json: AsJson = False) -> ExitCode:
    """Make a new, empty lace in DIR.

    DIR must not exist yet, or be empty. No key is made: that is `bobbin key new DIR`. With --lake the lace has no
    records of its own: it shows those of a lake and can send them in exchanges.

    Example: bobbin init notes.lace
    """
    from bobbin.lace import Lace

    out = Output(as_json=as_json)
    with Lace.create(folder, lake=lake) as lace:
        settings = lace.settings
    out.result(
        {
            "lace": str(folder),
            "format": settings.format,
            "created": settings.created,
            "default_key": settings.default_key,
            **({} if settings.lake is None else {"lake": settings.lake}),
        },
        f"created {out.style(str(folder), bold=True)}" + ("" if lake is None else f" over {out.style(str(lake))}"),
    )
    out.note(f"Next: bobbin key new {folder}")
    return ExitCode.OK

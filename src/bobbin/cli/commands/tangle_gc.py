"""``bobbin tangle gc``: give up what no goal asks for."""

from typing import Annotated

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson, LaceFolder
from bobbin.cli.output import Output
from bobbin.cli.text import count_text


def tangle_gc(
    folder: LaceFolder,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", metavar="", help="Say what would go, and change nothing.", show_default=False)
    ] = False,
    strict: Annotated[
        bool,
        typer.Option("--strict", metavar="", help="Also give up tangles that have no goal at all.", show_default=False),
    ] = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Delete and erase the messages that the goals do not ask for, in one commit.

    Messages on the way from what is kept to the root lose their data only. The account messages that kept ones were
    signed under are always kept, and so are the accounts of your own keys; under newest-N, so is what you have written
    and nothing comes after yet. What a set or dict has superseded is remembered for a while, so that no peer brings it
    back. The records of what goes are removed and refused; a peer's message brings them back if a goal wants it again.

    Example: bobbin tangle gc notes.lace --dry-run
    """
    from bobbin.lace import Lace

    out = Output(as_json=as_json)
    with Lace.open(folder) as lace:
        swept = lace.tangles.collect(strict=strict, dry_run=dry_run)
    would = "would be " if dry_run else ""
    words = f"{count_text(len(swept.deleted), 'message')} {would}deleted, {len(swept.erased):,} erased"
    out.result(
        {
            "dry_run": dry_run,
            "deleted": list(swept.deleted),
            "erased": list(swept.erased),
            "ghosts": [{"tangle": ghost.tangle, "id": ghost.id, "depth": ghost.depth} for ghost in swept.ghosts],
        },
        words + (f"; {len(swept.ghosts):,} of them {would}remembered as ghosts" if swept.ghosts else ""),
    )
    return ExitCode.OK

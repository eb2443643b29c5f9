"""``bobbin tangle log``: the tangles of a lace, or the messages of one."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bobbin.cli import tangle_text
from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson, LaceFolder
from bobbin.cli.output import Output, not_found
from bobbin.cli.tangle_options import opened, resolve

if TYPE_CHECKING:
    from bobbin.runtime.tangle_writing import Tangles


def tangle_log(
    folder: LaceFolder,
    tangle: Annotated[
        str | None,
        typer.Argument(metavar="TANGLE", help="Show the messages of this one. Default: list tangles."),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            "-n",
            min=0,
            metavar="N",
            help="Only the last N messages, or the first N tangles.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> ExitCode:
    """List the tangles of a lace, or the messages of one.

    Messages come by depth, the root first, each with the account that says it; in an account, with the key that has
    signed. With --limit only the last so many. One that is not proven by the rules of the modern mode says why.

    Example: bobbin tangle log notes.lace 6nkF…
    """
    out = Output(as_json=as_json)
    with opened(folder) as lace:
        if tangle is None:
            return _list(out, folder, lace.tangles, limit)
        id = resolve(lace, tangle)
        structure = lace.tangles.tangle(id)
        order = list(structure.topological())
        if not order:
            return not_found(out, f"the root of the tangle {id} is not in {folder}")
        wanted = order if limit is None else order[max(0, len(order) - limit) :]
        for message in lace.tangles.shelf.messages(wanted):
            assert message is not None, "it is in the tangle"
            depth = out.style(f"{structure.depth(message.id):>5}", dim=True)
            words = tangle_text.message_line(out, lace.tangles, id, message)
            out.row(tangle_text.message_value(lace.tangles, id, message), f"{depth}  {words}")
    return ExitCode.OK


def _list(out: Output, folder: Path, tangles: "Tangles", limit: int | None) -> ExitCode:
    roots = dict.fromkeys(row.root for row in tangles.rows())
    for kept in tangles.kept():
        message = tangles.message(kept.id)
        if message is not None and message.is_root:
            roots[kept.id] = None
    shown = list(roots)[:limit]
    for root in shown:
        value = tangle_text.tangle_value(tangles, tangles.tangle(root))
        goal = "" if value["goal"] is None else f"  {out.style(str(value['goal']), fg='cyan')}"
        what = f"{value['kind'] or 'unknown':<8} {value['domain'] or '':<16} {value['messages']:>6,}"
        out.row(value, f"{out.style(root, bold=True)}  {out.style(what)}{goal}")
    if not roots:
        out.note(f"no tangles yet; begin one with: bobbin tangle new {folder} account")
    return ExitCode.OK

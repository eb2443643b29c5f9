"""``bobbin tangle goal``: how much of a tangle is wanted."""

from typing import TYPE_CHECKING, Annotated

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson, LaceFolder
from bobbin.cli.output import Output
from bobbin.cli.tangle_options import resolve
from bobbin.errors import UsageError

if TYPE_CHECKING:
    from bobbin.lace import Lace


def tangle_goal(
    folder: LaceFolder,
    tangle: Annotated[
        str | None, typer.Argument(metavar="TANGLE", help="Id of the tangle's root, or its beginning.")
    ] = None,
    goal: Annotated[
        str | None, typer.Argument(metavar="GOAL", help="all, none, set, dict or newest-N.", show_default=False)
    ] = None,
    clear: Annotated[
        bool, typer.Option("--clear", metavar="", help="Have no goal for it any more.", show_default=False)
    ] = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Show the goals, or say how much of a tangle is wanted.

    A goal decides what `bobbin tangle sync` asks of a peer and what `bobbin tangle gc` keeps. It never leaves this
    lace. A tangle of which nothing is here yet can have one. To set a goal deletes nothing by itself.

    Examples: bobbin tangle goal notes.lace · bobbin tangle goal notes.lace 6nkF… newest-100
    """
    from bobbin.lace import Lace

    out = Output(as_json=as_json)
    if clear and goal is not None:
        raise UsageError("either a goal or --clear, not both")
    with Lace.open(folder, read_only=goal is None and not clear) as lace:
        wanted = None if tangle is None else resolve(lace, tangle)
        if goal is not None or clear:
            if wanted is None:
                raise UsageError("name the tangle whose goal is to be cleared")
            if goal is not None:
                _check_sense(lace, wanted, goal)
            lace.tangles.set_goal(wanted, goal)
        found = {root: one.text for root, one in lace.tangles.goals().items() if wanted in (None, root)}
    for root, text in found.items():
        out.row({"tangle": root, "goal": text}, f"{root}  {out.style(text, fg='cyan')}")
    if not found:
        if wanted is not None:
            out.row({"tangle": wanted, "goal": None}, f"{wanted}  no goal")
        else:
            out.note(f"no goals yet; set one with: bobbin tangle goal {folder} TANGLE all")
    return ExitCode.OK


def _check_sense(lace: "Lace", tangle: str, text: str) -> None:
    """Refuse a goal that would let go of what nobody means to lose. Of a tangle that is not here, all is possible."""
    from bobbin.tangles.goals import GoalKind, parse_goal
    from bobbin.tangles.structures import DICT_DOMAIN_PREFIX, SET_DOMAIN_PREFIX
    from bobbin.tangles.tangle import Kind

    goal = parse_goal(text)
    if goal.kind is GoalKind.NEWEST and not goal.count:
        raise UsageError("newest-0 asks for nothing; that is the goal none")
    lace.tangles.refresh()
    root = lace.tangles.tangle(tangle).root
    if root is None or not goal.needs_structure:
        return
    prefix = SET_DOMAIN_PREFIX if goal.kind is GoalKind.SET else DICT_DOMAIN_PREFIX
    if lace.tangles.tangle(tangle).kind is not Kind.FEED or not root.domain.startswith(prefix):
        raise UsageError(f"{tangle} is no {goal.kind}: that is a feed whose domain begins with {prefix}")

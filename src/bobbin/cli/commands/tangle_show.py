"""``bobbin tangle show``: what is known of a tangle, and a drawing of it."""

from typing import TYPE_CHECKING, Annotated

import typer

from bobbin.cli import tangle_graph, tangle_text
from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson, LaceFolder
from bobbin.cli.output import Json, Output, not_found
from bobbin.cli.tangle_options import TangleId, opened, resolve

if TYPE_CHECKING:
    from bobbin.runtime.tangle_writing import Tangles
    from bobbin.tangles.tangle import Tangle


def tangle_show(
    folder: LaceFolder,
    tangle: TangleId,
    graph: Annotated[
        bool, typer.Option("--graph", metavar="", help="Draw it, the root on top.", show_default=False)
    ] = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Show what is known of a tangle.

    Its kind, account and goal, how much of it is held and proven, its tips, and what is named but not here. With
    --graph the messages follow as a drawing; a hollow dot is a message without its data. Every message is the root of
    a tangle, empty until somebody replies to it; of one that stands in others it is said in which.

    Example: bobbin tangle show notes.lace 6nkF… --graph
    """
    out = Output(as_json=as_json)
    with opened(folder) as lace:
        id = resolve(lace, tangle)
        structure = lace.tangles.tangle(id)
        if not len(structure):
            return not_found(out, f"nothing of the tangle {id} is in {folder}")
        value = tangle_text.tangle_value(lace.tangles, structure)
        drawing = _drawing(out, lace.tangles, structure) if graph else []
    if graph:
        value["graph"] = [line for line, _ in drawing]
    out.result(value, *_lines(out, value), *([""] if graph else []), *(words for _, words in drawing))
    return ExitCode.OK


def _lines(out: Output, value: dict[str, Json]) -> list[str]:
    have, tips, missing, within = value["have"], value["tips"], value["missing"], value["stands_in"]
    assert isinstance(tips, list)
    assert isinstance(missing, list)
    assert isinstance(within, list)
    rows = {
        "tangle": str(value["tangle"]),
        "kind": "unknown: its root is not here" if value["kind"] is None else str(value["kind"]),
        "stands in": ", ".join(map(str, within)) or None,
        "account": None if value["account"] is None else str(value["account"]),
        "domain": None if value["domain"] is None else str(value["domain"]),
        "goal": "none set" if value["goal"] is None else str(value["goal"]),
        "messages": f"{value['messages']:,} ({value['with_data']:,} with data, {value['proven']:,} proven)",
        "depths": None if not isinstance(have, list) else f"{have[0]} to {have[1]}",
        "tips": ", ".join(map(tangle_text.short, tips)) or "none",
        "not here": f"{', '.join(map(tangle_text.short, missing))}: let go, or never came" if missing else None,
        "ghosts": str(value["ghosts"]) if value["ghosts"] else None,
    }
    return [
        f"{out.style(f'{label:<9}', dim=True)} {out.style(text)}" for label, text in rows.items() if text is not None
    ]


def _drawing(out: Output, tangles: "Tangles", structure: "Tangle") -> list[tuple[str, str]]:
    """The lines of the drawing, bare and with words beside them."""

    def dot(id: str) -> str:
        return tangle_graph.DOT if structure.has_data(id) else tangle_graph.HOLLOW

    order = structure.topological()
    lines = tangle_graph.draw(order, tangle_graph.nearest(structure), dot)
    messages = dict(zip(order, tangles.shelf.messages(list(order)), strict=True))
    width = max((len(line.drawing) for line in lines if line.message), default=0)
    drawn: list[tuple[str, str]] = []
    for line in lines:
        message = None if line.message is None else messages[line.message]
        if message is None:
            drawn.append((line.drawing, line.drawing))
            continue
        words = tangle_text.message_line(out, tangles, structure.id, message)
        depth = out.style(f"{message.depth_in(structure.id):>3}", dim=True)
        drawn.append((f"{line.drawing}  {message.id}", f"{line.drawing:<{width}} {depth}  {words}"))
    return drawn

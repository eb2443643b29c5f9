"""``bobbin cluster rotate``: another key for a node, or for its operator."""

import asyncio
from typing import Annotated

import typer

from bobbin.cli.cluster_asking import SECONDS, NodeDir, Seconds
from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson
from bobbin.cli.output import Output, refused
from bobbin.errors import ResourceError


def cluster_rotate(
    folder: NodeDir,
    operator: Annotated[
        bool,
        typer.Option("--operator", metavar="", help="Change the operator's key, not the node's.", show_default=False),
    ] = False,
    seconds: Seconds = SECONDS,
    as_json: AsJson = False,
) -> ExitCode:
    """Give the node of a folder another key, or its operator; a majority of the nodes has to run.

    The node may run meanwhile. It goes on with the old key, and both count, until it is started again; then the old one
    is refused. The new key of an operator counts at once, and the old one no more. If this is cut off, do it again.

    Example: bobbin cluster rotate here
    """
    from bobbin.cli.cluster_majority import explained
    from bobbin.cli.cluster_rotation import rotate_node, rotate_operator
    from bobbin.config.cluster import read_folder
    from bobbin.config.replicated import lace_of
    from bobbin.runtime.cluster_client import NotAccepted

    out = Output(as_json=as_json)
    try:
        if operator:
            key = rotate_operator(folder, seconds=seconds)
            out.result({"operator": key}, f"the operator has the key {key}")
            out.note("the old one opens nothing any more")
            if (lace := lace_of(folder)) is not None:
                out.note(f"start the replicated lace again, which asks the other nodes by it: bobbin serve {lace}")
            return ExitCode.OK
        done = rotate_node(folder, seconds=seconds)
    except ResourceError as error:
        if (better := asyncio.run(explained(error, [read_folder(folder)], folder))) is not None:
            raise better from error
        if not isinstance(error, NotAccepted):
            raise
        return refused(out, str(error))
    out.result({"node": done.node, "key": done.key}, f"{done.node} has the key {done.key}")
    for silent in done.silent:
        out.warn(f"{silent} does not answer; it has to be back before the next key is changed, or it will know nobody")
    for behind in done.behind:
        out.warn(f"{behind} has not learnt of it yet; it has to before the next key is changed, or it will know nobody")
    out.note("start the node again to use it; until then the old one counts, too")
    return ExitCode.OK

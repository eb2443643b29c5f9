"""Reading a replicated lace: what is shown is all that was committed, or is said to be old, perhaps."""

from pathlib import Path
from typing import TYPE_CHECKING

from bobbin.config.layout import Layout
from bobbin.errors import ResourceError

if TYPE_CHECKING:
    from bobbin.cli.output import Output


def freshen(out: "Output", folder: Path) -> None:
    """Wait until the node in a folder holds all that is committed by now; warn where that cannot be had.

    What is read afterwards is then what this node had, which may be old. A lace of one machine is always up to date.
    """
    layout = Layout(folder)
    if not layout.cluster.is_dir():
        return
    if not (layout.cluster / "node.sock").exists():
        out.warn(
            f"stale: no node of the replicated lace runs in {folder}; this is what it had, which may be old; "
            f"`bobbin serve {folder}` starts it"
        )
        return
    from bobbin.config.replicated import open_replicated
    from bobbin.runtime.clock import tai_now

    try:
        with open_replicated(layout, now=tai_now) as store:
            store.settle()
    except ResourceError as error:
        out.warn(f"stale: {error}; this is what the node here has, which may be old")

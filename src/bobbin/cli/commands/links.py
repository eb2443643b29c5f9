"""``bobbin links``: the links of the node that serves a lace."""

from bobbin.cli import link_text
from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.node_client import ask_links
from bobbin.cli.options import AsJson, LaceFolder
from bobbin.cli.output import Output


def links(folder: LaceFolder, as_json: AsJson = False) -> ExitCode:
    """Show what the node of a lace is doing: its links, and what is missing and why.

    Asks the node over the socket in the folder; ends with 5 if no node runs.

    Example: bobbin links notes.lace
    """
    out = Output(as_json=as_json)
    status = ask_links(folder)
    if as_json:
        from bobbin.runtime.status import encode_status

        out.json_text(encode_status(status))
        return ExitCode.OK
    lines = [*link_text.node_lines(out, status)]
    for link in status.links:
        lines += ["", *link_text.link_lines(out, link, status.at)]
    if not status.links:
        lines += ["", "no links"]
    if status.past:
        lines += ["", "over:"]
        lines += [link_text.past_line(out, past, status.at) for past in status.past[: link_text.PAST_SHOWN]]
    out.result(None, *lines)
    return ExitCode.OK

"""``bobbin replay``: run a recorded exchange again, and see whether this version does the same."""

from typing import Annotated

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson
from bobbin.cli.output import Json, Output
from bobbin.cli.sources import check_files, open_source
from bobbin.cli.text import count_text


def replay(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Recording of `bobbin sync --record`; - for stdin.", allow_dash=True)
    ],
    as_json: AsJson = False,
) -> ExitCode:
    """Replay a recorded exchange, bit for bit.

    A new machine is given the same events, times and answers, and everything that it asks and does is compared. Needs
    no lace and changes nothing. Ends with 1 if it does something else, or if the file was cut off.

    Example: bobbin replay exchange.recording
    """
    from bobbin.runtime import recording

    out = Output(as_json=as_json)
    check_files([file])
    with open_source(file) as source:
        replayed = recording.replay(source.stream)
    difference = replayed.difference
    value: dict[str, Json] = {
        "file": file,
        "equal": difference is None,
        "steps": replayed.steps,
        "ended": replayed.ended,
        "full": replayed.is_full,
        "cut_off": replayed.is_cut_off,
        "difference": None
        if difference is None
        else {"step": difference.step, "event": difference.event, "what": difference.what},
    }
    if difference is not None:
        head = out.style("another course", fg="red", bold=True)
        lines = [
            f"{head} at step {difference.step:,}, after {count_text(replayed.steps, 'equal step')}",
            out.style(f"  given {difference.event}"),
            out.style(f"  {difference.what}"),
        ]
        out.result(value, *lines)
        return ExitCode.NOT_ALL
    end = "to the end of the exchange" if replayed.ended else "as far as it was recorded"
    out.result(value, f"{out.style('equal', fg='green', bold=True)} · {count_text(replayed.steps, 'step')}, {end}")
    if replayed.is_full:
        out.note("the recording stopped at its size limit")
    if replayed.is_cut_off:
        out.warn("the file ends within a step: the recording was cut off there, or the file is damaged")
        return ExitCode.NOT_ALL
    return ExitCode.OK

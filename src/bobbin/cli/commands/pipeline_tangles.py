"""``bobbin pipeline tangles``: every tangle of a lake at a glance."""

from typing import TYPE_CHECKING, Annotated

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson
from bobbin.cli.output import Output
from bobbin.cli.pipeline_checks import check_lake
from bobbin.cli.pipeline_run import LOCAL, Debug, LakeFolder, Master, Memory, require_extra, running
from bobbin.cli.tangle_text import short
from bobbin.cli.text import count_text

if TYPE_CHECKING:
    from bobbin.pipeline.jobs.tangles import SurveyedTangle


def pipeline_tangles(
    lake: LakeFolder,
    rounds: Annotated[
        int, typer.Option("--rounds", min=1, metavar="N", help="Follow ways to the root in at most N rounds.")
    ] = 64,
    master: Master = LOCAL,
    memory: Memory = None,
    debug: Debug = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Show the tangles of a lake, from the messages that are records in it.

    For each: messages, depth, tips, missing predecessors, the range of depths that are there, messages whose depth is
    wrong, and messages that no way leads from to the root. Ends with 1 if something is missing or wrong.

    Example: bobbin pipeline tangles archive.lake
    """
    require_extra()
    check_lake(lake)
    import msgspec

    from bobbin.pipeline.hadoop_files import files_of
    from bobbin.pipeline.jobs import tangles
    from bobbin.store.lake.lake import Lake

    out = Output(as_json=as_json)
    code = ExitCode.OK
    with running("tangles", master=master, memory=memory, debug=debug, as_json=as_json) as job:
        opened = Lake.open(lake, files=files_of(job.session, lake))
        survey = tangles.run(job.session, opened, rounds_max=rounds, step=job.step)
        for one in survey.tangles():
            out.row(msgspec.to_builtins(one), _line(out, one))
            if one.missing_count or one.wrong_depth or one.adrift:
                code = ExitCode.NOT_ALL
    if not survey.complete:
        out.warn(
            f"after {count_text(survey.rounds, 'round')} there were still messages to follow; --rounds allows more"
        )
        code = ExitCode.NOT_ALL
    return code


def _line(out: Output, one: "SurveyedTangle") -> str:
    depths = "no root" if one.have is None else f"{one.have[0]} to {one.have[1]}"
    parts = [count_text(one.messages, "message"), f"depths {depths}", count_text(one.tip_count, "tip")]
    faults = [
        f"{one.missing_count:,} missing ({', '.join(map(short, one.missing[:3]))})" if one.missing_count else "",
        f"{one.wrong_depth:,} at a wrong depth" if one.wrong_depth else "",
        f"{one.adrift:,} adrift" if one.adrift else "",
    ]
    words = " · ".join(parts + [out.style(fault, fg="yellow") for fault in faults if fault])
    return f"{out.style(one.tangle, bold=True)}  {words}"

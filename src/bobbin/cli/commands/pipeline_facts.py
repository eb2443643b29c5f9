"""``bobbin pipeline facts``: bring the facts of a lake up to date with its records."""

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson
from bobbin.cli.output import Output
from bobbin.cli.pipeline_checks import check_lake
from bobbin.cli.pipeline_run import LOCAL, Debug, LakeFolder, Master, Memory, require_extra, running
from bobbin.cli.text import count_text


def pipeline_facts(
    lake: LakeFolder,
    master: Master = LOCAL,
    memory: Memory = None,
    debug: Debug = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Write down what every record of a lake says, one row for each.

    Only records that came since the last time are read. Where files of records are gone (compacted, removed), all are
    read again. The other jobs do this by themselves when they need it.

    Example: bobbin pipeline facts archive.lake
    """
    require_extra()
    check_lake(lake)
    from bobbin.pipeline.hadoop_files import files_of
    from bobbin.pipeline.jobs import facts
    from bobbin.store.lake.lake import Lake

    out = Output(as_json=as_json)
    with running("facts", master=master, memory=memory, debug=debug, as_json=as_json) as job:
        opened = Lake.open(lake, files=files_of(job.session, lake))
        report = facts.run(job.session, opened, step=job.step)
        after = opened.manifest("facts").rows
    described = 0 if report is None else report.counts["described"]
    out.result(
        {
            "lake": lake,
            "run": None if report is None else report.run,
            "described": described,
            "facts": after,
            "seconds": 0.0 if report is None else report.seconds,
        },
        f"{count_text(described, 'record')} described, {count_text(after, 'row')} in the table facts"
        + ("" if report is None else f" ({report.seconds:.1f} s)"),
    )
    return ExitCode.OK

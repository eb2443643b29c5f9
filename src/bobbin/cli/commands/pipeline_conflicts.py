"""``bobbin pipeline conflicts``: all pairs of changes of each window, by class."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson
from bobbin.cli.output import Json, Output
from bobbin.cli.pipeline_checks import check_place
from bobbin.cli.pipeline_run import LOCAL, Debug, LakeFolder, Master, Memory, require_extra, running
from bobbin.cli.text import count_text

if TYPE_CHECKING:
    from bobbin.store.lake.report import Report

_REFUSED: Final = ("conflicting", "ambiguous")
_CLASSES: Final = ("orthogonal", "low_conflict", "identical", "opposite", *_REFUSED)

Deltas = Annotated[
    str,
    typer.Argument(
        metavar="DELTAS",
        help="Changes: a Parquet file, a folder of such, lines of JSON (.jsonl), or blocks of a chain (.blocks.jsonl).",
        show_default=False,
    ),
]


def pipeline_conflicts(
    lake: LakeFolder,
    deltas: Deltas,
    identical: Annotated[
        float, typer.Option("--identical", metavar="C", help="Least cosine of Identical, if all keys are shared.")
    ] = 0.99,
    opposite: Annotated[
        float, typer.Option("--opposite", metavar="C", help="Greatest cosine of Opposite, if all keys are shared.")
    ] = -0.95,
    orthogonal: Annotated[
        float, typer.Option("--orthogonal", metavar="C", help="Orthogonal is below it, in size.")
    ] = 0.1,
    conflicting: Annotated[
        float, typer.Option("--conflicting", metavar="C", help="Least cosine of Conflicting.")
    ] = 0.7,
    structural: Annotated[float, typer.Option("--structural", metavar="J", help="Least Jaccard of Conflicting.")] = 0.5,
    merge_shared_keys: Annotated[
        bool,
        typer.Option(
            "--merge-shared-keys",
            metavar="",
            help="Take a shared key without other conflict for LowConflict, not Ambiguous.",
            show_default=False,
        ),
    ] = False,
    heights: Annotated[
        int, typer.Option("--heights", min=1, metavar="N", help="Of blocks: N heights make a window.")
    ] = 1_000,
    dimension: Annotated[
        int, typer.Option("--dimension", min=1, max=65_536, metavar="N", help="Of blocks: what changes have there.")
    ] = 128,
    master: Master = LOCAL,
    memory: Memory = None,
    debug: Debug = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Classify all pairs of changes in each window, as a node would class them.

    Pairs that are not orthogonal go to the table conflicts/KEY of the lake, and the sums of each window to windows/KEY.
    Ends with 1 if some pairs are conflicting or ambiguous.

    Example: bobbin pipeline conflicts study.lake deltas.parquet
    """
    require_extra()
    from bobbin.cluster.conflicts.classify import Thresholds
    from bobbin.pipeline.hadoop_files import files_of
    from bobbin.pipeline.jobs import conflicts
    from bobbin.store.lake.lake import Lake

    thresholds = Thresholds(
        identical=identical,
        opposite=opposite,
        orthogonal=orthogonal,
        conflicting=conflicting,
        structural=structural,
        merges_shared_keys=merge_shared_keys,
    )
    check_place(lake)
    source = conflicts.find_source(deltas, heights=heights, dimension=dimension)
    out = Output(as_json=as_json)
    with running("conflicts", master=master, memory=memory, debug=debug, as_json=as_json) as job:
        opened = Lake.open_or_create(lake, files=files_of(job.session, lake))
        report = conflicts.run(job.session, opened, source, thresholds=thresholds, step=job.step)
    key = conflicts.key_of(source, thresholds)
    answer: dict[str, Json] = {
        "lake": lake,
        "run": report.run,
        "key": key,
        "source": deltas,
        **report.counts,
        "seconds": report.seconds,
    }
    out.result(answer, *_lines(out, report, key))
    return ExitCode.NOT_ALL if any(report.counts[name] for name in _REFUSED) else ExitCode.OK


def _lines(out: Output, report: "Report", key: str) -> list[str]:
    counts = report.counts
    lines = []
    for name in _CLASSES:
        label = f"{name.replace('_', ' '):<12}"
        lines.append(
            f"{out.style(label, fg='yellow') if name in _REFUSED and counts[name] else label}  {counts[name]:>14,}"
        )
    lines.append(
        f"{count_text(counts['pairs'], 'pair')} of {count_text(counts['deltas'], 'change')} in "
        f"{count_text(counts['windows'], 'window')}, in {report.seconds:.1f} s"
    )
    lines.append(f"{out.style(f'conflicts/{key}', bold=True)}, {out.style(f'windows/{key}', bold=True)}")
    lines.append(f"run {report.run}")
    return lines

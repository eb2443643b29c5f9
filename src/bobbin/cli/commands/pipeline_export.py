"""``bobbin pipeline export``: write records of a lake to a bundle, or into a lace."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson, parse_place
from bobbin.cli.output import Json, Output
from bobbin.cli.pipeline_checks import check_lake, check_selection
from bobbin.cli.pipeline_offer import AllowStale
from bobbin.cli.pipeline_run import LOCAL, Debug, LakeFolder, Master, Memory, require_extra, running
from bobbin.cli.text import count_text, size_text
from bobbin.errors import UsageError

if TYPE_CHECKING:
    from bobbin.pipeline.jobs.export import Exported


class OrderChoice(StrEnum):
    """How records follow one another, as the user says it."""

    HASH = "hash"
    TAI = "tai"


class PredicateChoice(StrEnum):
    """Which part of a selection, as the user says it."""

    SELECT_HAVE = "SelectHave"
    MAY_SEND = "MaySend"
    MAY_REQUEST = "MayRequest"


def pipeline_export(
    lake: LakeFolder,
    to: Annotated[
        Path,
        typer.Option("--to", metavar="TARGET", help="A file, for a bundle; a folder that is a lace or ends in .lace."),
    ],
    selection: Annotated[
        str | None,
        typer.Option(
            "--selection", metavar="KEY", help="Only what this selection of the lake has.", show_default=False
        ),
    ] = None,
    plan: Annotated[
        str | None,
        typer.Option("--plan", metavar="ID", help="The same, for the one that this plan has made.", show_default=False),
    ] = None,
    predicate: Annotated[
        PredicateChoice, typer.Option("--predicate", help="Of a selection: which of its answers.")
    ] = PredicateChoice.MAY_SEND,
    allow_stale: AllowStale = False,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="PLACE", help="Only the records at this coordinate or below this prefix."),
    ] = None,
    order: Annotated[
        OrderChoice, typer.Option("--order", help="Of a bundle: by hash, or by time with Blobs first.")
    ] = OrderChoice.HASH,
    master: Master = LOCAL,
    memory: Memory = None,
    debug: Debug = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Write the records of a lake to a bundle, or into a lace.

    The workers write parts beside the target, in .TARGET.export; the target appears, or is replaced, when it is
    complete and on disk. An export that was interrupted goes on with the parts that it finds, if the lake and what is
    asked for are the same. A lace that is there already grows; every record is checked again on its way in. A
    selection that was made before the last records came is refused. Ends with 1 if the lace did not take everything.

    Example: bobbin pipeline export archive.lake --to to-lab.bundle --at //u//ding//
    """
    require_extra()
    from bobbin.pipeline.hadoop_files import files_of
    from bobbin.pipeline.jobs import export
    from bobbin.store.lake.lake import Lake

    if selection is not None and plan is not None:
        raise UsageError("name a selection by its key or by its plan, not by both")
    out = Output(as_json=as_json)
    place = None if at is None else parse_place(at)
    there = check_lake(lake)
    export.check_target(to, there)
    if there is not None:
        selection = export.selection_of(there, plan) if plan is not None else selection
        check_selection(there, selection, predicate.value, allow_stale=allow_stale)
    with running("export", master=master, memory=memory, debug=debug, as_json=as_json) as job:
        opened = Lake.open(lake, files=files_of(job.session, lake))
        if there is None and plan is not None:
            selection = export.selection_of(opened, plan)
        choice = export.Choice(selection=selection, predicate=predicate.value, at=place, allow_stale=allow_stale)
        done = export.run(job.session, opened, to, choice=choice, order=export.Order(order.value), step=job.step)
    out.result(_answer(lake, done), *_lines(out, to, done))
    for note in done.stale:
        out.warn(note)
    is_all = done.imported is None or not (done.imported.refused or done.imported.rejected)
    return ExitCode.OK if is_all else ExitCode.NOT_ALL


def _answer(lake: str, done: "Exported") -> dict[str, Json]:
    answer: dict[str, Json] = {
        "lake": lake,
        "run": done.report.run,
        "target": done.target,
        "form": done.form,
        "records": done.records,
        "bytes": done.bytes,
        "parts": done.parts,
        "parts_reused": done.reused,
        "notes": list(done.report.notes),
        "seconds": done.report.seconds,
    }
    if done.digest is not None:
        answer["digest"] = done.digest
    if done.imported is not None:
        answer |= {name: done.report.counts[name] for name in ("stored", "duplicate", "refused", "rejected")}
    return answer


def _lines(out: Output, to: Path, done: "Exported") -> list[str]:
    words = f"{count_text(done.records, 'record')}, {size_text(done.bytes)} → {out.style(str(to), bold=True)}"
    lines = [f"{words}  {out.style(f'({done.report.seconds:.1f} s)', dim=True)}"]
    if done.imported is not None:
        counts = done.report.counts
        lines.append(" · ".join(f"{counts[name]:,} {name}" for name in ("stored", "duplicate", "refused", "rejected")))
    if done.reused:
        lines.append(
            f"{done.reused} of {count_text(done.parts, 'part')} were there from an export that was interrupted"
        )
    return lines

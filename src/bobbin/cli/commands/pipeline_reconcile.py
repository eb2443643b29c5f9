"""``bobbin pipeline reconcile``: where a lake and another side differ, and what to ship."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson
from bobbin.cli.output import Json, Output
from bobbin.cli.pipeline_checks import check_lake, check_selection, check_target
from bobbin.cli.pipeline_offer import (
    DEFAULT_PREDICATE,
    AllowStale,
    Fields,
    NoFields,
    Predicate,
    Selection,
    SourceLabel,
    parse_form,
    parse_offer,
)
from bobbin.cli.pipeline_run import LOCAL, Debug, LakeFolder, Master, Memory, require_extra, running
from bobbin.cli.text import count_text
from bobbin.errors import UsageError

if TYPE_CHECKING:
    from bobbin.pipeline.jobs.reconcile import Difference

_WORDS: Final = {"missing": "only there", "extra": "only here", "differing": "other claims"}


Other = Annotated[
    str,
    typer.Argument(
        metavar="OTHER", help="A lake, a lace, or a file that `advertise --to` has written.", show_default=False
    ),
]
Link = Annotated[
    str | None,
    typer.Option(
        "--link",
        metavar="ID",
        help="OTHER is a lace: compare with what the peer of this link last advertised to it.",
        show_default=False,
    ),
]
Bundle = Annotated[
    Path | None,
    typer.Option("--bundle", metavar="FILE", help="Write the records that only LAKE has.", show_default=False),
]
Wanted = Annotated[
    Path | None,
    typer.Option("--wanted", metavar="FILE", help="Write the names of those that only OTHER has.", show_default=False),
]
OtherSelection = Annotated[
    str | None,
    typer.Option("--other-selection", metavar="KEY", help="The same, of OTHER if it is a lake.", show_default=False),
]


def pipeline_reconcile(
    lake: LakeFolder,
    other: Other,
    link: Link = None,
    bundle: Bundle = None,
    wanted: Wanted = None,
    selection: Selection = None,
    predicate: Predicate = DEFAULT_PREDICATE,
    other_selection: OtherSelection = None,
    allow_stale: AllowStale = False,
    source: SourceLabel = None,
    field: Fields = None,
    no_fields: NoFields = False,
    listed: Annotated[int, typer.Option("--list", min=0, metavar="N", help="Show the first N of each kind.")] = 10,
    master: Master = LOCAL,
    memory: Memory = None,
    debug: Debug = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Compare what a lake offers with another side: what is missing, what is extra, where claims differ.

    Tables that `bobbin pipeline advertise` has made are used if they are up to date: what lies under equal roots is
    then not looked at. Everything else is computed on the way; OTHER is only read. A selection that was made before
    the last records came is refused. Ends with 1 if the sides differ.

    Example: bobbin pipeline reconcile archive.lake notes.lace --bundle to-notes.bundle
    """
    require_extra()
    own = check_lake(lake)
    for target in (bundle, wanted):
        if target is not None:
            check_target(target, lake)
    if bundle is not None and wanted is not None and bundle.absolute() == wanted.absolute():
        raise UsageError("--bundle and --wanted name one file; give each its own")
    check_selection(own, selection, predicate, allow_stale=allow_stale)
    from bobbin.pipeline.hadoop_files import files_of
    from bobbin.pipeline.jobs import reconcile, sides
    from bobbin.store.lake.lake import Lake

    out = Output(as_json=as_json)
    there = sides.find_other(other, link=link)
    form = sides.form_of_other(there)
    if form is not None and (source or field or no_fields):
        raise UsageError(f"{other} says itself who advertises which fields; leave --source and --field out")
    if isinstance(there, sides.AtLake):
        check_selection(check_lake(other), other_selection, predicate, allow_stale=allow_stale)
    elif other_selection is not None:
        raise UsageError(f"--other-selection is about a lake, and {other} is none")
    form = form or parse_form(source, field, no_fields=no_fields)
    ours, theirs = parse_offer(form, selection, predicate), parse_offer(form, other_selection, predicate)
    with running("reconcile", master=master, memory=memory, debug=debug, as_json=as_json) as job:
        opened = Lake.open(lake, files=files_of(job.session, lake))
        here = sides.side_of_lake(job.session, opened, ours, allow_stale=allow_stale)
        other_side = sides.side_of(job.session, there, theirs, allow_stale=allow_stale)
        found = reconcile.run(
            job.session,
            opened,
            here,
            other_side,
            bundle=bundle,
            wanted=wanted,
            listed_max=listed,
            step=job.step,
        )
    counts = {name: getattr(found.counts, name) for name in found.counts.__struct_fields__}
    answer: dict[str, Json] = {
        "lake": lake,
        "other": other,
        **counts,
        "listed": found.listed,
        "bundle": None if bundle is None else str(bundle),
        "shipped": found.shipped,
        "wanted": None if wanted is None else str(wanted),
    }
    out.result(answer, *_lines(out, found, bundle, wanted))
    for note in (*here.notes, *other_side.notes):
        out.warn(note)
    differences = found.counts.missing + found.counts.extra + found.counts.differing
    return ExitCode.NOT_ALL if differences else ExitCode.OK


def _lines(out: Output, found: "Difference", bundle: Path | None, wanted: Path | None) -> list[str]:
    counts = found.counts
    lines = []
    for state, words in _WORDS.items():
        names = found.listed[state]
        lines += [f"{out.style(words, fg='yellow'):<12}  {name}" for name in names]
        if (more := getattr(counts, state) - len(names)) > 0 and names:
            lines.append(out.style(f"{words:<12}  … and {more:,} more", dim=True))
    lines.append(
        f"{count_text(counts.here, 'record')} here = {counts.common:,} in common + {counts.differing:,} with other "
        f"claims + {counts.extra:,} only here"
    )
    lines.append(
        f"{count_text(counts.there, 'record')} there = {counts.common:,} in common + {counts.differing:,} with other "
        f"claims + {counts.missing:,} only there"
    )
    if bundle is not None:
        lines.append(f"{count_text(found.shipped or 0, 'record')} → {out.style(str(bundle), bold=True)}")
    if wanted is not None:
        lines.append(f"{count_text(counts.missing, 'name')} → {out.style(str(wanted), bold=True)}")
    return lines

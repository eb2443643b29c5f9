"""``bobbin pipeline advertise``: what a lake offers, as digests and partition roots."""

from pathlib import Path
from typing import Annotated

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
    parse_lengths,
    parse_offer,
)
from bobbin.cli.pipeline_run import LOCAL, Debug, LakeFolder, Master, Memory, require_extra, running
from bobbin.cli.text import count_text


def pipeline_advertise(
    lake: LakeFolder,
    source: SourceLabel = None,
    field: Fields = None,
    no_fields: NoFields = False,
    selection: Selection = None,
    predicate: Predicate = DEFAULT_PREDICATE,
    allow_stale: AllowStale = False,
    k: Annotated[str, typer.Option("--k", metavar="N,N", help="Lengths of the prefixes that partitions have.")] = "2",
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="FILE", help="Also write the digests to a file, for a peer.", show_default=False),
    ] = None,
    master: Master = LOCAL,
    memory: Memory = None,
    debug: Debug = False,
    as_json: AsJson = False,
) -> ExitCode:
    """Compute the advertisements of a lake's records and the roots of their partitions.

    Digests and roots are those that an exchange would compute for the same records, under the same origin and with the
    same fields. What is there already is not computed again. A selection that was made before the last records came is
    refused, since its rules may deny now what they allowed then.

    Example: bobbin pipeline advertise archive.lake --source source:archive --field Name --field TAI --k 2,3
    """
    require_extra()
    there = check_lake(lake)
    lengths = parse_lengths(k)
    offer = parse_offer(parse_form(source, field, no_fields=no_fields), selection, predicate)
    if to is not None:
        check_target(to, lake)
    check_selection(there, selection, predicate, allow_stale=allow_stale)
    from bobbin.pipeline import advertisement_file
    from bobbin.pipeline.hadoop_files import files_of
    from bobbin.pipeline.jobs import advertise
    from bobbin.store.lake.lake import Lake

    out = Output(as_json=as_json)
    with running("advertise", master=master, memory=memory, debug=debug, as_json=as_json) as job:
        opened = Lake.open(lake, files=files_of(job.session, lake))
        report = advertise.run(job.session, opened, offer, lengths=lengths, allow_stale=allow_stale, step=job.step)
        made, summarised = opened.manifest(offer.advertisements), opened.manifest(offer.partitions)
    if to is not None:
        advertisement_file.write(opened, made, to)
    answer: dict[str, Json] = {
        "lake": lake,
        "run": None if report is None else report.run,
        "key": offer.key,
        "source": offer.form.source,
        "fields": None if offer.form.schema.all else sorted(offer.form.schema.names),
        "selection": selection,
        "advertisements": made.rows,
        "partitions": summarised.rows,
        "k": summarised.properties["k"],
        "notes": [] if report is None else list(report.notes),
        "absent": 0 if report is None else report.counts.get("absent", 0),
        "file": None if to is None else str(to),
        "seconds": 0.0 if report is None else report.seconds,
    }
    out.result(
        answer,
        f"{count_text(made.rows, 'advertisement')}, {count_text(summarised.rows, 'partition')} "
        f"(k = {summarised.properties['k']}) under the key {out.style(offer.key, bold=True)}"
        + (" as before" if report is None else f" in {report.seconds:.1f} s"),
        *([] if to is None else [f"→ {out.style(str(to), bold=True)}"]),
    )
    for note in () if report is None else report.notes:
        out.warn(note)
    if answer["absent"]:
        out.warn(f"{count_text(int(str(answer['absent'])), 'selected record')} not in the lake, and not advertised")
    return ExitCode.OK

"""``bobbin import``: take in the records of files."""

import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, Final, cast

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.message_records import take_in
from bobbin.cli.options import AsJson, Form, FormChoice, LaceFolder, Workers, chosen_form
from bobbin.cli.output import Output, encode
from bobbin.cli.progress import CountingReader, progress
from bobbin.cli.sources import ProblemPrinter, check_files, check_outside, choose_workers, open_source
from bobbin.cli.text import count_text, printable, size_text
from bobbin.errors import ResourceError

if TYPE_CHECKING:
    from bobbin.lace import Lace
    from bobbin.runtime.ingest import Ingested

_COUNTS: Final = ("read", "stored", "duplicate", "refused", "rejected", "bytes_read")


def import_(
    folder: LaceFolder,
    files: Annotated[
        list[str], typer.Argument(metavar="FILE", help="Bundles or JSONL files; - for stdin.", show_default=False)
    ],
    form: Form = FormChoice.AUTO,
    workers: Workers = None,
    acknowledge: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Append one line of JSON after each durable commit: how far everything is safe."
        ),
    ] = None,
    as_json: AsJson = False,
) -> ExitCode:
    """Check every record of some files, store the valid ones.

    What is no valid record is listed with its offset and reason, and goes to the quarantine as far as there is room;
    its neighbours are stored. Importing again is safe: what is here already counts as duplicate. Ends with 1 if
    anything was not taken.

    Example: bobbin import notes.lace from-lab.bundle
    """
    from bobbin.lace import Lace

    out = Output(as_json=as_json)
    check_files(files)
    check_outside(folder, *files, *([] if acknowledge is None else [acknowledge]))
    began = time.monotonic()
    with ExitStack() as stack:
        lace = stack.enter_context(Lace.open(folder))
        ledger = None if acknowledge is None else stack.enter_context(acknowledge.open("ab"))
        before = lace.stat().quarantine_overflow
        totals = [_import_file(lace, file, form, workers, out, ledger) for file in files]
        sums = {field: sum(getattr(total, field) for total in totals) for field in _COUNTS}
        sums |= _not_kept(lace, before, rejected=sums["rejected"])
        take_in(lace)
    out.result(
        {"event": "summary", "files": len(files), **sums}, *_summary(out, folder, sums, time.monotonic() - began)
    )
    return ExitCode.NOT_ALL if sums["rejected"] or sums["refused"] else ExitCode.OK


def _import_file(
    lace: "Lace", file: str, form: FormChoice, workers: int | None, out: Output, ledger: BinaryIO | None
) -> "Ingested":
    stored = 0
    with open_source(file) as source, progress(f"import {file}", "bytes") as meter:
        printer = ProblemPrinter(out, meter)

        def acknowledged(so_far: "Ingested") -> None:
            nonlocal stored
            stored = so_far.stored
            if ledger is not None:
                counts = {field: getattr(so_far, field) for field in (*_COUNTS, "durable_offset")}
                ledger.write(encode({"source": source.name, **counts}) + b"\n")
                ledger.flush()
            printer.flush()

        try:
            total = lace.import_(
                cast(BinaryIO, CountingReader(source.stream, source.size, meter)),
                source=source.name,
                form=chosen_form(form),
                workers=choose_workers(workers, source.size),
                report=printer.report,
                acknowledge=acknowledged,
            )
        except (ResourceError, KeyboardInterrupt):
            if stored:
                out.warn(
                    f"{count_text(stored, 'record')} of {printable(source.name)} had been stored, perhaps more; import "
                    "it again: what is there counts as duplicate"
                )
            raise
        printer.flush()
        return total


def _summary(out: Output, folder: Path, sums: dict[str, int], seconds: float) -> list[str]:
    def part(word: str, fg: str) -> str:
        count = sums[word]
        return out.style(f"{count:,} {word}", fg=fg if count else None, bold=bool(count))

    parts = [part("stored", "green"), part("duplicate", "yellow"), part("refused", "yellow"), part("rejected", "red")]
    pace = f"{count_text(sums['read'], 'record')}, {size_text(sums['bytes_read'])} in {seconds:.1f} s"
    lines = [f"{' · '.join(parts)}  {out.style(f'({pace})', dim=True)}"]
    if sums["rejected"]:
        is_all = not sums["only_counted"] and not sums["without_bytes"]
        words = "rejected bytes are in the quarantine" if is_all else "the quarantine took what it had room for"
        lines.append(f"{words}: bobbin quarantine list {printable(str(folder))}")
    if sums["only_counted"]:
        lines.append(f"{sums['only_counted']:,} of the rejected were only counted: the quarantine has no row left")
    if sums["without_bytes"]:
        rows = count_text(sums["without_bytes"], "row")
        lines.append(f"{rows} of the quarantine came without bytes: too large, or no room for more")
    return lines


def _not_kept(lace: "Lace", overflow_before: int, *, rejected: int) -> dict[str, int]:
    """How many of the rejected were only counted, and how many rows of the quarantine are there without their bytes."""
    if not rejected:
        return {"only_counted": 0, "without_bytes": 0}
    # Someone may have emptied the quarantine meanwhile.
    only_counted = max(0, lace.stat().quarantine_overflow - overflow_before)
    return {
        "only_counted": only_counted,
        "without_bytes": sum(not row.kept for row in lace.quarantined(with_bytes=False)),
    }

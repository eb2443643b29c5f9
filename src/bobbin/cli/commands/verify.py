"""``bobbin verify``: check records without storing anything."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, cast

import typer

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson, Form, FormChoice, Workers, chosen_form
from bobbin.cli.output import Output
from bobbin.cli.progress import CountingReader, progress
from bobbin.cli.sources import ProblemPrinter, check_files, check_outside, choose_workers, open_source
from bobbin.cli.text import count_text, size_text

if TYPE_CHECKING:
    from bobbin.runtime.transfer import Verified


def verify(
    target: Annotated[
        str,
        typer.Argument(metavar="FILE|DIR", help="A bundle, a JSONL file, or a lace; - for stdin.", show_default=False),
    ],
    form: Form = FormChoice.AUTO,
    workers: Workers = None,
    as_json: AsJson = False,
) -> ExitCode:
    """Check a file or a lace; store and change nothing.

    Every byte of every record: structure, digests, signatures. Needs no lace of your own, only the file. Each
    record that is not valid is listed with its offset and reason. Ends with 1 if a file has any, with 3 if a lace
    has.

    Example: bobbin verify from-lab.bundle
    """
    out = Output(as_json=as_json)
    began = time.monotonic()
    if target != "-" and Path(target).is_dir():
        answer = _verify_lace(out, Path(target), workers)
        bad = ExitCode.INTEGRITY
    else:
        check_files([target])
        check_outside(None, target)
        answer = _verify_file(out, target, form, workers)
        bad = ExitCode.NOT_ALL
    kinds = {kind.name.lower(): count for kind, count in answer.records.items()}
    valid = sum(kinds.values())
    pace = out.style(f"({size_text(answer.bytes_read)} in {time.monotonic() - began:.1f} s)", dim=True)
    seals = f", {count_text(kinds.get('seal', 0), 'signature')} checked"
    out.result(
        {
            "event": "summary",
            "target": target,
            "valid": valid,
            "rejected": answer.rejected,
            "signatures": kinds.get("seal", 0),
            "kinds": {kind: kinds.get(kind, 0) for kind in ("blob", "plex", "seal")},
            "bytes_read": answer.bytes_read,
        },
        f"{out.style(f'{valid:,} valid', fg='green')}{seals} · "
        f"{out.style(f'{answer.rejected:,} not valid', fg='red' if answer.rejected else None)}  {pace}",
    )
    return bad if answer.rejected else ExitCode.OK


def _verify_file(out: Output, file: str, form: FormChoice, workers: int | None) -> "Verified":
    from bobbin.runtime.transfer import verify_records

    with open_source(file) as source, progress(f"verify {file}", "bytes") as meter:
        printer = ProblemPrinter(out, meter)
        answer = verify_records(
            cast(BinaryIO, CountingReader(source.stream, source.size, meter)),
            source=source.name,
            form=chosen_form(form),
            workers=choose_workers(workers, source.size),
            report=printer.report,
        )
        printer.flush()
        return answer


def _verify_lace(out: Output, folder: Path, workers: int | None) -> "Verified":
    from bobbin.lace import Lace
    from bobbin.runtime.transfer import verify_view

    with Lace.open(folder, read_only=True) as lace, progress(f"verify {folder}", "records") as meter:
        printer = ProblemPrinter(out, meter)
        wanted = choose_workers(workers, lace.stat().record_bytes or 1)
        with lace.snapshot() as moment:
            answer = verify_view(moment, source=str(folder), workers=wanted, report=printer.report, progress=meter)
        printer.flush()
        return answer

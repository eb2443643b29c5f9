"""``bobbin fsck``: whether a lace is in order."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson, LaceFolder
from bobbin.cli.output import Output
from bobbin.cli.progress import Meter, progress
from bobbin.cli.text import count_text, size_text
from bobbin.errors import BobbinError

if TYPE_CHECKING:
    from bobbin.lace import Lace


def fsck(folder: LaceFolder, as_json: AsJson = False) -> ExitCode:
    """Check that a lace is in order.

    Every stored byte, the facts and counts derived from it, and the key files. Each thing that is wrong is listed.
    Ends with 0 if the lace is in order and with 3 if it is not.

    Example: bobbin fsck notes.lace
    """
    from bobbin.lace import Lace

    out = Output(as_json=as_json)
    began = time.monotonic()
    findings = 0
    with Lace.open(folder, read_only=True) as lace:
        stat = lace.stat()
        with progress(f"fsck {folder}", "records") as meter:
            for where, what in _findings(lace, meter):
                findings += 1
                with meter.paused():
                    line = f"{out.style('damaged', fg='red')}  {out.style(where, bold=True)}  {out.style(what)}"
                    out.row({"event": "finding", "where": where, "what": what}, line)
    records = sum(stat.records.values())
    verdict = (
        out.style("in order", fg="green") if not findings else out.style(count_text(findings, "finding"), fg="red")
    )
    pace = out.style(f"({size_text(stat.record_bytes)} in {time.monotonic() - began:.1f} s)", dim=True)
    out.result(
        {"event": "summary", "lace": str(folder), "records": records, "findings": findings},
        f"{verdict} · {count_text(records, 'record')} checked  {pace}",
    )
    return ExitCode.INTEGRITY if findings else ExitCode.OK


def _findings(lace: "Lace", meter: Meter) -> Iterator[tuple[str, str]]:
    for finding in lace.check(progress=meter):
        yield finding.where, finding.what
    for name in lace.key_names():
        try:
            lace.key(name)
        except BobbinError as error:
            yield f"key {name}", str(error)

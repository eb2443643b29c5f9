"""``bobbin fsck``: whether a lace is in order."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from bobbin.cli.exit_codes import ExitCode
from bobbin.cli.options import AsJson, LaceFolder
from bobbin.cli.output import Output
from bobbin.cli.progress import Meter, progress
from bobbin.cli.text import count_text, size_text
from bobbin.errors import BobbinError
from bobbin.records import tai

if TYPE_CHECKING:
    from bobbin.config.settings import Settings
    from bobbin.lace import Lace


class _Seen:
    """How much has been checked."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self.records = 0
        self.bytes: int | None = None

    def __call__(self, done: int, total: int) -> None:
        self.records = done
        self._meter(done, total)


def fsck(folder: LaceFolder, as_json: AsJson = False) -> ExitCode:
    """Check that a lace is in order.

    Every stored byte, the facts and counts derived from it, lace.toml and the key files. Each thing that is wrong is
    listed. Ends with 0 if the lace is in order and with 3 if it is not.

    Example: bobbin fsck notes.lace
    """
    out = Output(as_json=as_json)
    began = time.monotonic()
    findings = 0
    with progress(f"fsck {folder}", "records") as meter:
        seen = _Seen(meter)
        for where, what in _findings(folder, seen):
            findings += 1
            with meter.paused():
                line = f"{out.style('damaged', fg='red')}  {out.style(where, bold=True)}  {out.style(what)}"
                out.row({"event": "finding", "where": where, "what": what}, line)
    verdict = (
        out.style("in order", fg="green") if not findings else out.style(count_text(findings, "finding"), fg="red")
    )
    size = "" if seen.bytes is None else f"{size_text(seen.bytes)} "
    pace = out.style(f"({size}in {time.monotonic() - began:.1f} s)", dim=True)
    out.result(
        {"event": "summary", "lace": str(folder), "records": seen.records, "findings": findings},
        f"{verdict} · {count_text(seen.records, 'record')} checked  {pace}",
    )
    return ExitCode.INTEGRITY if findings else ExitCode.OK


def _findings(folder: Path, seen: _Seen) -> Iterator[tuple[str, str]]:
    from bobbin.config.layout import SETTINGS_FILE
    from bobbin.config.settings import DamagedSettings
    from bobbin.store.base import DamagedStore

    try:
        yield from _in_lace(folder, seen, None)
    except DamagedSettings as error:
        yield SETTINGS_FILE, str(error)
        yield from _without_settings(folder, seen)
    except DamagedStore as error:
        yield "store", str(error)
    yield from _in_keys(folder)


def _without_settings(folder: Path, seen: _Seen) -> Iterator[tuple[str, str]]:
    """What can be checked although nobody knows what the settings were: everything else."""
    from bobbin.config.settings import FORMAT, Settings
    from bobbin.store.base import DamagedStore

    try:
        yield from _in_lace(folder, seen, Settings(format=FORMAT, created=tai.render(0)))
    except DamagedStore as error:
        yield "store", str(error)


def _in_lace(folder: Path, seen: _Seen, settings: "Settings | None") -> Iterator[tuple[str, str]]:
    from bobbin.lace import Lace

    with Lace.open(folder, read_only=True, settings=settings) as lace:
        yield from _in_store(lace, seen)


def _in_store(lace: "Lace", seen: _Seen) -> Iterator[tuple[str, str]]:
    from bobbin.store.base import DamagedStore

    for finding in lace.check(progress=seen):
        yield finding.where, finding.what
    try:
        seen.bytes = lace.stat().record_bytes
    except DamagedStore:
        # The check has said so, and more.
        return


def _in_keys(folder: Path) -> Iterator[tuple[str, str]]:
    from bobbin.config import keys
    from bobbin.config.layout import ACCOUNT_KEY_SUFFIX, Layout

    for name in keys.key_names(Layout(folder).keys):
        try:
            keys.load_key(Layout(folder).keys, name)
        except BobbinError as error:
            yield f"key {name}", str(error)
    if names := keys.key_names(Layout(folder).keys, ACCOUNT_KEY_SUFFIX):
        from bobbin.config.account_keys import load_account_key

        for name in names:
            try:
                load_account_key(Layout(folder).keys, name)
            except BobbinError as error:
                yield f"account key {name}", str(error)

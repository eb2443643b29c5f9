"""An import that is killed at a random moment loses nothing that it acknowledged, and repeating it finishes the work.

Each trial makes a new lace and starts ``bobbin import`` of a bundle in a process of its own, kills that process with
SIGKILL after a random time, and then asks:

1. is ``bobbin fsck`` clean (it verifies every stored byte and signature again)?
2. is every record there that the import had acknowledged? An acknowledgement is a line of the file that
   ``--acknowledge`` names; a line that the kill cut off counts for nothing;
3. does the same import, repeated, end well, with exactly as many duplicates as records were there before?
4. is what ``bobbin export`` then writes the bundle, byte for byte? Then nothing is missing, nothing is there twice, and
   the order is the one of the first attempt.

The moments come from a seed; what the process is doing at such a moment differs from run to run, the answers must not.
"""

import filecmp
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

from msgspec import Struct

from benchmarks.material import RECORD_BYTES, bundle
from bobbin.lace import Lace
from bobbin.records.canonical import MARK, MARKLINE_SIZE
from bobbin.records.ids import HashText
from measurement.result import Ratio, Result, Row

QUESTION: Final = (
    "When `bobbin import` is killed with SIGKILL at a random moment, is the lace in order, is everything there that "
    "was acknowledged, and does the same import finish the work when it is repeated?"
)
RECORDS: Final = 100_000
KILLS: Final = int(os.environ.get("BOBBIN_EVIDENCE_KILLS", "50"))
SEED: Final = 20_240_229
WORKERS: Final = (0, 2)
"""Trials take turns: everything in one process, and with worker processes."""

_TRIES_MAX: Final = 20
_BOBBIN: Final = (sys.executable, "-m", "bobbin")


class Trial(Struct, frozen=True, kw_only=True):
    """What was found after one kill."""

    seconds: float
    """How long the process lived."""
    workers: int
    acknowledged: int
    """Records that the killed import had acknowledged."""
    found: int
    """Records in the lace after the kill."""
    lost: int
    """Acknowledged records that are not in the lace."""
    is_in_order: bool
    """Whether fsck was clean after the kill."""
    is_completed: bool
    """Whether the repeated import ended well, with the right numbers of stored and duplicate records."""
    is_exact: bool
    """Whether the lace then exports the bundle, byte for byte."""


def run(out: Path) -> Result:  # noqa: ARG001 - every module of this folder is called with the folder of the reports
    """Kill it fifty times."""
    trials = campaign(records=RECORDS, kills=KILLS, seed=SEED)
    acknowledged = [trial.acknowledged for trial in trials]
    spread = f"{min(acknowledged):,} to {max(acknowledged):,}"
    beyond = max(trial.found - trial.acknowledged for trial in trials)
    return Result(
        question=QUESTION,
        rows=[
            Row(name="kills", value=len(trials), note=f"imports of {RECORDS:,} signed records; seed {SEED}"),
            Row(name="kills before the first commit", value=acknowledged.count(0)),
            Row(name="records acknowledged at the kill", value=median(acknowledged), note=f"median; {spread}"),
            Row(name="durable but not yet acknowledged", value=beyond, unit="records", note="at most, over all kills"),
        ],
        ratios=[
            _never("acknowledged records lost", sum(trial.lost for trial in trials)),
            _never("kills after which fsck was not clean", sum(not trial.is_in_order for trial in trials)),
            _never("repeated imports that did not end well", sum(not trial.is_completed for trial in trials)),
            _never("exports that differ from the bundle", sum(not trial.is_exact for trial in trials)),
        ],
    )


def campaign(*, records: int, kills: int, seed: int) -> list[Trial]:
    """As many trials as kills, with the moments that the seed gives."""
    moments = random.Random(seed)
    path = bundle(records)
    trials = []
    with tempfile.TemporaryDirectory(prefix="bobbin-kill-") as folder:
        usual = {workers: _time_of_import(path, Path(folder) / f"whole-{workers}", workers) for workers in WORKERS}
        for number in range(kills):
            workers = WORKERS[number % len(WORKERS)]
            with tempfile.TemporaryDirectory(dir=folder) as lace:
                trials.append(_try(path, Path(lace), workers, usual[workers], moments))
    return trials


def _try(path: Path, folder: Path, workers: int, usual_seconds: float, moments: random.Random) -> Trial:
    for attempt in range(_TRIES_MAX):
        lace, ledger = folder / f"{attempt}.lace", folder / f"{attempt}.ledger"
        seconds = moments.uniform(0.02, 1.0) * usual_seconds
        if _import_and_kill(path, lace, ledger, workers, seconds):
            return _examine(path, lace, ledger, workers, seconds)
    raise AssertionError(f"the import was always done before the kill, in less than {usual_seconds:.1f} s")


def _examine(path: Path, lace: Path, ledger: Path, workers: int, seconds: float) -> Trial:
    is_in_order = _bobbin("fsck", lace, "--json").returncode == 0
    acknowledged = _acknowledged_bytes(ledger) // RECORD_BYTES
    with Lace.open(lace, read_only=True) as opened:
        found = sum(opened.stat().records.values())
        lost = sum(not opened.have(name) for name in _names(path, acknowledged))
    again = _bobbin("import", lace, path, "--workers", workers, "--json")
    summary = json.loads(again.stdout.splitlines()[-1]) if again.stdout else {}
    records = path.stat().st_size // RECORD_BYTES
    expected = {"stored": records - found, "duplicate": found, "refused": 0, "rejected": 0, "read": records}
    exported = lace.with_suffix(".bundle")
    export = _bobbin("export", lace, exported)
    return Trial(
        seconds=seconds,
        workers=workers,
        acknowledged=acknowledged,
        found=found,
        lost=lost,
        is_in_order=is_in_order,
        is_completed=again.returncode == 0 and expected.items() <= summary.items(),
        is_exact=export.returncode == 0 and filecmp.cmp(path, exported, shallow=False),
    )


def _import_and_kill(path: Path, lace: Path, ledger: Path, workers: int, seconds: float) -> bool:
    """Whether the import was still at work when it was killed."""
    _bobbin("init", lace).check_returncode()
    command = [*_BOBBIN, "import", str(lace), str(path), "--workers", str(workers), "--acknowledge", str(ledger)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
    return process.returncode == -signal.SIGKILL


def _acknowledged_bytes(ledger: Path) -> int:
    """Up to where the killed import had said that everything is safe."""
    whole = ledger.read_bytes().split(b"\n")[:-1] if ledger.exists() else []
    return int(json.loads(whole[-1])["durable_offset"]) if whole else 0


def _names(path: Path, count: int) -> Sequence[HashText]:
    """The names of the first records of the bundle."""
    with path.open("rb") as file:
        raws = (file.read(RECORD_BYTES) for _ in range(count))
        return [HashText(raw[len(MARK) + 2 : MARKLINE_SIZE - 1].decode()) for raw in raws]


def _time_of_import(path: Path, lace: Path, workers: int) -> float:
    _bobbin("init", lace).check_returncode()
    start = time.monotonic()
    _bobbin("import", lace, path, "--workers", workers).check_returncode()
    return time.monotonic() - start


def _bobbin(*arguments: object) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run([*_BOBBIN, *map(str, arguments)], check=False, capture_output=True)


def _never(name: str, count: int) -> Ratio:
    return Ratio(name=name, value=count, bar=0, comparison="<=")

"""Verified import of signed records: against bare verification, with workers, against Hypercore and Git."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

from benchmarks import peer_git, peer_hypercore
from benchmarks.material import RECORD_BYTES, Shape, bundle
from benchmarks.rounds import Rates, rate_row, ratio_row, setting, take_turns
from measurement.result import Ratio, Result, Row

QUESTION: Final = (
    f"How fast are signed records of {RECORD_BYTES} bytes imported from a bundle: split, validated, signature checked, "
    "stored in SQLite with their facts, durable before they are acknowledged? And how much memory does it take?"
)
WORKERS: Final = 2
MEGABYTE: Final = 1_000_000


def run() -> Result:
    """Measure."""
    count = setting("INGEST_RECORDS", 50_000)
    rounds = setting("INGEST_ROUNDS", 7)
    long_count = setting("INGEST_LONG_RECORDS", 1_000_000)
    peer_count = setting("INGEST_PEER_RECORDS", 20_000)
    rates: Rates = {"signature": []}
    peaks: dict[str, float] = {}
    alternatives = {
        "one": lambda: _import(bundle(count), 0, rates, peaks),
        "two": lambda: _import(bundle(count), WORKERS, rates, peaks),
        "headers": lambda: _import(bundle(count, Shape.SEAL_WITH_HEADERS), 0, {"signature": []}, {}),
        "single": lambda: peer_hypercore.blocks_per_second("single", count=peer_count, size=RECORD_BYTES),
        "batch": lambda: peer_hypercore.blocks_per_second("batch", count=peer_count, size=RECORD_BYTES),
        "replicate": lambda: peer_hypercore.blocks_per_second("replicate", count=peer_count, size=RECORD_BYTES),
        "git": lambda: peer_git.blobs_per_second(count=count, size=RECORD_BYTES),
    }
    # Everything that is made once is made before the clock starts.
    bundle(count)
    bundle(count, Shape.SEAL_WITH_HEADERS)
    peer_hypercore.install()
    peer_git.prepare(count=count, size=RECORD_BYTES)
    rates |= take_turns(alternatives, rounds=rounds)
    long_rates: Rates = {"signature": []}
    long_peaks: dict[str, float] = {}
    for workers in (0, WORKERS):
        long_rates[str(workers)] = [_import(bundle(long_count), workers, long_rates, long_peaks)]
    return Result(
        question=QUESTION,
        rows=[*_rate_rows(rates, count, peer_count), *_long_rows(long_rates, long_count, peaks, long_peaks, count)],
        ratios=[*_ratios(rates), _memory_bar(long_peaks, long_count)],
        notes=_notes(),
    )


def _notes() -> list[str]:
    signatures = (
        "The signature rate is measured on the same core in the same seconds: after every commit of the import without "
        "workers some signatures are verified, and their time is not counted as the import's."
    )
    hypercore = (
        f"Hypercore {peer_hypercore.VERSION} appends one block at a time and signs each (Ed25519), as each record here "
        "carries its own signature. It does not wait for the disk after each one, while an import here is durable, "
        "batch by batch, before it is acknowledged. 1,000 at a time means one signature per 1,000 blocks, and so does "
        "replicate: a verified copy from another core in the same process."
    )
    git = (
        f"Git ({peer_git.version()}) fetches as many random blobs of the same size from a local repository through the "
        "pack protocol: hashed, not signed, nothing said about what is in them."
    )
    return [signatures, hypercore, git]


def _import(path: Path, workers: int, rates: Rates, peaks: dict[str, float]) -> float:
    command = [sys.executable, "-m", "benchmarks.ingest_once", str(path), str(workers)]
    answer = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    if workers == 0:
        rates["signature"].append(answer["signatures_per_second"])
    peaks[str(workers)] = max(peaks.get(str(workers), 0), answer["peak_bytes"])
    return float(answer["records_per_second"])


def _rate_rows(rates: Rates, count: int, peer_count: int) -> list[Row]:
    many, few = f"{count:,} records", f"{peer_count:,} blocks"
    return [
        rate_row("bare signature verification, one core", rates, "signature", unit="signatures/s"),
        rate_row("import, one core", rates, "one", unit="records/s", note=many),
        rate_row(f"import, {WORKERS} workers", rates, "two", unit="records/s", note=f"{many}, their start included"),
        rate_row(
            "import, one core, two extra headers a record",
            rates,
            "headers",
            unit="records/s",
            note=f"{many}; one header is a link to a target of its own",
        ),
        rate_row("Hypercore, append one at a time", rates, "single", unit="blocks/s", note=few),
        rate_row("Hypercore, append 1,000 at a time", rates, "batch", unit="blocks/s", note=few),
        rate_row("Hypercore, replicate", rates, "replicate", unit="blocks/s", note=few),
        rate_row("git fetch", rates, "git", unit="blobs/s", note=f"{count:,} blobs"),
    ]


def _long_rows(
    rates: Rates, long_count: int, peaks: dict[str, float], long_peaks: dict[str, float], count: int
) -> list[Row]:
    rows = []
    for workers in ("0", str(WORKERS)):
        name = "one core" if workers == "0" else f"{workers} workers"
        rows.append(rate_row(f"import of {long_count:,}, {name}", rates, workers, unit="records/s", note="one run"))
        for size, peak in ((count, peaks[workers]), (long_count, long_peaks[workers])):
            value = round(peak / MEGABYTE, 1)
            rows.append(
                Row(name=f"peak memory, {size:,} records, {name}", value=value, unit="MB", note="all processes")
            )
    return rows


def _ratios(rates: Rates) -> list[Ratio]:
    return [
        ratio_row("import, one core / bare signature verification", rates, "one", "signature", bar=0.65, stretch=0.75),
        ratio_row(f"import, {WORKERS} workers / one core", rates, "two", "one", bar=1.7),
        ratio_row(
            "import, one core / Hypercore append one at a time",
            rates,
            "one",
            "single",
            bar=1.5,
            note="one signature per record on both sides",
        ),
        ratio_row("import, one core / Hypercore append 1,000 at a time", rates, "one", "batch"),
        ratio_row("import, one core / Hypercore replicate", rates, "one", "replicate"),
        ratio_row("import, one core / git fetch", rates, "one", "git"),
    ]


def _memory_bar(peaks: dict[str, float], count: int) -> Ratio:
    return Ratio(
        name=f"peak memory for {count:,} records, MB",
        value=round(max(peaks.values()) / MEGABYTE, 1),
        bar=300,
        comparison="<=",
        note=f"the larger of both ways, with or without workers; the bundle has {count * RECORD_BYTES // MEGABYTE} MB",
    )

"""Import into a lace of three processes, against the same import into a lace of one."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks.material import RECORD_BYTES, bundle
from benchmarks.network_processes import free_port
from benchmarks.rounds import Rates, rate_row, ratio_row, setting, take_turns
from measurement.result import Result

QUESTION: Final = (
    f"How fast are signed records of {RECORD_BYTES} bytes imported into a replicated lace, three processes on this "
    "machine, each record validated once, durable on two disks and stored by three before it is acknowledged, against "
    "the same import into a lace of one process?"
)
NODES: Final = 3
WORKERS: Final = 2
BAR: Final = 0.5
_NOTE: Final = (
    "Both imports are done by the same program in a process of its own. The nodes of the replicated lace are up and "
    "have a leader before the clock starts. All processes share the cores of this machine, so three nodes store three "
    "times what the single lace stores, with no more cores than it has."
)
_BOBBIN: Final = (sys.executable, "-m", "bobbin")
_PATIENCE_SECONDS: Final = 60.0


def run() -> Result:
    """Measure."""
    count, rounds = setting("REPLICATED_RECORDS", 50_000), setting("REPLICATED_ROUNDS", 5)
    source = bundle(count)
    rates = take_turns(
        {
            "single": lambda: single(source, WORKERS),
            "replicated": lambda: replicated(source, WORKERS),
        },
        rounds=rounds,
    )
    return result(rates, count)


def result(rates: Rates, count: int) -> Result:
    """What the rates say."""
    many = f"{count:,} records, {WORKERS} worker processes that validate"
    return Result(
        question=QUESTION,
        rows=[
            rate_row("a lace of one process", rates, "single", unit="records/s", note=many),
            rate_row("a replicated lace, three processes", rates, "replicated", unit="records/s", note=many),
        ],
        ratios=[ratio_row("replicated / one process", rates, "replicated", "single", bar=BAR)],
        notes=[_NOTE],
    )


def single(source: Path, workers: int) -> float:
    """Records a second into a new lace of one process."""
    with tempfile.TemporaryDirectory(prefix="bobbin-bench-") as name:
        folder = Path(name) / "single"
        _bobbin("init", folder)
        return _import(folder, source, workers)


def replicated(source: Path, workers: int) -> float:
    """Records a second into a new lace of three processes."""
    with tempfile.TemporaryDirectory(prefix="bobbin-bench-") as name:
        folder = Path(name) / "lace"
        _bobbin("init", folder, "--cluster", "--nodes", str(NODES), "--listen", f"tls:127.0.0.1:{free_port()}")
        with serving([folder / f"n{number}" for number in range(1, NODES + 1)]):
            return _import(folder / "n1", source, workers)


@contextmanager
def serving(folders: list[Path]) -> Iterator[None]:
    """Nodes that run for as long as this lasts."""
    processes = [
        subprocess.Popen(
            [*_BOBBIN, "serve", str(folder), "--listen", "tcp:127.0.0.1:0", "--json"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for folder in folders
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise RuntimeError("a node did not come up")
        yield
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.communicate(timeout=_PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()


def _import(folder: Path, source: Path, workers: int) -> float:
    command = [sys.executable, "-m", "benchmarks.replicated_lace_once", str(folder), str(source), str(workers)]
    answer = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    rate: float = answer["records_per_second"]
    return rate


def _bobbin(*arguments: str | Path) -> None:
    subprocess.run([*_BOBBIN, *map(str, arguments)], check=True, capture_output=True)

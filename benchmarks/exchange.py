"""Records between two laces in one process: against a plain import, and once more when nothing has changed."""

import json
import subprocess
import sys
from typing import Final

from benchmarks.material import RECORD_BYTES, bundle
from benchmarks.rounds import Rates, rate_row, ratio_row, setting
from measurement.result import Result, Row

QUESTION: Final = (
    f"How fast do signed records of {RECORD_BYTES} bytes get from one lace into another by an exchange, all rules "
    "evaluated and every record validated and durable, against a plain import of the same records? And what does the "
    "exchange cost when it is repeated and nothing has changed?"
)
NOTE: Final = (
    "The first exchange evaluates both policies over both stores, advertises, requests, loads, validates and stores "
    "every record, and then advertises what was received back. Both sides run in one process on one core, through the "
    "trusted binding, which hands messages over without serialising them."
)
MEGABYTE: Final = 1_000_000


def run() -> Result:
    """Measure."""
    count = setting("EXCHANGE_RECORDS", 100_000)
    few = setting("EXCHANGE_FEW_RECORDS", 20_000)
    rounds = setting("EXCHANGE_ROUNDS", 3)
    rates: Rates = {"import": [], "exchange": [], "first": [], "second": []}
    peaks: list[float] = []
    for _ in range(rounds):
        answer = _once(count)
        rates["import"].append(answer["import_per_second"])
        rates["exchange"].append(answer["exchange_per_second"])
        rates["first"].append(answer["first_seconds"])
        rates["second"].append(answer["second_seconds"])
        peaks.append(answer["peak_bytes"])
    small = _once(few)["peak_bytes"]
    note = f"{count:,} records"
    return Result(
        question=QUESTION,
        rows=[
            rate_row("import, one core", rates, "import", unit="records/s", note=note),
            rate_row("exchange in one process, one core", rates, "exchange", unit="records/s", note=note),
            Row(name=f"peak memory, {few:,} records", value=round(small / MEGABYTE, 1), unit="MB", note="both laces"),
            Row(name=f"peak memory, {count:,} records", value=round(max(peaks) / MEGABYTE, 1), unit="MB"),
        ],
        ratios=[
            ratio_row("exchange / import", rates, "exchange", "import", bar=0.6),
            ratio_row(
                "second exchange, nothing changed / first",
                rates,
                "second",
                "first",
                bar=0.01,
                comparison="<=",
                note="seconds",
            ),
        ],
        notes=[NOTE],
    )


def _once(count: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.exchange_once", str(bundle(count))]
    answer: dict[str, float] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return answer

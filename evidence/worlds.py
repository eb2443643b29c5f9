"""Simulated worlds: the real store on a disk that fails, seed after seed."""

import os
from pathlib import Path

from bobbin.simulator.disk_vault import open_simulated
from bobbin.simulator.world import run_worlds
from measurement.result import Result, Row

QUESTION = (
    "Does the store keep every promise on a disk with I/O errors, full disks and power cuts that lose, reorder and "
    "tear what was not synced?"
)


def run(out: Path) -> Result:  # noqa: ARG001 (the result says it all)
    """Run the worlds; the first broken promise ends the run with its seed."""
    worlds = int(os.environ.get("BOBBIN_EVIDENCE_WORLDS", "500"))
    total = run_worlds(range(worlds), open_simulated)
    note = "each audited after every restart and every failed operation"
    return Result(
        question=QUESTION,
        rows=[
            Row(name="worlds, four lives each", value=worlds, note=f"seeds 0 to {worlds - 1}"),
            Row(name="power cuts", value=total.crashes),
            Row(name="operations that failed", value=total.failures),
            Row(name="records put", value=total.puts),
            Row(name="records acknowledged", value=total.acknowledged),
            Row(name="removals", value=total.removals),
            Row(name="audits", value=total.audits, note=note),
            Row(name="broken promises", value=0, note="a broken one ends the run"),
        ],
        ratios=[],
    )

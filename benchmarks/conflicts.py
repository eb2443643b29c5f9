"""Classifying all pairs of changes, in process and on Spark, against NumPy that only works out the products."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.conflicts_once import Material, Seconds, Shape, make
from benchmarks.rounds import Rates, rate_of, rate_row, ratio_row, setting, take_turns
from bobbin.pipeline.batches.deltas import DELTAS
from bobbin.pipeline.jobs import conflicts
from bobbin.pipeline.spark import session
from bobbin.store.lake.lake import Lake
from measurement.result import Ratio, Result, Row

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUESTION: Final = (
    "How fast are all pairs of many changes classified, compared with NumPy that works out the same cosines and shared "
    "positions and looks at none of them? In one process, and on Spark for each core."
)
CORES: Final = 2
FILES: Final = 8
BAR: Final = 0.5
WARM_UPS: Final = 2
"""Java compiles what it runs, and is not done with that after one run."""


def run() -> Result:
    """Measure."""
    few, many = setting("CONFLICTS_CHANGES", 6_000), setting("CONFLICTS_SPARK_CHANGES", 20_000)
    rounds = setting("CONFLICTS_ROUNDS", 5)
    rates: Rates = {}
    for shape, count in ((Shape.WIDE, few), (Shape.SPARSE, many), (Shape.NARROW, few)):
        found = _in_process(shape, count, rounds, Seconds.PROCESSOR, "bare", "ours")
        rates |= {f"{name} {shape}": each for name, each in found.items()}
    with (
        session(master=f"local[{CORES}]", application="benchmark") as spark,
        tempfile.TemporaryDirectory(prefix="bobbin-bench-") as scratch,
    ):
        folder = Path(scratch)
        material = make(Shape.WIDE, many)
        _write(material, Shape.WIDE, folder / "deltas")
        lake = Lake.create(folder / "lake")
        for _ in range(WARM_UPS):
            _classify(spark, lake, folder / "deltas", material)
        rates |= take_turns(
            {
                "one core": lambda: _in_process(Shape.WIDE, many, 1, Seconds.CLOCK, "bare")["bare"][0],
                "job": lambda: (
                    rate_of(lambda: _classify(spark, lake, folder / "deltas", material), material.pairs) / CORES
                ),
            },
            rounds=rounds,
        )
    return Result(question=QUESTION, rows=_rows(rates, few, many), ratios=_ratios(rates), notes=[_NOTE])


_NOTE: Final = (
    "*Wide* changes have 128 of 1,024 positions, *sparse* ones 32 of 65,536, *narrow* ones 8 of 128; one in fifty "
    "repeats another. Bare NumPy has the vectors as matrices and multiplies them tile by tile above the diagonal, "
    "cosines at double and shared positions at single precision; where changes are sparse, it goes through the lists "
    "of who has a position. It uses one thread. In process, seconds are those of the processor. The job is whole: "
    "reading Parquet, checking, comparing, writing, counting, the commit; it runs on "
    f"local[{CORES}], by the clock, as does the bare one beside it, and its rate is divided by {CORES}. The session's "
    f"start and {WARM_UPS} rounds for warming up are not counted. Of narrow changes one pair in seven is not "
    "orthogonal, and half of the time goes into telling of them."
)


def _rows(rates: Rates, few: int, many: int) -> list[Row]:
    rows = []
    for shape, count in ((Shape.WIDE, few), (Shape.SPARSE, many), (Shape.NARROW, few)):
        note = f"{count:,} {shape} changes, one core"
        rows.append(rate_row(f"bare NumPy, {shape}", rates, f"bare {shape}", unit="pairs/s", note=note))
        rows.append(rate_row(f"classified, {shape}", rates, f"ours {shape}", unit="pairs/s", note=note))
    note = f"{many:,} wide changes"
    rows.append(rate_row("bare NumPy, one core", rates, "one core", unit="pairs/s", note=note))
    rows.append(rate_row("the job on Spark, for each core", rates, "job", unit="pairs/s", note=note))
    return rows


def _ratios(rates: Rates) -> list[Ratio]:
    ratios = [
        ratio_row(
            f"pairs classified / bare NumPy, {shape} changes",
            rates,
            f"ours {shape}",
            f"bare {shape}",
            bar=BAR,
        )
        for shape in Shape
    ]
    job = ratio_row("pairs classified on Spark for each core / bare NumPy on one", rates, "job", "one core", bar=BAR)
    return [*ratios, job]


def _in_process(shape: Shape, count: int, rounds: int, seconds: Seconds, *names: str) -> Rates:
    """In a process of its own, in which NumPy uses one thread."""
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.conflicts_once", shape, str(count), str(rounds), seconds, *names],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **threads},
    )
    rates: Rates = json.loads(done.stdout)
    return rates


def _write(material: Material, shape: Shape, folder: Path) -> None:
    folder.mkdir()
    share = -(-material.count // FILES)
    for number in range(FILES):
        some = slice(number * share, (number + 1) * share)
        numbers = range(material.count)[some]
        table = pa.table(
            [
                pa.array([one.to_bytes(16, "big") for one in numbers], pa.binary()),
                pa.array([0] * len(numbers), pa.int64()),
                pa.array([shape.dimension] * len(numbers), pa.int32()),
                pa.array(material.positions[some].tolist(), pa.list_(pa.int32())),
                pa.array(material.values[some].tolist(), pa.list_(pa.float64())),
                pa.array([[b"%d" % key for key in row] for row in material.keys[some].tolist()], pa.list_(pa.binary())),
            ],
            names=DELTAS.schema.names,
        )
        pq.write_table(table, folder / f"{number}.parquet", compression="zstd")


def _classify(spark: "SparkSession", lake: Lake, deltas: Path, material: Material) -> None:
    report = conflicts.run(spark, lake, conflicts.find_source(str(deltas)))
    counts = report.counts
    assert counts["pairs"] == material.pairs, counts
    assert counts["identical"] >= material.count // 50 - 1, counts

"""Reports for the tests of this folder."""

from measurement.machine import Machine
from measurement.report import Report
from measurement.result import Ratio, Result, Row

MACHINE = Machine(
    cpu="Example CPU",
    cores=2,
    memory_gib=8.0,
    system="Linux x86_64",
    python="CPython 3.11.7",
    sqlite="3.50.0",
    date="2026-01-02 03:04 UTC",
    packages={"bobbin": "0.1.0"},
)


def report(name: str = "ingest", *, value: float = 0.8, rate: float = 15_000.5, cpu: str = "Example CPU") -> Report:
    """One row, one ratio with the bar 0.65 and the stretch 0.75."""
    machine = Machine(cpu=cpu, cores=2, memory_gib=8.0, system="", python="", sqlite="", date=MACHINE.date, packages={})
    ratio = Ratio(name="against bare verification", value=value, bar=0.65, stretch=0.75)
    rows = [Row(name="records", value=rate, unit="1/s")]
    return Report(
        name=name,
        seconds=12.3,
        machine=machine,
        result=Result(question="How fast is ingest?", rows=rows, ratios=[ratio]),
    )

"""Planted faults: forty statements of the conformance page, drawn by a seed, each broken in a copy of the source.

For every statement, ``tests/planted/faults.toml`` says how to break it: one text of one file becomes another one. The
tests that ``docs/conformance/interlace.md`` names for the statement are run against the copy until one of them fails,
and one must. Before that, all of these tests must pass against a copy without a fault.

A text that is no longer there, or there more than once, is an error: a fault cannot fall out of use unnoticed.
"""

import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from measurement.report import render_table
from measurement.result import Ratio, Result, Row
from tests.architecture.conformance_page import read_rows

QUESTION: Final = (
    "When a statement of the protocol is broken in the source, does a test fail that the conformance page names for it?"
)
SEED: Final = 20_240_229
DRAWN: Final = 40

REPOSITORY: Final = Path(__file__).resolve().parent.parent
FAULTS: Final = REPOSITORY / "tests" / "planted" / "faults.toml"
_PAGE: Final = REPOSITORY / "docs" / "conformance" / "interlace.md"

_TESTS_FAILED: Final = 1
"""How pytest ends when it ran and a test failed; any other end says nothing about the fault."""
_FAILED_LINE: Final = re.compile(r"^(?:FAILED|ERROR) (\S+?)(?:\[.*)?(?: - .*)?$", re.MULTILINE)


class PlantingError(Exception):
    """A fault cannot be planted, or its tests cannot be run. Nothing was counted."""


class Fault(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One way to break a statement."""

    id: str
    plants: str
    """What is wrong then, in words."""
    file: str
    old: str
    new: str

    def applied(self, text: str) -> str:
        """The text of the file with the fault in it."""
        if (found := text.count(self.old)) != 1:
            raise PlantingError(f"{self.id}, {self.plants}: the text to replace stands {found} times in {self.file}")
        return text.replace(self.old, self.new)


class _Faults(Struct, frozen=True, forbid_unknown_fields=True):
    fault: list[Fault]


class Outcome(Struct, frozen=True, kw_only=True):
    """What became of one fault."""

    fault: Fault
    seen_by: str | None
    """The first test that failed; None if all passed."""


def drawn_ids() -> list[str]:
    """The statements that were drawn from all those that a test can reach, in the order of the page."""
    ids = [row.id for row in read_rows(_PAGE.read_text(encoding="utf-8")) if row.reason is None]
    drawn = set(random.Random(SEED).sample(ids, DRAWN))
    return [id for id in ids if id in drawn]


def read_faults() -> list[Fault]:
    """Every fault, in the order of the file."""
    return msgspec.convert(tomllib.loads(FAULTS.read_text(encoding="utf-8")), _Faults).fault


def named_tests() -> dict[str, tuple[str, ...]]:
    """For each statement, the tests that the page names."""
    return {row.id: row.tests for row in read_rows(_PAGE.read_text(encoding="utf-8"))}


def run(out: Path) -> Result:
    """Plant them all, one at a time, and leave the list beside the report."""
    faults, tests = read_faults(), named_tests()
    if {fault.id for fault in faults} != set(drawn_ids()):
        raise PlantingError("the faults are not those of the statements that were drawn")
    with tempfile.TemporaryDirectory(prefix="bobbin-planted-") as folder:
        source = Path(folder) / "src"
        shutil.copytree(REPOSITORY / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        tests_of_all = list(dict.fromkeys(test for fault in faults for test in tests[fault.id]))
        if (broken := _first_to_fail(source, tests_of_all)) is not None:
            raise PlantingError(f"{broken} fails without any fault")
        outcomes = [_plant(fault, source, tests[fault.id]) for fault in faults]
    (out / "planted.md").write_text(_render(outcomes), encoding="utf-8")
    return report(outcomes)


def report(outcomes: Sequence[Outcome]) -> Result:
    """What was counted, as a result."""
    unseen = [outcome.fault for outcome in outcomes if outcome.seen_by is None]
    ids = {outcome.fault.id for outcome in outcomes}
    caught = len(ids - {fault.id for fault in unseen})
    return Result(
        question=QUESTION,
        rows=[
            Row(name="statements drawn", value=len(ids), note=f"seed {SEED}"),
            Row(name="faults planted", value=len(outcomes), note="a statement with several cases has several"),
            Row(name="faults that a named test saw", value=len(outcomes) - len(unseen)),
        ],
        ratios=[
            Ratio(
                name=f"statements of which every fault was seen, of {len(ids)}",
                value=caught,
                bar=len(ids),
                note="; ".join(f"{fault.id}: {fault.plants}" for fault in unseen),
            )
        ],
        notes=["[Every fault and the test that saw it](evidence/planted.md)"],
    )


def _plant(fault: Fault, source: Path, tests: Sequence[str]) -> Outcome:
    path = source.parent / fault.file
    sound = path.read_text(encoding="utf-8")
    path.write_text(fault.applied(sound), encoding="utf-8")
    try:
        seen_by = _first_to_fail(source, tests)
    finally:
        path.write_text(sound, encoding="utf-8")
    print(f"  {fault.id}, {fault.plants}: {seen_by or 'NOT SEEN'}", flush=True)
    return Outcome(fault=fault, seen_by=seen_by)


def _first_to_fail(source: Path, tests: Sequence[str]) -> str | None:
    """The first test that fails against a source. Nothing compiled is kept: two faults may have one size and time."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(source), str(REPOSITORY)]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=no", "--hypothesis-profile=test"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return None
    failed = _FAILED_LINE.search(done.stdout)
    if done.returncode != _TESTS_FAILED or failed is None:
        raise PlantingError(f"pytest ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return failed[1]


def _render(outcomes: Sequence[Outcome]) -> str:
    rows = [
        [
            outcome.fault.id,
            outcome.fault.plants,
            f"`{outcome.fault.file.removeprefix('src/bobbin/')}`",
            "**none**" if outcome.seen_by is None else f"`{outcome.seen_by.removeprefix('tests/')}`",
        ]
        for outcome in outcomes
    ]
    words = (
        f"{DRAWN} statements of the [conformance page](../conformance/interlace.md) were drawn by the seed {SEED}.\n"
        "Each was broken in a copy of the source, and the tests that the page names for it were run until one failed.\n"
        "`python -m evidence planted` repeats this; the changes themselves are in `tests/planted/faults.toml`. A\n"
        "statement with several cases has several faults."
    )
    table = render_table(["id", "fault", "in", "first test that fails"], rows, numbers=frozenset())
    return f"# Planted faults\n\n{words}\n\n{table}\n"

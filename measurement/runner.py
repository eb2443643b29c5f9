"""Find the questions of a folder, run them, write their reports and renew the page.

A question is a module of the folder that defines ``run``. All are run, or those named on the command line; one that
sets ``ONLY_BY_NAME`` takes too long to be run unasked. A module that fails does not stop the others. The exit code is 1
when a module failed or a bar was missed, so neither goes unnoticed.
"""

import argparse
import ast
import importlib
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from measurement.machine import describe
from measurement.report import Report, read_reports, render_page, render_ratios, write_report
from measurement.result import Result, read_result


@dataclass(frozen=True, slots=True, kw_only=True)
class Collection:
    """One folder of questions and where its answers go."""

    package: str
    modules: Path
    title: str
    introduction: str
    results: Path
    page: Path
    call: Callable[[ModuleType], object]


def question_names(collection: Collection) -> list[str]:
    """The modules that define ``run``. They are read, not imported: one that is broken must not hide the others."""
    found = []
    for path in sorted(collection.modules.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
        if any(isinstance(node, ast.FunctionDef) and node.name == "run" for node in tree.body):
            found.append(path.stem)
    return found


def unasked_names(collection: Collection) -> list[str]:
    """The questions that are run when none is named: those that do not set ``ONLY_BY_NAME``."""
    return [name for name in question_names(collection) if not _is_only_by_name(collection.modules / f"{name}.py")]


def renew_page(collection: Collection) -> None:
    """Make the page again from the reports that are there."""
    page = render_page(collection.title, collection.introduction, read_reports(collection.results))
    collection.page.parent.mkdir(parents=True, exist_ok=True)
    collection.page.write_text(page, encoding="utf-8")


def main(collection: Collection, arguments: Sequence[str] | None = None) -> int:
    """Run what the command line names and return the exit code."""
    parser = argparse.ArgumentParser(prog=f"python -m {collection.package}", description=collection.introduction)
    parser.add_argument(
        "names", nargs="*", help="questions to run; when none is named, all but those that take very long"
    )
    parser.add_argument("--list", action="store_true", help="list the questions and stop")
    parser.add_argument("--page", action="store_true", help="only make the page again from recorded runs")
    options = parser.parse_args(arguments)

    known = question_names(collection)
    if options.list:
        print("\n".join(known))
        return 0
    wanted = [name.replace("-", "_") for name in options.names] or unasked_names(collection)
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}. Known: {', '.join(known) or 'none yet'}.")

    failed: list[str] = []
    missed: list[str] = []
    for name in [] if options.page else wanted:
        result = _run_one(collection, name)
        if result is None:
            failed.append(name)
        else:
            missed += [f"{name}: {ratio.name}" for ratio in result.ratios if ratio.missed]
    renew_page(collection)
    for name in failed:
        print(f"FAILED {name}", file=sys.stderr)
    for promise in missed:
        print(f"MISSED {promise}", file=sys.stderr)
    return 1 if failed or missed else 0


def _is_only_by_name(path: Path) -> bool:
    tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
    return any(
        isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == "ONLY_BY_NAME"
        for node in tree.body
    )


def _run_one(collection: Collection, name: str) -> Result | None:
    print(f"{collection.package}.{name} …", file=sys.stderr, flush=True)
    start = time.monotonic()
    try:
        result = read_result(collection.call(importlib.import_module(f"{collection.package}.{name}")))
    except Exception:  # noqa: BLE001 -- whatever a module dies of, the other questions still get their answer
        traceback.print_exc()
        return None
    seconds = round(time.monotonic() - start, 1)
    path = write_report(Report(name=name, seconds=seconds, machine=describe(), result=result), collection.results)
    for row in result.rows:
        print(f"  {row.name}: {row.value} {row.unit}".rstrip())
    if result.ratios:
        print(render_ratios(result.ratios))
    print(f"{seconds:g} s, written to {path}", file=sys.stderr)
    return result

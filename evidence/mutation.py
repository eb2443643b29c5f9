"""Mutation: whether the tests notice that one line of the machine or of the policy was changed.

``mutmut`` makes thousands of small changes in ``interlace/`` and ``policy/``, one at a time: a comparison turned round,
a number moved by one, an argument left out, a text altered. All of them would take a day, so a sample is drawn, from
every module in proportion to its size, by a fixed seed. A change that no test notices has survived. Every survivor is
looked at, and ``evidence/mutation_survivors.toml`` says why it may be left: because nothing observable has changed, or
because only words have. One that is not in that list is shown as unexplained.

This takes most of an hour, so `make evidence` leaves it out. ``python -m evidence mutation`` runs it, on a copy of the
repository; ``BOBBIN_EVIDENCE_MUTANTS`` is the size of the sample. One source and one seed give one sample.
"""

import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import sqrt
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from measurement.report import render_table
from measurement.result import Ratio, Result, Row
from tests.architecture.source_tree import repository_files

ONLY_BY_NAME: Final = True
QUESTION: Final = "When one line of the machine or of the policy is changed, does a test fail?"
SEED: Final = 20_240_229
SIZE: Final = int(os.environ.get("BOBBIN_EVIDENCE_MUTANTS", "800"))
SHARE_MIN: Final = 0.9

REPOSITORY: Final = Path(__file__).resolve().parent.parent
SURVIVORS: Final = Path(__file__).resolve().parent / "mutation_survivors.toml"

_AT_A_TIME: Final = 200
"""Names in one call of mutmut, which compares each of them with every mutant."""
_FIRST: Final = "bobbin.interlace.reasons.*"
"""A few mutants to begin with: the first call makes all of them and finds out which tests reach which function."""
_NUMBER: Final = re.compile(r"__mutmut_[0-9]+$")
_DEVIATE: Final = 1.96
"""Of the normal distribution, for 95 in 100."""

_KILLED: Final = frozenset({1, 3})
_TIMED_OUT: Final = frozenset({-24, 24, 36, 152, 255})
"""How mutmut writes down the end of a run that took far too long: a change that makes a loop endless."""


class MutationError(Exception):
    """The run cannot be made, or left something out. Nothing was counted."""


class Explained(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Why a survivor may be left."""

    function: str
    """Module and function, as mutmut spells them."""
    old: str
    """The changed lines, as they are in the source; several are joined by one space."""
    new: str
    reason: str


class _Survivors(Struct, frozen=True, forbid_unknown_fields=True):
    survivor: list[Explained]


class Mutant(Struct, frozen=True, kw_only=True):
    """One change that no test noticed."""

    name: str
    old: str
    new: str
    reason: str | None

    @property
    def function(self) -> str:
        return _NUMBER.sub("", self.name)


class Count(Struct, frozen=True, kw_only=True):
    """One module: its mutants, those that were drawn, and those of them that a test noticed."""

    mutants: int
    drawn: int
    killed: int


def draw(names: Iterable[str], size: int, seed: int) -> list[str]:
    """A sample of this size: from every module in proportion, and at least one."""
    modules: dict[str, list[str]] = {}
    for name in sorted(names):
        modules.setdefault(module_of(name), []).append(name)
    shares = _shares({module: len(of_module) for module, of_module in modules.items()}, size)
    chance = random.Random(seed)
    return [name for module in sorted(modules) for name in sorted(chance.sample(modules[module], shares[module]))]


def _shares(counts: Mapping[str, int], size: int) -> dict[str, int]:
    """How many to draw from each module. What rounding leaves over goes where it has taken most."""
    total = sum(counts.values())
    exact = {module: size * count / total for module, count in counts.items()}
    shares = {module: min(counts[module], max(1, int(share))) for module, share in exact.items()}
    for module in sorted(counts, key=lambda module: (int(exact[module]) - exact[module], module)):
        if sum(shares.values()) >= size:
            break
        shares[module] += shares[module] < counts[module]
    return shares


def module_of(name: str) -> str:
    """The module that a mutant is in, without the package of all."""
    _, package, module, *_ = name.split(".")
    return f"{package}.{module}"


def interval(killed: int, drawn: int) -> tuple[float, float]:
    """Where the share of all lies, with 95 in 100, if nobody has looked at the sample before (Wilson)."""
    share, spread = killed / drawn, _DEVIATE**2 / drawn
    centre = (share + spread / 2) / (1 + spread)
    half = _DEVIATE * sqrt(share * (1 - share) / drawn + spread / (4 * drawn)) / (1 + spread)
    return centre - half, centre + half


def run(out: Path) -> Result:
    """Draw the sample, run it, and leave the list of survivors beside the report."""
    with tempfile.TemporaryDirectory(prefix="bobbin-mutation-") as folder:
        return examine(_copied(Path(folder) / "repository"), out)


def examine(copy: Path, out: Path) -> Result:
    """Run the sample in a copy of the repository. What it has run before is not run again."""
    if not _metas(copy):
        _mutmut(copy, [_FIRST])
    codes = _exit_codes(copy)
    sample = draw(codes, SIZE, SEED)
    reached = _reached(copy)
    waiting = [name for name in sample if codes[name] is None and _NUMBER.sub("", name) in reached]
    for start in range(0, len(waiting), _AT_A_TIME):
        _mutmut(copy, waiting[start : start + _AT_A_TIME])
    codes = _exit_codes(copy)
    if missing := [name for name in waiting if codes[name] is None]:
        raise MutationError(f"mutmut has not run {len(missing)} mutants, {missing[0]} among them")
    explained = read_explained()
    survivors = [_survivor(copy, name, explained) for name in sample if not _is_noticed(codes[name])]
    counts = _count(codes, sample)
    timeouts = sum(codes[name] in _TIMED_OUT for name in sample)
    notes = [f"The source is that of the commit {_commit()}."]
    (out / "mutation.md").write_text(render(counts, survivors, notes), encoding="utf-8")
    return report(counts, survivors, timeouts, notes)


def read_explained() -> dict[tuple[str, str, str], str]:
    """The reasons that were written down, by function and change."""
    known = msgspec.convert(tomllib.loads(SURVIVORS.read_text(encoding="utf-8")), _Survivors).survivor
    return {(one.function, one.old, one.new): one.reason for one in known}


def report(
    counts: Mapping[str, Count], survivors: Sequence[Mutant], timeouts: int, notes: Sequence[str] = ()
) -> Result:
    """What was counted, as a result."""
    drawn, killed = sum(one.drawn for one in counts.values()), sum(one.killed for one in counts.values())
    low, high = interval(killed, drawn)
    unexplained = [mutant.name for mutant in survivors if mutant.reason is None]
    return Result(
        question=QUESTION,
        rows=[
            Row(name="mutants", value=sum(one.mutants for one in counts.values()), note="in interlace and policy"),
            Row(name="drawn", value=drawn, note=f"seed {SEED}, every module in proportion"),
            Row(name="noticed by a test", value=killed, note=f"{timeouts} of them by running far too long"),
            Row(name="survived", value=len(survivors)),
            *[
                Row(name=f"share noticed: {module}", value=f"{one.killed} of {one.drawn}")
                for module, one in counts.items()
            ],
        ],
        ratios=[
            Ratio(
                name="share of mutants that a test notices",
                value=round(killed / drawn, 4),
                bar=SHARE_MIN,
                note=f"for a sample of this size: {low:.1%} to {high:.1%}, with 95 in 100",
            ),
            Ratio(name="survivors without a reason", value=len(unexplained), bar=0, comparison="<="),
        ],
        notes=[*notes, "[Every survivor, and why it may stay](evidence/mutation.md)"],
    )


def render(counts: Mapping[str, Count], survivors: Sequence[Mutant], notes: Sequence[str] = ()) -> str:
    """The page of the survivors."""
    drawn, killed = sum(one.drawn for one in counts.values()), sum(one.killed for one in counts.values())
    low, high = interval(killed, drawn)
    modules = [
        [module, str(one.mutants), str(one.drawn), str(one.killed), f"{one.killed / one.drawn:.0%}"]
        for module, one in counts.items()
    ]
    changes = [
        [
            f"`{mutant.function.removeprefix('bobbin.').replace('xǁ', '').replace('ǁ', '.').replace('.x_', '.')}`",
            f"`{mutant.old}`<br>`{mutant.new}`",
            mutant.reason or "**not explained**",
        ]
        for mutant in survivors
    ]
    words = (
        f"Of {sum(one.mutants for one in counts.values()):,} small changes to `interlace/` and `policy/`, {drawn} were "
        f"drawn by the seed {SEED}, from every module in proportion to its size. A test notices {killed} of them: "
        f"{killed / drawn:.1%}, which for a sample of this size stands for {low:.1%} to {high:.1%}, with 95 in 100. "
        "That speaks of all changes only as far as tests were not written for this very sample. "
        "`python -m evidence mutation` repeats this, in a copy of the repository, in most of an hour."
    )
    looked_at = (
        "Each of them was looked at. What broke a rule has a test now and is not in this list any more. The reasons "
        "are kept in `evidence/mutation_survivors.toml`."
    )
    parts = [
        "# Mutation",
        words,
        *notes,
        "## Modules",
        render_table(["module", "changes", "drawn", "noticed", "share"], modules, numbers={1, 2, 3, 4}),
        "## Survivors",
        looked_at,
        render_table(["where", "change", "why it may stay"], changes, numbers=frozenset()),
    ]
    return "\n\n".join(parts) + "\n"


def _is_noticed(code: int | None) -> bool:
    return code in _KILLED or code in _TIMED_OUT


def _count(codes: Mapping[str, int | None], sample: Sequence[str]) -> dict[str, Count]:
    mutants = Counter(map(module_of, codes))
    drawn = Counter(map(module_of, sample))
    killed = Counter(module_of(name) for name in sample if _is_noticed(codes[name]))
    return {
        module: Count(mutants=mutants[module], drawn=drawn[module], killed=killed[module]) for module in sorted(drawn)
    }


def _survivor(copy: Path, name: str, explained: Mapping[tuple[str, str, str], str]) -> Mutant:
    shown = _run(copy, ["show", name]).stdout
    lines = [line for line in shown.splitlines() if line[:1] in "-+" and line[:3] not in ("---", "+++")]
    old, new = (" ".join(line[1:].strip() for line in lines if line[0] == sign) for sign in "-+")
    return Mutant(name=name, old=old, new=new, reason=explained.get((_NUMBER.sub("", name), old, new)))


def _copied(copy: Path) -> Path:
    for path in repository_files():
        target = copy / path.relative_to(REPOSITORY)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)
    return copy


def _commit() -> str:
    """The commit that the repository is at, and whether the source has changed since."""
    commit = ["git", "rev-parse", "--short", "HEAD"]
    changed = ["git", "status", "--porcelain", "src"]
    name, changes = (
        subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout.strip()
        for command in (commit, changed)
    )
    return f"{name}, with changes" if changes else name


def _mutmut(copy: Path, names: Sequence[str]) -> None:
    done = _run(copy, ["run", "--max-children", "1", *names])
    if done.returncode:
        raise MutationError(f"mutmut ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")


def _run(copy: Path, arguments: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    command = [str(Path(sys.executable).parent / "mutmut"), *arguments]
    environment = {**os.environ, "PYTHONPATH": "."}
    return subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)


def _metas(copy: Path) -> list[Path]:
    return sorted((copy / "mutants" / "src").rglob("*.meta"))


def _exit_codes(copy: Path) -> dict[str, int | None]:
    codes: dict[str, int | None] = {}
    for path in _metas(copy):
        codes |= json.loads(path.read_text(encoding="utf-8"))["exit_code_by_key"]
    return codes


def _reached(copy: Path) -> frozenset[str]:
    """The functions that some test reaches."""
    known = json.loads((copy / "mutants" / "mutmut-stats.json").read_text(encoding="utf-8"))
    return frozenset(name for name, tests in known["tests_by_mangled_function_name"].items() if tests)

"""A live graph, its snapshots, replicated cells and shared memory against three libraries; and live views that grow."""

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from msgspec import Struct

from benchmarks import peer_environments
from benchmarks.network_processes import (
    WORK_SECONDS_MAX,
    Answer,
    PeerFailedError,
    ended_on_signal,
    next_answer,
    running,
)
from benchmarks.reactive_side import ARENA_BYTES, BATCH, BEHIND, BLOB_BYTES, CELLS, CHAIN, FAN, FRAME_OPERATIONS, NODES
from benchmarks.reactive_view import RULES, TURN_RECORDS
from benchmarks.rounds import Rates, ratio_row, setting, take_turns
from measurement.result import Comparison, Ratio, Result, Row

QUESTION: Final = (
    "What does a change of a live graph cost until every effect has run, against reaktiv and lazily? How long does a "
    "snapshot take to JSON and back, how fast are replicated cells merged, and how long does a blob take into shared "
    "memory, against lazily? And does a new record cost a live view more where more is stored?"
)
OURS: Final = "bobbin"
LAZILY: Final = "lazily"
REAKTIV: Final = "reaktiv"
PYCRDT: Final = "pycrdt"
PEERS: Final[Mapping[str, tuple[int, int]]] = {LAZILY: (3, 12), REAKTIV: (3, 11), PYCRDT: (3, 11)}
"""Each with the oldest Python that it runs on."""
ROOT: Final = Path(__file__).resolve().parent.parent
VIEW_BAR: Final = 1.5


class Bar(Struct, frozen=True):
    """What is promised against one peer."""

    peer: str
    bar: float | None
    """None where the comparison is only shown."""
    comparison: Comparison = "<="
    """``<=`` is of times, ``>=`` of rates."""


class Case(Struct, frozen=True, kw_only=True):
    """One question that is put to every side that knows it."""

    question: str
    name: str
    counts: Mapping[str, int]
    """How often each side repeats it in one turn; the sides that know it."""
    bars: tuple[Bar, ...] = ()


_GRAPH: Final = {OURS: 400, LAZILY: 200, REAKTIV: 50}
_MERGES: Final = {OURS: 20_000, LAZILY: 20_000}
CASES: Final = (
    Case(
        question="chain",
        name=f"one write through a chain of {CHAIN} to an effect",
        counts=_GRAPH,
        bars=(Bar(REAKTIV, 0.1), Bar(LAZILY, 1)),
    ),
    Case(
        question="batch",
        name=f"{BATCH} writes in a batch to one sum with an effect",
        counts=_GRAPH,
        bars=(Bar(REAKTIV, 0.1), Bar(LAZILY, 1)),
    ),
    Case(
        question="fan",
        name=f"one write to {FAN} derived values with an effect each",
        counts={OURS: 60, LAZILY: 30, REAKTIV: 10},
        bars=(Bar(LAZILY, 1),),
    ),
    Case(
        question="suppressed",
        name=f"one write that stops before {BEHIND} derived values",
        counts={OURS: 10_000, LAZILY: 2_000, REAKTIV: 100},
        bars=(Bar(LAZILY, 1),),
    ),
    Case(
        question="snapshot",
        name=f"snapshot of {NODES:,} nodes to canonical JSON and back",
        counts={OURS: 5, LAZILY: 2},
        bars=(Bar(LAZILY, 0.25),),
    ),
    Case(question="resync", name=f"the same, and taken by a replica of {NODES:,} nodes", counts={OURS: 5}),
    *(
        Case(
            question=f"merge-{kind}{suffix}",
            name=f"merge of one operation, {what}, {frames}",
            counts=_MERGES if kind == "new" else {**_MERGES, PYCRDT: 20_000},
            bars=(Bar(LAZILY, bar, ">="),),
        )
        for kind, what in (("new", "each for a new cell"), ("old", f"on {CELLS:,} cells"))
        for suffix, frames, bar in (
            ("", "a frame each", 1.0),
            ("-batched", f"{FRAME_OPERATIONS:,} in a frame", 2.0),
        )
    ),
    Case(
        question="merge-bare",
        name=f"merge of one operation, on {CELLS:,} cells, a frame each, at lazily without a frame",
        counts=_MERGES,
        bars=(Bar(LAZILY, None, ">="),),
    ),
    Case(
        question="merge-filtered",
        name=f"merge of one operation, on {CELLS:,} cells, {FRAME_OPERATIONS:,} in a frame, with permissions",
        counts={OURS: 20_000},
    ),
    Case(
        question="merge-text",
        name=f"merge of one operation from JSON, {FRAME_OPERATIONS:,} in a frame",
        counts={OURS: 10_000, LAZILY: 4_000},
    ),
    Case(
        question="arena",
        name=f"blob of {BLOB_BYTES // 1024} KiB into the arena",
        counts={OURS: 200, LAZILY: 4},
        bars=(Bar(LAZILY, 0.05),),
    ),
)


def run() -> Result:
    """Measure. A peer that is not there is an error, not a gap."""
    rounds = setting("REACTIVE_ROUNDS", 9)
    rows: list[Row] = []
    ratios: list[Ratio] = []
    with ended_on_signal():
        interpreters = install()
        for case in CASES:
            rates, figures = measure(case, interpreters, rounds=rounds)
            rows += case_rows(case, rates, figures)
            ratios += case_ratios(case, rates)
    few, many = setting("REACTIVE_FEW_RECORDS", 10_000), setting("REACTIVE_MANY_RECORDS", 1_000_000)
    more, whole = _views(setting("REACTIVE_VIEW_ROUNDS", 15), few, many)
    rows += view_rows(more, whole)
    ratios.append(
        ratio_row(
            f"live view: one new record, {many:,} / {few:,} records",
            more,
            str(many),
            str(few),
            bar=VIEW_BAR,
            comparison="<=",
        )
    )
    return Result(question=QUESTION, rows=rows, ratios=ratios, notes=_notes())


# ---- measuring ------------------------------------------------------------------------------------------------------


class Side:
    """One library in its process."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process: Final = process

    def ask(self, question: str, count: int) -> Answer:
        """Put a question."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"question": question, "count": count}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise PeerFailedError(f"ended before it was asked: {question}") from error
        return next_answer(self._process, seconds_max=WORK_SECONDS_MAX)


def install(peers: Mapping[str, tuple[int, int]] = PEERS) -> dict[str, Path]:
    """The interpreters of ours and of all peers."""
    theirs = {peer: peer_environments.install(peer, at_least=oldest) for peer, oldest in peers.items()}
    return {OURS: Path(sys.executable), **theirs}


def measure(case: Case, interpreters: Mapping[str, Path], *, rounds: int) -> tuple[Rates, dict[str, list[Answer]]]:
    """Seconds of each side, round by round, and all that they answered. Each case has processes of its own."""
    figures: dict[str, list[Answer]] = {name: [] for name in case.counts}

    def turn(name: str, side: Side) -> Callable[[], float]:
        def seconds() -> float:
            answer = side.ask(case.question, case.counts[name])
            figures[name].append(answer)
            return float(answer["seconds"])

        return seconds

    with ExitStack() as stack:
        turns = {}
        for name in case.counts:
            command = [str(interpreters[name]), "-m", f"benchmarks.reactive_{name}"]
            turns[name] = turn(name, Side(stack.enter_context(running(command, cwd=ROOT))))
        return take_turns(turns, rounds=rounds), figures


def _views(rounds: int, *sizes: int) -> tuple[Rates, Rates]:
    """Processor seconds for one more record by the size of the lace, and of evaluating and taking up the view."""
    command = [sys.executable, "-m", "benchmarks.reactive_view", str(rounds), *map(str, sizes)]
    found: dict[str, Rates] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return found["more"], found["whole"]


# ---- showing --------------------------------------------------------------------------------------------------------


def case_rows(case: Case, rates: Rates, figures: Mapping[str, list[Answer]]) -> list[Row]:
    """What each side took."""
    return [
        Row(
            name=f"{case.name}, {name}",
            value=float(f"{statistics.median(rates[name]) * 1_000_000:.4g}"),
            unit="µs",
            note=", ".join(f"{value:,} {key}" for key, value in figures[name][0].items() if key != "seconds"),
        )
        for name in case.counts
    ]


def case_ratios(case: Case, rates: Rates) -> list[Ratio]:
    """How that compares with what was promised: times where less is promised, rates where more is."""
    ratios = []
    for bar in case.bars:
        mine, theirs = (OURS, bar.peer) if bar.comparison == "<=" else (bar.peer, OURS)
        what = "time" if bar.comparison == "<=" else "rate"
        name = f"{case.name}: {what} / {bar.peer}'s"
        ratios.append(ratio_row(name, rates, mine, theirs, bar=bar.bar, comparison=bar.comparison))
    return ratios


def view_rows(more: Rates, whole: Rates) -> list[Row]:
    """What a view took."""
    return [
        row
        for records, seconds in more.items()
        for row in (
            Row(
                name=f"live view of {int(records):,} records: one new record",
                value=round(statistics.median(seconds) * 1_000_000),
                unit="µs",
                note=f"evaluated from nothing {whole[records][0]:.3g} s, taken up by a new process "
                f"{whole[records][1]:.3g} s",
            ),
        )
    ]


def _notes() -> list[str]:
    versions = {peer: peer_environments.version_of(peer) for peer in PEERS}
    sides = (
        f"Peers: reaktiv {versions[REAKTIV]}, lazily {versions[LAZILY]} (compiled, on Python 3.12 or newer, in the "
        f"quickest of its forms) and pycrdt {versions[PYCRDT]}, from PyPI, each in an environment and a process of its "
        "own. All figures are processor time. Sides take turns, and every result is checked: what each effect saw, "
        "what was decoded, how many operations were applied. What a turn runs on is built before its clock starts."
    )
    merges = (
        "Operations are decoded, keyed, and the greatest stamp wins; each frame has a frontier. pycrdt merges writes "
        "into a map of a shared document, as updates of one write each or as one update of all, which is another "
        "problem: it is shown, not compared."
    )
    arena = (
        f"The arena of lazily is a byte array of {ARENA_BYTES // 2**20} MiB in its process, ours as much shared memory "
        "that other processes read."
    )
    rules = "".join(f"    {line}\n" for line in RULES.strip().splitlines())
    view = (
        f"The view is of these rules, which half of the records meet. {TURN_RECORDS} records come one by one in each "
        f"turn, and what is measured is from the commit of one until all that depends on the view is up to date.\n\n"
        f"{rules.rstrip()}"
    )
    return [sides, merges, arena, view]

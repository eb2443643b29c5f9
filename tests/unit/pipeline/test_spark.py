"""The session: settings, masters, memory, silence, and that nothing is left of it."""

import logging
import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark import SparkContext
from pyspark.errors import PySparkAttributeError
from pyspark.sql import SparkSession

from bobbin.errors import UsageError
from bobbin.pipeline import spark as module
from bobbin.pipeline.failures import PipelineError
from bobbin.pipeline.interrupts import Interrupts
from bobbin.pipeline.spark import MEMORY_MAX, Profile, driver_memory, open_session, parallelism, session

if TYPE_CHECKING:
    from collections.abc import Iterator


def _doubled(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"id": pa.array([2 * value.as_py() for value in batch["id"]], pa.int64())})


def _python(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"python": [sys.executable]})


def test_functions_of_tests_reach_the_workers(spark: SparkSession) -> None:
    frame = spark.range(4).mapInArrow(_doubled, "id long")
    assert sorted(row.id for row in frame.collect()) == [0, 2, 4, 6]


def test_workers_run_the_same_python(spark: SparkSession) -> None:
    found = {row.python for row in spark.range(2).mapInArrow(_python, "python string").collect()}
    assert found == {sys.executable}


def test_a_view_of_one_test(spark: SparkSession) -> None:
    spark.range(1).createOrReplaceTempView("left_behind")
    assert spark.catalog.tableExists("left_behind")


def test_is_not_seen_by_the_next(spark: SparkSession) -> None:
    assert not spark.catalog.tableExists("left_behind")


def test_settings_of_every_session(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"
    assert spark.conf.get("spark.ui.enabled") == "false"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.sparkContext.uiWebUrl is None
    assert parallelism(spark) == 2


def test_one_that_runs_is_used_as_it_is_and_left_running(spark: SparkSession) -> None:
    assert open_session(master="local[7]") is spark
    with session(master="local[7]") as found:
        assert found is spark
    with session(spark) as found:
        assert found is spark
    assert spark.range(3).count() == 3


def test_it_is_found_from_another_thread(spark: SparkSession) -> None:
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(open_session).result() is spark


class _Remote:
    """As much of a session on a Spark Connect server as is asked for."""

    class conf:  # noqa: N801 -- an attribute of Spark's
        @staticmethod
        def get(name: str) -> str:
            return {"spark.sql.shuffle.partitions": "12"}[name]

    @property
    def sparkContext(self) -> None:  # noqa: N802 -- an attribute of Spark's
        raise PySparkAttributeError(errorClass="JVM_ATTRIBUTE_NOT_SUPPORTED", messageParameters={"attr_name": "x"})


def test_a_session_elsewhere_is_as_parallel_as_it_says() -> None:
    assert parallelism(_Remote()) == 12  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("total", "expected"), [(1 << 30, 1 << 30), (8 << 30, 4 << 30), (24 << 30, MEMORY_MAX), (1 << 40, MEMORY_MAX)]
)
def test_the_driver_takes_half_of_the_memory_within_bounds(total: int, expected: int) -> None:
    assert driver_memory(total) == expected


def test_the_memory_of_this_machine_is_known() -> None:
    assert 1 << 30 <= driver_memory() <= MEMORY_MAX


@pytest.fixture
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process without a session; whatever would start one fails."""

    def fail() -> None:
        raise AssertionError("nothing is to be started")

    monkeypatch.setattr(module, "_running", lambda: None)
    monkeypatch.setattr(module, "find_java", fail)


@pytest.mark.usefixtures("no_session")
@pytest.mark.parametrize("master", ["", "locale", "local[0]", "local[]", "spark://host", "mesos://x:1", "sc://x:1"])
def test_a_master_that_makes_no_sense_is_refused_at_once(master: str) -> None:
    with pytest.raises(UsageError, match="is no master of Spark: "):
        open_session(master=master)


@pytest.mark.usefixtures("no_session")
@pytest.mark.parametrize("memory", ["", "4", "g", "0g", "-1g", "4 g"])
def test_memory_that_makes_no_sense_is_refused_at_once(memory: str) -> None:
    with pytest.raises(UsageError, match="an amount of memory is"):
        open_session(memory=memory)


@pytest.mark.usefixtures("no_session")
def test_a_cluster_that_does_not_answer_is_said_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        master = f"spark://127.0.0.1:{port},localhost:{port}"
        with pytest.raises(PipelineError, match=f"127.0.0.1:{port}: .*; localhost:{port}: ") as caught:
            open_session(master=master)
    assert caught.value.retry


def _settings(master: str, tmp_path: Path, memory: str | None = None) -> dict[str, str]:
    return module._settings(master, Profile.PRODUCTION, memory, tmp_path, debug=False)


@pytest.mark.parametrize("master", ["local[*]", "local[4]", "local", "spark://127.0.0.1:7077", "spark://localhost:1"])
def test_on_one_machine_nothing_listens_to_the_network(master: str, tmp_path: Path) -> None:
    assert _settings(master, tmp_path)["spark.driver.bindAddress"] == "127.0.0.1"


@pytest.mark.parametrize("master", ["yarn", "spark://127.0.0.1:7077,far:7077", "k8s://https://far:6443"])
def test_executors_elsewhere_can_reach_the_driver_and_get_the_memory(master: str, tmp_path: Path) -> None:
    settings = _settings(master, tmp_path, "3g")
    assert "spark.driver.bindAddress" not in settings
    assert settings["spark.driver.memory"] == settings["spark.executor.memory"] == "3g"


def test_options_of_the_caller_go_before_ours(tmp_path: Path) -> None:
    settings = _settings("local[*]", tmp_path)
    merged = module._merged(settings, {"spark.driver.extraJavaOptions": "-Dx=y", "spark.ui.enabled": "true"})
    assert merged["spark.ui.enabled"] == "true"
    assert merged["spark.driver.extraJavaOptions"] == f"{settings['spark.driver.extraJavaOptions']} -Dx=y"


def test_python_elsewhere_is_the_users_choice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/elsewhere/python")
    assert module._variables(tmp_path, "yarn")["PYSPARK_PYTHON"] == "/elsewhere/python"
    assert module._variables(tmp_path, "local[2]")["PYSPARK_PYTHON"] == sys.executable
    monkeypatch.delenv("PYSPARK_PYTHON")
    assert module._variables(tmp_path, "yarn")["PYSPARK_PYTHON"] == sys.executable


def test_variables_are_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A", "1")
    monkeypatch.delenv("B", raising=False)
    with module._environment({"A": "2", "B": "3"}):
        assert (os.environ["A"], os.environ["B"]) == ("2", "3")
    assert (os.environ["A"], "B" in os.environ) == ("1", False)


def test_lines_of_the_gateway_are_dropped_and_no_others() -> None:
    def line(path: str) -> logging.LogRecord:
        return logging.LogRecord("root", logging.ERROR, path, 1, "x", None, None)

    assert not module._is_not_of_gateway(line("/x/py4j/clientserver.py"))
    assert module._is_not_of_gateway(line("/x/other/clientserver.py"))


_SCRIPT = """
import os, signal, sys
from pathlib import Path
from bobbin.pipeline import spark as module
from bobbin.pipeline.failures import LostWorker, explained
from bobbin.pipeline.spark import Profile, session

def same(batches):
    print("a worker writes", flush=True)
    yield from batches

for _ in range(2):  # a second one begins with a Java of its own
    with session(master="local[1]", profile=Profile.TEST) as opened:
        assert opened.range(5).mapInArrow(same, "id long").count() == 5
        process = module._opened[0].gateway.proc
        try:
            opened.range(1).select("nothing of this name")
        except Exception:
            pass
    assert process.poll() is not None, "Java goes on"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

with session(master="local[1]", profile=Profile.TEST) as opened:
    module._opened[0].gateway.proc.kill()
    try:
        with explained("count"):
            opened.range(5).count()
    except LostWorker:
        print("lost")
    else:
        raise AssertionError("nobody noticed")

print(sorted(os.listdir(os.environ["TMPDIR"])))
"""


@pytest.mark.slow
def test_a_session_is_silent_and_leaves_nothing(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT],
        env={**os.environ, "TMPDIR": str(scratch)},
        capture_output=True,
        check=False,
        text=True,
        timeout=280,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "lost\n[]\n"


_IMPATIENT = """
import os, signal, time
from pathlib import Path
from bobbin.pipeline import spark as module

started, groups = [], []
Real = module.subprocess.Popen

def popen(*arguments, **options):
    started.append(Real(*arguments, **options))
    groups.append(os.getpgid(started[-1].pid))
    return started[-1]

def interrupt():  # when Java has come up, and nobody has spoken with it
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(10)

module.subprocess.Popen = popen
module.launch_gateway = interrupt
try:
    module.open_session(profile=module.Profile.TEST)
except KeyboardInterrupt:
    print("interrupted", started[-1].returncode, groups[-1] != os.getpgid(0))
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
print(sorted(os.listdir(os.environ["TMPDIR"])))
"""


@pytest.mark.slow
def test_an_interrupt_while_java_starts_leaves_no_java(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", _IMPATIENT],
        env={**os.environ, "TMPDIR": str(scratch)},
        capture_output=True,
        check=False,
        text=True,
        timeout=280,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "interrupted -9 True\n[]\n"


def test_what_java_writes_down_of_its_gateway_is_read() -> None:
    assert module._read_told(b"\x00\x00\xa1\x2f\x00\x00\x00\x03abc") == (41_263, "abc")


_BROKEN = """
from bobbin.pipeline.failures import PipelineError
from bobbin.pipeline.spark import open_session
try:
    open_session(options={"spark.driver.extraJavaOptions": "-javaagent:/nowhere/agent.jar"})
except PipelineError as error:
    print(error)
"""


@pytest.mark.slow
def test_a_java_that_does_not_start_says_why(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _BROKEN],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        check=False,
        text=True,
        timeout=280,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Spark could not be started: its Java ended at once, and said: ")
    assert "/nowhere/agent.jar" in done.stdout
    assert done.stdout.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_while_java_ends_leaves_no_java_and_no_files(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    java = subprocess.Popen(["sleep", "1000"], stdin=subprocess.PIPE, process_group=0)

    def interrupt() -> None:
        raise KeyboardInterrupt

    gateway = SimpleNamespace(shutdown=interrupt, proc=java)
    session = SimpleNamespace(stop=lambda: None)
    opened = module._Opened(session, gateway, tmp_path / "scratch", Interrupts(lambda: None))  # type: ignore[arg-type]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_opened", [opened])
        for owner, name in (
            (SparkContext, "_gateway"),
            (SparkContext, "_jvm"),
            (SparkContext, "_active_spark_context"),
        ):
            patch.setattr(owner, name, None)
        patch.setattr(SparkSession, "_instantiatedSession", None)
        with pytest.raises(KeyboardInterrupt):
            module.close_session(session)  # type: ignore[arg-type]
    assert java.returncode == -signal.SIGKILL
    assert not (tmp_path / "scratch").exists()

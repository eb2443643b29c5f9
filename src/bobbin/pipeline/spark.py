"""The Spark session of the pipeline: how it is opened, what it is set to, and how it ends.

Spark has one context in a process. ``open_session`` starts a Java for it, with the options of a profile; ``session``
also ends what it opened, the Java included. A session that somebody else has opened, and so also one on a Spark Connect
server, is used as it is and left running.

What Java and the Python workers write goes to a file in the session's scratch folder, from the first line on, so that a
command's own output is all that a user sees. Where a start fails, the end of that file is part of the error.
"""

import logging
import os
import re
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from bobbin.errors import UsageError
from bobbin.pipeline.failures import PipelineError, explained
from bobbin.pipeline.interrupts import Interrupts, restore
from bobbin.pipeline.java import find_java
from bobbin.pipeline.source.datasource import register

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway

MEMORY_MAX: Final = 6 << 30
"""What the driver takes at most where nobody says how much: everything here streams or shuffles."""
_MEMORY_MIN: Final = 1 << 30
_TEST_MEMORY: Final = "1g"
_CONNECT_SECONDS: Final = 5.0
_EXIT_SECONDS: Final = 30.0
_LAUNCH_POLL_SECONDS: Final = 0.05
_TOLD_HEAD: Final = 8
_LOG_TAIL: Final = 2_000

_LOCAL: Final = re.compile(
    r"local(?:\[(?:\*|[1-9]\d*)(?:\s*,\s*[1-9]\d*)?\])?|local-cluster\[[\d\s]+,[\d\s]+,[\d\s]+\]"
)
_STANDALONE: Final = re.compile(r"spark://([^,/]+:\d+(?:,[^,/]+:\d+)*)")
_OTHER_MASTERS: Final = ("k8s://", "yarn")
_MEMORY: Final = re.compile(r"[1-9]\d*[kmgt]b?", re.IGNORECASE)
_LOOPBACK: Final = ("127.", "localhost", "[::1]")

_LOGGING: Final = """\
status = off
rootLogger.level = {level}
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n%ex
# What a shell of Spark would set its own level by; said here so that it sets none.
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = {level}
"""


class Profile(StrEnum):
    """What a session is for."""

    PRODUCTION = "production"
    TEST = "test"
    """Starts sooner, and is slow on much data: the quick compiler, one collector thread, plans that do not adapt."""


_ALWAYS: Final = MappingProxyType(
    {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # A worker that dies says why, as far as Python can.
        "spark.python.worker.faulthandler.enabled": "true",
        "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
    }
)
_TEST: Final = MappingProxyType(
    {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.constraintPropagation.enabled": "false",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.shuffle.compress": "false",
        "spark.rdd.compress": "false",
    }
)
_TEST_JAVA: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xverify:none")
_LAUNCHER_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
"""For the short Java that only puts the command line of the long one together."""


class _Opened:
    """What was started for the session of this process."""

    def __init__(self, session: SparkSession, gateway: "JavaGateway", scratch: Path, interrupts: Interrupts) -> None:
        self.session: Final = session
        self.gateway: Final = gateway
        self.scratch: Final = scratch
        self.interrupts: Final = interrupts


_opened: list[_Opened] = []
"""At most one: Spark has one context in a process."""


def open_session(
    *,
    master: str = "local[*]",
    profile: Profile = Profile.PRODUCTION,
    memory: str | None = None,
    application: str = "bobbin",
    options: Mapping[str, str] = MappingProxyType({}),
    debug: bool = False,
) -> SparkSession:
    """Start Spark, or return the session that runs in this process already, as it is.

    ``memory`` is what the driver, and each executor of a cluster, may take, as in ``4g``. ``options`` are Spark's own
    and go before ours. With ``debug`` everything that Java writes goes to stderr.
    """
    running = _running()
    if running is not None:
        return running
    _check_master(master)
    if memory is not None and not _MEMORY.fullmatch(memory):
        raise UsageError(f"an amount of memory is a number and a unit, as in 4g or 800m, and not {memory!r}")
    if not debug:
        _silence_loggers()
    java = find_java()
    scratch = Path(tempfile.mkdtemp(prefix="bobbin-spark-"))
    try:
        settings = _settings(master, profile, memory, scratch, debug=debug)
        settings |= {"spark.app.name": application, **_merged(settings, options)}
        with _environment(_variables(java.home, master)):
            opened = _start(settings, scratch, debug=debug)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    _opened.append(opened)
    register(opened.session)
    if "spark.sql.shuffle.partitions" not in options:
        opened.session.conf.set("spark.sql.shuffle.partitions", str(parallelism(opened.session)))
    return opened.session


def close_session(session: SparkSession) -> None:
    """Stop a session, and end the Java that was started for it. Its scratch folder goes away."""
    opened = next((one for one in _opened if one.session is session), None)
    try:
        with suppress(PySparkException, Py4JError, OSError), warnings.catch_warnings():  # its Java may have died before
            # On a busy machine Java may take longer than PySpark waits. It is ended below all the same.
            warnings.filterwarnings("ignore", "Unable to cleanly shutdown Spark JVM process", RuntimeWarning)
            session.stop()
    finally:  # also when somebody is impatient, and interrupts this
        if opened is not None:
            _opened.remove(opened)
            opened.interrupts.end()
            try:
                _end(opened.gateway)
            finally:
                shutil.rmtree(opened.scratch, ignore_errors=True)


@contextmanager
def session(
    given: SparkSession | None = None,
    *,
    master: str = "local[*]",
    profile: Profile = Profile.PRODUCTION,
    memory: str | None = None,
    application: str = "bobbin",
    options: Mapping[str, str] = MappingProxyType({}),
    debug: bool = False,
) -> Iterator[SparkSession]:
    """A session for the length of a block. One that is given, or runs already, is left running."""
    found = given or _running()
    if found is not None:
        yield found
        return
    opened = open_session(
        master=master, profile=profile, memory=memory, application=application, options=options, debug=debug
    )
    try:
        yield opened
    finally:
        close_session(opened)


def _running() -> SparkSession | None:
    """The session that runs in this process, whichever thread opened it."""
    if SparkContext._active_spark_context is not None:  # noqa: SLF001
        return SparkSession.builder.getOrCreate()
    return SparkSession.getActiveSession()


def parallelism(session: SparkSession) -> int:
    """How many tasks of a session run at a time, which is also how many partitions most frames want."""
    try:
        return max(1, session.sparkContext.defaultParallelism)
    except PySparkException:  # Spark Connect has no context; what its server is set to is the best that is known
        return max(1, int(session.conf.get("spark.sql.shuffle.partitions") or 1))


def log_tail() -> str:
    """The end of what Java and its workers have written in the session of this process; for ``--debug``."""
    return _read_tail(_opened[-1].scratch) if _opened else ""


def _settings(master: str, profile: Profile, memory: str | None, scratch: Path, *, debug: bool) -> dict[str, str]:
    logging = scratch / "log4j2.properties"
    logging.write_text(_LOGGING.format(level="warn" if debug else "error"), "utf-8")
    is_test = profile is Profile.TEST
    java = [f"-Dlog4j2.configurationFile={logging.as_uri()}", *(_TEST_JAVA if is_test else ())]
    settings = {
        **_ALWAYS,
        **(_TEST if is_test else {}),
        "spark.master": master,
        "spark.driver.memory": memory or (_TEST_MEMORY if is_test else f"{driver_memory() >> 20}m"),
        "spark.driver.extraJavaOptions": " ".join(java),
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": (scratch / "warehouse").as_uri(),
    }
    if _is_near(master):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if memory is not None and not _LOCAL.fullmatch(master):
        settings["spark.executor.memory"] = memory
    return settings


def _merged(settings: Mapping[str, str], options: Mapping[str, str]) -> dict[str, str]:
    """The caller's options; those of the driver's Java come after ours instead of replacing them."""
    key = "spark.driver.extraJavaOptions"
    return {**options, **({key: f"{settings[key]} {options[key]}"} if key in options else {})}


def _variables(java_home: Path, master: str) -> dict[str, str]:
    variables = {
        "JAVA_HOME": str(java_home),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LAUNCHER_OPTS": _LAUNCHER_JAVA,
    }
    if not _LOCAL.fullmatch(master) and "PYSPARK_PYTHON" in os.environ:
        # On other machines Python may stand elsewhere, and only the user knows where.
        variables["PYSPARK_PYTHON"] = os.environ["PYSPARK_PYTHON"]
    return variables


def _start(settings: Mapping[str, str], scratch: Path, *, debug: bool) -> _Opened:
    """Java, its gateway, the context and the session; all of them or none."""
    conf = SparkConf(loadDefaults=False)
    for name, value in settings.items():
        conf.set(name, value)
    gateway = _launch(conf, scratch, debug=debug)
    before = signal.getsignal(signal.SIGINT)
    interrupts: Interrupts | None = None
    try:
        with explained("Spark could not be started"):
            context = SparkContext(conf=conf, gateway=gateway)
            interrupts = Interrupts(context.cancelAllJobs)
            interrupts.begin(before)
            session = SparkSession.builder.config(conf=conf).getOrCreate()
    except BaseException:
        if interrupts is not None:
            interrupts.end()
        restore(before)
        _end(gateway)
        raise
    return _Opened(session, gateway, scratch, interrupts)


def _launch(conf: SparkConf, scratch: Path, *, debug: bool) -> "JavaGateway":
    """Start Java, and a gateway to it.

    PySpark would start it, too, but forgets it when it is interrupted on the way: then it stays for ever. Here it is in
    a group of processes of its own, so that Ctrl-C at a terminal reaches neither it nor its Python workers. What is to
    end there is ended by the driver, and Java ends by itself when the driver is gone.
    """
    told = scratch / "gateway"
    variables = {"SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(told)}
    settings = [part for name, value in conf.getAll() for part in ("--conf", f"{name}={value}")]
    program = str(Path(_find_spark_home()) / "bin" / "spark-submit")
    arguments = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    with (scratch / "spark.log").open("ab") as log:
        process = subprocess.Popen(  # noqa: S603 -- the script of Spark itself
            [program, *settings, *arguments],
            env={**os.environ, **variables},
            stdin=subprocess.PIPE,  # Java ends when this is closed
            stdout=None if debug else log,
            stderr=None if debug else log,
            process_group=0,
        )
    try:
        while not told.exists() and process.poll() is None:
            time.sleep(_LAUNCH_POLL_SECONDS)
        if not told.exists():
            said = " ".join(_read_tail(scratch).split())
            raise PipelineError(
                f"Spark could not be started: its Java ended at once{f', and said: {said}' if said else ''}",
                retry=False,
            )
        port, secret = _read_told(told.read_bytes())
        with _environment({"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}):
            gateway: JavaGateway = launch_gateway()  # type: ignore[no-untyped-call]
    except BaseException:
        _kill(process)
        raise
    gateway.proc = process
    return gateway


def _read_told(raw: bytes) -> tuple[int, str]:
    """The port of the gateway and its secret, as Java writes them down: a number, and a text after its length."""
    port, length = struct.unpack_from(">ii", raw)
    return port, raw[_TOLD_HEAD : _TOLD_HEAD + length].decode()


def _end(gateway: "JavaGateway") -> None:
    """End a Java in order; by force where it does not go."""
    # Spark keeps these for ever, and would use what is dead.
    SparkContext._gateway = None  # noqa: SLF001
    SparkContext._jvm = None  # noqa: SLF001
    SparkContext._active_spark_context = None  # noqa: SLF001
    SparkSession._instantiatedSession = None  # noqa: SLF001
    process: subprocess.Popen[bytes] | None = getattr(gateway, "proc", None)
    try:
        with suppress(Py4JError, OSError):
            gateway.shutdown()
        if process is not None and process.stdin is not None:
            with suppress(OSError):
                process.stdin.close()
        if process is not None:
            process.wait(_EXIT_SECONDS)
    except subprocess.TimeoutExpired:
        _kill(process)
    except BaseException:  # Somebody is impatient: then it ends at once, too.
        _kill(process)
        raise


def _kill(process: "subprocess.Popen[bytes] | None") -> None:
    """End a Java by force, with what it has started."""
    if process is None:
        return
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def _silence_loggers() -> None:
    """What Spark's Python says of an error before it raises that error; whoever catches it knows."""
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger", "py4j"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_not_of_gateway)


def _is_not_of_gateway(record: logging.LogRecord) -> bool:
    """Whether a line does not come from the gateway to Java, which logs by the name of nobody."""
    return Path(record.pathname).parent.name != "py4j"


def _read_tail(scratch: Path) -> str:
    try:
        return (scratch / "spark.log").read_text("utf-8", "replace")[-_LOG_TAIL:]
    except OSError:
        return ""


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """These variables for the length of a block; Spark reads them while it starts, and later no more."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def driver_memory(total: int | None = None) -> int:
    """How many bytes the driver takes by itself: half of what there is, within bounds."""
    half = (_memory_of_machine() if total is None else total) // 2
    return max(_MEMORY_MIN, min(MEMORY_MAX, half))


def _memory_of_machine() -> int:
    """The memory of the machine, or of the part of it that this process may use."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with suppress(OSError, ValueError):
        total = min(total, int(Path("/sys/fs/cgroup/memory.max").read_text("ascii")))
    return total


def _check_master(master: str) -> None:
    if _LOCAL.fullmatch(master) or master.startswith(_OTHER_MASTERS):
        return
    standalone = _STANDALONE.fullmatch(master)
    if standalone is None:
        raise UsageError(
            f"{master!r} is no master of Spark: local[*] or local[N] for this machine, spark://HOST:PORT for a "
            "standalone cluster, yarn, or k8s://…"
        )
    _check_reachable(master, standalone[1].split(","))


def _check_reachable(master: str, places: list[str]) -> None:
    """Spark itself would try for a minute, and then say only that its context is stopped."""
    faults = []
    for place in places:
        host, _, port = place.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS).close()
        except (OSError, OverflowError) as error:
            faults.append(f"{place}: {error}")
        else:
            return
    raise PipelineError(f"no master of the cluster {master} can be reached ({'; '.join(faults)})", retry=True)


def _is_near(master: str) -> bool:
    """Whether the whole of Spark runs on this machine, so that nothing has to listen to the network."""
    if _LOCAL.fullmatch(master):
        return True
    standalone = _STANDALONE.fullmatch(master)
    return standalone is not None and all(place.startswith(_LOOPBACK) for place in standalone[1].split(","))

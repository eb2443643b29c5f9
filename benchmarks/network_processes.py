"""Processes that a benchmark starts besides itself: they live no longer than the block that needs them.

Each gets a session of its own, so whatever it starts in turn is ended with it; its input stays open for just as long,
so a program of ours that waits for the end of its input ends even if the benchmark is killed. Everything they do is on
loopback, and nothing waits for ever.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeAlias

HOST: Final = "127.0.0.1"
START_SECONDS_MAX: Final = 60
"""How long a server may take until it says where it listens."""
WORK_SECONDS_MAX: Final = 3600
"""How long one run may take. A peer that needs longer has failed."""
_END_SECONDS_MAX: Final = 15

Answer: TypeAlias = dict[str, float | str]
"""What a process says of itself on one line, as a JSON object."""


class PeerFailedError(RuntimeError):
    """A process that takes part in a benchmark is absent, ended too early, or did not do what it was to do."""


@contextmanager
def running(
    command: Sequence[str],
    *,
    cwd: Path | None = None,
    environment: dict[str, str] | None = None,
    quiet: bool = False,
) -> Iterator[subprocess.Popen[str]]:
    """A process for as long as the block lasts. What it says of errors goes where ours goes, unless it is quiet."""
    try:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=environment if environment is not None else plain_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL if quiet else subprocess.PIPE,
            stderr=subprocess.DEVNULL if quiet else None,
            text=True,
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise PeerFailedError(f"not installed: {command[0]}") from error
    try:
        yield process
    finally:
        _end(process)


def plain_environment(**more: str) -> dict[str, str]:
    """The environment without the settings that would send loopback traffic through a proxy."""
    kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    return kept | more


def next_answer(process: subprocess.Popen[str], *, seconds_max: float = START_SECONDS_MAX) -> Answer:
    """The next line of a process. One that says nothing for so long is ended."""
    assert process.stdout is not None
    too_long = threading.Timer(seconds_max, _kill, [process])
    too_long.start()
    try:
        line = process.stdout.readline()
    finally:
        too_long.cancel()
    if not line:
        raise PeerFailedError(f"ended, or said nothing for {seconds_max:g} s: {_name(process.args)}")
    return read_answer(line)


def answer_of(command: Sequence[str], *, cwd: Path | None = None, seconds_max: float = WORK_SECONDS_MAX) -> Answer:
    """Run a program to its end; its last line is its answer."""
    said = output_of(command, cwd=cwd, seconds_max=seconds_max)
    return read_answer(said.strip().rpartition("\n")[2])


def output_of(command: Sequence[str], *, cwd: Path | None = None, seconds_max: float = WORK_SECONDS_MAX) -> str:
    """Run a program to its end; all it said."""
    with running(command, cwd=cwd) as process:
        try:
            said, _ = process.communicate(timeout=seconds_max)
        except subprocess.TimeoutExpired as expired:
            raise PeerFailedError(f"not done within {seconds_max} s: {_name(command)}") from expired
        if process.returncode != 0:
            raise PeerFailedError(f"exit code {process.returncode}: {_name(command)}")
    return said


def read_answer(line: str) -> Answer:
    """One line as an answer."""
    try:
        answer = json.loads(line)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise PeerFailedError(f"not an answer: {line[:200]!r}")
    return answer


async def standard_input() -> asyncio.StreamReader:
    """This process's input, read in its event loop: a thread that waits for a line would keep a failed one alive."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


def wait_until(done: Callable[[], bool], *, what: str, seconds_max: float, every_seconds: float = 0.1) -> None:
    """Ask again and again until the answer is yes."""
    deadline = time.monotonic() + seconds_max
    while not done():
        if time.monotonic() > deadline:
            raise PeerFailedError(f"waited {seconds_max} s in vain: {what}")
        time.sleep(every_seconds)


def free_port() -> int:
    """A port of loopback that nobody uses at this moment, for programs that cannot choose one themselves."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def is_listening(port: int) -> bool:
    """Whether somebody takes connections there."""
    with suppress(OSError), socket.create_connection((HOST, port), timeout=1):
        return True
    return False


@contextmanager
def ended_on_signal() -> Iterator[None]:
    """Let SIGTERM end this process as an exception does, so that everything started is ended too."""

    def leave(number: int, _: object) -> None:
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(process: subprocess.Popen[str]) -> None:
    """End the whole session: gently, then for certain."""
    with suppress(OSError):
        if process.stdin is not None:
            process.stdin.close()
    _signal(process, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_END_SECONDS_MAX)
    # Whatever of it is left, a child that did not hear or nobody.
    _kill(process)
    process.wait(_END_SECONDS_MAX)
    if process.stdout is not None:
        process.stdout.close()


def _kill(process: subprocess.Popen[str]) -> None:
    _signal(process, signal.SIGKILL)


def _signal(process: subprocess.Popen[str], number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _name(command: object) -> str:
    return " ".join(map(str, command)) if isinstance(command, list | tuple) else str(command)

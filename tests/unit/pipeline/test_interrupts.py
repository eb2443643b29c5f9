"""Ctrl-C: counted, raised in the main thread, and told to Java by another one."""

import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

import bobbin.pipeline.jobs
from bobbin.pipeline import interrupts
from bobbin.pipeline.interrupts import Interrupts

_SECONDS_MAX = 10.0


@pytest.fixture(autouse=True)
def _own_handler() -> Iterator[None]:
    """What Ctrl-C does in a process by itself, and afterwards what it did before."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def _interrupted() -> None:
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


def test_another_thread_cancels_and_the_main_one_raises() -> None:
    told: list[str] = []
    done = threading.Event()

    def cancel() -> None:
        told.append(threading.current_thread().name)
        done.set()

    before = interrupts.count()
    ours = Interrupts(cancel)
    ours.begin(signal.default_int_handler)
    _interrupted()
    assert done.wait(_SECONDS_MAX)
    ours.end()
    assert (told, interrupts.count() - before) == (["spark-cancel"], 1)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_cancel_that_hangs_or_fails_holds_nobody_up() -> None:
    told: list[int] = []
    free, done = threading.Event(), threading.Event()

    def cancel() -> None:
        told.append(len(told))
        if len(told) == 1:
            free.wait(_SECONDS_MAX)
            raise RuntimeError("the connection is gone")
        done.set()

    ours = Interrupts(cancel)
    ours.begin(signal.default_int_handler)
    _interrupted()
    _interrupted()
    free.set()
    assert done.wait(_SECONDS_MAX)
    ours.end()


def test_one_that_is_dropped_where_nobody_asks_for_it_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Outside of noticed work it would be gone without a trace."""

    class Held:
        pass

    ours = Interrupts(lambda: None)
    ours.begin(signal.default_int_handler)
    told: list[type[BaseException]] = []
    ours._tell_dropped = lambda what: told.append(what.exc_type)  # type: ignore[misc]
    held = Held()
    reference = weakref.ref(held, lambda _: os.kill(os.getpid(), signal.SIGINT))
    del held
    ours.end()
    assert (reference(), told) == (None, [KeyboardInterrupt])
    assert capsys.readouterr().err == ""


def test_after_the_end_it_is_not_counted_and_nobody_waits_for_wishes() -> None:
    ours = Interrupts(lambda: None)
    ours.begin(signal.default_int_handler)
    ours.end()
    assert ours._thread is not None
    ours._thread.join(_SECONDS_MAX)
    assert not ours._thread.is_alive()
    before = interrupts.count()
    _interrupted()
    assert interrupts.count() == before


def test_what_was_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # as Spark would have put in
    ours = Interrupts(lambda: None)
    ours.begin(signal.SIG_IGN)
    os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    ours.end()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_in_another_thread_nothing_is_touched() -> None:
    def whole() -> None:
        ours = Interrupts(lambda: None)
        ours.begin(signal.SIG_IGN)
        ours.end()

    with ThreadPoolExecutor(1) as threads:
        threads.submit(whole).result(_SECONDS_MAX)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_that_is_not_of_python_is_left_alone() -> None:
    interrupts.restore(None)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_signal_that_is_late_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "PENDING_SECONDS", _SECONDS_MAX)
    timer = threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT))
    begun = time.monotonic()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        interrupts.wait_pending()
    assert time.monotonic() - begun < _SECONDS_MAX / 2


# ---- dropped on the way ----------------------------------------------------------------------------------------------


class _OfJava:
    """Something with a weak reference to it, as the gateway has one to each object of Java."""


def _drop() -> None:
    """The signal comes while Python calls back because an object has gone, and its exception is dropped there."""
    thing = _OfJava()
    reference = weakref.ref(thing, lambda _: os.kill(os.getpid(), signal.SIGINT))
    del thing
    assert reference() is None


@contextmanager
def _handled() -> Iterator[Interrupts]:
    ours = Interrupts(lambda: None)
    ours.begin(signal.default_int_handler)
    try:
        yield ours
    finally:
        ours.end()


def test_an_interrupt_that_was_dropped_is_raised_at_the_next_step(capsys: pytest.CaptureFixture[str]) -> None:
    with _handled(), interrupts.noticed():
        before = interrupts.count()
        _drop()
        assert interrupts.count() == before + 1, "nobody has heard of it, but it is noted"
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()
        interrupts.check()  # whoever was told once is not told again
    assert capsys.readouterr() == ("", "")


def test_work_inside_of_work_does_not_forget_what_came_before_it() -> None:
    with _handled(), interrupts.noticed():
        _drop()
        with interrupts.noticed(), pytest.raises(KeyboardInterrupt):
            interrupts.check()


def test_at_the_latest_it_is_raised_when_the_work_is_over() -> None:
    with _handled(), pytest.raises(KeyboardInterrupt), interrupts.noticed():
        _drop()


def test_an_interrupt_that_somebody_was_told_of_does_not_end_what_comes_next() -> None:
    with _handled():
        _interrupted()
        with interrupts.noticed():
            interrupts.check()
        with pytest.raises(KeyboardInterrupt), interrupts.noticed():
            os.kill(os.getpid(), signal.SIGINT)
        interrupts.check()
        with interrupts.noticed():
            interrupts.check()
            _drop()
            interrupts.acknowledge()


def test_only_the_main_thread_is_told() -> None:
    def batch() -> None:
        with interrupts.noticed():
            interrupts.check()

    with _handled(), interrupts.noticed():
        _drop()
        with ThreadPoolExecutor(1) as threads:
            threads.submit(batch).result(_SECONDS_MAX)
        with pytest.raises(KeyboardInterrupt):
            interrupts.check()


def test_whatever_else_python_drops_is_told_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: told.append(what.exc_type))
    hook = sys.unraisablehook

    def fail(_: object) -> None:
        raise ValueError("no")

    with _handled():
        thing = _OfJava()
        reference = weakref.ref(thing, fail)
        del thing
        assert reference() is None
    assert told == [ValueError]
    assert sys.unraisablehook is hook


def test_every_job_asks_before_it_commits() -> None:
    jobs = Path(bobbin.pipeline.jobs.__file__).parent
    committing = [file for file in jobs.glob("*.py") if "run.commit(" in file.read_text("utf-8")]
    assert len(committing) >= 7
    for file in committing:
        lines = file.read_text("utf-8").splitlines()
        for number, line in enumerate(lines):
            if "run.commit(" in line:
                assert lines[number - 1].strip() == "interrupts.check()", f"{file.name}:{number + 1}"

"""Ctrl-C: counted, raised in the main thread, and told to Java by another one."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

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

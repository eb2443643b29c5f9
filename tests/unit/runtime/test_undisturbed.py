"""Jobs without a search for garbage in the midst of them."""

import gc
import threading
from collections.abc import Iterator

import pytest

from bobbin.runtime.undisturbed import undisturbed

SECONDS_MAX = 60


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


def test_the_search_waits_for_the_job() -> None:
    assert not undisturbed(gc.isenabled)
    assert gc.isenabled()


def test_a_job_that_fails_ends_too() -> None:
    with pytest.raises(ZeroDivisionError):
        undisturbed(lambda: 1 // 0)
    assert gc.isenabled()


def test_a_job_inside_a_job() -> None:
    assert not undisturbed(lambda: undisturbed(gc.isenabled) or gc.isenabled())
    assert gc.isenabled()


def test_where_nobody_searches_nobody_begins_to() -> None:
    gc.disable()
    undisturbed(lambda: None)
    assert not gc.isenabled()


def test_the_search_waits_for_the_jobs_of_all_threads() -> None:
    begun, may_end = threading.Event(), threading.Event()

    def job() -> None:
        begun.set()
        may_end.wait(SECONDS_MAX)

    thread = threading.Thread(target=undisturbed, args=(job,))
    thread.start()
    assert begun.wait(SECONDS_MAX)
    undisturbed(lambda: None)
    assert not gc.isenabled(), "another job is being done"
    may_end.set()
    thread.join()
    assert gc.isenabled()

"""The pool of worker processes: order, bounds, and what happens when a process dies."""

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator

import pytest

from bobbin.errors import ResourceError, UsageError
from bobbin.records import signing
from bobbin.records.record import build_blob, build_plex, seal
from bobbin.runtime import work
from bobbin.runtime.workers import BATCHES_AT_WORKER_MAX, VERIFY_BATCH_ITEMS, Validators, verify_many

KEY = signing.SigningKey.from_secret(bytes(range(32)))
PUBLIC_X = bytes.fromhex("60e542dfcc8442c672331926787b32299780680adf70853c3f05eb0fea917426")

SECONDS_MAX = 60
"""Far above what any of these takes; a hang fails here instead of hanging the suite."""


def raw(number: int) -> bytes:
    plex = build_plex(group="u", app="ding", name=f"links/{number}", tai_ns=number, data=b"x" * number)
    return seal(plex, KEY, auxiliary=b"\x01" * 32).raw


def mixed_batches() -> list[list[bytes]]:
    """Good records, damaged ones, and an empty batch, none like another."""
    good = [raw(number) for number in range(12)]
    damaged = [record[:-1] for record in good[1:]] + [b"", b"\xff" * 100]
    return [good[:5], damaged[:6], [], [good[5], damaged[6], good[6]], damaged[7:], good[7:]]


class Counted:
    """An endless input that knows how much of it was taken."""

    def __init__(self, batch: list[bytes]) -> None:
        self.taken = 0
        self._batch = batch

    def __iter__(self) -> Iterator[list[bytes]]:
        while True:
            self.taken += 1
            yield self._batch


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_answers_come_in_the_order_of_the_batches(workers: int) -> None:
    batches = mixed_batches() * 4
    with Validators(workers) as pool:
        answers = list(pool.validate(iter(batches)))
    assert answers == [work.validate_batch(batch) for batch in batches]


def test_batches_can_be_begun_and_their_answers_taken_when_they_are_ready() -> None:
    batches = mixed_batches()
    ready = [threading.Event(), threading.Event()]
    with Validators(1, at_once=False) as pool:
        assert not pool.process_ids, "nobody is needed yet"
        begun = [pool.begin(batches, event.set) for event in ready]
        assert len(pool.process_ids) == 1
        for event in ready:
            assert event.wait(SECONDS_MAX)
        for one in begun:
            assert one is not None
            assert one.answers() == [answer for batch in batches for answer in work.validate_batch(batch)]
            assert not one.jobs, "bytes that were answered for are let go of"


def test_processes_can_be_started_before_there_is_work() -> None:
    with Validators(1, at_once=False) as pool:
        pool.make_ready()
        started = pool.process_ids
        assert len(started) == 1
        pool.make_ready()
        assert pool.begin([[raw(1)]], lambda: None) is not None
        assert pool.process_ids == started
    pool.make_ready()
    assert pool.process_ids == started, "a pool that is closed stays so"
    with Validators(0) as nobody:
        nobody.make_ready()
        assert not nobody.process_ids


def test_nothing_is_begun_where_nobody_would_do_it() -> None:
    with Validators(0) as pool:
        assert pool.begin([[raw(1)]], lambda: None) is None
    closed = Validators(1)
    closed.close()
    assert closed.begin([[raw(1)]], lambda: None) is None


def test_what_was_begun_at_a_worker_that_dies_is_ready_and_an_error() -> None:
    ready = threading.Event()
    with Validators(1) as pool:
        os.kill(pool.process_ids[0], signal.SIGSTOP)
        begun = pool.begin([[raw(1)]], ready.set)
        assert begun is not None
        os.kill(pool.process_ids[0], signal.SIGKILL)
        assert ready.wait(SECONDS_MAX)
        with pytest.raises(ResourceError, match="SIGKILL"):
            begun.answers()
        assert not begun.jobs


def test_a_worker_that_died_is_replaced_for_what_is_begun_after() -> None:
    ready = threading.Event()
    with Validators(1) as pool:
        (first,) = pool.process_ids
        os.kill(first, signal.SIGKILL)
        lost = pool.begin([[raw(1)]], lambda: None)
        begun = None
        deadline = time.monotonic() + SECONDS_MAX
        while pool.process_ids == [first] and time.monotonic() < deadline:  # until its death has been noticed
            ready.clear()
            begun = pool.begin([[raw(2)]], ready.set)
            assert begun is None or ready.wait(SECONDS_MAX)
        assert begun is not None
        assert begun.answers() == work.validate_batch([raw(2)])
        if lost is not None:
            with pytest.raises(ResourceError):
                lost.answers()


@pytest.mark.parametrize("workers", [0, 2])
def test_before_an_input_that_may_wait_every_answer_is_given_out(workers: int) -> None:
    batches = mixed_batches()
    taken: list[object] = []

    def inputs() -> Iterator[list[bytes] | None]:
        for number, batch in enumerate(batches, start=1):
            yield batch
            yield None
            assert len(taken) == number, "an answer was held back"

    with Validators(workers) as pool:
        taken.extend(pool.validate(inputs()))
        assert taken == [work.validate_batch(batch) for batch in batches]
        stretches = [b"".join(batch) for batch in batches]
        assert list(pool.recognise([None, *stretches, None])) == [work.recognise(stretch) for stretch in stretches]


@pytest.mark.parametrize("workers", [0, 2])
def test_stretches_are_recognised_in_order(workers: int) -> None:
    stretches = [b"".join(batch) for batch in mixed_batches()] * 3
    with Validators(workers) as pool:
        assert list(pool.recognise(iter(stretches))) == [work.recognise(stretch) for stretch in stretches]


def test_a_pool_serves_one_input_after_another() -> None:
    batches = mixed_batches()
    with Validators(1) as pool:
        abandoned = pool.validate(iter(batches * 10))
        next(abandoned)
        assert list(pool.validate(batches)) == [work.validate_batch(batch) for batch in batches]


@pytest.mark.parametrize("bound", [1, 3, 7])
def test_never_more_batches_on_their_way_than_allowed(bound: int) -> None:
    source = Counted([build_blob(b"hello").raw])
    with Validators(2, queue_batches_max=bound) as pool:
        for answered, _ in enumerate(itertools.islice(pool.validate(source), 30)):
            assert source.taken - answered <= bound


def test_never_more_bytes_on_their_way_than_allowed() -> None:
    source = Counted([build_blob(b"x" * 1000).raw] * 10)
    with Validators(2, queue_batches_max=100, queue_bytes_max=30_000) as pool:
        for answered, _ in enumerate(itertools.islice(pool.validate(source), 30)):
            assert source.taken - answered <= 3


def test_in_this_process_one_batch_is_taken_at_a_time() -> None:
    source = Counted([build_blob(b"hello").raw])
    with Validators(0) as pool:
        for answered, _ in enumerate(itertools.islice(pool.validate(source), 5)):
            assert source.taken - answered == 1


def test_large_batches_and_large_answers_do_not_block_each_other() -> None:
    large = [build_blob(bytes(4_000_000)).raw]
    chatty = [b"?"] * 60_000
    with Validators(1) as pool:
        answers = list(pool.validate([large, chatty, large, chatty]))
    assert [len(batch) for batch in answers] == [1, 60_000, 1, 60_000]
    assert all(isinstance(answer, work.Invalid) for answer in answers[3])
    assert not isinstance(answers[2][0], work.Invalid)


def test_a_killed_worker_is_an_error_that_says_so() -> None:
    source = Counted([raw(1)] * 50)
    with Validators(2) as pool:
        answers = pool.validate(source)
        next(answers)
        os.kill(pool.process_ids[0], signal.SIGKILL)
        with pytest.raises(ResourceError, match="SIGKILL") as failure:
            deque(itertools.islice(answers, 10_000), maxlen=0)
    assert failure.value.retry


def test_a_worker_killed_while_idle_is_an_error_too() -> None:
    with Validators(1) as pool:
        os.kill(pool.process_ids[0], signal.SIGKILL)
        with pytest.raises(ResourceError) as failure:
            list(pool.validate([[raw(1)]]))
    assert failure.value.retry


def test_leaving_the_context_leaves_no_process() -> None:
    with Validators(2) as pool:
        answers = pool.validate(Counted([raw(1)] * 50))
        next(answers)
        numbers = pool.process_ids
    for number in numbers:
        with pytest.raises(ProcessLookupError):
            os.kill(number, 0)
    with pytest.raises(ResourceError):
        list(answers)


CALLER = """
import itertools, sys
from bobbin.records.record import build_blob
from bobbin.runtime.workers import Validators
with Validators(2) as pool:
    for answer in pool.validate(itertools.repeat([build_blob(b"hello").raw] * 100)):
        print(flush=True)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_worker_outlives_its_caller(how: signal.Signals) -> None:
    # Workers inherit the caller's stderr, so the pipe ends only when the last of them is gone.
    with subprocess.Popen(
        [sys.executable, "-c", CALLER], stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0
    ) as caller:
        assert caller.stdout is not None
        assert caller.stdout.readline() == b"\n"
        os.killpg(caller.pid, how)
        _, errors = caller.communicate(timeout=SECONDS_MAX)
    assert caller.returncode != 0
    # The interrupt shows in the caller only: no worker adds a report of its own.
    assert errors.count(b"Traceback") == (1 if how is signal.SIGINT else 0)


@pytest.mark.parametrize("streams", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_workers_work_where_the_caller_has_closed_its_streams(streams: str) -> None:
    program = """
from bobbin.records.record import build_blob
from bobbin.runtime.workers import Validators
batch = [build_blob(b"hello").raw] * 10
with Validators(2) as pool:
    answers = list(pool.validate([batch] * 5))
raise SystemExit(7 if [len(answer) for answer in answers] == [10] * 5 else 1)
"""
    command = f"exec \"{sys.executable}\" -c '{program}' {streams}"
    assert subprocess.run(["sh", "-c", command], check=False, timeout=SECONDS_MAX).returncode == 7


@pytest.mark.parametrize("workers", [0, 2])
def test_verify_many_answers_like_single_verification(workers: int) -> None:
    items = []
    for number in range(VERIFY_BATCH_ITEMS + 3):
        message = number.to_bytes(32, "big")
        signature = KEY.sign(message, auxiliary=b"\x01" * 32)
        items.append((PUBLIC_X, message, signature if number % 3 else signature[:-1] + bytes([signature[-1] ^ 1])))
    assert list(verify_many(iter(items), workers)) == [number % 3 != 0 for number in range(len(items))]


@pytest.mark.parametrize("workers", [0, 1])
def test_verify_many_reads_its_items_lazily(workers: int) -> None:
    answers = verify_many(itertools.repeat((PUBLIC_X, bytes(32), bytes(64))), workers)
    assert next(answers) is False


def test_a_pool_without_room_is_refused() -> None:
    with pytest.raises(UsageError):
        Validators(-1)
    with pytest.raises(UsageError):
        Validators(1, queue_batches_max=0)
    with pytest.raises(UsageError):
        Validators(1, queue_bytes_max=0)


def test_a_worker_that_cannot_start_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    with pytest.raises(ResourceError, match="cannot start"):
        Validators(1)


def test_the_caller_can_do_what_waits_for_a_worker() -> None:
    batches = mixed_batches()
    ready = threading.Event()
    with Validators(1) as pool:
        assert not pool.help()
        os.kill(pool.process_ids[0], signal.SIGSTOP)
        begun = pool.begin(batches * 4, ready.set)
        assert begun is not None
        helped = 0
        while pool.help():
            helped += 1
        assert helped >= len(batches) * 4 - BATCHES_AT_WORKER_MAX
        os.kill(pool.process_ids[0], signal.SIGCONT)
        assert ready.wait(SECONDS_MAX)
        assert begun.answers() == [answer for batch in batches * 4 for answer in work.validate_batch(batch)]
    assert not pool.help(), "nobody takes the word away that ends a worker"

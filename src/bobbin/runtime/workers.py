"""Worker processes that validate records and verify signatures, behind a bounded queue.

Threads do not help here, since one interpreter runs one at a time; processes do. Each worker is an interpreter of its
own, fed over a pipe (``work`` says what travels). Two threads serve it, one that writes batches and one that reads
answers, so neither pipe can fill up while both sides wait; the caller's thread meanwhile does something useful with
the answers it has. Answers come in the order of the batches.

What always holds:

* No batch is taken from the input while ``queue_batches_max`` batches, or ``queue_bytes_max`` bytes, are on their way,
  so memory is flat however long the input is.
* A worker that dies is a ``ResourceError`` for whoever waits, at once: its pipe ends. Nothing is answered by guessing.
* No worker outlives its caller: leaving the context kills it, and one whose caller was killed finds its input ended.
  Workers hold nothing that a kill could harm, and the keyboard's interrupt never reaches them.
"""

import contextlib
import fcntl
import itertools
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar

from bobbin.errors import ResourceError, UsageError
from bobbin.runtime import work
from bobbin.runtime.work import Recognise, SignatureItem, Validate, Validated, Verify

if TYPE_CHECKING:
    from bobbin.records.record import Record

QUEUE_BATCHES_PER_WORKER: Final = 8
"""Enough work for every worker while the caller's thread commits what came before."""

QUEUE_BYTES_MAX: Final = 32 * 1024 * 1024
VERIFY_BATCH_ITEMS: Final = 256
BATCHES_AT_WORKER_MAX: Final = 2
"""One that it works on and one that is already in its pipe when it is done."""

_PIPE_BYTES: Final = 1024 * 1024
_REAP_SECONDS_MAX: Final = 5.0

Request = TypeVar("Request", Validate, Recognise, Verify)
Answer = TypeVar("Answer")


class _Job:
    """One batch on its way. ``reply`` is None until the worker has answered."""

    __slots__ = ("begun", "generation", "reply", "request")

    def __init__(self, request: Validate | Recognise | Verify, generation: int, begun: "Begun | None" = None) -> None:
        self.request: Final = request
        self.reply: bytearray | None = None
        self.generation: Final = generation
        """Of the workers that it was given to."""
        self.begun: Final = begun


class Begun:
    """Records that are being validated while the caller does something else."""

    def __init__(self, pool: "Validators", ready: Callable[[], None]) -> None:
        self.left = 0
        """Batches without an answer."""
        self.ready: Final = ready
        self.jobs: Final[list[tuple[_Job, Validate]]] = []
        self._pool: Final = pool

    def answers(self) -> list[Validated]:
        """A record or an ``Invalid`` per item, in order. Waits for those that are not there yet. To be asked once."""
        try:
            replies = [(self._pool.wait(job), request.raws) for job, request in self.jobs]
        finally:
            # Each batch knows what it is part of. Bytes are not to wait until such circles are found.
            self.jobs.clear()
        return [answer for reply, raws in replies for answer in work.restore(reply, raws)]


class Validators(AbstractContextManager["Validators"]):
    """A pool of worker processes. With ``workers=0`` the same work is done in this process.

    The methods may be used from several threads; each call has its own window into the queue.
    """

    def __init__(
        self,
        workers: int,
        *,
        queue_batches_max: int | None = None,
        queue_bytes_max: int = QUEUE_BYTES_MAX,
        at_once: bool = True,
    ) -> None:
        """Without ``at_once``, the processes start when they are first needed."""
        if workers < 0 or queue_bytes_max < 1 or (queue_batches_max is not None and queue_batches_max < 1):
            raise UsageError("a pool has zero or more workers and a queue of at least one batch")
        self.queue_batches_max: Final = queue_batches_max or max(1, workers * QUEUE_BATCHES_PER_WORKER)
        self.queue_bytes_max: Final = queue_bytes_max
        self._tasks: SimpleQueue[_Job | None] = SimpleQueue()
        self._generation = 0
        self._changed: Final = threading.Condition()
        self._failure: str | None = None
        self._closed = False
        self._begun: Final[set[Begun]] = set()
        self._workers: list[_Worker] = []
        self._workers_max: Final = workers
        if at_once:
            self._start()

    def _start(self) -> None:
        try:
            while len(self._workers) < self._workers_max and not self._closed:
                self._workers.append(_Worker(self._tasks, self._deliver, self._fail))
        except (OSError, RuntimeError) as error:  # no more processes, no more threads
            self.close()
            raise ResourceError(f"cannot start a worker process: {error}", retry=True) from error

    @property
    def process_ids(self) -> list[int]:
        """The system's numbers for the workers."""
        return [worker.process.pid for worker in self._workers]

    def validate(self, batches: Iterable[Sequence[bytes] | None]) -> Iterator[list[Validated]]:
        """For each batch, in order, a record or an ``Invalid`` per item.

        None instead of a batch has no answer: the input may take its time to give the next one, so every answer so far
        is given out before it is asked.
        """
        if self._workers_max:
            self._start()
            requests = (None if batch is None else Validate(list(batch)) for batch in batches)
            return self._run(requests, lambda request, reply: work.restore(reply, request.raws))
        return (work.validate_batch(batch) for batch in batches if batch is not None)

    def begin(self, batches: Iterable[Sequence[bytes]], ready: Callable[[], None]) -> Begun | None:
        """Have batches validated meanwhile; None where there is no worker to do it.

        ``ready`` is called from another thread when every answer is there, or when none will come. How many batches are
        on their way at a time is the caller's affair. After a worker has died, others take its place; one caller at a
        time.
        """
        if not self._workers_max or self._closed:
            return None
        if self._failure is not None:
            self._renew()
        self._start()
        begun = Begun(self, ready)
        for batch in batches:
            request = Validate(list(batch))
            begun.jobs.append((_Job(request, self._generation, begun), request))
        with self._changed:
            begun.left = len(begun.jobs)
            if self._is_over() or not begun.jobs:
                return None
            self._begun.add(begun)
        for job, _ in begun.jobs:
            self._tasks.put(job)
        return begun

    def make_ready(self) -> None:
        """Start the processes that are not there yet: work will come soon. One caller at a time, as for ``begin``."""
        if self._failure is None:
            self._start()

    def help(self) -> bool:
        """Do one batch that waits for a worker here and now; false if none waits."""
        try:
            job = self._tasks.get_nowait()
        except Empty:
            return False
        if job is None:
            # The end of some worker, which is still to hear of it.
            self._tasks.put(None)
            return False
        self._deliver(job, bytearray(work.answer(job.request)))
        return True

    def recognise(self, stretches: Iterable[bytes | None]) -> "Iterator[list[Record]]":
        """For each stretch of a bundle, in order, the valid records at its front. None as for ``validate``."""
        if self._workers_max:
            self._start()
            requests = (None if stretch is None else Recognise(stretch) for stretch in stretches)
            return self._run(requests, lambda request, reply: work.restore_run(reply, request.raw))
        return (work.recognise(stretch) for stretch in stretches if stretch is not None)

    def verify(self, items: Iterable[SignatureItem]) -> Iterator[bool]:
        """For each (verifier's x-coordinate, message, signature), in order, whether the signature is valid."""
        batches = _chunks(items, VERIFY_BATCH_ITEMS)
        if self._workers_max:
            self._start()
            answers = self._run(map(Verify, batches), lambda _, reply: work.decode_verdicts(reply))
        else:
            answers = map(work.verify_batch, batches)
        return itertools.chain.from_iterable(answers)

    def close(self) -> None:
        """End the workers. Answers still outstanding are lost; waiting for one raises."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._let_go()
        for worker in self._workers:
            worker.process.kill()
            self._tasks.put(None)
        for worker in self._workers:
            worker.join()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __enter__(self) -> Self:
        return self

    def _run(
        self, requests: Iterator[Request | None], read: Callable[[Request, bytearray], Answer]
    ) -> Iterator[Answer]:
        window: deque[tuple[_Job, Request]] = deque()
        size = 0
        for request in requests:
            if request is None:
                while window:
                    oldest, asked = window.popleft()
                    yield read(asked, self.wait(oldest))
                size = 0
                continue
            job = _Job(request, self._generation)
            window.append((job, request))
            size += request.size
            self._tasks.put(job)
            while len(window) >= self.queue_batches_max or size >= self.queue_bytes_max:
                oldest, asked = window.popleft()
                size -= asked.size
                yield read(asked, self.wait(oldest))
        for oldest, asked in window:
            yield read(asked, self.wait(oldest))

    def wait(self, job: _Job) -> bytearray:
        """The answer to a batch."""
        with self._changed:
            self._changed.wait_for(lambda: job.reply is not None or self._is_lost(job))
            if job.reply is None:
                raise ResourceError(self._failure or "the worker processes were closed or replaced", retry=True)
            return job.reply

    def _is_lost(self, job: _Job) -> bool:
        return self._is_over() or job.generation != self._generation

    def _is_over(self) -> bool:
        """Whether no answer will come from the present workers."""
        return self._failure is not None or self._closed

    def _deliver(self, job: _Job, reply: bytearray) -> None:
        begun = job.begun
        with self._changed:
            job.reply = reply
            self._changed.notify_all()
            if begun is not None:
                begun.left -= 1
                if begun.left or begun not in self._begun:
                    return
                self._begun.remove(begun)
        if begun is not None:
            begun.ready()

    def _fail(self, what: str) -> None:
        with self._changed:
            self._failure = self._failure or what
            self._changed.notify_all()
        self._let_go()

    def _renew(self) -> None:
        """Others take the place of all workers. What those had in hand is lost."""
        old, self._workers = self._workers, []
        tasks, self._tasks = self._tasks, SimpleQueue()
        for worker in old:
            worker.process.kill()
            tasks.put(None)
        for worker in old:
            worker.join()
        with self._changed:
            self._generation += 1
            self._failure = None
            self._changed.notify_all()

    def _let_go(self) -> None:
        """Nobody waits any more for answers that do not come."""
        with self._changed:
            begun = list(self._begun)
            self._begun.clear()
        for one in begun:
            one.ready()


def verify_many(items: Iterable[SignatureItem], workers: int) -> Iterator[bool]:
    """For each (verifier's x-coordinate, message, signature), in order, whether the signature is valid.

    The items are read lazily, a bounded number ahead of the answers.
    """
    with Validators(workers) as pool:
        yield from pool.verify(items)


class _Worker:
    """One process and the two threads that serve it."""

    def __init__(
        self,
        tasks: SimpleQueue[_Job | None],
        deliver: Callable[[_Job, bytearray], None],
        fail: Callable[[str], None],
    ) -> None:
        self._tasks: Final = tasks
        self._deliver: Final = deliver
        self._fail: Final = fail
        self._room: Final = threading.Semaphore(BATCHES_AT_WORKER_MAX)
        self._at_worker: Final[SimpleQueue[_Job | None]] = SimpleQueue()
        self._ended = False
        self.process: Final = _start_process()
        self._threads: Final = [
            threading.Thread(target=self._send, name="bobbin-worker-send", daemon=True),
            threading.Thread(target=self._receive, name="bobbin-worker-receive", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        """Wait for the end of a process that was killed, and close its pipes."""
        for thread in self._threads:
            thread.join()
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()

    def _send(self) -> None:
        assert self.process.stdin is not None
        target = self.process.stdin.fileno()
        while True:
            # Only a worker with room takes a task, so that none waits behind a slow batch while another is idle.
            self._room.acquire()
            job = None if self._ended else self._tasks.get()
            if job is None:
                break
            try:
                work.write_frame(target, work.encode_request(job.request))
            except OSError:
                self._fail(self._obituary())
                break
            self._at_worker.put(job)
        self._at_worker.put(None)

    def _receive(self) -> None:
        assert self.process.stdout is not None
        source = self.process.stdout.fileno()
        while (job := self._at_worker.get()) is not None:
            reply = work.read_frame(source)
            # A dying process may close its output before its input, so the other thread cannot rely on a failing
            # write: it looks at this flag each time it gets room.
            self._ended = reply is None
            self._room.release()
            if reply is None:
                self._fail(self._obituary())
                return
            self._deliver(job, reply)

    def _obituary(self) -> str:
        try:
            code = self.process.wait(_REAP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            return "a worker process closed its pipe"
        if code < 0:
            return f"a worker process was killed by {signal.Signals(-code).name}"
        return f"a worker process ended with exit code {code}"


def _start_process() -> "subprocess.Popen[bytes]":
    # The worker finds the same modules as this process, and nothing in the current folder that is not on its path.
    places = [str(place) for place in sys.path]
    program = f"import sys; sys.path[:] = {places!r}; from bobbin.runtime.work import main; main()"
    process = subprocess.Popen(  # noqa: S603 - our own program, no word of it from outside
        [sys.executable, "-P", "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
        process_group=0,  # the keyboard's interrupt is for the caller, who ends its workers
    )
    for pipe in (process.stdin, process.stdout):
        assert pipe is not None
        # A roomy pipe saves switches between the two processes; where the system has no such thing, all is well too.
        with contextlib.suppress(AttributeError, OSError):
            fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return process


def _chunks(items: Iterable[SignatureItem], size: int) -> Iterator[list[SignatureItem]]:
    source = iter(items)
    while chunk := list(itertools.islice(source, size)):
        yield chunk

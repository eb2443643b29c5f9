"""The thread that makes durable what a raft machine asks for."""

import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from random import Random
from typing import Final

import pytest

from bobbin.cluster.names import Index, NodeId, Term
from bobbin.cluster.raft.effects import Append, DurableRecord, HardState, Persist, Send
from bobbin.cluster.raft.entries import Configuration, Entry
from bobbin.cluster.raft.events import Event, Persisted, PersistFailed, Received, Recovered, Tick
from bobbin.cluster.raft.machine import RaftMachine
from bobbin.cluster.raft.messages import RaftMessage, RequestVote, VoteAnswer
from bobbin.cluster.settings import RaftConfig
from bobbin.errors import BobbinError, ResourceError
from bobbin.runtime.cluster_disk import QUICK_IN_A_ROW, Disk


def _persist(token: int) -> Persist:
    return Persist(token, (HardState(Term(token), NodeId("a")),))


class _Log:
    """A storage that notes what is done to it, in order."""

    def __init__(self, failures: int = 0) -> None:
        self.done: Final[list[str]] = []
        self.failures = failures
        self.gate: Final = threading.Semaphore(0)
        self.is_gated = False

    def append(self, records: Sequence[DurableRecord]) -> None:
        terms = [record.term for record in records if isinstance(record, HardState)]
        self.done.append(f"append {','.join(map(str, terms))}")

    def sync(self) -> None:
        if self.is_gated:
            self.gate.acquire()
        if self.failures:
            self.failures -= 1
            self.done.append("failed")
            raise ResourceError("no space left", retry=True)
        self.done.append("sync")


class _Loop:
    """Stands in for the event loop: what is posted is run when the test says so."""

    def __init__(self, log: _Log, wait: Callable[[float], object] | None = None) -> None:
        self.posted: Final[SimpleQueue[Callable[[], object]]] = SimpleQueue()
        self.heard: Final[list[Persisted | PersistFailed]] = []
        self.waits: Final[list[float]] = []
        self.broke: Final[list[BaseException]] = []
        self.disk = Disk(
            log,
            post=self.posted.put,
            hear=self.heard.append,
            broke=self.broke.append,
            wait=wait or self.waits.append,
        )

    def turn(self) -> None:
        """Wait for the next thing that is posted, and run it."""
        self.posted.get(timeout=60)()


def test_a_token_is_told_after_the_sync_that_covers_it() -> None:
    log = _Log()
    log.is_gated = True
    loop = _Loop(log)
    loop.disk.start()
    loop.disk.persist(_persist(1))
    assert loop.posted.empty()
    log.gate.release()
    loop.turn()
    assert log.done == ["append 1", "sync"]
    assert loop.heard == [Persisted(1)]
    loop.disk.stop()


def test_what_waits_while_the_disk_is_busy_shares_one_sync() -> None:
    log = _Log()
    loop = _Loop(log)
    for token in range(1, 6):
        loop.disk.persist(_persist(token))
    loop.disk.start()
    loop.turn()
    assert log.done == ["append 1,2,3,4,5", "sync"]
    assert loop.heard == [Persisted(5)]
    assert loop.disk.syncs == 1
    loop.disk.stop()


@pytest.mark.parametrize("failures", [1, 2])
def test_a_write_that_fails_is_tried_again_after_a_while(failures: int) -> None:
    log = _Log(failures)
    loop = _Loop(log)
    loop.disk.persist(_persist(1))
    loop.disk.start()
    loop.turn()
    assert loop.heard == [Persisted(1)]
    assert loop.waits == [0.1, 0.2][:failures]
    assert loop.disk.retries == failures
    loop.disk.stop()


def test_after_the_third_attempt_the_machine_hears_of_the_failure() -> None:
    log = _Log(failures=3)
    loop = _Loop(log)
    loop.disk.persist(_persist(4))
    loop.disk.start()
    loop.turn()
    assert loop.heard == [PersistFailed(4, "no space left")]
    assert log.done == ["append 4", "failed"] * 3
    assert loop.waits == [0.1, 0.2]
    loop.disk.stop()


def test_what_was_asked_for_before_the_machine_heard_of_a_failure_is_dropped() -> None:
    log = _Log(failures=3)
    loop = _Loop(log)
    loop.disk.persist(_persist(4))
    loop.disk.start()
    failure = loop.posted.get(timeout=60)
    # The machine does not know yet, and goes on.
    loop.disk.persist(_persist(5))
    failure()
    loop.disk.persist(_persist(6))
    loop.turn()
    assert loop.heard == [PersistFailed(4, "no space left"), Persisted(6)]
    assert "append 5" not in log.done
    loop.disk.stop()


def test_other_work_keeps_its_place_among_the_writes() -> None:
    log = _Log()
    loop = _Loop(log)
    outcomes: list[object] = []

    def work() -> int:
        log.done.append("work")
        return 7

    def fail() -> int:
        raise OSError(5, "it broke")

    loop.disk.persist(_persist(1))
    loop.disk.do(work, outcomes.append)
    loop.disk.persist(_persist(2))
    loop.disk.do(fail, outcomes.append)
    loop.disk.start()
    for _ in range(4):
        loop.turn()
    assert log.done == ["append 1", "sync", "work", "append 2", "sync"]
    assert outcomes[0] == 7
    assert isinstance(outcomes[1], BobbinError)
    loop.disk.stop()


def test_stopping_finishes_what_was_asked_for() -> None:
    log = _Log()
    loop = _Loop(log)
    loop.disk.start()
    loop.disk.persist(_persist(1))
    loop.disk.stop()
    assert log.done == ["append 1", "sync"]
    loop.disk.stop()


# ---- with a raft machine behind it ----------------------------------------------------------------------------------


class _Voter:
    """A raft machine, a disk, and everything in the order in which it happens: what is written, and what is said."""

    def __init__(self, failures: int = 0) -> None:
        self.log = _Log(failures)
        self.posted: SimpleQueue[Callable[[], object]] = SimpleQueue()
        self.waits: list[float] = []
        self.broke: list[BaseException] = []
        voters = (_ME, _OTHER, _THIRD)
        self.machine = RaftMachine(
            RaftConfig(), node=_ME, recovered=Recovered(), bootstrap=Configuration(voters), random=Random(1)
        )
        self.disk = Disk(
            self.log, post=self.posted.put, hear=self.feed, broke=self.broke.append, wait=self.waits.append
        )
        self.said: list[RaftMessage] = []
        self.feed(Tick())
        self.disk.start()

    def feed(self, event: Event) -> None:
        for effect in self.machine.step(event, now_ns=1):
            if isinstance(effect, Persist):
                self.disk.persist(effect)
            elif isinstance(effect, Send):
                self.log.done.append(f"say {type(effect.message).__name__}")
                self.said.append(effect.message)

    def ask_for_vote(self) -> None:
        asked = RequestVote(term=Term(1), candidate=_OTHER, last_index=Index(0), last_term=Term(0), request=1)
        self.feed(Received(_OTHER, asked))
        self.posted.get(timeout=60)()
        self.disk.stop()


_ME, _OTHER, _THIRD = (NodeId(letter * 32) for letter in "abc")


def test_a_vote_leaves_after_the_sync_that_covers_it() -> None:
    """CL-088."""
    voter = _Voter()
    voter.ask_for_vote()
    assert voter.log.done == ["append 1", "sync", "say VoteAnswer"]
    assert isinstance(voter.said[0], VoteAnswer)
    assert voter.said[0].granted


def test_a_vote_that_cannot_be_written_is_not_given() -> None:
    """CL-013: three attempts, 100 and 200 ms apart, and nothing granted has been sent."""
    voter = _Voter(failures=3)
    voter.ask_for_vote()
    assert voter.log.done[:6] == ["append 1", "failed"] * 3
    assert voter.waits == [0.1, 0.2]
    assert not any(isinstance(message, VoteAnswer) and message.granted for message in voter.said)
    assert voter.machine.voted_for is None
    assert voter.log.done.count("failed") == 3


# ---- a quick disk ---------------------------------------------------------------------------------------------------


def _append(token: int, *, entries: int = 1, size: int = 10) -> Persist:
    return Persist(token, (Append(tuple(Entry(Term(1), Index(token + at), b"x" * size) for at in range(entries))),))


class _Quick(_Loop):
    """A disk that was quick often enough, unless ``quick_ns_max`` says that nothing is."""

    def __init__(self, log: _Log, quick_ns_max: int = 10**12) -> None:
        super().__init__(log)
        self.disk = Disk(
            log,
            post=self.posted.put,
            hear=self.heard.append,
            broke=self.broke.append,
            wait=self.waits.append,
            quick_ns_max=quick_ns_max,
        )
        self.disk.start()
        for token in range(1, QUICK_IN_A_ROW + 1):
            self.disk.persist(_persist(token))
            self.turn()
        self.heard.clear()
        log.done.clear()


def test_a_few_small_entries_are_synced_at_once_on_a_disk_that_was_quick() -> None:
    log = _Log()
    loop = _Quick(log)
    loop.disk.persist(_append(9))
    # Nothing had to be posted: it was done when persist returned.
    assert (log.done, loop.heard) == (["append ", "sync"], [Persisted(9)])
    assert loop.disk.syncs == QUICK_IN_A_ROW + 1
    loop.disk.stop()


@pytest.mark.parametrize(
    "effect",
    [_append(9, entries=9), _append(9, size=64 * 1024 + 1), _persist(9), Persist(9, (*_append(9).records,) * 2)],
)
def test_what_is_not_small_or_not_entries_alone_is_for_the_thread(effect: Persist) -> None:
    loop = _Quick(_Log())
    loop.disk.persist(effect)
    assert loop.heard == []
    loop.turn()
    assert loop.heard == [Persisted(9)]
    loop.disk.stop()


def test_nothing_overtakes_what_the_thread_has_under_way() -> None:
    log = _Log()
    loop = _Quick(log)
    log.is_gated = True
    loop.disk.persist(_persist(9))
    loop.disk.persist(_append(10))
    assert loop.heard == []
    for _ in range(2):
        log.gate.release()
    loop.turn()
    while loop.heard[-1] != Persisted(10):
        loop.turn()
    log.is_gated = False
    # Other work counts as well, until it is heard of.
    loop.disk.do(lambda: 1, lambda _: None)
    loop.disk.persist(_append(11))
    assert Persisted(11) not in loop.heard
    loop.turn()
    loop.turn()
    assert loop.heard[-1] == Persisted(11)
    loop.disk.persist(_append(12))
    assert loop.heard[-1] == Persisted(12)
    loop.disk.stop()


def test_one_slow_write_brings_the_thread_back() -> None:
    loop = _Quick(_Log(), quick_ns_max=-1)
    loop.disk.persist(_append(9))
    assert loop.heard == []
    loop.turn()
    assert loop.heard == [Persisted(9)]
    loop.disk.stop()


def test_a_write_that_fails_at_once_is_tried_by_the_thread() -> None:
    log = _Log()
    loop = _Quick(log)
    log.failures = 4
    loop.disk.persist(_append(9))
    loop.turn()
    assert loop.heard == [PersistFailed(9, "no space left")]
    assert loop.waits == [0.1, 0.2]
    assert log.done == ["append ", "failed"] * 4
    # It has to be quick again before it is trusted again.
    loop.disk.persist(_append(10))
    assert len(loop.heard) == 1
    loop.turn()
    assert loop.heard[-1] == Persisted(10)
    loop.disk.stop()


def test_what_is_dropped_after_a_failure_is_not_under_way_for_ever() -> None:
    log = _Log()
    loop = _Quick(log)
    log.failures = 3
    loop.disk.persist(_persist(9))
    failure = loop.posted.get(timeout=60)
    loop.disk.persist(_persist(10))
    failure()
    loop.turn()
    for token in range(11, 11 + QUICK_IN_A_ROW):
        loop.disk.persist(_persist(token))
        loop.turn()
    loop.disk.persist(_append(30))
    assert loop.heard[-1] == Persisted(30)
    loop.disk.stop()
    loop.disk.persist(_append(31))
    assert loop.heard[-1] == Persisted(30)


class _Broken(_Log):
    def append(self, records: Sequence[DurableRecord]) -> None:
        del records
        raise MemoryError("no memory left")


def _fail() -> None:
    raise RuntimeError("a fault")


def test_what_nobody_has_foreseen_ends_the_thread_and_is_told() -> None:
    """A thread that ends unheard would leave a leader that beats, and writes nothing."""
    loop = _Loop(_Broken())
    loop.disk.persist(_persist(1))
    loop.disk.start()
    loop.turn()
    assert [type(error) for error in loop.broke] == [MemoryError]
    assert loop.heard == []
    loop.disk.stop()

    other = _Loop(_Log())
    other.disk.start()
    other.disk.do(_fail, lambda _: None)
    other.disk.persist(_persist(1))
    other.turn()
    assert [str(error) for error in other.broke] == ["a fault"]
    other.disk.stop()
    assert other.heard == []

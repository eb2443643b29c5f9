from bobbin.cluster.names import Index, NodeId, Term
from bobbin.cluster.raft.durability import Durability
from bobbin.cluster.raft.effects import Append, Cut, HardState, Reset, Send, Truncate
from bobbin.cluster.raft.entries import Configuration
from bobbin.cluster.raft.log import RaftLog
from bobbin.cluster.raft.messages import TimeoutNow
from tests.support.raft_cluster import entries, metadata_of, names
from tests.support.raft_messages import answer

ABC = Configuration(names("abc"))
A = NodeId("a")


def disk_of(*terms: int) -> tuple[Durability, RaftLog]:
    log = RaftLog(ABC)
    log.append(entries(*terms))
    return Durability(log, Term(1), None), log


def note(number: int) -> Send:
    return Send(A, TimeoutNow(term=Term(number), leader=A))


def test_a_step_has_one_persist_and_tokens_rise_by_one() -> None:
    disk, _ = disk_of()
    disk.set_hard_state(Term(2), A)
    disk.append(entries(2))
    first = disk.close()
    assert first is not None
    assert (first.token, first.records) == (1, (HardState(Term(2), A), Append(entries(2))))
    assert disk.close() is None
    disk.append(entries(2, first=2))
    second = disk.close()
    assert second is not None
    assert second.token == 2


def test_term_and_vote_changed_twice_in_a_step_are_written_once() -> None:
    disk, _ = disk_of()
    disk.set_hard_state(Term(3), None)
    disk.set_hard_state(Term(3), A)
    persist = disk.close()
    assert persist is not None
    assert persist.records == (HardState(Term(3), A),)
    disk.fail(1)
    assert (disk.term, disk.voted_for) == (1, None)


def test_entries_count_as_durable_when_the_disk_says_so() -> None:
    disk, _ = disk_of(1)
    disk.append(entries(1, first=2))
    disk.close()
    disk.append(entries(1, 1, first=3))
    disk.close()
    assert disk.durable_index == 1
    disk.confirm(1)
    assert disk.durable_index == 2
    disk.confirm(2)
    assert disk.durable_index == 4
    disk.check()


def test_one_confirmation_covers_all_before_it() -> None:
    disk, _ = disk_of()
    for index in (1, 2, 3):
        disk.append(entries(1, first=index))
        disk.close()
    disk.confirm(3)
    assert (disk.durable_index, disk.is_idle) == (3, True)


def test_an_append_that_was_cut_meanwhile_makes_nothing_durable() -> None:
    disk, _ = disk_of(1)
    disk.append(entries(1, 1, 1, first=2))
    disk.close()
    disk.truncate(Index(3))
    disk.append(entries(2, 2, first=3))
    disk.close()
    disk.confirm(1)
    assert disk.durable_index == 2, "entries 3 and 4 are not those that became durable"
    disk.confirm(2)
    assert disk.durable_index == 4


def test_messages_wait_for_what_they_rest_on() -> None:
    disk, _ = disk_of()
    assert not disk.hold(note(0)), "nothing to wait for"
    disk.append(entries(1))
    assert disk.hold(note(1))
    disk.close()
    disk.append(entries(1, first=2))
    assert disk.hold(note(2))
    disk.close()
    assert disk.confirm(1) == [note(1)]
    assert disk.confirm(2) == [note(2)]


def test_a_failure_goes_back_to_the_durable_log_and_drops_what_rested_on_the_rest() -> None:
    disk, log = disk_of(1, 1)
    disk.append(entries(1, first=3))
    disk.hold(note(1))
    disk.close()
    disk.truncate(Index(2))
    disk.append(entries(2, 2, 2, first=2))
    disk.hold(note(2), note(20))
    disk.close()
    disk.confirm(1)
    assert disk.fail(2) == (True, [note(20)])
    assert log.entries(1, 4) == entries(1, 1, 1)
    assert disk.durable_index == 3
    disk.check()


def test_a_failure_takes_back_term_and_vote() -> None:
    disk, _ = disk_of()
    disk.set_hard_state(Term(4), A)
    disk.close()
    assert disk.is_hard_pending
    assert disk.fail(1) == (True, [])
    assert (disk.term, disk.voted_for, disk.is_hard_pending) == (1, None, False)


def test_a_failure_of_a_later_write_leaves_an_earlier_one_under_way() -> None:
    disk, log = disk_of()
    disk.set_hard_state(Term(4), A)
    disk.close()
    disk.append(entries(4))
    disk.close()
    disk.fail(2)
    assert disk.is_hard_pending
    assert log.last_index == 0
    assert disk.hold(note(1)), "rests on the term that is still under way"
    assert disk.confirm(1) == [note(1)]


def test_a_failure_that_nothing_waits_for_changes_nothing() -> None:
    disk, log = disk_of(1)
    disk.append(entries(1, first=2))
    disk.close()
    disk.confirm(1)
    assert disk.fail(1) == (False, [])
    assert log.last_index == 2


def test_the_log_is_cut_in_memory_when_the_disk_knows_of_it() -> None:
    disk, log = disk_of(1, 1, 1)
    cut = Cut(Index(3), metadata_of(b"s", index=3, term=1, configuration=ABC))
    disk.cut(cut)
    disk.close()
    assert log.first_index == 1
    disk.confirm(1)
    assert log.first_index == 3


def test_a_reset_that_failed_is_said_again_before_anything_else() -> None:
    disk, log = disk_of(1, 1)
    snapshot = metadata_of(b"s", index=9, term=1, configuration=ABC)
    disk.reset(snapshot)
    disk.append(entries(1, first=10))
    first = disk.close()
    assert first is not None
    assert first.records == (Reset(snapshot), Append(entries(1, first=10)))
    assert disk.durable_index == 9
    disk.fail(1)
    assert (log.last_index, disk.durable_index) == (9, 9), "the snapshot itself is durable"
    disk.set_hard_state(Term(2), None)
    second = disk.close()
    assert second is not None
    assert second.records == (Reset(snapshot), HardState(Term(2), None))
    disk.confirm(2)
    disk.check()


def test_what_was_on_its_way_before_a_reset_does_not_count_after_it() -> None:
    disk, _ = disk_of(1, 1, 1)
    disk.append(entries(1, 1, 1, 1, first=4))
    disk.close()
    disk.reset(metadata_of(b"s", index=5, term=2, configuration=ABC))
    disk.close()
    disk.append(entries(2, first=6))
    disk.close()
    disk.confirm(1)
    assert disk.durable_index == 5, "entry 6 of the old log is not entry 6"
    disk.confirm(3)
    assert disk.durable_index == 6


def test_nobody_is_told_of_entries_that_a_reset_took_away_before_they_were_durable() -> None:
    disk, _ = disk_of(1)
    disk.append(entries(1, 1, 1, 1, first=2))
    for match in (3, 5):
        disk.hold(Send(A, answer("b", 1, match, match)))
    disk.close()
    disk.reset(metadata_of(b"s", index=3, term=1, configuration=ABC))
    disk.close()
    assert disk.confirm(2) == [Send(A, answer("b", 1, 3, 3))]


def test_a_truncation_is_a_record_of_its_own() -> None:
    disk, _ = disk_of(1, 1)
    disk.truncate(Index(2))
    persist = disk.close()
    assert persist is not None
    assert persist.records == (Truncate(Index(2)),)
    assert disk.durable_index == 1


def test_it_is_known_since_when_the_disk_is_waited_for() -> None:
    disk, _ = disk_of(1)
    seen = [disk.waits_since_ns]
    for now_ns in (5, 9):
        disk.append_commands(Term(1), (b"x",))
        disk.close(now_ns)
    seen.append(disk.waits_since_ns)
    disk.confirm(1)
    seen.append(disk.waits_since_ns)
    disk.fail(2)
    seen.append(disk.waits_since_ns)
    assert seen == [None, 5, 9, None]

import pytest

from bobbin.cluster.names import Index
from bobbin.cluster.raft.entries import Configuration
from bobbin.cluster.raft.log import NOBODY, RaftLog, follows
from bobbin.errors import IntegrityError
from tests.support.raft_cluster import entries, entry, metadata_of, names

ABC = Configuration(names("abc"))
ABCD = Configuration(names("abcd"))
AT_4 = metadata_of(b"state", index=4, term=2, configuration=ABC)


def log_of(*terms: int, bootstrap: Configuration | None = ABC) -> RaftLog:
    log = RaftLog(bootstrap)
    log.append(entries(*terms))
    log.check()
    return log


def test_an_empty_log_ends_at_zero_and_holds_the_first_configuration() -> None:
    log = RaftLog(ABC)
    assert (log.first_index, log.last_index, log.last_term, len(log)) == (1, 0, 0, 0)
    assert log.term_at(0) == 0
    assert log.term_at(1) is None
    assert (log.configuration, log.configuration_index) == (ABC, 0)
    assert RaftLog().configuration == NOBODY


def test_entries_are_found_by_place() -> None:
    log = log_of(1, 1, 2)
    assert [log.term_at(index) for index in range(5)] == [0, 1, 1, 2, None]
    assert log.entries(2, 4) == entries(1, 1, 2)[1:]
    assert log.entries(4, 4) == ()
    with pytest.raises(AssertionError):
        log.entries(3, 5)


def test_bytes_are_counted_between_places_and_back_from_one() -> None:
    log = RaftLog(ABC)
    log.append_commands(log.last_term, [b"x" * size for size in (10, 20, 30, 40)])
    assert log.bytes_between(0, 4) == 100
    assert log.bytes_between(1, 3) == 50
    assert log.bytes_between(2, 2) == 0
    assert [log.first_within(4, size) for size in (39, 40, 69, 70, 99, 100, 1_000)] == [5, 4, 4, 3, 2, 1, 1]
    assert log.first_within(2, 20) == 2
    assert log.first_within(0, 0) == 1
    log.cut(3, metadata_of(b"state", index=3, term=0, configuration=ABC))
    assert log.first_within(4, 1_000) == 3
    assert log.first_within(3, 29) == 4
    assert log.bytes_between(2, 4) == 70


def test_a_gap_or_an_overlap_is_a_bug() -> None:
    log = log_of(1, 1)
    with pytest.raises(AssertionError):
        log.append(entries(1, first=2))
    with pytest.raises(AssertionError):
        log.append(entries(1, first=4))
    assert log.last_index == 2


def test_commands_become_entries_of_the_given_term() -> None:
    log = log_of(1)
    made = log.append_commands(log.last_term, [b"a", b"b"])
    assert made == (entry(1, 2, b"a"), entry(1, 3, b"b"))
    assert log.entries(2, 4) == made
    log.check()


def test_truncation_returns_what_stood_there_and_takes_configurations_back() -> None:
    log = log_of(1, 1)
    log.append((entry(2, 3, ABCD), entry(2, 4)))
    assert (log.configuration, log.configuration_index) == (ABCD, 3)
    assert log.truncate(3) == (entry(2, 3, ABCD), entry(2, 4))
    assert (log.configuration, log.configuration_index, log.last_index) == (ABC, 0, 2)
    log.check()


def test_the_configuration_of_a_place_is_the_latest_up_to_it() -> None:
    log = log_of(1, 1)
    log.append((entry(1, 3, ABCD), entry(1, 4)))
    assert [log.configuration_at(index)[1] for index in (0, 2, 3, 4)] == [ABC, ABC, ABCD, ABCD]


def test_a_cut_leaves_later_entries_and_the_term_before_them() -> None:
    log = log_of(1, 1, 2, 2, 3)
    log.cut(4, AT_4)
    log.check()
    assert (log.first_index, log.last_index, len(log)) == (4, 5, 2)
    assert [log.term_at(index) for index in (2, 3, 4, 5)] == [None, 2, 2, 3]
    log.cut(2, AT_4)
    assert log.first_index == 4, "a cut never gives entries back"


def test_a_cut_by_an_older_snapshot_than_the_present_one_does_nothing() -> None:
    log = log_of(1, 1)
    log.reset(AT_4)
    log.append((entry(2, 5, ABCD),))
    log.cut(2, metadata_of(b"older", index=2, term=1, configuration=ABC))
    log.check()
    assert (log.first_index, log.last_index, log.term_at(4), log.configuration) == (5, 5, 2, ABCD)


def test_a_snapshot_takes_the_place_of_the_whole_log() -> None:
    log = log_of(1, 1)
    log.reset(AT_4)
    log.check()
    assert (log.first_index, log.last_index, log.last_term, len(log)) == (5, 4, 2, 0)
    assert log.term_at(4) == 2
    assert log.configuration_at(4) == (4, ABC)


def test_with_an_empty_log_the_last_place_is_the_snapshots() -> None:
    log, gave_way = RaftLog.recovered(AT_4, (), None)
    assert (log.last_index, log.last_term, gave_way) == (4, 2, False)
    assert log.configuration == ABC


@pytest.mark.parametrize(
    ("found", "first", "last", "gave_way"),
    [
        (entries(3, first=5), 5, 5, False),
        (entries(1, 2, 2, 3, first=2), 2, 5, False),
        (entries(1, 1, first=1), 5, 4, True),
        (entries(1, 1, 1, first=3), 5, 4, True),
    ],
    ids=["goes on", "trailing entries", "ends before it", "another term at its end"],
)
def test_recovered_entries_and_a_snapshot(found: tuple[object, ...], first: int, last: int, *, gave_way: bool) -> None:
    log, result = RaftLog.recovered(AT_4, found, None)  # type: ignore[arg-type]
    log.check()
    assert (log.first_index, log.last_index, result) == (first, last, gave_way)


def test_trailing_entries_do_not_bring_back_a_configuration_that_the_snapshot_knows() -> None:
    found = (entry(1, 3, ABCD), entry(2, 4))
    log, _ = RaftLog.recovered(AT_4, found, None)
    assert log.configuration == ABC


@pytest.mark.parametrize(
    "found",
    [entries(1, first=2), (entry(1, 1), entry(1, 3)), (entry(2, 1), entry(1, 2))],
    ids=["begins late", "gap", "term falls"],
)
def test_a_disk_with_holes_is_an_integrity_error(found: tuple[object, ...]) -> None:
    with pytest.raises(IntegrityError):
        RaftLog.recovered(None, found, ABC)  # type: ignore[arg-type]


def test_a_gap_after_the_snapshot_is_an_integrity_error() -> None:
    with pytest.raises(IntegrityError, match="snapshot ends at 4"):
        RaftLog.recovered(AT_4, entries(3, first=6), None)


def test_a_batch_ends_by_number_or_by_bytes_and_holds_one_entry_at_least() -> None:
    log = RaftLog(ABC)
    log.append([entry(1, index, b"x" * size) for index, size in enumerate((10, 10, 30, 5, 5), 1)])
    assert log.batch_end(1, entries_max=10, bytes_max=20) == 3
    assert log.batch_end(1, entries_max=1, bytes_max=20) == 2
    assert log.batch_end(3, entries_max=10, bytes_max=20) == 4, "a large entry travels alone"
    assert log.batch_end(4, entries_max=10, bytes_max=20) == 6
    log.cut(3, metadata_of(b"", index=3, term=1, configuration=ABC))
    assert log.batch_end(3, entries_max=10, bytes_max=35) == 5


def test_bytes_after_a_place() -> None:
    log = RaftLog(ABC)
    log.append((entry(1, 1, b"xx"), entry(1, 2, b"xxx"), entry(1, 3, b"xxxxx")))
    assert [log.bytes_after(index) for index in range(4)] == [10, 8, 5, 0]
    log.cut(Index(2), metadata_of(b"", index=1, term=1, configuration=ABC))
    assert [log.bytes_after(index) for index in range(1, 4)] == [8, 5, 0]


def test_the_last_place_that_can_agree_with_a_term() -> None:
    log = log_of(1, 1, 2, 4, 4)
    assert log.last_at_most(5, 3) == 3
    assert log.last_at_most(2, 3) == 2
    assert log.last_at_most(9, 9) == 5
    assert log.last_at_most(4, 0) == 0


def test_entries_of_a_peer_follow_or_do_not() -> None:
    assert follows(entries(1, 2, first=4), 3, 1, 2)
    assert follows((), 3, 1, 2)
    assert not follows(entries(1, first=5), 3, 1, 2), "gap"
    assert not follows(entries(1, 3, first=4), 3, 1, 2), "a term after the leader's own"
    assert not follows(entries(2, 1, first=4), 3, 1, 2), "terms fall"
    assert not follows(entries(1, first=4), 3, 2, 2), "a term before the previous one's"

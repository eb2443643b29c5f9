import pytest

from bobbin.cluster.names import Index
from bobbin.cluster.raft.events import Recovered
from bobbin.errors import IntegrityError, UsageError
from bobbin.store.wal.reading import NoticeCode, read_log
from bobbin.store.wal.segment import segment_name
from tests.support.crashing_files import CrashingFiles, nothing
from tests.support.log_records import CLUSTER, HISTORY, NODE, OTHER, append, expected, vote
from tests.support.logs import flipped, opened, write


def _written(rotate_bytes: int = 1) -> CrashingFiles:
    """A log with each group in a file of its own."""
    files = CrashingFiles()
    write(opened(files, rotate_bytes=rotate_bytes), HISTORY)
    return files.after_power_cut()


def _read(files: CrashingFiles) -> Recovered:
    return read_log(files, node=NODE, cluster=CLUSTER).image.recovered()


def test_an_empty_folder_is_an_empty_log() -> None:
    reading = read_log(CrashingFiles(), node=NODE, cluster=CLUSTER)
    assert reading.image.recovered() == Recovered()
    assert (reading.chain, reading.next_number, reading.boot, reading.sealed) == ([], 1, 1, None)


def test_all_files_of_a_log_are_read_in_order() -> None:
    files = _written()
    reading = read_log(files, node=NODE, cluster=CLUSTER)
    assert reading.chain == [1, 2, 3, 4, 5, 6, 7]
    assert (reading.next_number, reading.boot, reading.notices) == (8, 2, [])
    assert reading.image.recovered() == expected(HISTORY)


def test_the_last_group_is_kept_apart() -> None:
    """It may be in the memory of the system only."""
    files = _written(1 << 20)
    reading = read_log(files, node=NODE, cluster=CLUSTER)
    before = expected(HISTORY[:-1])
    assert (reading.before_tail.term, reading.before_tail.last_index) == (before.term, before.entries[-1].index)
    assert len(reading.tail) == 1
    assert reading.sealed is not None
    assert reading.sealed.size < len(files.inodes[segment_name(1)].content)
    assert reading.image.recovered() == expected(HISTORY)


def test_what_came_with_the_header_is_durable() -> None:
    files = _written()
    reading = read_log(files, node=NODE, cluster=CLUSTER)
    assert reading.tail == []
    assert reading.sealed is not None
    assert reading.sealed.size == len(files.inodes[segment_name(7)].content)


def test_a_torn_tail_is_noticed() -> None:
    files = _written(1 << 20)
    content = files.inodes[segment_name(1)].content
    del content[-1:]
    reading = read_log(files, node=NODE, cluster=CLUSTER)
    assert reading.image.recovered() == expected(HISTORY[:-1])
    assert [notice.code for notice in reading.notices] == [NoticeCode.TORN_TAIL]
    assert segment_name(1) in reading.notices[0].detail


@pytest.mark.parametrize("number", range(1, 7))
def test_a_missing_file_is_an_error_that_names_it(number: int) -> None:
    files = _written()
    files.remove(segment_name(number))
    with pytest.raises(IntegrityError, match=f"{segment_name(number)}, from which {segment_name(number + 1)} goes on"):
        _read(files)


def test_every_flipped_byte_of_every_file_is_an_error_that_names_it() -> None:
    files = _written()
    for number in range(1, 8):
        name = segment_name(number)
        for offset in range(0, len(files.inodes[name].content), 3):
            with pytest.raises(IntegrityError, match=f"{name} is damaged at offset"):
                _read(flipped(files, name, offset, 1 << offset % 8))


def test_a_log_of_another_node_or_cluster_is_refused() -> None:
    files = _written()
    before = files.operations
    with pytest.raises(UsageError, match=f"{segment_name(7)} is of node {NODE}, not of {OTHER}"):
        read_log(files, node=OTHER, cluster=CLUSTER)
    with pytest.raises(UsageError, match=f"is of cluster {CLUSTER.hex()}, not of \\(none\\)"):
        read_log(files, node=NODE, cluster=b"")
    assert files.operations == before


def test_a_file_from_another_history_is_an_error() -> None:
    """Its header is whole, and says another state than the files before it."""
    files = _written()
    other = CrashingFiles()
    write(opened(other, rotate_bytes=1), [(vote(5, NODE),), *HISTORY[1:2]])
    files.inodes[segment_name(3)] = other.after_power_cut(nothing).inodes[segment_name(3)]
    with pytest.raises(
        IntegrityError, match=f"{segment_name(3)} is damaged at offset 0: its header says another state"
    ):
        _read(files)


def test_records_that_cannot_follow_are_damage() -> None:
    files = CrashingFiles()
    log = opened(files)
    write(log, HISTORY)
    # A writer that has lost its way: it believes that the log ends elsewhere.
    log.image.entries.clear()
    log.image.first_index = log._outline.first_index = Index(50)
    log._outline.last_index = Index(49)
    write(log, [(append(50, 50),)])
    with pytest.raises(IntegrityError, match="entry 50 does not follow the log, which has 1 to 5"):
        _read(files.after_power_cut())

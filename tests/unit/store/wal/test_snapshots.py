import errno
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from bobbin.errors import IntegrityError, ResourceError, UsageError
from bobbin.store.wal.reading import Notice, NoticeCode
from bobbin.store.wal.snapshots import Snapshots, snapshot_names
from tests.support.crashing_files import CrashingFiles, PowerCut, everything, nothing
from tests.support.log_records import CLUSTER, metadata
from tests.support.logs import flipped

DATA = b"".join(b"%d " % number for number in range(400))
CHUNKS = [DATA[:500], DATA[500:501], DATA[501:]]
TEMPLATE = replace(metadata(7), sha256=b"", size=0)
METADATA = metadata(7, data=DATA)
NAME = f"snapshot-{7:020d}-{1:020d}"


def _snapshots(files: CrashingFiles, memory_max: int = 1_000, free_bytes_min: int = 0) -> Snapshots:
    return Snapshots(files, cluster=CLUSTER, memory_max=memory_max, free_bytes_min=free_bytes_min)


def _newest(files: CrashingFiles) -> tuple[Snapshots, object, list[Notice]]:
    snapshots, notices = _snapshots(files), list[Notice]()
    return snapshots, snapshots.newest(notices), notices


def _written(memory_max: int = 1_000) -> CrashingFiles:
    files = CrashingFiles()
    assert _snapshots(files, memory_max).write(CHUNKS, TEMPLATE) == METADATA
    return files


@pytest.mark.parametrize("memory_max", [0, 501, 1_000_000])
def test_a_snapshot_is_durable_once_it_is_written(memory_max: int) -> None:
    files = _written(memory_max).after_power_cut(nothing)
    assert files.names() == [NAME]
    snapshots, newest, notices = _newest(files)
    assert (newest, notices) == (METADATA, [])
    assert snapshots.is_durable(METADATA)
    reader = snapshots.open()
    assert reader is not None
    assert reader.metadata == METADATA
    assert b"".join(reader.chunks()) == DATA
    assert reader.read(3, 5) == DATA[3:8]
    assert reader.read(len(DATA) - 2, 100) == DATA[-2:]
    assert reader.read(len(DATA) + 2, 100) == b""
    reader.close()


def test_no_snapshot_is_none() -> None:
    snapshots, newest, notices = _newest(CrashingFiles())
    assert (newest, notices, snapshots.open(), snapshots.is_durable(METADATA)) == (None, [], None, False)


def test_an_empty_snapshot_is_one_too() -> None:
    files = CrashingFiles()
    found = _snapshots(files).write([], TEMPLATE)
    assert found == metadata(7)
    assert _newest(files)[1] == found


def test_every_flipped_byte_is_noticed_and_the_snapshot_ignored() -> None:
    files = _written()
    for offset in range(len(files.inodes[NAME].content)):
        damaged = flipped(files, NAME, offset, 1 << offset % 8)
        snapshots, newest, notices = _newest(damaged)
        assert newest is None
        assert [notice.code for notice in notices] == [NoticeCode.DAMAGED_SNAPSHOT]
        assert NAME in notices[0].detail
        assert snapshots.open() is None
        assert not snapshots.is_durable(METADATA)


@pytest.mark.parametrize("size", [0, 3, 4, 12, 100, 1_500])
def test_a_file_that_was_cut_is_noticed(size: int) -> None:
    files = _written()
    del files.inodes[NAME].content[size:]
    assert [notice.code for notice in _newest(files)[2]] == [NoticeCode.DAMAGED_SNAPSHOT]


def test_a_footer_that_does_not_belong_is_noticed() -> None:
    files = _written()
    other = f"snapshot-{8:020d}-{1:020d}"
    files.rename(NAME, other)
    assert _newest(files)[2][0].detail.endswith("its metadata are of another place")
    notices: list[Notice] = []
    stranger = Snapshots(files, cluster=b"another", memory_max=1, free_bytes_min=0)
    assert stranger.newest(notices) is None
    assert notices[0].detail.endswith("it is of another cluster")
    longer = _written()
    longer.inodes[NAME].content[0:0] = b"more"
    assert _newest(longer)[2][0].detail.endswith("its size is not the one in its metadata")


def test_the_newest_whole_one_counts() -> None:
    files = CrashingFiles()
    snapshots = _snapshots(files)
    for last_index, epoch in ((7, 1), (9, 2), (9, 3), (8, 4)):
        snapshots.write([b"%d" % epoch], replace(TEMPLATE, last_index=last_index, epoch=epoch))
    names = files.names()
    assert _newest(files)[1] == metadata(9, data=b"3", epoch=3)
    files.inodes[names[-1]].content[0] ^= 1
    assert _newest(files)[1] == metadata(9, data=b"2", epoch=2)
    files.inodes[names[-2]].content[0] ^= 1
    assert _newest(files)[1] == metadata(8, data=b"4", epoch=4)
    assert len(_newest(files)[2]) == 2


def test_older_ones_are_removed_and_stay_readable_for_who_reads_them() -> None:
    files = _written()
    snapshots, _, _ = _newest(files)
    reader = snapshots.open(METADATA.sha256)
    assert reader is not None
    newer = snapshots.write([b"newer"], replace(TEMPLATE, last_index=9, epoch=2))
    assert snapshots.is_durable(METADATA)
    snapshots.remove_older(newer)
    assert files.names() == [f"snapshot-{9:020d}-{2:020d}"]
    assert not snapshots.is_durable(METADATA)
    assert snapshots.open(METADATA.sha256) is None
    assert b"".join(reader.chunks()) == DATA
    found = snapshots.open()
    assert found is not None
    assert found.metadata == newer
    files.remove(files.names()[0])
    assert snapshots.open() is None


@pytest.mark.parametrize("memory_max", [0, 501, 1_000_000])
def test_a_power_cut_while_writing_leaves_all_or_nothing(memory_max: int) -> None:
    for moment in range(1, _written(memory_max).operations + 1):
        files = CrashingFiles()
        files.crash_at, files.crash_bytes = moment, 100
        with pytest.raises(PowerCut):
            _snapshots(files, memory_max).write(CHUNKS, TEMPLATE)
        assert files.after_power_cut(nothing).names() == []
        assert _newest(files.after_power_cut(everything, names_durable=False))[1:] in ((None, []), (METADATA, []))


@pytest.mark.parametrize("memory_max", [0, 501, 1_000_000])
def test_a_failure_while_writing_leaves_nothing(memory_max: int) -> None:
    operations = _written(memory_max).operations
    for moment in range(1, operations + 1):
        files = CrashingFiles()
        files.fail_at = {moment: errno.EIO}
        snapshots = _snapshots(files, memory_max)
        with pytest.raises(ResourceError):
            snapshots.write(CHUNKS, TEMPLATE)
        assert not snapshots.is_durable(METADATA)
        assert files.names() == ([NAME] if moment == operations else [])
        assert snapshots.write(CHUNKS, TEMPLATE) == METADATA
        assert files.names() == [NAME]


def test_a_source_that_fails_leaves_nothing() -> None:
    def failing() -> Iterator[bytes]:
        yield DATA
        raise KeyError

    files = CrashingFiles()
    with pytest.raises(KeyError):
        _snapshots(files, 0).write(failing(), TEMPLATE)
    assert files.names() == []


def test_a_hash_that_was_given_must_be_right() -> None:
    files = CrashingFiles()
    snapshots = _snapshots(files, 0)
    assert snapshots.write(CHUNKS, METADATA) == METADATA
    for wrong in (replace(METADATA, sha256=bytes(32)), replace(METADATA, size=3)):
        with pytest.raises(IntegrityError, match="not those that its metadata name"):
            snapshots.write(CHUNKS, replace(wrong, epoch=2))
    assert files.names() == [NAME]


def test_what_must_stay_free_is_not_written_on() -> None:
    files = CrashingFiles()
    files.free = 2_000
    snapshots = _snapshots(files, 0, free_bytes_min=1_000)
    with pytest.raises(ResourceError, match="must stay free"):
        snapshots.write([DATA], TEMPLATE)
    assert files.names() == []
    with pytest.raises(UsageError):
        _snapshots(files, -1)


@pytest.mark.parametrize("memory_max", [0, 501, 1_000_000])
def test_a_snapshot_is_fetched_in_chunks(memory_max: int) -> None:
    files = CrashingFiles()
    snapshots = _snapshots(files, memory_max)
    snapshots.begin_fetch(METADATA)
    assert snapshots.fetched == 0
    offset = 0
    for chunk in CHUNKS:
        snapshots.write_chunk(offset, chunk)
        offset += len(chunk)
        assert snapshots.fetched == offset
    assert snapshots.open() is None
    snapshots.finish_fetch(METADATA)
    assert (snapshots.fetched, snapshots.is_durable(METADATA)) == (0, True)
    assert _newest(files.after_power_cut(nothing))[1] == METADATA


@pytest.mark.parametrize("memory_max", [0, 1_000_000])
def test_a_chunk_of_another_offset_is_refused_and_changes_nothing(memory_max: int) -> None:
    snapshots = _snapshots(CrashingFiles(), memory_max)
    snapshots.begin_fetch(METADATA)
    snapshots.write_chunk(0, DATA[:100])
    for offset, data in ((99, b"x"), (101, b"x"), (100, DATA), (len(DATA), b"x")):
        with pytest.raises(UsageError, match="do not follow the 100 that are held"):
            snapshots.write_chunk(offset, data)
    snapshots.write_chunk(100, DATA[100:])
    snapshots.finish_fetch(METADATA)
    assert snapshots.is_durable(METADATA)


def test_offset_0_begins_anew() -> None:
    snapshots = _snapshots(CrashingFiles(), 0)
    snapshots.begin_fetch(METADATA)
    snapshots.write_chunk(0, b"something else")
    snapshots.write_chunk(0, DATA[:100])
    snapshots.write_chunk(100, DATA[100:])
    snapshots.finish_fetch(METADATA)
    assert snapshots.is_durable(METADATA)


def test_a_wrong_hash_or_a_missing_end_is_refused_and_forgotten() -> None:
    for data in (DATA[:-1], DATA[:-1] + b"?"):
        files = CrashingFiles()
        snapshots = _snapshots(files, 0)
        snapshots.begin_fetch(METADATA)
        snapshots.write_chunk(0, data)
        with pytest.raises(IntegrityError, match="not those that were offered"):
            snapshots.finish_fetch(METADATA)
        assert (files.names(), snapshots.fetched, snapshots.is_durable(METADATA)) == ([], 0, False)


def test_without_a_fetch_there_is_nothing_to_write_or_finish() -> None:
    files = CrashingFiles()
    snapshots = _snapshots(files, 0)
    with pytest.raises(UsageError):
        snapshots.write_chunk(0, b"x")
    snapshots.begin_fetch(METADATA)
    snapshots.write_chunk(0, b"x")
    with pytest.raises(UsageError):
        snapshots.finish_fetch(metadata(9))
    assert snapshots.fetched == 1
    snapshots.drop_fetch()
    snapshots.drop_fetch()
    assert (files.names(), snapshots.fetched) == ([], 0)
    with pytest.raises(UsageError):
        snapshots.finish_fetch(METADATA)


def test_a_disk_that_fails_while_fetching_leaves_nothing() -> None:
    files = CrashingFiles()
    snapshots = _snapshots(files, 0)
    snapshots.begin_fetch(METADATA)
    snapshots.write_chunk(0, DATA[:100])
    files.fail_at = {files.operations + 1: errno.EIO}
    with pytest.raises(ResourceError):
        snapshots.write_chunk(100, DATA[100:])
    assert (files.names(), snapshots.fetched) == ([], 0)


def test_names_of_snapshots_are_known() -> None:
    assert snapshot_names([NAME, NAME + ".tmp", "log-1", "snapshot-1-1"]) == [NAME]

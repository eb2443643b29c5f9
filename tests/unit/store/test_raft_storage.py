import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from msgspec.structs import replace

from bobbin.cluster.names import Index, Term
from bobbin.cluster.raft.effects import Cut, Reset
from bobbin.cluster.raft.entries import SnapshotMetadata
from bobbin.cluster.raft.events import Recovered
from bobbin.errors import IntegrityError, ResourceError, UsageError
from bobbin.store.raft_storage import LogMissing, RaftStorage
from bobbin.store.wal.files import RealFiles
from bobbin.store.wal.reading import NoticeCode
from bobbin.store.wal.segment import segment_name
from tests.support.crashing_files import CrashingFiles, PowerCut, everything, nothing
from tests.support.log_records import CLUSTER, HISTORY, NODE, OTHER, append, entry, expected, metadata, truncate, vote
from tests.support.log_writer import ROTATE_BYTES, STATE, command
from tests.support.logs import flipped, storage, write

DATA = b"state " * 50
REPOSITORY = Path(__file__).parents[3]


def _template(last_index: int, epoch: int = 1, term: int = 1) -> SnapshotMetadata:
    return replace(metadata(last_index, term=term, epoch=epoch), sha256=b"", size=0)


def _codes(opened: RaftStorage) -> list[NoticeCode]:
    return [notice.code for notice in opened.notices]


def _compacted() -> CrashingFiles:
    """A node with a snapshot of 8 and the entries 7 to 10."""
    files = CrashingFiles()
    first = storage(files)
    write(first, [(vote(2, OTHER),), (append(1, 10),)])
    taken = first.write_snapshot([DATA], _template(8))
    write(first, [(Cut(Index(7), taken),)])
    first.close()
    return files


COMPACTED = Recovered(
    term=Term(2),
    voted_for=OTHER,
    snapshot=metadata(8, data=DATA),
    entries=tuple(entry(index) for index in range(7, 11)),
)
SNAPSHOT = f"snapshot-{8:020d}-{1:020d}"
OLDER = f"snapshot-{4:020d}-{1:020d}"


def test_term_vote_and_entries_are_there_after_a_power_cut() -> None:
    files = CrashingFiles()
    first = storage(files)
    assert (first.recovered, first.boot_id, first.incarnation, first.notices) == (Recovered(), 1, 0, ())
    write(first, HISTORY)
    again = storage(files.after_power_cut(nothing))
    assert again.recovered == expected(HISTORY)
    assert again.boot_id == 2
    assert again.image.recovered() == again.recovered


def test_a_log_that_is_gone_is_not_begun_again() -> None:
    files = CrashingFiles()
    for _ in range(2):
        with pytest.raises(LogMissing, match="has begun"):
            RaftStorage.open(files, node=NODE, free_bytes_min=0, has_begun=True)
        assert files.names() == []
    RaftStorage.open(files, node=NODE, free_bytes_min=0).close()
    RaftStorage.open(files, node=NODE, free_bytes_min=0, has_begun=True).close()


def test_a_vote_binds_after_a_restart() -> None:
    files = CrashingFiles()
    write(storage(files), [(vote(7, OTHER),)])
    again = storage(files.after_power_cut(nothing))
    assert (again.recovered.term, again.recovered.voted_for) == (7, OTHER)
    for other in (vote(7, NODE), vote(7), vote(6, OTHER)):
        with pytest.raises(UsageError, match="must not follow term 7"):
            again.append((other,))
    write(again, [(vote(7, OTHER),), (vote(8, NODE),)])


def test_what_is_appended_is_durable_only_after_a_sync() -> None:
    files = CrashingFiles()
    first = storage(files)
    first.append(HISTORY[0])
    first.append(HISTORY[1])
    assert first.image.recovered() == Recovered()
    first.sync()
    assert storage(files.after_power_cut(nothing)).recovered == expected(HISTORY[:2])


def test_a_snapshot_and_the_entries_after_it_are_restored() -> None:
    """The snapshot is read back whole, and what follows begins behind it: nothing is applied twice."""
    again = storage(_compacted().after_power_cut(nothing))
    assert again.recovered == COMPACTED
    assert again.notices == ()
    reader = again.open_snapshot()
    assert reader is not None
    assert (b"".join(reader.chunks()), reader.metadata) == (DATA, COMPACTED.snapshot)
    to_apply = [each.index for each in again.recovered.entries if each.index > reader.metadata.last_index]
    assert to_apply == [9, 10]


def test_a_cut_without_its_durable_snapshot_is_refused() -> None:
    files = CrashingFiles()
    first = storage(files)
    write(first, [(append(1, 10),)])
    for record in (Cut(Index(5), metadata(8, data=DATA)), Reset(metadata(20))):
        with pytest.raises(UsageError, match="is not durable"):
            first.append((record,))
    files.fail_at = {files.operations + 4: errno.EIO}
    with pytest.raises(ResourceError):
        first.write_snapshot([DATA], _template(8))
    with pytest.raises(UsageError, match="is not durable"):
        first.append((Cut(Index(5), metadata(8, data=DATA)),))
    taken = first.write_snapshot([DATA], _template(8))
    with pytest.raises(UsageError, match="is not durable"):
        first.append((Cut(Index(5), replace(taken, created_s=5)),))
    first.append((Cut(Index(5), taken),))
    first.sync()


def test_a_crash_at_any_moment_of_a_compaction_leaves_no_gap() -> None:
    """Snapshot, then cut, then what they replace is removed; wherever it stops, the rest is enough to go on."""
    before = _compacted().after_power_cut(nothing)

    def compact(files: CrashingFiles) -> None:
        opened = storage(files)
        write(opened, [(append(11, 20),)])
        taken = opened.write_snapshot([DATA, b"later"], _template(19, epoch=2))
        write(opened, [(Cut(Index(15), taken),)])

    done = before.after_power_cut()
    compact(done)
    newer = metadata(19, data=DATA + b"later", epoch=2)
    for moment in range(1, done.operations + 1):
        files = before.after_power_cut()
        files.crash_at, files.crash_bytes = moment, 1 << 20
        with pytest.raises(PowerCut):
            compact(files)
        for left in (files.after_power_cut(nothing), files.after_power_cut(everything, names_durable=False)):
            again = storage(left)
            found = again.recovered
            assert found.snapshot in (COMPACTED.snapshot, newer)
            assert found.snapshot is not None
            assert found.entries[0].index <= found.snapshot.last_index + 1
            assert found.entries[-1].index in {10, 20}
            assert (found.term, found.voted_for, found.lost) == (2, OTHER, None)
            reader = again.open_snapshot()
            assert reader is not None
            assert reader.metadata == found.snapshot
            # Where the snapshot was durable and the log not cut, the cut can be made now.
            if found.snapshot == newer and found.entries[0].index < 15:
                assert _codes(again)[-1:] == [NoticeCode.UNFINISHED_CUT]
                write(again, [(Cut(Index(15), newer),)])
            assert not any(name.endswith(".tmp") for name in left.names())
            third = storage(left.after_power_cut(nothing))
            assert third.recovered.snapshot == found.snapshot
            assert _codes(third) == []


def test_the_epoch_tells_which_snapshot_of_one_place_is_newer() -> None:
    files = _compacted()
    opened = storage(files)
    taken = opened.write_snapshot([DATA], _template(8, epoch=2))
    again = storage(files.restarted())
    assert again.recovered.snapshot == taken == metadata(8, data=DATA, epoch=2)
    assert again.recovered.entries == COMPACTED.entries


def test_older_snapshots_go_when_the_cut_is_durable_and_not_before() -> None:
    files = _compacted()
    opened = storage(files)
    taken = opened.write_snapshot([b"later"], _template(10, epoch=2))
    old = opened.open_snapshot(metadata(8, data=DATA).sha256)
    assert old is not None
    assert SNAPSHOT in files.names()
    opened.append((Cut(Index(9), taken),))
    files.fail_at = {files.operations + 3: errno.EIO}
    with pytest.raises(ResourceError):
        opened.sync()
    assert SNAPSHOT in files.names()
    write(opened, [(Cut(Index(9), taken),)])
    assert SNAPSHOT not in files.names()
    assert opened.open_snapshot(metadata(8, data=DATA).sha256) is None
    assert b"".join(old.chunks()) == DATA


def test_a_damaged_snapshot_is_ignored_with_a_notice_and_the_node_starts() -> None:
    files = _compacted()
    for offset in (0, 150, len(DATA), len(files.inodes[SNAPSHOT].content) - 1):
        damaged = flipped(files, SNAPSHOT, offset, 0x40)
        again = storage(damaged)
        assert _codes(again) == [NoticeCode.DAMAGED_SNAPSHOT, NoticeCode.LOST_LOG]
        assert again.open_snapshot() is None
        # The term, the vote and how far the log had come bind it still; entries without their beginning are of no use.
        lost = Recovered(term=Term(2), voted_for=OTHER, lost=(Term(1), Index(10)))
        assert again.recovered == lost
        write(again, [(append(1, 4),)])
        third = storage(damaged.after_power_cut(nothing))
        assert third.recovered == replace(lost, entries=tuple(entry(index) for index in range(1, 5)))


def test_an_older_snapshot_that_is_still_there_serves_where_the_newest_is_damaged() -> None:
    """Its removal may have been undone by a power cut. What is lost is known, and the next open finds the same."""
    files = CrashingFiles()
    opened = storage(files)
    write(opened, [(append(1, 10),)])
    older = opened.write_snapshot([b"older"], _template(4))
    opened.write_snapshot([DATA], _template(8))
    removed = files.inodes[OLDER]
    write(opened, [(Cut(Index(9), metadata(8, data=DATA)),)])
    assert OLDER not in files.names()
    files.inodes[OLDER] = removed
    damaged = flipped(files, SNAPSHOT, 0, 1)
    found = Recovered(snapshot=older, lost=(Term(1), Index(10)))
    again = storage(damaged)
    assert (again.recovered, _codes(again)) == (found, [NoticeCode.DAMAGED_SNAPSHOT, NoticeCode.LOST_LOG])
    third = storage(damaged.after_power_cut(nothing))
    assert third.recovered == found
    write(third, [(append(5, 10),)])
    assert third.image.recovered().lost is None


def test_an_older_snapshot_with_all_entries_behind_it_loses_nothing() -> None:
    files = CrashingFiles()
    opened = storage(files)
    write(opened, [(append(1, 10),)])
    older = opened.write_snapshot([b"older"], _template(4))
    taken = opened.write_snapshot([DATA], _template(8))
    removed = files.inodes[OLDER]
    write(opened, [(Cut(Index(5), taken),)])
    files.inodes[OLDER] = removed
    damaged = storage(flipped(files, SNAPSHOT, 0, 1))
    assert damaged.recovered == Recovered(snapshot=older, entries=append(5, 10).entries)
    assert _codes(damaged) == [NoticeCode.DAMAGED_SNAPSHOT]
    del files.inodes[SNAPSHOT]
    missing = storage(files.restarted())
    assert (missing.recovered, _codes(missing)) == (damaged.recovered, [NoticeCode.MISSING_SNAPSHOT])


def test_a_lost_log_is_whole_again_once_it_has_come_as_far() -> None:
    damaged = flipped(_compacted(), SNAPSHOT, 0, 1)
    opened = storage(damaged)
    write(opened, [(append(1, 9),)])
    assert opened.image.recovered().lost == (1, 10)
    write(opened, [(append(10, 10),)])
    assert opened.image.recovered().lost is None
    assert storage(damaged.restarted()).recovered.lost is None


def test_a_damaged_snapshot_costs_nothing_while_all_entries_are_there() -> None:
    files = CrashingFiles()
    opened = storage(files)
    write(opened, [(append(1, 10),)])
    taken = opened.write_snapshot([DATA], _template(8))
    write(opened, [(Cut(Index(1), taken),)])
    files.inodes[SNAPSHOT].content[3] ^= 1
    again = storage(files.restarted())
    assert _codes(again) == [NoticeCode.DAMAGED_SNAPSHOT]
    assert again.recovered == Recovered(entries=append(1, 10).entries)


def test_a_missing_snapshot_is_noticed_like_a_damaged_one() -> None:
    files = _compacted()
    files.remove(SNAPSHOT)
    again = storage(files)
    assert _codes(again) == [NoticeCode.MISSING_SNAPSHOT, NoticeCode.LOST_LOG]
    assert again.recovered.lost == (1, 10)


def test_an_installed_snapshot_takes_the_place_of_the_log() -> None:
    files = CrashingFiles()
    opened = storage(files, memory_max=10)
    write(opened, [(vote(3), append(1, 10))])
    offered = metadata(40, term=3, data=DATA)
    opened.begin_fetch(offered)
    opened.write_chunk(0, DATA[:200])
    assert opened.fetched == 200
    opened.write_chunk(200, DATA[200:])
    opened.finish_fetch(offered)
    # A crash here: the snapshot is durable, and the log does not know of it.
    early = storage(_copy(files).after_power_cut(nothing))
    assert early.recovered == Recovered(term=Term(3), snapshot=offered)
    assert _codes(early) == [NoticeCode.UNFINISHED_CUT]
    write(opened, [(Reset(offered),), (append(41, 42, 3),)])
    again = storage(files.after_power_cut(nothing))
    assert again.recovered == Recovered(term=Term(3), snapshot=offered, entries=append(41, 42, 3).entries)
    assert _codes(again) == []


def _copy(files: CrashingFiles) -> CrashingFiles:
    other = files.restarted()
    files.is_down = False
    return other


def test_a_refused_or_dropped_fetch_leaves_nothing() -> None:
    files = CrashingFiles()
    opened = storage(files, memory_max=10)
    offered = metadata(40, data=DATA)
    opened.begin_fetch(offered)
    opened.write_chunk(0, DATA[:-1] + b"?")
    with pytest.raises(IntegrityError):
        opened.finish_fetch(offered)
    opened.begin_fetch(offered)
    opened.write_chunk(0, DATA)
    opened.drop_fetch()
    assert files.names() == [segment_name(1)]
    opened.begin_fetch(offered)
    opened.write_chunk(0, DATA)
    opened.close()
    assert files.names() == [segment_name(1)]


def test_what_was_being_fetched_at_a_crash_is_removed_at_open() -> None:
    files = CrashingFiles()
    opened = storage(files, memory_max=10)
    opened.begin_fetch(metadata(40, data=DATA))
    opened.write_chunk(0, DATA)
    left = files.after_power_cut(everything, names_durable=False)
    assert any(name.endswith(".tmp") for name in left.names())
    storage(left)
    assert left.names() == [segment_name(1), segment_name(2)]


def test_a_folder_of_another_node_is_refused_and_unchanged() -> None:
    files = _compacted()
    storage(files).save_incarnation(3)
    files = files.restarted()
    files.create("left.tmp")
    before = files.names(), files.operations
    for node, cluster in ((OTHER, CLUSTER), (NODE, b"another")):
        with pytest.raises(UsageError, match=r"is of (node|cluster)"):
            RaftStorage.open(files, node=node, cluster=cluster)
    assert (files.names(), files.operations) == before
    assert storage(files).recovered == COMPACTED


def test_a_folder_that_has_lost_its_log_is_refused() -> None:
    """Without its votes a node could give another one."""
    files = _compacted()
    for name in files.names():
        if name.startswith("log-"):
            files.remove(name)
    with pytest.raises(IntegrityError, match="the log is missing"):
        storage(files)


def test_a_damaged_log_is_a_loud_error() -> None:
    files = CrashingFiles()
    write(storage(files), HISTORY)
    with pytest.raises(IntegrityError, match=f"{segment_name(1)} is damaged at offset [1-9]"):
        storage(flipped(files, segment_name(1), 400, 2))


def test_the_incarnation_is_durable_and_never_goes_back() -> None:
    files = CrashingFiles()
    opened = storage(files)
    opened.save_incarnation(5)
    with pytest.raises(UsageError, match="incarnation 4 is below 5"):
        opened.save_incarnation(4)
    files.fail_at = {files.operations + 3: errno.EIO}
    with pytest.raises(ResourceError):
        opened.save_incarnation(6)
    assert opened.incarnation == 5
    again = storage(files.after_power_cut(nothing))
    assert (again.incarnation, again.boot_id) == (5, 2)
    damaged = flipped(_copy(files), "standing", 12, 1)
    with pytest.raises(IntegrityError, match="standing is damaged"):
        storage(damaged)


def test_a_boot_id_is_used_once_even_if_the_power_goes_right_away() -> None:
    files = CrashingFiles()
    for boot in range(1, 15):
        assert storage(files).boot_id == boot
        files = files.after_power_cut(nothing)


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_failed_truncation_is_an_error_and_the_entries_stay(code: int) -> None:
    files = CrashingFiles()
    opened = storage(files)
    write(opened, [(append(1, 10),)])
    for step in (1, 2):
        files.fail_at = {files.operations + step: code}
        opened.append((truncate(5), append(5, 6, 2)))
        with pytest.raises(ResourceError) as caught:
            opened.sync()
        assert caught.value.retry
        assert opened.image.recovered() == expected([(append(1, 10),)])
    write(opened, [(truncate(5), append(5, 6, 2))])
    assert storage(files.after_power_cut(nothing)).recovered == expected([(append(1, 4), append(5, 6, 2))])


def test_a_disk_that_cannot_be_read_is_no_damage() -> None:
    class Unreadable(CrashingFiles):
        def names(self) -> list[str]:
            raise OSError(errno.EIO, "unreadable")

    with pytest.raises(ResourceError, match="reading the log failed: unreadable") as caught:
        storage(Unreadable())
    assert caught.value.retry


def test_all_nodes_stop_at_once_and_everything_acknowledged_is_there() -> None:
    """Each node's disk on its own: whatever moment the power goes, term, vote and acknowledged entries are kept."""
    for moment in range(6, 19):
        nodes = [CrashingFiles() for _ in range(3)]
        acknowledged = []
        for number, files in enumerate(nodes):
            files.crash_at = moment + number
            done = 0
            opened = storage(files)
            try:
                for records in HISTORY:
                    write(opened, [records])
                    done += 1
            except PowerCut:
                pass
            acknowledged.append(done)
        for done, files in zip(acknowledged, nodes, strict=True):
            found = storage(files.after_power_cut(nothing)).recovered
            assert found == expected(HISTORY[:done])


def test_real_files(tmp_path: Path) -> None:
    opened = storage(RealFiles(tmp_path / "node"), rotate_bytes=500, memory_max=10)
    write(opened, HISTORY)
    taken = opened.write_snapshot([DATA], _template(4, term=2))
    write(opened, [(Cut(Index(3), taken), vote(9, NODE))])
    opened.save_incarnation(7)
    with pytest.raises(ResourceError, match="in use by another process"):
        RealFiles(tmp_path / "node")
    opened.close()
    with pytest.raises(UsageError, match="closed"):
        opened.sync()
    again = storage(RealFiles(tmp_path / "node"))
    assert again.recovered == expected([*HISTORY, (Cut(Index(3), taken), vote(9, NODE))])
    assert (again.incarnation, again.boot_id) == (7, 2)
    reader = again.open_snapshot()
    assert reader is not None
    assert b"".join(reader.chunks()) == DATA
    reader.close()
    again.close()


@pytest.mark.slow
def test_a_killed_process_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    random = Random(5)
    last, term, voted_for = 0, 0, ""
    for kill in range(20):
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.log_writer", str(tmp_path / "node"), str(kill)],
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(random.randrange(1, 40))]
        os.kill(process.pid, signal.SIGKILL)
        lines += process.stdout.read().splitlines()
        process.stdout.close()
        process.wait()
        said = lines[-1].split()
        last, term, voted_for = int(said[0]), int(said[1]), said[2].decode()
        opened = storage(RealFiles(tmp_path / "node"), rotate_bytes=ROTATE_BYTES)
        found = opened.recovered
        assert found.term >= term
        assert found.term > term or found.voted_for == voted_for
        assert found.entries[-1].index >= last
        assert all(each.payload == command(each.index) for each in found.entries)
        if found.snapshot is not None:
            assert found.entries[0].index <= found.snapshot.last_index + 1
            reader = opened.open_snapshot()
            assert reader is not None
            assert b"".join(reader.chunks()) == STATE
            reader.close()
        assert {notice.code for notice in opened.notices} <= {NoticeCode.TORN_TAIL, NoticeCode.UNFINISHED_CUT}
        opened.close()
    assert last > 100

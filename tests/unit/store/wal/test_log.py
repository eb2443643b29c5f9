import errno
from random import Random

import pytest

from bobbin.cluster.names import Index
from bobbin.cluster.raft.effects import Append, Cut, DurableRecord, Reset
from bobbin.cluster.raft.events import Recovered
from bobbin.errors import IntegrityError, ResourceError, UsageError
from bobbin.store.wal import log as log_module
from bobbin.store.wal.image import LogImage
from bobbin.store.wal.log import Log, LogLimits
from bobbin.store.wal.reading import read_log
from bobbin.store.wal.segment import Segment, segment_name, segment_numbers
from tests.support.crashing_files import (
    SPACE,
    CrashingFiles,
    PowerCut,
    Survival,
    beginning,
    everything,
    holes,
    nothing,
)
from tests.support.log_records import CLUSTER, HISTORY, NODE, OTHER, append, entry, expected, metadata, truncate, vote
from tests.support.logs import flipped, opened, write

LATER = (vote(9, NODE),)
"""A group that may follow every history here."""
WITH_CUTS: tuple[tuple[DurableRecord, ...], ...] = (
    *HISTORY,
    (append(6, 9, 3),),
    (Cut(Index(6), metadata(8, term=3)), vote(4, OTHER)),
    (append(10, 11, 4),),
    (truncate(11), Cut(Index(10), metadata(9, term=3, epoch=2))),
    (append(11, 12, 4),),
    (Reset(metadata(30, term=4, epoch=3)),),
    (append(31, 32, 4),),
)


def _found(files: CrashingFiles) -> Recovered:
    return read_log(files, node=NODE, cluster=CLUSTER).image.recovered()


def _states(groups: tuple[tuple[DurableRecord, ...], ...]) -> list[Recovered]:
    """What a log says after each number of groups."""
    return [expected(groups[:count]) for count in range(len(groups) + 1)]


def _until_cut(files: CrashingFiles, groups: tuple[tuple[DurableRecord, ...], ...], rotate_bytes: int) -> int:
    """Write until the power goes; how many groups were acknowledged."""
    done = 0
    try:
        log = opened(files, rotate_bytes=rotate_bytes)
        for records in groups:
            log.append(records)
            log.sync()
            done += 1
    except PowerCut:
        return done
    raise AssertionError("the power did not go")


def _goes_on(files: CrashingFiles, found: Recovered) -> None:
    """A log that was opened again takes a record, and the next open finds it, whatever else was unsynced."""
    log = opened(files)
    assert log.image.recovered() == found
    write(log, [LATER])
    again = _found(files.after_power_cut(nothing))
    assert again == Recovered(term=LATER[0].term, voted_for=NODE, snapshot=found.snapshot, entries=found.entries)


def _operations(groups: tuple[tuple[DurableRecord, ...], ...], rotate_bytes: int) -> int:
    files = CrashingFiles()
    write(opened(files, rotate_bytes=rotate_bytes), groups)
    return files.operations


@pytest.mark.parametrize("rotate_bytes", [1, 700, 1 << 30])
def test_a_power_cut_at_every_operation_loses_nothing_acknowledged(rotate_bytes: int) -> None:
    states = _states(WITH_CUTS)
    survivals: list[Survival] = [nothing, everything, holes(0x5555), holes(0xAAAA), beginning(50)]
    for moment in range(1, _operations(WITH_CUTS, rotate_bytes) + 1):
        files = CrashingFiles()
        files.crash_at, files.crash_bytes = moment, 1 << 20
        done = _until_cut(files, WITH_CUTS, rotate_bytes)
        for survival in survivals:
            for names_durable in (True, False):
                left = files.after_power_cut(survival, names_durable=names_durable)
                found = _found(left)
                assert found in states[done : done + 2], (moment, survival, names_durable)
                _goes_on(left, found)
        # Files are removed when everything is durable; before, nothing but what was acknowledged is.
        is_durable = files.log[-1].startswith("remove")
        assert _found(files.after_power_cut(nothing)) == states[done + is_durable]


def test_a_power_cut_at_every_byte_of_every_record_cuts_the_torn_tail() -> None:
    states = _states(HISTORY)
    files = CrashingFiles()
    write(opened(files), HISTORY)
    writes = [place for place, line in enumerate(files.log, 1) if line.startswith("write")]
    assert len(writes) == len(HISTORY) + 1
    for done, moment in enumerate(writes[1:]):
        files = CrashingFiles()
        files.crash_at, files.crash_bytes = moment, 1 << 20
        assert _until_cut(files, HISTORY, 1 << 30) == done
        inode = files.inodes[segment_name(1)]
        size = len(inode.content) - len(inode.durable)
        assert size > 30
        for kept in range(size + 1):
            left = files.after_power_cut(beginning(kept))
            found = _found(left)
            assert found == states[done + (kept == size)]
            _goes_on(left, found)


@pytest.mark.parametrize("rotate_bytes", [1, 400, 1 << 30])
def test_every_flipped_byte_is_found_or_does_not_count(rotate_bytes: int) -> None:
    files = CrashingFiles()
    write(opened(files, rotate_bytes=rotate_bytes), HISTORY)
    write(opened(files.restarted(), rotate_bytes=rotate_bytes), [])
    files = files.restarted()
    harmless = 0
    for name in files.names():
        for offset in range(len(files.inodes[name].content)):
            damaged = flipped(files, name, offset, 1 << offset % 8)
            found = _found_or_error(damaged)
            if isinstance(found, Recovered):
                # The last group of the file before the open: the new file has it once more.
                assert found == expected(HISTORY)
                harmless += 1
            else:
                assert f"{name} is damaged at offset" in str(found)
    assert harmless < 100


def _found_or_error(files: CrashingFiles) -> Recovered | IntegrityError:
    try:
        return _found(files)
    except IntegrityError as error:
        return error


def test_a_log_that_was_never_opened_again_notices_every_flipped_bit() -> None:
    files = CrashingFiles()
    write(opened(files), HISTORY[:3])
    name = segment_name(1)
    for offset in range(len(files.inodes[name].content)):
        for mask in (0x01, 0x10, 0x80, 0xFF):
            with pytest.raises(IntegrityError, match=f"{name} is damaged at offset"):
                opened(flipped(files, name, offset, mask))


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("fails_after", [False, True])
@pytest.mark.parametrize("rotate_bytes", [1, 1 << 30])
def test_a_failure_at_every_operation_leaves_what_is_durable(
    code: int, rotate_bytes: int, *, fails_after: bool
) -> None:
    states = _states(WITH_CUTS)
    for moment in range(_operations((), rotate_bytes) + 1, _operations(WITH_CUTS, rotate_bytes) + 1):
        files = CrashingFiles()
        log = opened(files, rotate_bytes=rotate_bytes)
        files.fail_at, files.fails_after = {moment: code}, fails_after
        failures = 0
        for done, records in enumerate(WITH_CUTS):
            log.append(records)
            error = _sync_error(log)
            if error is not None:
                failures += 1
                assert error.retry
                assert log.image.recovered() == states[done], moment
                assert _found(_copy(files).after_power_cut(nothing)) == states[done]
                assert _found(_copy(files)) == states[done]
                log.append(records)
                log.sync()
            assert log.image.recovered() == states[done + 1]
            assert _found(_copy(files).after_power_cut(nothing)) == states[done + 1], moment
        # Only the removal of a file that nobody needs may fail unnoticed.
        assert failures == (0 if files.log[moment - 1].startswith("remove") else 1), files.log[moment - 1]


def _sync_error(log: Log) -> ResourceError | None:
    try:
        log.sync()
    except ResourceError as error:
        return error
    return None


def _copy(files: CrashingFiles) -> CrashingFiles:
    """To look at what a crash would leave, and go on."""
    other = files.restarted()
    files.is_down = False
    return other


def test_a_failed_sync_is_never_tried_again_on_the_same_file() -> None:
    """The system calls the pages clean that it could not write: a second sync would succeed, and prove nothing."""
    files = CrashingFiles()
    log = opened(files)
    write(log, HISTORY[:2])
    files.fail_at = {files.operations + 2: errno.EIO}
    log.append(HISTORY[2])
    with pytest.raises(ResourceError):
        log.sync()
    write(log, HISTORY[2:])
    assert _found(files.after_power_cut(nothing)) == expected(HISTORY)


def test_what_an_open_finds_in_the_memory_of_the_system_is_durable_afterwards() -> None:
    """The process died after a sync that failed: the group is there to be read, and nowhere on the disk."""
    files = CrashingFiles()
    log = opened(files)
    write(log, HISTORY[:2])
    files.fail_at = {files.operations + 2: errno.EIO}
    log.append(HISTORY[2])
    # Nothing that is tried afterwards works either.
    files.fail_at |= dict.fromkeys(range(files.operations + 3, files.operations + 9), errno.EIO)
    with pytest.raises(ResourceError):
        log.sync()
    restarted = files.restarted()
    found = opened(restarted).image.recovered()
    assert found == expected(HISTORY[:3])
    assert _found(restarted.after_power_cut(nothing)) == found


def test_a_group_that_failed_does_not_come_back_behind_a_later_one() -> None:
    """Else a vote that was refused would stand before the one that was given."""
    files = CrashingFiles()
    log = opened(files)
    write(log, [(vote(1),)])
    files.fail_at = {files.operations + 2: errno.EIO}
    log.append((vote(2, OTHER),))
    with pytest.raises(ResourceError):
        log.sync()
    assert (log.image.term, log.image.voted_for) == (1, None)
    write(log, [(vote(2, NODE),)])
    for left in (files.after_power_cut(everything, names_durable=False), files.after_power_cut(nothing)):
        found = _found(left)
        assert (found.term, found.voted_for) == (2, NODE)


def test_an_old_file_is_never_written_again_once_a_new_one_may_have_its_name() -> None:
    """The new file says how much of the old one counts, also when its folder could not be synced."""
    files = CrashingFiles()
    log = opened(files)
    write(log, [*HISTORY[:2], (append(4, 5),)])
    cut = (Cut(Index(3), metadata(4)),)
    log.append(cut)
    files.fail_at = {files.operations + 6: errno.EIO}
    with pytest.raises(ResourceError):
        log.sync()
    assert f"rename {segment_name(2)}" in files.log
    write(log, [(append(6, 7),)])
    state = expected([*HISTORY[:2], (append(4, 5),), (append(6, 7),)])
    for left in (files.after_power_cut(everything, names_durable=False), files.after_power_cut(nothing)):
        assert _found(left) == state
        assert opened(left).image.recovered() == state
        assert len(segment_numbers(left.names())) == 3


def test_less_than_what_must_stay_free_is_an_error_before_anything_is_written() -> None:
    files = CrashingFiles()
    log = opened(files)
    write(log, HISTORY[:2])
    files.free = 100 * 1_048_576 - 1
    before = files.operations
    log.append(HISTORY[2])
    with pytest.raises(ResourceError, match="must stay free") as caught:
        log.sync()
    assert caught.value.retry
    assert files.operations == before
    assert log.image.recovered() == expected(HISTORY[:2])
    files.free = SPACE
    write(log, HISTORY[2:])
    assert _found(files.after_power_cut(nothing)) == expected(HISTORY)


def test_a_cut_that_cannot_afford_a_new_file_is_a_record_like_any_other() -> None:
    files = CrashingFiles()
    log = opened(files, free=1_000)
    write(log, [(append(1, 200),)])
    files.free = 2_000
    write(log, [(Cut(Index(2), metadata(150)),)])
    assert segment_numbers(files.names()) == [1]
    assert _found(_copy(files).after_power_cut()) == expected([(append(1, 200), Cut(Index(2), metadata(150)))])
    files.free = SPACE
    write(log, [(Cut(Index(100), metadata(150, epoch=2)),)])
    assert segment_numbers(files.names()) == [1, 2]
    assert Segment(files, 2).header.previous is None
    assert _found(files.after_power_cut(nothing)).entries[0].index == 100


@pytest.mark.parametrize("rotate_bytes", [1, 300, 1_000, 10_000])
def test_term_vote_and_entries_survive_every_rotation_and_every_reopen(rotate_bytes: int) -> None:
    files = CrashingFiles()
    for done in range(len(WITH_CUTS)):
        log = opened(files, rotate_bytes=rotate_bytes)
        assert log.image.recovered() == expected(WITH_CUTS[:done])
        assert log.boot == done + 1
        write(log, WITH_CUTS[done : done + 1])
        files = files.after_power_cut(nothing)
    assert _found(files) == expected(WITH_CUTS)


def test_every_file_begins_with_everything_that_held() -> None:
    files = CrashingFiles()
    log = opened(files, rotate_bytes=1)
    for done, records in enumerate(WITH_CUTS):
        before = expected(WITH_CUTS[:done])
        write(log, [records])
        after = expected(WITH_CUTS[: done + 1])
        with Segment(files, done + 2) as segment:
            header = segment.header
        is_whole = any(isinstance(record, Cut | Reset) for record in records)
        state = after if is_whole else before
        assert (header.node, header.cluster, header.number, header.boot) == (NODE, CLUSTER, done + 2, 1)
        assert (header.term, header.voted_for, header.snapshot) == (state.term, state.voted_for, state.snapshot)
        assert (header.previous is None) is is_whole
        assert header.first_index == log.image.first_index


def test_files_go_only_when_a_durable_cut_has_made_them_needless_and_three_are_kept() -> None:
    files = CrashingFiles()
    log = opened(files, rotate_bytes=1)
    write(log, [(append(index, index),) for index in range(1, 11)])
    assert segment_numbers(files.names()) == list(range(1, 12))
    log.append((Cut(Index(8), metadata(9)),))
    files.fail_at = {files.operations + 6: errno.EIO}
    with pytest.raises(ResourceError):
        log.sync()
    assert set(range(1, 12)) <= set(segment_numbers(files.names()))
    write(log, [(Cut(Index(8), metadata(9)),)])
    assert segment_numbers(files.names()) == [12, 13, 14]
    write(log, [(append(11, 11),)])
    assert segment_numbers(files.names()) == [12, 13, 14, 15]
    assert _found(files.after_power_cut(nothing)) == expected([(append(1, 11), Cut(Index(8), metadata(9)))])


def test_a_cut_is_written_synced_renamed_and_the_folder_synced_before_anything_goes() -> None:
    files = CrashingFiles()
    log = opened(files, keep=1)
    write(log, [(append(1, 10),)])
    before = len(files.log)
    write(log, [(Cut(Index(8), metadata(9)),)])
    new = segment_name(2)
    steps = files.log[before:]
    assert [line for line in steps if not line.startswith("write")] == [
        f"create {new}.tmp",
        f"sync {new}.tmp",
        f"rename {new}",
        "sync_folder",
        f"remove {segment_name(1)}",
    ]


def test_many_opens_do_not_leave_many_files() -> None:
    files = CrashingFiles()
    for boot in range(1, 40):
        log = opened(files)
        assert log.boot == boot
        write(log, [(vote(boot, NODE), append(boot, boot))])
        files = files.restarted()
        assert len(segment_numbers(files.names())) <= 11
    found = _found(files.after_power_cut(nothing))
    assert (found.term, len(found.entries)) == (39, 39)


def test_one_sync_makes_everything_that_waits_durable_by_one_write() -> None:
    files = CrashingFiles()
    log = opened(files)
    for records in HISTORY:
        log.append(records)
    assert log.image.recovered() == Recovered()
    assert _found(_copy(files).after_power_cut(everything, names_durable=False)) == Recovered()
    before = len(files.log)
    log.sync()
    assert [line.split()[0] for line in files.log[before:]] == ["write", "sync"]
    assert log.image.recovered() == expected(HISTORY)
    log.sync()
    assert len(files.log) == before + 2


def test_a_group_is_durable_as_a_whole_or_not_at_all() -> None:
    files = CrashingFiles()
    log = opened(files)
    log.append((vote(1, NODE), append(1, 200)))
    log.append((truncate(100), append(100, 120, 2)))
    files.crash_at, files.crash_bytes = files.operations + 2, 0
    with pytest.raises(PowerCut):
        log.sync()
    states = [Recovered(), expected([(vote(1, NODE), append(1, 99), append(100, 120, 2))])]
    for which in range(1 << 6):
        assert _found(files.after_power_cut(holes(which))) in states
    assert _found(files.after_power_cut(everything)) == states[1]


def test_records_that_cannot_follow_are_refused_and_change_nothing() -> None:
    files = CrashingFiles()
    log = opened(files)
    log.append(HISTORY[0])
    with pytest.raises(UsageError):
        log.append((append(1, 2), append(4, 4)))
    log.append(HISTORY[1])
    log.sync()
    assert log.image.recovered() == expected(HISTORY[:2])


def test_a_group_too_large_for_one_record_is_still_one_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "_RECORD_BYTES_MAX", 500)
    monkeypatch.setattr(log_module, "_ENTRIES_BYTES", 300)
    large = (vote(1, NODE), append(1, 100), append(101, 102))
    reference = CrashingFiles()
    write(opened(reference), [large])
    for moment in range(1, reference.operations + 1):
        files = CrashingFiles()
        files.crash_at = moment
        done = _until_cut(files, (large,), 1 << 30)
        assert _found(files.after_power_cut(everything, names_durable=False)) in _states((large,))[done:]
    files = reference.after_power_cut(nothing)
    assert _found(files) == expected([large])
    assert opened(files).image.recovered() == expected([large])
    with pytest.raises(UsageError, match="larger than 500 bytes"):
        opened(CrashingFiles()).append((Append((entry(1, payload=b"x" * 501),)),))


def test_a_closed_log_says_so() -> None:
    log = opened(CrashingFiles())
    log.append(HISTORY[0])
    log.close()
    log.close()
    with pytest.raises(UsageError, match="the log is closed"):
        log.append(HISTORY[1])
    with pytest.raises(UsageError, match="the log is closed"):
        log.sync()


@pytest.mark.parametrize("limits", [{"rotate_bytes": 0}, {"keep": 0}, {"free_bytes_min": -1}])
def test_limits_that_make_no_sense_are_refused(limits: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        LogLimits(**limits)
    assert LogLimits().rotate_bytes == 1_024 * 1_048_576
    assert LogLimits().keep == 3
    assert LogLimits().free_bytes_min == 100 * 1_048_576


def test_an_open_that_fails_at_any_operation_can_be_done_again() -> None:
    files = CrashingFiles()
    write(opened(files), HISTORY)
    for step in range(1, 7):
        again = _copy(files)
        again.fail_at = {step: errno.EIO}
        with pytest.raises(ResourceError):
            opened(again)
        assert opened(again).image.recovered() == expected(HISTORY)
        assert _found(again.after_power_cut(nothing)) == expected(HISTORY)
        files.is_down = False


class _Writer:
    """Draws records that a node may write."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._epoch = 0

    def group(self, log: Log) -> tuple[DurableRecord, ...]:
        image = log.image.copy()
        records: list[DurableRecord] = []
        for _ in range(self._random.randrange(1, 4)):
            record = self._record(image)
            image.replay(record)
            records.append(record)
        return tuple(records)

    def _record(self, image: LogImage) -> DurableRecord:
        random, last, first = self._random, image.last_index, image.first_index
        snapshot = image.snapshot.last_index if image.snapshot is not None else 0
        kind = random.randrange(10)
        if kind == 0:
            return vote(image.term + random.randrange(1, 3), random.choice([None, NODE, OTHER]))
        if kind == 1 and last > snapshot:
            return truncate(random.randrange(max(first, snapshot + 1), last + 2))
        if kind == 2 and last > snapshot:
            self._epoch += 1
            end = random.randrange(snapshot + 1, last + 1)
            return Cut(Index(random.randrange(first, end + 2)), metadata(end, epoch=self._epoch))
        if kind == 3 and random.random() < 0.3:
            self._epoch += 1
            return Reset(metadata(last + random.randrange(1, 9), epoch=self._epoch))
        return append(last + 1, last + random.randrange(1, 6), max(1, image.term))


@pytest.mark.parametrize("seed", range(60))
def test_random_histories_with_failures_crashes_and_kills(seed: int) -> None:
    random = Random(seed)
    files = CrashingFiles()
    rotate_bytes = random.choice([1, 500, 3_000, 1 << 30])
    log = opened(files, rotate_bytes=rotate_bytes)
    writer = _Writer(random)
    durable: list[tuple[DurableRecord, ...]] = []
    for _ in range(60):
        records = writer.group(log)
        chance = random.random()
        if chance < 0.1:
            files.crash_at, files.crash_bytes = files.operations + random.randrange(1, 7), random.randrange(300)
        elif chance < 0.25:
            files.fail_at = {files.operations + random.randrange(1, 5): random.choice([errno.EIO, errno.ENOSPC])}
            files.fails_after = random.random() < 0.5
        is_killed = random.random() < 0.1
        try:
            log.append(records)
            log.sync()
            durable.append(records)
        except ResourceError:
            assert log.image.recovered() == expected(durable)
            if not is_killed:
                continue
        except PowerCut:
            is_killed = False
        else:
            if not is_killed:
                continue
        survival = random.choice([nothing, everything, holes(random.getrandbits(16)), beginning(random.randrange(400))])
        files = files.restarted() if is_killed else files.after_power_cut(survival, names_durable=random.random() < 0.5)
        log = opened(files, rotate_bytes=rotate_bytes)
        found = log.image.recovered()
        assert found in (expected(durable), expected([*durable, records]))
        if found != expected(durable):
            durable.append(records)
    assert _found(files.after_power_cut(nothing)) == expected(durable)

"""A folder in memory that keeps the promises of ``Files``, and none beyond them."""

import errno
from random import Random

import pytest

from bobbin.simulator.cluster_disk import PAGE, ROOMY, ClusterDisk, PowerCut


def survivors(seed: int, *, synced: bytes, rest: bytes, flip_rate: float = 0.0) -> bytes:
    """What a power cut leaves of a file that was synced in part."""
    disk = ClusterDisk(Random(seed))
    disk.flip_rate = flip_rate
    file = disk.create("log")
    file.write(synced)
    file.sync()
    disk.sync_folder()
    file.write(rest)
    disk.cut_power()
    disk.restore_power()
    return read(disk, "log")


def read(disk: ClusterDisk, name: str) -> bytes:
    reader = disk.open(name)
    return reader.read(0, reader.size())


def test_what_was_synced_survives_and_of_the_rest_any_part() -> None:
    synced, rest = b"s" * 700, b"r" * 2_000
    found = [survivors(seed, synced=synced, rest=rest) for seed in range(200)]
    assert all(one.startswith(synced) for one in found)
    tails = [one[len(synced) :] for one in found]
    assert b"" in tails
    assert rest in tails
    assert any(0 < len(tail) < len(rest) and set(tail) == {ord("r")} for tail in tails), "torn at any byte"
    holes = [tail for tail in tails if 0 in tail]
    assert holes
    for tail in holes:
        first = tail.index(0)
        assert first == 0 or (first + len(synced)) % PAGE == 0, "holes are of whole pages"


def test_a_flipped_bit_is_in_what_was_not_synced() -> None:
    synced, rest = b"s" * 50, b"r" * 400
    found = [survivors(seed, synced=synced, rest=rest, flip_rate=1.0) for seed in range(50)]
    assert all(one.startswith(synced) for one in found)
    assert any(set(one[50:]) - {0, ord("r")} for one in found)


def test_names_survive_after_a_sync_of_the_folder_and_maybe_before() -> None:
    outcomes = set()
    for seed in range(100):
        disk = ClusterDisk(Random(seed))
        file = disk.create("new.tmp")
        file.write(b"whole")
        file.sync()
        disk.create("old").sync()
        disk.sync_folder()
        disk.rename("new.tmp", "current")
        disk.remove("old")
        disk.cut_power()
        disk.restore_power()
        outcomes.add(tuple(disk.names()))
        name = "current" if "current" in disk.names() else "new.tmp"
        assert read(disk, name) == b"whole"
    assert outcomes == {("new.tmp", "old"), ("current", "old"), ("current",), ("new.tmp",)}


def test_a_file_without_a_durable_name_may_be_gone() -> None:
    found = set()
    for seed in range(30):
        disk = ClusterDisk(Random(seed))
        disk.create("log").sync()
        disk.cut_power()
        disk.restore_power()
        found.add(tuple(disk.names()))
    assert found == {(), ("log",)}


def test_after_a_sync_that_failed_later_ones_do_nothing() -> None:
    disk = ClusterDisk(Random(1))
    file = disk.create("log")
    disk.sync_folder()
    file.write(b"lost")
    disk.error_rate = 1.0
    with pytest.raises(OSError, match="simulated") as raised:
        file.sync()
    assert raised.value.errno == errno.EIO
    disk.error_rate = 0.0
    file.sync()
    lengths = set()
    for seed in range(20):
        other = ClusterDisk(Random(seed))
        copy = other.create("log")
        other.sync_folder()
        copy.write(b"lost")
        other.error_rate = 1.0
        with pytest.raises(OSError, match="simulated"):
            copy.sync()
        other.error_rate = 0.0
        copy.sync()
        other.cut_power()
        other.restore_power()
        lengths.add(len(read(other, "log")))
    assert 0 in lengths
    assert disk.errors == 1


def test_a_full_disk_takes_no_bytes_and_says_so() -> None:
    disk = ClusterDisk(Random(1))
    file = disk.create("log")
    assert disk.free_bytes() == ROOMY
    disk.is_full = True
    assert disk.free_bytes() < 1 << 20
    for write in (lambda: file.write(b"x"), lambda: disk.create("other")):
        with pytest.raises(OSError, match="no space") as raised:
            write()
        assert raised.value.errno == errno.ENOSPC
    disk.remove("log")


def test_the_power_goes_at_every_operation_in_turn_and_nothing_answers_then() -> None:
    def work(disk: ClusterDisk) -> None:
        file = disk.create("a.tmp")
        file.write(b"x")
        file.sync()
        disk.rename("a.tmp", "a")
        disk.sync_folder()

    untouched = ClusterDisk(Random(1))
    work(untouched)
    assert untouched.operations == 5
    for moment in range(1, 6):
        disk = ClusterDisk(Random(1))
        disk.cut_in = moment
        with pytest.raises(PowerCut):
            work(disk)
        assert disk.operations == moment
        for call in (disk.names, disk.sync_folder, disk.free_bytes):
            with pytest.raises(PowerCut):
                call()
        disk.restore_power()
        disk.names()


def test_handles_of_an_earlier_life_reach_nothing() -> None:
    disk = ClusterDisk(Random(4))
    file = disk.create("log")
    file.write(b"kept")
    file.sync()
    disk.sync_folder()
    disk.cut_power()
    disk.restore_power()
    file.write(b" and more")
    file.sync()
    assert read(disk, "log") == b"kept"


def test_rot_flips_one_bit_and_back() -> None:
    disk = ClusterDisk(Random(4))
    assert disk.rot() is None
    file = disk.create("log")
    file.write(b"kept")
    flip_back = disk.rot()
    assert flip_back is not None
    changed = [one ^ other for one, other in zip(read(disk, "log"), b"kept", strict=True)]
    assert sum(one.bit_count() for one in changed) == 1
    flip_back()
    assert read(disk, "log") == b"kept"


def test_missing_and_existing_names_are_what_the_system_calls_them() -> None:
    disk = ClusterDisk(Random(4))
    for call in (lambda: disk.open("a"), lambda: disk.remove("a"), lambda: disk.rename("a", "b")):
        with pytest.raises(FileNotFoundError):
            call()
    disk.create("a")
    with pytest.raises(FileExistsError):
        disk.create("a")

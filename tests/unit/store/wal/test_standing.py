import errno

import pytest

from bobbin.errors import IntegrityError, ResourceError, UsageError
from bobbin.store.wal.standing import NAME, read_incarnation, save_incarnation
from tests.support.crashing_files import CrashingFiles, PowerCut, everything, nothing
from tests.support.log_records import CLUSTER, NODE, OTHER
from tests.support.logs import flipped


def _saved(incarnation: int) -> CrashingFiles:
    files = CrashingFiles()
    save_incarnation(files, incarnation, node=NODE, cluster=CLUSTER)
    return files


def _read(files: CrashingFiles) -> int:
    return read_incarnation(files, node=NODE, cluster=CLUSTER)


def test_what_was_saved_is_read_after_a_power_cut() -> None:
    assert _read(CrashingFiles()) == 0
    files = _saved(2**63)
    assert files.names() == [NAME]
    assert _read(files.after_power_cut(nothing)) == 2**63


@pytest.mark.parametrize("step", range(1, 6))
def test_a_power_cut_leaves_the_old_or_the_new(step: int) -> None:
    files = _saved(4)
    files.crash_at = files.operations + step
    with pytest.raises(PowerCut):
        save_incarnation(files, 5, node=NODE, cluster=CLUSTER)
    assert _read(files.after_power_cut(nothing)) == 4
    assert _read(files.after_power_cut(everything, names_durable=False)) in {4, 5}


@pytest.mark.parametrize("step", range(1, 5))
def test_a_failure_leaves_the_old(step: int) -> None:
    files = _saved(4)
    files.fail_at = {files.operations + step: errno.EIO}
    with pytest.raises(ResourceError, match="saving the incarnation failed"):
        save_incarnation(files, 5, node=NODE, cluster=CLUSTER)
    assert _read(files) == 4
    save_incarnation(files, 5, node=NODE, cluster=CLUSTER)
    assert _read(files.after_power_cut(nothing)) == 5


def test_every_flipped_byte_and_every_missing_one_is_found() -> None:
    files = _saved(4)
    size = len(files.inodes[NAME].content)
    for offset in range(size):
        with pytest.raises(IntegrityError):
            _read(flipped(files, NAME, offset, 0x20))
        short = files.after_power_cut()
        del short.inodes[NAME].content[offset:]
        with pytest.raises(IntegrityError, match="standing is damaged at offset 0"):
            _read(short)
    longer = files.after_power_cut()
    longer.inodes[NAME].content.append(0)
    with pytest.raises(IntegrityError):
        _read(longer)


def test_that_of_another_node_or_cluster_is_refused() -> None:
    files = _saved(4)
    with pytest.raises(UsageError, match=f"is of node {NODE} of cluster {CLUSTER.hex()}, not of {OTHER}"):
        read_incarnation(files, node=OTHER, cluster=CLUSTER)
    with pytest.raises(UsageError):
        read_incarnation(files, node=NODE, cluster=b"another")

import errno
from hashlib import sha256

import pytest

from bobbin.errors import ResourceError
from bobbin.store.wal.spool import Spool
from tests.support.crashing_files import SPACE, CrashingFiles, nothing

CHUNKS = [b"one", b"two", b"three", b"four"]
WHOLE = b"".join(CHUNKS)


def _spool(files: CrashingFiles, memory_max: int = 6, free_bytes_min: int = 100) -> Spool:
    return Spool(files, "name", memory_max=memory_max, free_bytes_min=free_bytes_min)


def _content(files: CrashingFiles, name: str) -> bytes:
    return bytes(files.inodes[name].content)


def test_few_bytes_stay_in_memory_and_more_go_to_a_file() -> None:
    files = CrashingFiles()
    spool = _spool(files)
    spool.write(b"one")
    spool.write(b"two")
    assert (files.names(), spool.size) == ([], 6)
    spool.write(b"!")
    assert (files.names(), spool.size) == (["name.tmp"], 7)
    assert _content(files, "name.tmp") == b"onetwo!"
    assert spool._held == []
    spool.write(b"?")
    assert _content(files, "name.tmp") == b"onetwo!?"
    spool.drop()
    assert files.names() == []


@pytest.mark.parametrize("memory_max", [0, 6, 100])
def test_what_is_kept_is_durable_and_whole(memory_max: int) -> None:
    files = CrashingFiles()
    spool = _spool(files, memory_max)
    for chunk in CHUNKS:
        spool.write(chunk)
    assert (spool.size, spool.digest()) == (len(WHOLE), sha256(WHOLE).digest())
    spool.keep("kept", b"footer")
    spool.drop()
    assert files.names() == ["kept"]
    assert _content(files.after_power_cut(nothing), "kept") == WHOLE + b"footer"


def _error_of_keeping(spool: Spool) -> ResourceError | None:
    try:
        for chunk in CHUNKS:
            spool.write(chunk)
        spool.keep("kept", b"footer")
    except ResourceError as error:
        return error
    return None


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("memory_max", [0, 6, 100])
def test_nothing_temporary_stays_after_a_failure_at_any_operation(memory_max: int, code: int) -> None:
    moment = 0
    while True:
        moment += 1
        files = CrashingFiles()
        files.fail_at = {moment: code}
        spool = _spool(files, memory_max)
        error = _error_of_keeping(spool)
        if error is None:
            break
        assert error.retry
        assert spool.size == 0
        assert files.names() == (["kept"] if files.log[moment - 1] == "sync_folder" else [])
    assert moment > 5


@pytest.mark.parametrize("memory_max", [0, 6, 100])
def test_what_must_stay_free_is_not_written_on(memory_max: int) -> None:
    files = CrashingFiles()
    files.free = 100
    spool = _spool(files, memory_max)
    assert "must stay free" in str(_error_of_keeping(spool))
    assert files.names() == []


def test_a_file_that_fills_the_disk_is_dropped() -> None:
    files = CrashingFiles()
    spool = _spool(files, 0)
    spool.write(b"one")
    files.free = 100
    with pytest.raises(ResourceError, match="must stay free"):
        spool.write(b"two")
    assert files.names() == []
    files.free = SPACE
    spool.drop()

import errno

import pytest

from bobbin.store.wal.replacing import created_anew, remove_quietly, written_whole
from tests.support.crashing_files import CrashingFiles, PowerCut, Survival, everything, nothing


def _content(files: CrashingFiles, name: str) -> bytes | None:
    return bytes(files.inodes[name].content) if name in files.inodes else None


def _with_old() -> CrashingFiles:
    files = CrashingFiles()
    written_whole(files, "file", [b"old"]).close()
    return files


def test_the_steps_come_in_this_order() -> None:
    files = CrashingFiles()
    written_whole(files, "file", [b"new ", b"content"]).close()
    assert files.log == [
        "create file.tmp",
        "write file.tmp",
        "write file.tmp",
        "sync file.tmp",
        "rename file",
        "sync_folder",
    ]
    assert _content(files.after_power_cut(), "file") == b"new content"


@pytest.mark.parametrize("names_durable", [True, False])
@pytest.mark.parametrize("survival", [nothing, everything])
@pytest.mark.parametrize("step", range(1, 7))
def test_a_power_cut_between_two_steps_leaves_the_old_or_the_new(
    step: int, survival: Survival, *, names_durable: bool
) -> None:
    files = _with_old()
    files.crash_at = files.operations + step
    with pytest.raises(PowerCut):
        written_whole(files, "file", [b"new ", b"content"])
    found = _content(files.after_power_cut(survival, names_durable=names_durable), "file")
    assert found in {b"old", b"new content"}
    if step <= 5:
        assert found == b"old"


@pytest.mark.parametrize("step", range(1, 6))
def test_a_failed_step_leaves_the_old_content_and_nothing_temporary(step: int) -> None:
    files = _with_old()
    files.fail_at = {files.operations + step: errno.EIO}
    with pytest.raises(OSError, match="Input/output error"):
        written_whole(files, "file", [b"new ", b"content"])
    assert files.names() == ["file"]
    assert _content(files, "file") == b"old"


def test_a_failed_sync_of_the_folder_leaves_the_new_content() -> None:
    files = _with_old()
    files.fail_at = {files.operations + 6: errno.EIO}
    with pytest.raises(OSError, match="Input/output error"):
        written_whole(files, "file", [b"new ", b"content"])
    assert files.names() == ["file"]
    assert _content(files, "file") == b"new content"


def test_what_an_earlier_attempt_left_is_no_obstacle() -> None:
    files = CrashingFiles()
    files.create("file.tmp").write(b"half")
    written_whole(files, "file", [b"whole"]).close()
    assert _content(files, "file") == b"whole"
    created_anew(files, "file").close()
    assert _content(files, "file") == b""


def test_removing_quietly_never_fails() -> None:
    files = _with_old()
    remove_quietly(files, "nothing")
    files.fail_at = {files.operations + 1: errno.EIO}
    remove_quietly(files, "file")
    assert files.names() == ["file"]
    remove_quietly(files, "file")
    assert files.names() == []

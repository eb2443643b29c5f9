"""Effects that happen at most once: over restarts, failures, full disks, killed processes and damaged files."""

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

from bobbin.errors import IntegrityError, ResourceError, UsageError
from bobbin.reactive.authority import Outcome
from bobbin.runtime.single_effects import Fate, SingleEffects


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "effects"


def test_the_same_effect_happens_once_over_restarts(path: Path) -> None:
    happened: list[str] = []
    fates = []
    for number in range(3):
        with SingleEffects.open(path) as effects:
            assert effects.fence == number + 1
            fates += [effects.once(id, lambda id=id: happened.append(id)) for id in ("a", "b")]  # type: ignore[misc]
            assert effects.in_doubt == ()
    assert happened == ["a", "b"]
    assert fates == [Fate.DONE, Fate.DONE, Fate.OVER, Fate.OVER, Fate.OVER, Fate.OVER]


def test_it_is_on_the_disk_before_it_happens(path: Path) -> None:
    with SingleEffects.open(path) as effects:
        seen = []
        effects.once("a", lambda: seen.append(path.read_bytes()))
        assert b'"begun","id":"a"' in seen[0]
        assert b"ended" not in seen[0]
        assert b'"ended","id":"a","outcome":"applied"' in path.read_bytes()


def test_what_failed_half_way_is_in_doubt_until_somebody_says_what_became_of_it(path: Path) -> None:
    def fail() -> None:
        raise OSError("the line went dead")

    with SingleEffects.open(path) as effects:
        with pytest.raises(OSError, match="line went dead"):
            effects.once("a", fail)
        assert effects.once("a", fail) is Fate.IN_DOUBT
    with SingleEffects.open(path) as effects:
        assert list(effects.in_doubt) == ["a"]
        assert effects.once("a", fail) is Fate.IN_DOUBT
        with pytest.raises(UsageError, match="not in doubt"):
            effects.settle("b", Outcome.APPLIED)
        with pytest.raises(UsageError, match="no final outcome"):
            effects.settle("a", Outcome.ACCEPTED)
        effects.settle("a", Outcome.REJECTED)
        assert list(effects.in_doubt) == []
        assert effects.once("a", fail) is Fate.OVER
    with SingleEffects.open(path) as effects:
        assert effects.once("a", fail) is Fate.OVER


def test_an_effect_that_was_refused_is_over(path: Path) -> None:
    with SingleEffects.open(path) as effects:
        assert effects.once("a", lambda: Outcome.REJECTED) is Fate.DONE
        assert effects.once("a", lambda: None) is Fate.OVER
    assert b'"rejected"' in path.read_bytes()


KILLED = """
import os, sys
from pathlib import Path
from bobbin.runtime.single_effects import SingleEffects
path, witness, when = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
def run():
    if when == "before": os._exit(9)
    with witness.open("a") as stream: stream.write("x")
    if when == "after": os._exit(9)
SingleEffects.open(path).once("a", run)
"""


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_process_that_is_gone_in_the_middle_leaves_a_doubt_and_no_second_time(path: Path, when: str) -> None:
    witness = path.with_name("witness")
    for code in (9, 0):
        done = subprocess.run([sys.executable, "-c", KILLED, str(path), str(witness), when], check=False)
        assert done.returncode == code
    assert witness.exists() is (when == "after")
    assert not witness.exists() or witness.read_text("utf-8") == "x"
    with SingleEffects.open(path) as effects:
        assert effects.in_doubt == ("a",)


def test_only_one_may_have_the_records_open(path: Path) -> None:
    with SingleEffects.open(path):
        with pytest.raises(ResourceError, match="open elsewhere") as caught:
            SingleEffects.open(path)
        assert caught.value.retry
    SingleEffects.open(path).close()


@pytest.mark.parametrize("rest", [b"{", b'{"type":"begun","id":"b"', b"\xff\xff"])
def test_a_line_that_was_not_finished_never_was(path: Path, rest: bytes) -> None:
    with SingleEffects.open(path) as effects:
        effects.once("a", lambda: None)
    with path.open("ab") as stream:
        stream.write(rest)
    with SingleEffects.open(path) as effects:
        assert effects.in_doubt == ()
        assert effects.once("a", lambda: None) is Fate.OVER
        assert effects.once("b", lambda: None) is Fate.DONE
    assert rest not in path.read_bytes().splitlines()


@pytest.mark.parametrize("line", [b"noise\n", b'{"type":"begun"}\n', b'{"type":"other"}\n', b"\xff\n", b"\n"])
def test_a_damaged_file_is_not_used(path: Path, line: bytes) -> None:
    SingleEffects.open(path).close()
    damaged = line + path.read_bytes()
    path.write_bytes(damaged)
    with pytest.raises(IntegrityError, match="line 1"):
        SingleEffects.open(path)
    assert path.read_bytes() == damaged


def test_what_cannot_be_written_down_does_not_happen(path: Path) -> None:
    happened: list[str] = []
    with SingleEffects.open(path) as effects:
        with (
            patch.object(os, "fsync", side_effect=OSError(errno.EIO, "I/O error")),
            pytest.raises(ResourceError, match="cannot be written"),
        ):
            effects.once("a", lambda: happened.append("a"))
        with pytest.raises(UsageError, match="closed"):
            effects.once("b", lambda: happened.append("b"))
    assert happened == []


def test_a_disk_that_is_full_takes_no_half_line(path: Path) -> None:
    happened: list[str] = []
    with SingleEffects.open(path) as effects:
        write = os.write
        with (
            patch.object(os, "write", lambda descriptor, raw: write(descriptor, raw[:3])),
            pytest.raises(ResourceError, match="No space left"),
        ):
            effects.once("a", lambda: happened.append("a"))
    assert path.read_bytes().endswith(b"\n")
    with SingleEffects.open(path) as effects:
        assert effects.once("a", lambda: happened.append("a")) is Fate.DONE, "it was never begun"
    assert happened == ["a"]


def test_a_read_that_gives_less_than_there_is_loses_nothing(path: Path) -> None:
    """The system may give less than was asked for; that is no torn line."""
    with SingleEffects.open(path) as effects:
        for number in range(3):
            effects.once(f"mail {number}", lambda: None)
    before = path.read_bytes()
    read = os.pread
    with (
        patch.object(os, "pread", lambda descriptor, size, place: read(descriptor, min(size, 50), place)),
        SingleEffects.open(path) as effects,
    ):
        assert [effects.once(f"mail {number}", lambda: None) for number in range(3)] == [Fate.OVER] * 3
    assert path.read_bytes().startswith(before)


def test_a_file_that_cannot_be_read_whole_is_left_as_it_is(path: Path) -> None:
    SingleEffects.open(path).close()
    before = path.read_bytes()
    with patch.object(os, "pread", return_value=b""), pytest.raises(ResourceError, match="shorter"):
        SingleEffects.open(path)
    assert path.read_bytes() == before


def test_the_folder_is_made_durable_at_each_opening(path: Path) -> None:
    """Whoever made the file may have stopped before it had done that."""
    path.touch()
    synced: list[bool] = []
    sync = os.fsync

    def note(descriptor: int) -> None:
        synced.append(stat.S_ISDIR(os.fstat(descriptor).st_mode))
        sync(descriptor)

    with patch.object(os, "fsync", note):
        SingleEffects.open(path).close()
    assert True in synced


def test_what_makes_no_sense_is_refused(path: Path) -> None:
    with SingleEffects.open(path) as effects:
        for id in ("", "x" * 1025):
            with pytest.raises(UsageError, match="1 to 1024"):
                effects.once(id, lambda: None)
        with pytest.raises(UsageError, match="another one"):
            effects.once("a", lambda: effects.once("b", lambda: None))
        assert effects.in_doubt == ("a",)
    with pytest.raises(UsageError, match="closed"):
        effects.settle("a", Outcome.APPLIED)


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(ResourceError, match="cannot be used") as caught:
        SingleEffects.open(tmp_path / "nowhere" / "effects")
    assert not caught.value.retry

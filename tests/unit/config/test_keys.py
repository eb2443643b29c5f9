"""Key files: private, durable, never overwritten, never leaked."""

import os
import stat
import traceback
from pathlib import Path

import pytest

from bobbin.config import keys
from bobbin.config.keys import KeyFileError, NoSuchKey
from bobbin.errors import UsageError
from bobbin.records.ids import IdentifierError

# The first key of the protocol page.
SECRET = "&.00420lG51WS82GdB30pE3m0H4XCK5HON61_Q6mlT7Xx.H3"
VERIFIER = "V.OEL2sxn4GhPnCm_bU7hnAPU0Q0gVS8KxFlNg3zfHT2O.H3"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "keys"


def test_a_new_key_is_kept_and_found_again(folder: Path) -> None:
    key = keys.create_key(folder, "main")
    assert keys.load_key(folder, "main").verifier == key.verifier
    assert keys.create_key(folder, "other").verifier != key.verifier
    assert keys.key_names(folder) == ["main", "other"]


def test_file_and_folder_are_private(folder: Path) -> None:
    before = os.umask(0)
    try:
        keys.create_key(folder, "main")
    finally:
        os.umask(before)
    assert stat.S_IMODE((folder / "main.key").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_the_file_is_one_line_with_the_secret(folder: Path) -> None:
    key = keys.create_key(folder, "main", secret=SECRET)
    assert key.verifier == VERIFIER
    assert (folder / "main.key").read_text() == SECRET + "\n"
    assert keys.read_secret(folder, "main") == SECRET


def test_a_key_is_never_overwritten(folder: Path) -> None:
    keys.create_key(folder, "main", secret=SECRET)
    with pytest.raises(UsageError, match="already"):
        keys.create_key(folder, "main")
    assert keys.load_key(folder, "main").verifier == VERIFIER


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o601])
def test_a_key_that_others_can_touch_is_refused_with_the_command_that_mends_it(folder: Path, mode: int) -> None:
    keys.create_key(folder, "main", secret=SECRET)
    path = folder / "main.key"
    path.chmod(mode)
    with pytest.raises(KeyFileError, match=f"chmod 600 {path}"):
        keys.load_key(folder, "main")
    path.chmod(0o600)
    assert keys.load_key(folder, "main").verifier == VERIFIER


def test_a_folder_in_which_others_can_swap_keys_is_refused(folder: Path) -> None:
    keys.create_key(folder, "main")
    folder.chmod(0o770)
    with pytest.raises(KeyFileError, match="chmod 700"):
        keys.load_key(folder, "main")
    with pytest.raises(KeyFileError, match="chmod 700"):
        keys.create_key(folder, "second")


def test_a_key_of_another_user_is_refused_unless_one_is_root(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys.create_key(folder, "main")
    owner = (folder / "main.key").stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1000)
    with pytest.raises(KeyFileError, match="another user"):
        keys.load_key(folder, "main")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    keys.load_key(folder, "main")


def test_a_missing_key_says_how_to_make_one(folder: Path) -> None:
    with pytest.raises(NoSuchKey, match="key new"):
        keys.load_key(folder, "main")
    folder.mkdir()
    with pytest.raises(NoSuchKey, match="key new"):
        keys.load_key(folder, "main")


@pytest.mark.parametrize("content", [b"", b"hello", SECRET.encode() * 10, SECRET[:-1].encode(), b"\xff" * 30])
def test_a_damaged_key_file_is_an_error_that_does_not_repeat_its_content(folder: Path, content: bytes) -> None:
    keys.create_key(folder, "main")
    (folder / "main.key").write_bytes(content)
    with pytest.raises(KeyFileError) as failure:
        keys.load_key(folder, "main")
    shown = "".join(traceback.format_exception(failure.value))
    assert SECRET[2:20] not in shown


def test_a_pipe_in_place_of_a_key_is_refused_and_not_waited_for(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    os.mkfifo(folder / "main.key", 0o600)
    with pytest.raises(KeyFileError, match="regular"):
        keys.load_key(folder, "main")


@pytest.mark.parametrize("secret", ["", "hello", VERIFIER, SECRET + "x"])
def test_a_secret_that_is_none_is_refused_and_nothing_is_written(folder: Path, secret: str) -> None:
    with pytest.raises(IdentifierError):
        keys.create_key(folder, "main", secret=secret)
    assert keys.key_names(folder) == []


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "A", "-x", "x" * 65, "x.key", "ä", "a\n"])
def test_what_is_no_key_name_is_refused(folder: Path, name: str) -> None:
    with pytest.raises(UsageError, match="key name"):
        keys.create_key(folder, name)
    assert not folder.exists()


def test_other_files_in_the_folder_are_no_keys(folder: Path) -> None:
    keys.create_key(folder, "main")
    for name in ("README", "UPPER.key", ".key", "x.key.bak"):
        (folder / name).touch()
    assert keys.key_names(folder) == ["main"]

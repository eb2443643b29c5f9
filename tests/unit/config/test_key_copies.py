"""All keys of a lace at once."""

from pathlib import Path

import pytest

from bobbin.config.account_keys import AccountKeys
from bobbin.config.key_copies import read_keys
from bobbin.config.keys import KeyFileError, create_key, load_key
from bobbin.errors import UsageError


def test_both_kinds_of_keys_are_copied(tmp_path: Path) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    own = create_key(source, "main")
    account = AccountKeys(source).create("alice")
    target.mkdir(mode=0o700)
    files = [copy.write(target) for copy in read_keys(source)]
    assert files == [target / "main.key", target / "alice.ed25519"]
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in files)
    assert load_key(target, "main").verifier == own.verifier
    assert AccountKeys(target).load("alice").private == account.private
    assert AccountKeys(target).names() == ["alice"]
    assert AccountKeys(target).file("alice") == target / "alice.ed25519"


def test_nothing_is_replaced_and_nothing_doubtful_is_read(tmp_path: Path) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    AccountKeys(source).create("alice")
    AccountKeys(target).create("alice")
    (copy,) = read_keys(source)
    with pytest.raises(UsageError, match="never overwritten"):
        copy.write(target)
    AccountKeys(source).file("alice").chmod(0o644)
    with pytest.raises(KeyFileError):
        read_keys(source)


def test_a_folder_without_keys(tmp_path: Path) -> None:
    assert read_keys(tmp_path / "nothing") == []

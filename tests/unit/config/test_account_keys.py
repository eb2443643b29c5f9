"""Key files of accounts: made once, read only where nobody else can."""

from pathlib import Path

import pytest

from bobbin.config.account_keys import (
    AccountKeys,
    account_key_file,
    account_key_names,
    create_account_key,
    load_account_key,
)
from bobbin.config.keys import KeyFileError, NoSuchKey, key_names
from bobbin.errors import UsageError
from bobbin.tangles.keys import Keypair


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "keys"


def test_a_key_comes_back_and_only_its_owner_can_read_it(folder: Path) -> None:
    made = create_account_key(folder, "alice")
    assert load_account_key(folder, "alice").private == made.private
    assert account_key_file(folder, "alice").stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    assert account_key_names(folder) == ["alice"]
    assert key_names(folder) == [], "it is no key that signs records"


def test_two_keys_differ(folder: Path) -> None:
    assert create_account_key(folder, "a").public != create_account_key(folder, "b").public


def test_a_private_key_that_exists_can_be_kept(folder: Path) -> None:
    alice = Keypair.from_words("alice")
    assert create_account_key(folder, "alice", private=alice.private).public == alice.public
    assert load_account_key(folder, "alice").public == alice.public


def test_no_key_is_replaced(folder: Path) -> None:
    made = create_account_key(folder, "alice")
    with pytest.raises(UsageError, match="already an account key 'alice'"):
        create_account_key(folder, "alice")
    assert load_account_key(folder, "alice").private == made.private


def test_a_key_that_is_not_there(folder: Path) -> None:
    with pytest.raises(NoSuchKey, match="bobbin tangle key new"):
        load_account_key(folder, "alice")
    assert account_key_names(folder) == []


def test_what_others_can_read_or_replace_is_not_used(folder: Path) -> None:
    create_account_key(folder, "alice")
    path = account_key_file(folder, "alice")
    path.chmod(0o640)
    with pytest.raises(KeyFileError, match="chmod 600"):
        load_account_key(folder, "alice")
    path.chmod(0o600)
    folder.chmod(0o770)
    with pytest.raises(KeyFileError, match="chmod 700"):
        load_account_key(folder, "alice")


@pytest.mark.parametrize("content", [b"", b"hello\n", b"\xff\xfe", Keypair.from_words("x").private.encode()[:-1]])
def test_a_damaged_file_is_refused_without_repeating_it(folder: Path, content: bytes) -> None:
    create_account_key(folder, "alice")
    account_key_file(folder, "alice").write_bytes(content)
    with pytest.raises(KeyFileError, match="restore it from a backup") as caught:
        load_account_key(folder, "alice")
    assert not content or content.decode("ascii", "replace").strip() not in str(caught.value)


@pytest.mark.parametrize("name", ["", "../x", "A", "a b"])
def test_a_name_is_a_plain_file_name(folder: Path, name: str) -> None:
    with pytest.raises(UsageError, match="not a key name"):
        create_account_key(folder, name)


def test_the_public_halves_of_all(folder: Path) -> None:
    keys = AccountKeys(folder)
    assert keys.publics() == frozenset()
    made = {create_account_key(folder, name).public for name in ("alice", "bob")}
    assert keys.publics() == made
    keys.file("bob").write_bytes(b"damaged\n")
    with pytest.raises(KeyFileError, match="restore it from a backup"):
        keys.publics()

"""``bobbin backup``."""

import errno
from pathlib import Path

import pytest

from bobbin import lace
from bobbin.config.settings import Settings
from tests.unit.cli.command_line import PLEX_1, SECRET, VERIFIER, Cli
from tests.unit.cli.tangle_laces import Woven


def test_a_backup_is_a_lace_without_secrets(filled: Path, cli: Cli, tmp_path: Path) -> None:
    target = tmp_path / "copy.lace"
    answer = cli("backup", filled, target, "--json")
    assert answer.json == {
        "lace": str(filled),
        "backup": str(target),
        "records": 1,
        "keys": [],
        "account_keys": [],
        "left_behind": {"keys": ["main"], "account_keys": []},
    }
    assert cli("get", target, PLEX_1).out == b"hello"
    assert cli("fsck", target).code == 0
    assert cli("key", "list", target).out == b""
    assert all(SECRET.encode() not in path.read_bytes() for path in target.rglob("*") if path.is_file())


def test_secrets_are_copied_when_asked_for(filled: Path, cli: Cli, tmp_path: Path) -> None:
    target = tmp_path / "copy.lace"
    assert cli("backup", filled, target, "--with-keys", "--json").json["keys"] == ["main"]
    assert cli("key", "show", target).text == VERIFIER + "\n"
    assert (target / "keys" / "main.key").stat().st_mode & 0o777 == 0o600


def test_a_backup_never_overwrites(filled: Path, cli: Cli, tmp_path: Path) -> None:
    target = tmp_path / "copy.lace"
    cli("backup", filled, target)
    again = cli("backup", filled, target)
    assert again.code == 2
    assert "not empty" in again.err
    assert cli("backup", filled, filled).code == 2


def test_a_backup_that_fails_can_be_repeated(
    filled: Path, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "copy.lace"

    def full(_path: Path, _settings: Settings) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    for is_there in (False, True):
        if is_there:
            target.mkdir()
        with monkeypatch.context() as patched:
            patched.setattr(lace, "write_settings", full)
            assert cli("backup", filled, target, "--with-keys").code == 4
        assert target.exists() == is_there
        assert not is_there or list(target.iterdir()) == []
    # What a kill leaves behind.
    (target / "keys").mkdir()
    (target / ".records.db.0123456789ab.tmp").write_bytes(b"half")
    assert cli("backup", filled, target).code == 0
    assert list(target.glob(".*")) == []
    assert cli("fsck", target).code == 0


def test_a_failed_backup_takes_nothing_of_others_away(filled: Path, cli: Cli, tmp_path: Path) -> None:
    target = tmp_path / "copy.lace"
    (target / "keys").mkdir(parents=True)
    (target / "keys" / "mine.key").write_text("precious")
    assert cli("backup", filled, target).code == 2
    assert (target / "keys" / "mine.key").read_text() == "precious"


def test_a_backup_does_not_go_into_the_lace(filled: Path, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "door").symlink_to(filled)
    for target in (filled / "copy", filled / "keys" / "copy", tmp_path / "door" / "copy"):
        answer = cli("backup", filled, target)
        assert answer.code == 2
        assert "inside the lace" in answer.err
        assert not target.exists()


def test_keys_of_accounts_are_treated_like_the_others(woven: Woven, cli: Cli, tmp_path: Path) -> None:
    private = (woven.folder / "keys" / "account.ed25519").read_bytes()
    bare = tmp_path / "bare.lace"
    answer = cli("backup", woven.folder, bare)
    assert "keys were not copied (account of tangles)" in answer.err
    assert "nobody can restore an account without its key" in answer.err
    assert "--with-keys" in answer.err
    assert list((bare / "keys").iterdir()) == []
    cli("key", "new", woven.folder)
    whole = tmp_path / "whole.lace"
    answer = cli("backup", woven.folder, whole, "--with-keys", "--json")
    assert (answer.json["keys"], answer.json["account_keys"]) == (["main"], ["account"])
    assert answer.json["left_behind"] == {"keys": [], "account_keys": []}
    assert (whole / "keys" / "account.ed25519").read_bytes() == private
    assert cli("tangle", "append", whole, woven.feed, "-d", '{"text":"from the copy"}').code == 0
    none = tmp_path / "none.lace"
    assert "keys were not copied (main, account of tangles)" in cli("backup", woven.folder, none).err

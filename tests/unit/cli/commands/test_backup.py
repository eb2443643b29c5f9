"""``bobbin backup``."""

from pathlib import Path

from tests.unit.cli.command_line import PLEX_1, SECRET, VERIFIER, Cli


def test_a_backup_is_a_lace_without_secrets(filled: Path, cli: Cli, tmp_path: Path) -> None:
    target = tmp_path / "copy.lace"
    answer = cli("backup", filled, target, "--json")
    assert answer.json == {"lace": str(filled), "backup": str(target), "records": 1, "keys": []}
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

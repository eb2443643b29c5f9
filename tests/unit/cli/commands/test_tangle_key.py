"""``bobbin tangle key``."""

from pathlib import Path

import pytest

from bobbin.tangles.keys import Keypair
from tests.unit.cli.command_line import Cli

ALICE = Keypair.from_words("alice")


def test_a_new_key_shows_its_public_half_only(folder: Path, cli: Cli) -> None:
    answer = cli("tangle", "key", "new", folder)
    private = (folder / "keys" / "account.ed25519").read_text().strip()
    assert answer.code == 0
    assert answer.text.strip() == Keypair.from_private(private).public
    assert private not in answer.text + answer.err
    assert cli("tangle", "key", "new", folder).code == 2


def test_an_existing_key_can_be_kept(folder: Path, cli: Cli) -> None:
    answer = cli("tangle", "key", "new", folder, "alice", "--from", "-", "--json", stdin=ALICE.private.encode())
    assert answer.json == {"name": "alice", "public": ALICE.public, "file": str(folder / "keys" / "alice.ed25519")}
    assert cli("tangle", "key", "list", folder, "--json").rows == [{"name": "alice", "public": ALICE.public}]


@pytest.mark.parametrize("content", [b"", b"hello", b"\xff", ALICE.public.encode()])
def test_what_is_no_key_is_refused(folder: Path, cli: Cli, content: bytes) -> None:
    answer = cli("tangle", "key", "new", folder, "--from", "-", stdin=content)
    assert answer.code == 2
    assert cli("tangle", "key", "list", folder).text == ""


def test_a_key_that_others_can_read_is_told(folder: Path, cli: Cli) -> None:
    cli("tangle", "key", "new", folder)
    (folder / "keys" / "account.ed25519").chmod(0o644)
    answer = cli("tangle", "key", "list", folder)
    assert answer.code == 3
    assert "chmod 600" in answer.text
    assert cli("fsck", folder).code == 3


def test_they_are_in_a_backup_with_keys(folder: Path, cli: Cli, tmp_path: Path) -> None:
    public = cli("tangle", "key", "new", folder).text
    assert cli("backup", folder, tmp_path / "bare.lace").code == 0
    assert cli("tangle", "key", "list", tmp_path / "bare.lace").text == ""
    assert cli("backup", folder, tmp_path / "whole.lace", "--with-keys").code == 0
    assert public.strip() in cli("tangle", "key", "list", tmp_path / "whole.lace").text

"""``bobbin key``: secrets stay in their files unless someone asks for one."""

from pathlib import Path

import pytest

from tests.unit.cli.command_line import SECRET, VERIFIER, Cli


def test_a_new_key_shows_its_verifier_and_never_its_secret(tmp_path: Path, cli: Cli) -> None:
    folder = tmp_path / "x.lace"
    cli("init", folder)
    answer = cli("key", "new", folder)
    secret = (folder / "keys" / "main.key").read_text().strip()
    assert answer.code == 0
    assert answer.text.startswith("V.")
    assert secret not in answer.text + answer.err
    assert cli("key", "show", folder).text == answer.text


def test_an_existing_secret_can_be_kept(folder: Path, cli: Cli, tmp_path: Path) -> None:
    assert cli("key", "show", folder).text == VERIFIER + "\n"
    (tmp_path / "secret").write_text(SECRET + "\n")
    answer = cli("key", "new", folder, "copy", "--from", tmp_path / "secret", "--json")
    assert answer.json == {"name": "copy", "verifier": VERIFIER, "file": str(folder / "keys" / "copy.key")}


def test_a_node_that_joined_a_replicated_lace_gets_no_key_of_its_own(tmp_path: Path, cli: Cli) -> None:
    lace = tmp_path / "hall"
    verifier = cli("init", lace, "--cluster", "--json").json["verifier"]
    kept = lace / "keys" / "main.key"
    secret = kept.rename(tmp_path / "secret")
    # As it is at a node that has joined: nothing in its folder, and the lace's key elsewhere.
    listed = cli("key", "list", lace)
    assert f"bobbin key new {lace} --from FILE\n" in listed.err
    for more in ((), ("main",)):
        answer = cli("key", "new", lace, *more)
        assert (answer.code, kept.exists()) == (2, False)
        assert f"one key at every node: bobbin key new {lace} --from FILE" in answer.err
    assert cli("key", "new", lace, "lab").code == 0, "a further key is nobody's name"
    assert cli("key", "new", lace, "--from", secret).text == verifier + "\n"
    assert "already a key" in cli("key", "new", lace).err


@pytest.mark.parametrize("content", [b"", b"hello", b"\xff", SECRET.encode() + b"x"])
def test_what_is_no_secret_is_refused(folder: Path, cli: Cli, content: bytes) -> None:
    answer = cli("key", "new", folder, "other", "--from", "-", stdin=content)
    assert answer.code == 2
    assert SECRET not in answer.err
    assert [row["name"] for row in cli("key", "list", folder, "--json").rows] == ["main"]


def test_the_secret_is_shown_only_when_asked_for(folder: Path, cli: Cli) -> None:
    assert cli("key", "show", folder, "--json").json == {"name": "main", "verifier": VERIFIER}
    assert cli("key", "show", folder, "--secret").text == SECRET + "\n"
    assert cli("key", "show", folder, "--secret", "--json").json["secret"] == SECRET


def test_keys_are_listed_with_the_default_one_marked(folder: Path, cli: Cli) -> None:
    other = cli("key", "new", folder, "lab").text.strip()
    assert cli("key", "list", folder).lines == [f"lab   {other}", f"main  {VERIFIER}  (default)"]
    assert cli("key", "list", folder, "--json").rows == [
        {"name": "lab", "verifier": other, "default": False},
        {"name": "main", "verifier": VERIFIER, "default": True},
    ]


def test_a_key_that_others_can_read_is_refused_by_name(folder: Path, cli: Cli) -> None:
    cli("key", "new", folder, "lab")
    (folder / "keys" / "main.key").chmod(0o644)
    answer = cli("key", "show", folder)
    assert answer.code == 3
    assert "chmod 600" in answer.err
    listed = cli("key", "list", folder, "--json")
    assert listed.code == 3
    assert [row["verifier"] is None for row in listed.rows] == [False, True]
    assert "chmod 600" in listed.rows[1]["problem"]


def test_a_key_is_never_replaced_and_a_missing_one_is_a_usage_error(folder: Path, cli: Cli) -> None:
    assert cli("key", "new", folder).code == 2
    assert cli("key", "show", folder).text == VERIFIER + "\n"
    assert cli("key", "show", folder, "nobody").code == 2
    assert cli("key", "new", folder, "../escape").code == 2

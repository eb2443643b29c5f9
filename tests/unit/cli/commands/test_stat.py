"""``bobbin stat``."""

from pathlib import Path

from bobbin.lace import Lace
from tests.support.tangle_messages import Author
from tests.unit.cli.command_line import PLACE, PLEX_1, Cli
from tests.unit.cli.tangle_laces import Woven


def test_counts_follow_every_change(folder: Path, cli: Cli) -> None:
    def counts() -> tuple[int, int, int, int]:
        value = cli("stat", folder, "--json").json
        return value["records"], value["record_bytes"], value["refused"], value["high_water"]

    assert counts() == (0, 0, 0, 0)
    cli("put", folder, "-", *PLACE, "--tai", "1640995200:000000000", stdin=b"hello")
    assert counts() == (1, 190, 0, 1)
    cli("remove", folder, PLEX_1, "--reason", "x")
    assert counts() == (0, 0, 1, 1)


def test_lines_for_people(filled: Path, cli: Cli) -> None:
    shown = cli("stat", filled).text
    assert "1 (0 Blobs, 1 Plex, 0 Seals)" in shown
    assert "190 B in records" in shown
    assert "main (default)" in shown


def test_messages_that_wait_are_counted(folder: Path, cli: Cli) -> None:
    alice = Author("alice")
    moot, first, second, third = alice.feed(3)
    with Lace.open(folder) as lace:
        lace.account_keys.create("account")
        lace.tangles.commit([alice.account, moot, first, third], tangle=moot.id)
    answer = cli("stat", folder, "--json").json
    assert (answer["messages"], answer["messages_interop"], answer["messages_lacking"]) == (4, 1, 1)
    assert answer["account_keys"] == ["account"]
    shown = cli("stat", folder).text
    assert "1 not proven, 1 waiting for others" in shown
    assert "keys account" in shown
    with Lace.open(folder) as lace:
        lace.tangles.commit([second], tangle=moot.id)
    assert cli("stat", folder, "--json").json["messages_lacking"] == 0


def test_records_that_wait_to_become_messages_are_counted_as_soon_as_they_have_come(
    woven: Woven, folder: Path, cli: Cli, tmp_path: Path
) -> None:
    bundle = tmp_path / "posts.bundle"
    cli("export", woven.folder, bundle, "--at", f"//{woven.account}//pzp//post/")
    assert cli("import", folder, bundle).code == 0
    assert "waiting as records" in cli("stat", folder).text
    waiting = cli("stat", folder, "--json").json["messages_waiting"]
    assert waiting == len(woven.posts)
    cli("export", woven.folder, bundle)
    assert cli("import", folder, bundle).code == 0
    assert cli("stat", folder, "--json").json["messages_waiting"] == 0
    assert cli("stat", folder, "--json").json["messages"] == 7

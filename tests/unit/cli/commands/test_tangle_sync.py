"""``bobbin tangle sync``: with another folder. Over a link: ``test_tangle_serve.py``."""

from pathlib import Path

import pytest

from bobbin.tangles.keys import Keypair
from tests.unit.cli.command_line import Cli
from tests.unit.cli.tangle_laces import Woven


@pytest.mark.parametrize("mode", ["modern", "nine phases"])
def test_a_folder_gets_what_its_goal_asks_for(woven: Woven, folder: Path, cli: Cli, mode: str) -> None:
    flags = [] if mode == "modern" else ["--nine-phases"]
    assert cli("tangle", "sync", folder, woven.folder, *flags).code == 2, "there is no goal"
    cli("tangle", "goal", folder, woven.feed, "all")
    answer = cli("tangle", "sync", folder, woven.folder, *flags, "--json")
    assert answer.code == 0
    value = answer.json
    assert (value["mode"], value["lace"], value["peer"]) == (mode, str(folder), str(woven.folder))
    (run,) = value["runs"]
    assert set(run["added"]) == {woven.account, woven.feed, *woven.posts}
    assert run["refused"] == []
    assert value["bytes_in"] == sum(one["bytes_in"] for one in value["frames"].values())
    assert cli("tangle", "log", folder, woven.feed).lines == cli("tangle", "log", woven.folder, woven.feed).lines
    assert cli("fsck", folder).code == 0
    again = cli("tangle", "sync", folder, woven.folder, *flags)
    assert "0 messages came, 0 sent" in again.text


def test_phases_and_bytes_are_shown(woven: Woven, folder: Path, cli: Cli) -> None:
    cli("tangle", "goal", folder, woven.feed, "all")
    cli("tangle", "sync", folder, woven.folder)
    cli("tangle", "append", woven.folder, woven.feed, "-d", '{"text":"late"}')
    lines = cli("tangle", "sync", folder, woven.folder, "--nine-phases").lines
    assert lines[0] == "mode  nine phases"
    assert "1 message came" in lines[1]
    assert [line.split()[:2] for line in lines[3:]] == [["phase", str(number)] for number in range(1, 10)]


def test_without_a_goal_nothing_is_taken(woven: Woven, folder: Path, cli: Cli) -> None:
    answer = cli("tangle", "sync", folder, woven.folder, woven.feed)
    assert answer.code == 0
    assert f"it has no goal in {folder}; bobbin tangle goal {folder} {woven.feed} all" in answer.err
    assert cli("tangle", "show", folder, woven.feed).code == 1


def test_what_makes_no_sense(woven: Woven, cli: Cli, tmp_path: Path) -> None:
    cli("tangle", "goal", woven.folder, woven.feed, "all")
    assert cli("tangle", "sync", woven.folder, woven.folder).code == 2
    for peer in ("nowhere", "net:host", "net:127.0.0.1:1~shse:short", str(tmp_path)):
        assert cli("tangle", "sync", woven.folder, peer).code == 2


def test_a_tangle_that_nobody_has_is_not_done(woven: Woven, folder: Path, cli: Cli) -> None:
    unknown = woven.posts[0][:-4] + "1111"
    cli("tangle", "goal", folder, unknown, "all")
    answer = cli("tangle", "sync", folder, woven.folder, "--json")
    assert answer.code == 1
    assert answer.json["lacking"] == {unknown: "neither side has its root"}
    assert f"{unknown} is not whole" in cli("tangle", "sync", folder, woven.folder).err


def test_what_the_peer_has_let_go_is_lacking(woven: Woven, folder: Path, cli: Cli) -> None:
    cli("tangle", "goal", woven.folder, woven.feed, "newest-1")
    cli("tangle", "gc", woven.folder)
    cli("tangle", "goal", folder, woven.feed, "all")
    answer = cli("tangle", "sync", folder, woven.folder, "--json")
    assert answer.code == 1
    assert list(answer.json["lacking"]) == [woven.feed]


def test_a_folder_that_is_not_there_is_said_to_be_none(woven: Woven, cli: Cli) -> None:
    cli("tangle", "goal", woven.folder, woven.feed, "all")
    assert "there is no lace at nowhere" in cli("tangle", "sync", woven.folder, "nowhere").err


def test_the_id_of_an_account_is_not_taken_for_a_key(woven: Woven, cli: Cli) -> None:
    cli("tangle", "goal", woven.folder, woven.feed, "all")
    answer = cli("tangle", "sync", woven.folder, f"net:127.0.0.1:1~shse:{woven.account}")
    assert (answer.code, "is the id of a message here" in answer.err) == (2, True)


def test_a_place_is_named_as_it_was_typed(woven: Woven, cli: Cli) -> None:
    cli("tangle", "goal", woven.folder, woven.feed, "all")
    key = Keypair.from_words("nobody").public
    answer = cli("tangle", "sync", woven.folder, f"net:127.0.0.1:1~shse:{key}")
    assert answer.code == 5
    assert f"net:127.0.0.1:1~shse:{key}: refused" in answer.err
    assert "tcp:" not in answer.err


def test_whose_goal_it_is_does_not_matter_for_the_verdict(woven: Woven, folder: Path, cli: Cli) -> None:
    cli("tangle", "goal", folder, woven.feed, "all")
    assert "both have the same" in cli("tangle", "sync", folder, woven.folder).text
    assert "both have the same" in cli("tangle", "sync", folder, woven.folder).text


def test_an_author_without_a_goal_is_told(woven: Woven, folder: Path, cli: Cli) -> None:
    cli("tangle", "goal", woven.folder, woven.feed, "all")
    answer = cli("tangle", "sync", woven.folder, folder)
    assert f"you write in {woven.thread}, and nothing of it is asked for" in answer.err
    assert f"bobbin tangle goal {woven.folder} {woven.thread} all" in answer.err
    assert cli("tangle", "sync", woven.folder, folder, "--json").json["without_goal"] == [woven.thread]
    named = cli("tangle", "sync", woven.folder, folder, woven.thread)
    assert named.err.count(woven.thread) == 2, "once, in one sentence with a command"
    cli("tangle", "goal", woven.folder, woven.thread, "all")
    assert woven.thread not in cli("tangle", "sync", woven.folder, folder).err


def test_whoever_syncs_with_an_author_without_a_goal_is_told(woven: Woven, folder: Path, cli: Cli) -> None:
    cli("tangle", "goal", folder, woven.thread, "all")
    answer = cli("tangle", "sync", folder, woven.folder)
    assert f"nothing of {woven.thread} was taken there" in answer.err
    assert f"bobbin tangle goal {woven.folder} {woven.thread} all" in answer.err

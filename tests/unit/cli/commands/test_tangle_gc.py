"""``bobbin tangle gc``."""

from pathlib import Path

from tests.unit.cli.command_line import Cli
from tests.unit.cli.tangle_laces import Woven


def test_what_goals_do_not_ask_for_goes(woven: Woven, cli: Cli) -> None:
    cli("tangle", "goal", woven.folder, woven.feed, "newest-1")
    cli("tangle", "goal", woven.folder, woven.thread, "none")
    planned = cli("tangle", "gc", woven.folder, "--dry-run", "--json").json
    assert planned["dry_run"] is True
    assert cli("stat", woven.folder, "--json").json["messages"] == 7
    done = cli("tangle", "gc", woven.folder, "--json").json
    assert done == planned | {"dry_run": False}
    assert set(done["deleted"]) | set(done["erased"]) == {*woven.posts[:3], woven.thread}
    value = cli("tangle", "show", woven.folder, woven.feed, "--json").json
    assert (value["with_data"], value["tips"]) == (1, [woven.posts[-1]])
    stat = cli("stat", woven.folder)
    assert "of tangles" in stat.text
    assert cli("fsck", woven.folder).code == 0
    assert "tangle goal" in cli("refusals", woven.folder).text


def test_tangles_without_a_goal_go_only_when_asked_for(woven: Woven, cli: Cli) -> None:
    assert cli("tangle", "gc", woven.folder).text == "0 messages deleted, 0 erased\n"
    cli("tangle", "goal", woven.folder, woven.thread, "all")
    done = cli("tangle", "gc", woven.folder, "--strict", "--json").json
    assert set(done["deleted"]) == {woven.feed, *woven.posts[:3]}
    assert cli("tangle", "show", woven.folder, woven.account, "--json").json["messages"] == 1


def test_ones_own_account_stays_whatever_is_asked_for(woven: Woven, cli: Cli) -> None:
    cli("tangle", "goal", woven.folder, woven.account, "none")
    done = cli("tangle", "gc", woven.folder, "--strict", "--json").json
    assert woven.account not in done["deleted"]
    assert set(done["deleted"]) == {woven.feed, woven.thread, *woven.posts}
    assert cli("tangle", "new", woven.folder, "account").text == woven.account + "\n"
    assert cli("tangle", "new", woven.folder, "feed", "--domain", "post").text == woven.feed + "\n"


def test_nothing_goes_while_it_cannot_be_told_what_is_ones_own(woven: Woven, cli: Cli) -> None:
    (woven.folder / "keys" / "account.ed25519").write_bytes(b"damaged\n")
    answer = cli("tangle", "gc", woven.folder, "--strict")
    assert answer.code == 3
    assert "does not hold a private key" in answer.err
    assert cli("stat", woven.folder, "--json").json["messages"] == 7


def test_a_reply_under_newest_is_kept_and_reaches_the_others(woven: Woven, cli: Cli, tmp_path: Path) -> None:
    other = tmp_path / "other.lace"
    for words in (["init"], ["tangle", "key", "new"]):
        cli(*words, other)
    cli("tangle", "new", other, "account")
    for number in range(6):
        cli("tangle", "append", woven.folder, woven.thread, "-d", f'{{"text":"m{number}"}}')
    cli("tangle", "goal", woven.folder, woven.thread, "all")
    cli("tangle", "goal", other, woven.thread, "newest-2")
    assert cli("tangle", "sync", other, woven.folder).code == 0
    answer = cli("tangle", "append", other, woven.thread, "-d", '{"text":"mine"}', "--json")
    assert answer.json["tangles"] == {woven.thread: 8}
    assert cli("tangle", "gc", other).code == 0
    assert "mine" in cli("tangle", "log", other, woven.thread).lines[-1]
    assert cli("tangle", "sync", other, woven.folder).code == 0
    last = cli("tangle", "log", woven.folder, woven.thread, "--json").rows[-1]
    assert (last["id"], last["standing"], last["data"]) == (answer.json["id"], "full", {"text": "mine"})

"""``bobbin tangle gc``."""

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

"""``bobbin tangle goal``."""

from pathlib import Path

from tests.unit.cli.command_line import Cli
from tests.unit.cli.tangle_laces import Woven


def test_goals_are_set_shown_and_cleared(woven: Woven, cli: Cli) -> None:
    assert cli("tangle", "goal", woven.folder, woven.feed[:6], "newest-003", "--json").json == {
        "tangle": woven.feed,
        "goal": "newest-3",
    }
    cli("tangle", "goal", woven.folder, "1" * 32, "all")
    assert [row["goal"] for row in cli("tangle", "goal", woven.folder, "--json").rows] == ["all", "newest-3"]
    assert cli("tangle", "goal", woven.folder, woven.feed).text == f"{woven.feed}  newest-3\n"
    assert cli("tangle", "goal", woven.folder, woven.feed, "--clear", "--json").json["goal"] is None
    assert len(cli("tangle", "goal", woven.folder).lines) == 1


def test_a_goal_that_does_not_fit_the_tangle_is_refused(woven: Woven, cli: Cli) -> None:
    """The next collection would act on it."""
    answer = cli("tangle", "goal", woven.folder, woven.feed, "newest-0")
    assert (answer.code, "that is the goal none" in answer.err) == (2, True)
    for tangle in (woven.feed, woven.thread, woven.account):
        answer = cli("tangle", "goal", woven.folder, tangle, "dict")
        assert (answer.code, "domain begins with dict_v1__" in answer.err) == (2, True)
    names = cli("tangle", "new", woven.folder, "feed", "--domain", "set_v1__names").text.strip()
    assert cli("tangle", "goal", woven.folder, names, "dict").code == 2
    assert cli("tangle", "goal", woven.folder, names, "set").code == 0
    assert cli("tangle", "goal", woven.folder, "1" * 32, "dict").code == 0, "nobody here knows what it is"
    assert [row["goal"] for row in cli("tangle", "goal", woven.folder, "--json").rows] == ["dict", "set"]


def test_what_makes_no_sense(woven: Woven, cli: Cli, folder: Path) -> None:
    for arguments in ([woven.feed, "record"], [woven.feed, "all", "--clear"], ["--clear"], ["nobody"]):
        assert cli("tangle", "goal", woven.folder, *arguments).code == 2
    answer = cli("tangle", "goal", folder)
    assert (answer.code, answer.text) == (0, "")
    assert "no goals yet" in answer.err

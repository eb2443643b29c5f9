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


def test_what_makes_no_sense(woven: Woven, cli: Cli, folder: Path) -> None:
    for arguments in ([woven.feed, "record"], [woven.feed, "all", "--clear"], ["--clear"], ["nobody"]):
        assert cli("tangle", "goal", woven.folder, *arguments).code == 2
    answer = cli("tangle", "goal", folder)
    assert (answer.code, answer.text) == (0, "")
    assert "no goals yet" in answer.err

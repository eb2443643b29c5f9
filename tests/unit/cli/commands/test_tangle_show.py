"""``bobbin tangle show``."""

from tests.unit.cli.command_line import Cli
from tests.unit.cli.tangle_laces import Woven


def test_what_is_known_of_a_tangle(woven: Woven, cli: Cli) -> None:
    value = cli("tangle", "show", woven.folder, woven.feed, "--json").json
    assert value == {
        "tangle": woven.feed,
        "kind": "feed",
        "stands_in": [],
        "account": woven.account,
        "domain": "post",
        "goal": None,
        "messages": 5,
        "with_data": 4,
        "proven": 5,
        "depth": 4,
        "have": [0, 4],
        "tips": [woven.posts[-1]],
        "missing": [],
        "ghosts": 0,
    }
    text = cli("tangle", "show", woven.folder, woven.feed).text
    assert "5 (4 with data, 5 proven)" in text
    assert "none set" in text


def test_a_drawing(woven: Woven, cli: Cli) -> None:
    lines = cli("tangle", "show", woven.folder, woven.feed, "--graph").lines
    drawn = lines[lines.index("") + 1 :]
    assert [line[0] for line in drawn] == ["○", "●", "●", "●", "●"]
    assert "moot" in drawn[0]
    assert '{"text":"reply"}' in drawn[-1]
    value = cli("tangle", "show", woven.folder, woven.feed, "--graph", "--json").json
    assert value["graph"] == [f"{line[0]}  {id}" for line, id in zip(drawn, [woven.feed, *woven.posts], strict=True)]


def test_a_tangle_of_which_nothing_is_here(woven: Woven, cli: Cli) -> None:
    answer = cli("tangle", "show", woven.folder, "1" * 32)
    assert answer.code == 1
    assert "nothing of the tangle" in answer.err


def test_a_reply_says_where_it_stands(woven: Woven, cli: Cli) -> None:
    value = cli("tangle", "show", woven.folder, woven.posts[-1], "--json").json
    assert (value["messages"], value["stands_in"]) == (1, sorted([woven.thread, woven.feed]))
    lines = cli("tangle", "show", woven.folder, woven.posts[-1]).lines
    assert f"stands in {', '.join(sorted([woven.thread, woven.feed]))}" in lines


def test_what_was_let_go_is_not_called_a_loss(woven: Woven, cli: Cli) -> None:
    cli("tangle", "goal", woven.folder, woven.feed, "newest-1")
    cli("tangle", "gc", woven.folder)
    lines = cli("tangle", "show", woven.folder, woven.feed).lines
    (line,) = [line for line in lines if line.startswith("not here")]
    assert line.endswith("let go, or never came")

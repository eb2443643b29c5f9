"""``bobbin lift``."""

from pathlib import Path

from tests.unit.cli.command_line import PLEX_1, Cli


def test_a_lifted_refusal_is_gone(filled: Path, cli: Cli) -> None:
    cli("remove", filled, PLEX_1, "--reason", "x")
    assert cli("lift", filled, PLEX_1, "--json").json == {"hash": PLEX_1, "lifted": True}
    assert cli("refusals", filled, "--json").rows == []
    assert cli("get", filled, PLEX_1).code == 1, "it does not come back by itself"


def test_where_nothing_is_refused_there_is_nothing_to_lift(filled: Path, cli: Cli) -> None:
    answer = cli("lift", filled, PLEX_1)
    assert answer.code == 1
    assert "not refused" in answer.err
    assert cli("lift", filled, "nonsense").code == 2


def test_a_coordinate_cannot_name_what_is_gone(filled: Path, cli: Cli) -> None:
    cli("remove", filled, "//u//ding//links/1", "--reason", "x")
    answer = cli("lift", filled, "//u//ding//links/1")
    assert answer.code == 2
    assert f"bobbin refusals {filled}" in answer.err
    assert [row["hash"] for row in cli("refusals", filled, "--json").rows] == [PLEX_1]

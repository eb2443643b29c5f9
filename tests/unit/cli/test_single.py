"""An option that takes one value is given once; flags, and options for several values, are as free as ever."""

from pathlib import Path

from tests.unit.cli.command_line import Cli


def test_the_second_value_is_refused_and_nothing_is_done(tmp_path: Path, cli: Cli) -> None:
    answer = cli("init", tmp_path / "a.lace")
    assert answer.code == 0
    twice = cli("list", tmp_path / "a.lace", "--limit", "1", "-n", "2")
    assert (twice.code, twice.out) == (2, b"")
    assert "--limit is given 2 times, and takes one value" in twice.err
    assert cli("list", tmp_path / "a.lace", "--limit", "1", "--limit", "1", "--json").error["error"] == "usage"


def test_flags_and_lists_may_be_repeated(tmp_path: Path, cli: Cli) -> None:
    cli("init", tmp_path / "a.lace")
    assert cli("list", tmp_path / "a.lace", "--json", "--json").code == 0
    assert cli("policy", "build", "-g", "u", "--group", "v").code == 0


def test_behind_two_dashes_nothing_is_an_option(tmp_path: Path, cli: Cli) -> None:
    cli("init", tmp_path / "a.lace")
    assert "is given" not in cli("list", "--limit", "1", "--", tmp_path / "a.lace", "--limit").err


def test_an_option_without_its_value_is_said_as_ever(tmp_path: Path, cli: Cli) -> None:
    answer = cli("list", tmp_path / "a.lace", "--limit")
    assert answer.code == 2
    assert "requires an argument" in answer.err

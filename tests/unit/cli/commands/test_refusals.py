"""``bobbin refusals``."""

from pathlib import Path

from tests.unit.cli.command_line import PLEX_1, Cli


def test_refusals_are_listed_with_reason_and_time(filled: Path, cli: Cli) -> None:
    assert cli("refusals", filled).out == b""
    cli("remove", filled, PLEX_1, "--reason", "bad \x1b[1m data")
    (row,) = cli("refusals", filled, "--json").rows
    assert (row["hash"], row["reason"]) == (PLEX_1, "bad \x1b[1m data")
    assert row["tai"] > "1700000000:000000000"
    (line,) = cli("refusals", filled).lines
    assert line.startswith(PLEX_1)
    assert line.endswith("bad \\x1b[1m data")

"""``bobbin remove``."""

from pathlib import Path

from tests.unit.cli.command_line import PLEX_1, Cli


def test_a_removed_record_is_gone_with_its_facts(filled: Path, cli: Cli) -> None:
    answer = cli("remove", filled, PLEX_1, "--reason", "a mistake", "--json")
    assert answer.json == {"hash": PLEX_1, "removed": True, "refused": True, "reason": "a mistake"}
    assert cli("get", filled, PLEX_1).code == 1
    assert cli("facts", filled, "Have").lines == []


def test_a_record_that_is_not_stored_is_refused_all_the_same(folder: Path, cli: Cli) -> None:
    answer = cli("remove", folder, f"////{PLEX_1}", "--reason", "never wanted")
    assert answer.code == 0
    assert "not stored" in answer.text
    assert [row["hash"] for row in cli("refusals", folder, "--json").rows] == [PLEX_1]


def test_a_reason_is_required(filled: Path, cli: Cli) -> None:
    answer = cli("remove", filled, PLEX_1)
    assert answer.code == 2
    assert cli("get", filled, PLEX_1).code == 0


def test_a_coordinate_names_its_only_record(filled: Path, cli: Cli) -> None:
    missing = cli("remove", filled, "//u//ding//nothing", "--reason", "x")
    assert missing.code == 1
    assert "no record at" in missing.err
    cli("sign", filled, PLEX_1)
    doubtful = cli("remove", filled, "//u//ding//links/1", "--reason", "x")
    assert doubtful.code == 2
    assert "several records, the newest first; name one by its hash:\n  S." in doubtful.err
    assert cli("refusals", filled, "--json").rows == []
    seal = next(row["hash"] for row in cli("list", filled, "--json").rows if row["signed_by"])
    cli("remove", filled, seal, "--reason", "x")
    assert cli("remove", filled, "//u//ding//links/1", "--reason", "x", "--json").json["hash"] == PLEX_1

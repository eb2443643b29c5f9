"""``bobbin sign``."""

from pathlib import Path

from tests.unit.cli.command_line import PLACE, PLEX_1, VERIFIER, Cli


def test_a_stored_plex_gets_a_seal_beside_it(filled: Path, cli: Cli) -> None:
    answer = cli("sign", filled, PLEX_1, "--json")
    assert answer.json["plex"] == PLEX_1
    assert answer.json["signed_by"] == VERIFIER
    shown = cli("show", filled, answer.json["hash"], "--json").json
    assert (shown["plex"], shown["signature"]) == (PLEX_1, "valid")
    assert cli("stat", filled, "--json").json["kinds"] == {"blob": 0, "plex": 1, "seal": 1}


def test_the_key_can_be_named(filled: Path, cli: Cli) -> None:
    verifier = cli("key", "new", filled, "lab").text.strip()
    stored = cli("sign", filled, PLEX_1, "--key", "lab").text.strip()
    assert cli("show", filled, stored, "--json").json["signed_by"] == verifier


def test_what_cannot_be_signed(filled: Path, cli: Cli) -> None:
    assert cli("sign", filled, PLEX_1.replace("ty", "ux")).code == 1
    seal = cli("sign", filled, PLEX_1).text.strip()
    again = cli("sign", filled, seal)
    assert again.code == 2
    assert "Plex" in again.err
    assert cli("sign", filled, PLEX_1, "--key", "nobody").code == 2


def test_a_coordinate_names_its_only_plex(filled: Path, cli: Cli) -> None:
    for _ in range(2):  # the Seal of the first time does not count
        assert cli("sign", filled, "//u//ding//links/1", "--json").json["plex"] == PLEX_1
    assert cli("sign", filled, "//u//ding//nothing").code == 1
    cli("put", filled, "-", *PLACE, stdin=b"newer")
    doubtful = cli("sign", filled, "//u//ding//links/1")
    assert doubtful.code == 2
    assert "several Plexes" in doubtful.err

"""``bobbin stat``."""

from pathlib import Path

from tests.unit.cli.command_line import PLACE, PLEX_1, Cli


def test_counts_follow_every_change(folder: Path, cli: Cli) -> None:
    def counts() -> tuple[int, int, int, int]:
        value = cli("stat", folder, "--json").json
        return value["records"], value["record_bytes"], value["refused"], value["high_water"]

    assert counts() == (0, 0, 0, 0)
    cli("put", folder, "-", *PLACE, "--tai", "1640995200:000000000", stdin=b"hello")
    assert counts() == (1, 190, 0, 1)
    cli("remove", folder, PLEX_1, "--reason", "x")
    assert counts() == (0, 0, 1, 1)


def test_lines_for_people(filled: Path, cli: Cli) -> None:
    shown = cli("stat", filled).text
    assert "1 (0 Blobs, 1 Plex, 0 Seals)" in shown
    assert "190 B in records" in shown
    assert "main (default)" in shown

"""``bobbin compact``."""

from pathlib import Path

from tests.unit.cli.command_line import PLACE, Cli


def test_the_space_of_removed_records_is_given_back(folder: Path, cli: Cli) -> None:
    stored = cli("put", folder, "-", *PLACE, stdin=bytes(2_000_000)).text.strip()
    cli("remove", folder, stored, "--reason", "x")
    value = cli("compact", folder, "--json").json
    assert value["bytes_after"] < value["bytes_before"] - 1_500_000
    assert cli("fsck", folder).code == 0

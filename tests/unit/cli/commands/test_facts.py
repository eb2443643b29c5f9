"""``bobbin facts``."""

from pathlib import Path

import pytest

from tests.unit.cli.command_line import AT, PLACE, PLEX_1, Cli

EMPTY_BLOB = "B.svyLzSM7ffc91i~XDbkMnuOsdjsw_6GrXpTSckqHlpO.H3"
HELLO_BLOB = "B.kQIYZC1_~Q_ji4~Twe2_7m9Zn2scg_Cu9zNTkbk9zq8.H3"


def test_all_facts_of_a_predicate(filled: Path, cli: Cli) -> None:
    assert cli("facts", filled, "Have").lines == [f"Have('{PLEX_1}')"]
    assert sorted(row["values"] for row in cli("facts", filled, "Field", "--json").rows) == [
        [PLEX_1, "App", "0", "ding"],
        [PLEX_1, "Data-Length", "0", "5"],
        [PLEX_1, "Group", "0", "u"],
        [PLEX_1, "Name", "0", "links/1"],
        [PLEX_1, "TAI", "0", AT],
        [PLEX_1, "Type", "0", "P"],
    ]
    assert cli("facts", filled, "BlobHash").lines == [f"BlobHash('{PLEX_1}','{HELLO_BLOB}')"]


def test_a_pattern_binds_some_arguments(filled: Path, cli: Cli) -> None:
    cli("put", filled, "-", *PLACE, "-H", f"+Link: it's {EMPTY_BLOB}", stdin=b"x")
    assert cli("facts", filled, "Field", "_", "Data-Length", "_", "5", "--json").rows == [
        {"predicate": "Field", "values": [PLEX_1, "Data-Length", "0", "5"]}
    ]
    (line,) = cli("facts", filled, "RecordLink", "_", "_", "_", "_", EMPTY_BLOB).lines
    assert line.endswith(f"'+Link','0','it\\'s','{EMPTY_BLOB}')")
    assert cli("facts", filled, "Field", "_", "Name", "_", "nowhere").lines == []
    assert len(cli("facts", filled, "Field", "--limit", "3").lines) == 3


@pytest.mark.parametrize("arguments", [("Nonsense",), ("Have", "a", "b"), ("Field", "_"), ("have",)])
def test_unknown_predicates_and_wrong_numbers_are_code_2(filled: Path, cli: Cli, arguments: tuple[str, ...]) -> None:
    answer = cli("facts", filled, *arguments)
    assert (answer.code, answer.out) == (2, b"")

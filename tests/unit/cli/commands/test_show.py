"""``bobbin show``."""

from pathlib import Path

from tests.unit.cli.command_line import AT, PLACE, PLEX_1, VERIFIER, Cli

EMPTY_BLOB = "B.svyLzSM7ffc91i~XDbkMnuOsdjsw_6GrXpTSckqHlpO.H3"
HELLO_BLOB = "B.kQIYZC1_~Q_ji4~Twe2_7m9Zn2scg_Cu9zNTkbk9zq8.H3"


def test_a_plex_with_its_fields_and_links(folder: Path, cli: Cli) -> None:
    stored = cli(
        "put", folder, "-", *PLACE, "--tai", AT, "-H", f"+Link: source {EMPTY_BLOB}", "-H", "X: y", stdin=b"hello"
    ).text.strip()
    value = cli("show", folder, stored, "--json").json
    assert value == {
        "hash": stored,
        "kind": "plex",
        "size": value["size"],
        "fields": [
            {"name": "Type", "value": "P"},
            {"name": "Group", "value": "u"},
            {"name": "App", "value": "ding"},
            {"name": "Name", "value": "links/1"},
            {"name": "TAI", "value": AT},
            {"name": "+Link", "value": f"source {EMPTY_BLOB}"},
            {"name": "X", "value": "y"},
            {"name": "Data-Length", "value": "5"},
        ],
        "coordinate": "//u//ding//links/1",
        "tai": AT,
        "utc": "2021-12-31T23:59:23Z",
        "signed_by": None,
        "signature": None,
        "plex": None,
        "blob": HELLO_BLOB,
        "links": [{"name": "+Link", "index": 0, "data": "source", "target": EMPTY_BLOB}],
        "data_length": 5,
        "data_preview": ["hello"],
    }
    shown = cli("show", folder, stored).text
    for words in (stored, HELLO_BLOB, "//u//ding//links/1", "X: y", f"source → {EMPTY_BLOB}", "  hello"):
        assert words in shown
    assert "signed" not in shown


def test_a_seal_names_its_signer_and_the_plex_inside(folder: Path, cli: Cli) -> None:
    stored = cli("put", folder, "-", *PLACE, "--tai", AT, "--sign", stdin=b"hello").text.strip()
    value = cli("show", folder, "//u//ding//links/1", "--json").json
    assert value["hash"] == stored
    assert value["kind"] == "seal"
    assert value["signed_by"] == VERIFIER
    assert value["signature"] == "valid"
    assert value["plex"] == PLEX_1
    shown = cli("show", folder, stored).text
    assert VERIFIER in shown
    assert "valid" in shown


def test_data_cannot_act_on_a_terminal(folder: Path, cli: Cli) -> None:
    stored = cli(
        "put", folder, "-", *PLACE, "-H", "X: \u202eevil", stdin=b"some text and then \x1b[2J\x07 and more text"
    ).text.strip()
    shown = cli("show", folder, stored).text
    assert all(line.isprintable() for line in shown.splitlines())
    assert "\\x1b[2J\\x07" in shown
    assert "\\u{202e}evil" in shown


def test_binary_data_is_dumped(folder: Path, cli: Cli) -> None:
    stored = cli("put", folder, "-", *PLACE, stdin=bytes(range(32))).text.strip()
    assert "000010  10 11 12" in cli("show", folder, stored).text


def test_what_is_not_there(folder: Path, cli: Cli) -> None:
    assert cli("show", folder, PLEX_1).code == 1
    assert cli("show", folder, "nonsense").code == 2

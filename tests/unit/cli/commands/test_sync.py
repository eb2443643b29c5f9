"""``bobbin sync``."""

from pathlib import Path

import pytest

from bobbin.interlace import limits
from tests.unit.cli.command_line import PLEX_1, VERIFIER, Cli
from tests.unit.cli.policy_texts import DING, HIDE_ALL, SEALED, TWO_MISTAKES


@pytest.fixture
def other(tmp_path: Path, cli: Cli) -> Path:
    """Another lace, with a record that the first one lacks, and one that is nobody else's affair."""
    path = tmp_path / "y.lace"
    cli("init", path)
    cli("put", path, "-g", "u", "-a", "ding", "-N", "links/2", "-", stdin=b"theirs")
    cli("put", path, "-g", "private", "-a", "ding", "-N", "links/3", "-", stdin=b"private")
    return path


@pytest.fixture
def texts(tmp_path: Path) -> dict[str, Path]:
    files = {}
    for name, text in {"ding": DING, "sealed": SEALED, "hide": HIDE_ALL, "wrong": TWO_MISTAKES}.items():
        files[name] = tmp_path / f"{name}.policy"
        files[name].write_text(text, encoding="utf-8")
    return files


def listed(cli: Cli, lace: Path) -> set[str]:
    return {row["name"] for row in cli("list", lace, "--json").rows}


def test_both_laces_end_with_what_both_policies_select(
    filled: Path, other: Path, texts: dict[str, Path], cli: Cli
) -> None:
    answer = cli("sync", filled, other, "--policy", texts["ding"])
    assert answer.code == 0
    assert answer.lines == [
        "received       1 record, 191 B",
        "sent           1 record, 190 B",
        "phases         setup 2 · hello 2 · advertise 6 · request 4 · transfer 2 messages",
        "converged: neither side can have anything more from the other (2 iterations)",
    ]
    assert listed(cli, filled) == {"links/1", "links/2"}
    assert listed(cli, other) == {"links/1", "links/2", "links/3"}
    again = cli("sync", filled, other, "--policy", texts["ding"], "--json").json
    assert (again["fixed_point"], again["received"], again["sent"], again["rounds"]) == (True, [], [], 1)


def test_as_json(filled: Path, other: Path, texts: dict[str, Path], cli: Cli) -> None:
    value = cli(
        "sync", filled, other, "--policy", texts["ding"], "--ledger", "--state", "--through-codec", "--json"
    ).json
    assert value["sent"] == [PLEX_1]
    assert len(value["received"]) == 1
    assert (value["link"], value["reason"], value["limit"], value["dry_run"]) == (None, None, None, False)
    assert list(value["phases"]) == ["setup", "hello", "advertise", "request", "transfer"]
    assert all(figure["bytes"] > 0 for figure in value["phases"].values())
    assert value["state"]["fields"] == ["App", "Group"]
    assert value["state"]["limits"]["max_loop_iterations"] == 16
    assert value["ledger"]["disclosure"]["sent"] == [PLEX_1]
    assert value["ledger"]["honesty"]["differing"] == {}


def test_a_dry_run_changes_nothing_and_says_the_same(
    filled: Path, other: Path, texts: dict[str, Path], cli: Cli
) -> None:
    arguments = ("sync", filled, other, "--policy", texts["ding"], "--json")
    rehearsed = cli(*arguments, "--dry-run").json
    assert rehearsed["dry_run"]
    assert listed(cli, filled) == {"links/1"}
    assert listed(cli, other) == {"links/2", "links/3"}
    real = cli(*arguments).json
    assert (rehearsed["received"], rehearsed["sent"]) == (real["received"], real["sent"])
    said = cli("sync", filled, other, "--policy", texts["ding"], "--dry-run")
    assert "neither lace was changed" in said.err
    for wish in ("--statement", "--receipts"):
        assert cli(*arguments, "--dry-run", wish).code == 2


def test_policies_of_both_sides(filled: Path, other: Path, texts: dict[str, Path], cli: Cli) -> None:
    arguments = ("sync", filled, other, "--policy", texts["ding"], "--json", "--dry-run")
    assert cli(*arguments, "--peer-policy", texts["sealed"]).json["received"] == []
    hidden = cli(*arguments, "--query-policy", texts["hide"]).json
    assert (len(hidden["received"]), hidden["sent"]) == (1, [])
    hidden = cli(*arguments, "--peer-query-policy", texts["hide"]).json
    assert (hidden["received"], hidden["sent"]) == ([], [PLEX_1])


def test_why_a_record_moved_or_did_not(filled: Path, other: Path, texts: dict[str, Path], cli: Cli) -> None:
    arguments = ("sync", filled, other, "--policy", texts["ding"], "--dry-run")
    answer = cli(*arguments, "--explain", "//private//ding//links/3", "--explain", PLEX_1)
    assert any(line.endswith("not moved; it is not stored here") for line in answer.lines)
    assert f"{PLEX_1}: sent" in answer.lines
    assert "because the Group of" in answer.text
    value = cli(*arguments, "--explain", PLEX_1, "--json").json
    (explained,) = value["explained"]
    assert (explained["record"], explained["fate"], explained["own"]["sending"]) == (PLEX_1, "sent", "sent")
    assert cli(*arguments, "--explain", "//u//ding//nothing").code == 1
    assert cli(*arguments, "--explain", "nonsense").code == 2


def test_a_removed_record_does_not_come_and_is_explained(
    filled: Path, other: Path, texts: dict[str, Path], cli: Cli
) -> None:
    (row,) = cli("list", other, "//u//ding//links/2", "--json").rows
    cli("remove", filled, row["hash"], "--reason", "not ours")
    answer = cli("sync", filled, other, "--policy", texts["ding"], "--explain", row["hash"])
    assert answer.code == 0
    assert "received       nothing" in answer.lines
    assert "it was removed here and is refused: not ours" in answer.text


def test_ledger_and_state_for_people(filled: Path, other: Path, texts: dict[str, Path], cli: Cli) -> None:
    answer = cli("sync", filled, other, "--policy", texts["ding"], "--ledger", "--state")
    assert "  advertised      2 records, with the fields App, Group" in answer.lines
    assert "peer           has proven nothing" in answer.lines
    assert "offered        2 records by this side, 2 by the peer" in answer.lines


def test_statements_and_receipts(filled: Path, other: Path, texts: dict[str, Path], cli: Cli) -> None:
    arguments = ("sync", filled, other, "--policy", texts["ding"])
    assert cli(*arguments, "--receipts").code == 2, "the other lace has no key"
    cli("key", "new", other)
    answer = cli(*arguments, "--statement", "--receipts")
    assert answer.code == 0
    assert "1 receipt sealed and stored" in answer.err
    (statement,) = cli("list", filled, "//lace//statement//", "--json").rows
    assert f"statement {statement['hash']}" in answer.err
    assert len(cli("list", filled, "//lace//receipt//", "--json").rows) == 1
    assert cli("show", filled, statement["hash"], "--json").json["signed_by"] == VERIFIER


def test_a_recording_can_be_replayed(
    filled: Path, other: Path, texts: dict[str, Path], tmp_path: Path, cli: Cli
) -> None:
    file = tmp_path / "r.recording"
    value = cli("sync", filled, other, "--policy", texts["ding"], "--record", file, "--json").json
    assert value["recording"]["steps"] > 5
    assert value["recording"]["bytes"] == file.stat().st_size
    replayed = cli("replay", file, "--json").json
    assert (replayed["equal"], replayed["steps"]) == (True, value["recording"]["steps"])
    inside = cli("sync", filled, other, "--policy", texts["ding"], "--record", other / "records.db")
    assert inside.code == 2


def test_a_limit_is_not_all_and_more_rounds_go_on(
    filled: Path, other: Path, texts: dict[str, Path], cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(5):
        cli("put", other, "-g", "u", "-a", "ding", "-N", f"more/{number}", "-", stdin=b"x" * 300)
    monkeypatch.setattr(limits, "PROFILES", {"default": limits.Limits(max_total_transferred_bytes=1_000)})
    arguments = ("sync", filled, other, "--policy", texts["ding"])
    answer = cli(*arguments)
    assert answer.code == 1
    assert answer.lines[-1].startswith("not finished, transfer-limit-exceeded: ")
    assert "--rounds 2 goes on" in answer.lines[-1]
    rest = cli(*arguments, "--rounds", "9", "--json")
    assert rest.code == 0
    assert rest.json["rounds"] > 1
    assert listed(cli, filled) >= {f"more/{number}" for number in range(5)}


def test_what_makes_no_sense(filled: Path, other: Path, texts: dict[str, Path], tmp_path: Path, cli: Cli) -> None:
    ding = ("--policy", texts["ding"])
    address = cli("sync", filled, "tcp:example.org:4790", *ding)
    assert (address.code, "comes with the network node" in address.err) == (2, True)
    assert cli("sync", filled, "wss://example.org/lace", *ding).code == 2
    assert cli("sync", filled, filled, *ding).code == 2
    assert cli("sync", filled, tmp_path / "nothing", *ding).code == 2
    assert cli("sync", filled, other).code == 2
    assert cli("sync", filled, other, "--policy", tmp_path / "nothing.policy").code == 4
    assert cli("sync", filled, other, "--policy", texts["wrong"]).code == 7
    assert cli("sync", filled, other, *ding, "--rounds", "0").code == 2
    assert cli("sync", filled, other, *ding, "--limits", "endless").code == 2


def test_a_recording_takes_nobody_elses_file(filled: Path, other: Path, texts: dict[str, Path], cli: Cli) -> None:
    before = texts["sealed"].read_bytes()
    answer = cli("sync", filled, other, "--policy", texts["ding"], "--record", texts["sealed"])
    assert answer.code == 2
    assert "exists already" in answer.err
    assert texts["sealed"].read_bytes() == before
    new = texts["sealed"].with_name("new.recording")
    assert cli("sync", filled, other, "--policy", texts["ding"], "--record", new, "--rounds", "2").code == 2
    assert cli("sync", filled, other, "--policy", texts["ding"], "--record", new, "--statement", "--dry-run").code == 2
    assert not new.exists()

"""``bobbin sync``."""

from pathlib import Path

import pytest

from bobbin.datalog.limits import Limits as ProgramLimits
from bobbin.interlace import limits
from bobbin.policy import executables
from bobbin.policy.executables import Budgets
from tests.support.clusters import free_ports
from tests.support.served import Served
from tests.unit.cli.command_line import PLACE, PLEX_1, VERIFIER, Cli
from tests.unit.cli.damaged import change_store
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


def test_a_replicated_lace_whose_node_does_not_run_is_named_before_anything_moves(
    filled: Path, tmp_path: Path, texts: dict[str, Path], cli: Cli
) -> None:
    there = tmp_path / "n1"
    assert cli("init", there, "--cluster", "--listen", f"tls:127.0.0.1:{free_ports(1)[0]}").code == 0
    for folders in ((filled, there), (there, filled)):
        answer = cli("sync", *folders, "--policy", texts["ding"])
        assert answer.code == 5, "try again, once it runs"
        assert f"the lace in {there} is replicated" in answer.err
        assert f"`bobbin serve {there}` starts it" in answer.err
        assert "fsck" not in answer.err
    assert cli("sync", there, "tls:127.0.0.1:9", "--policy", texts["ding"]).code == 5
    assert f"bobbin serve {there}" in cli("follow", there, "tls:127.0.0.1:9", "--policy", texts["ding"]).err
    dry = cli("sync", filled, there, "--policy", texts["ding"], "--dry-run")
    assert dry.code == 0, "which stores nothing"


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
    assert any(line.endswith("not moved; only the other side has it") for line in answer.lines)
    assert f"{PLEX_1}: sent; both sides have it" in answer.lines
    assert "because the Group of" in answer.text
    value = cli(*arguments, "--explain", PLEX_1, "--json").json
    (explained,) = value["explained"]
    assert (explained["record"], explained["fate"], explained["own"]["sending"]) == (PLEX_1, "sent", "sent")
    assert cli(*arguments, "--explain", "nonsense").code == 2
    assert cli(*arguments, "--explain", "//u//ding//").code == 2, "a prefix is no record"


def test_what_nobody_has_is_said_after_the_exchange(
    filled: Path, other: Path, texts: dict[str, Path], cli: Cli
) -> None:
    unknown = PLEX_1.replace("P.ty", "P.tz")
    answer = cli("sync", filled, other, "--policy", texts["ding"], "--explain", "//u//ding//no", "--explain", unknown)
    assert answer.code == 1
    assert "received       1 record, 191 B" in answer.lines, "the exchange has taken place"
    assert listed(cli, filled) == {"links/1", "links/2"}
    assert f"{unknown}: not moved; neither side has it" in answer.lines
    assert answer.lines[-1].startswith("//u//ding//no: not moved; neither side has a record there")
    value = cli("sync", filled, other, "--policy", texts["ding"], "--explain", "//u//ding//no", "--json").json
    assert (value["unknown"], value["explained"], value["fixed_point"]) == (["//u//ding//no"], [], True)


def test_of_a_coordinate_the_newest_of_each_side_is_explained(
    filled: Path, other: Path, texts: dict[str, Path], cli: Cli
) -> None:
    newer = cli("put", other, *PLACE, "-", stdin=b"newer").text.strip()
    place = "//u//ding//links/1"
    arguments = ("sync", filled, other, "--policy", texts["ding"], "--explain", place)
    words = cli(*arguments, "--dry-run", "--full")
    at = words.lines.index(f"{place}: the two sides had different records there; each is explained, the newest first")
    assert words.lines[at + 1 : at + 3] == [f"  {newer}", f"  {PLEX_1}"]
    assert f"{newer}: received; both sides have it" in words.lines
    assert f"{PLEX_1}: sent; both sides have it" in words.lines
    value = cli(*arguments, "--explain", PLEX_1, "--json").json
    assert [one["record"] for one in value["explained"]] == [newer, PLEX_1], "and none twice"
    assert value["several"] == {place: [newer, PLEX_1]}
    assert value["explained"][0]["own_texts"] == {"own-selector": str(texts["ding"])}
    # From now on both have the same there, and nothing is left to be told apart.
    again = cli(*arguments, "--json").json
    assert ([one["record"] for one in again["explained"]], "several" in again) == ([newer], False)


def test_rules_are_cited_by_files_that_the_user_has(
    filled: Path, other: Path, texts: dict[str, Path], cli: Cli
) -> None:
    """The file has its rules in another order than the canonical text, which is all that the peer's side has."""
    answer = cli("sync", filled, other, "--policy", texts["ding"], "--explain", PLEX_1)
    cited = [line.rpartition("  by ")[2] for line in answer.lines if "  by " in line]
    assert cited.count(f"{texts['ding']}:{_line_of(texts['ding'], 'SelectHave')}") == 2
    assert set(cited) == {f"{texts['ding']}:{_line_of(texts['ding'], 'SelectHave')}", "the rule"}


def _line_of(file: Path, word: str) -> int:
    lines = file.read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, start=1) if line.startswith(word))


def test_a_removed_record_does_not_come_and_is_explained(
    filled: Path, other: Path, texts: dict[str, Path], cli: Cli
) -> None:
    (row,) = cli("list", other, "//u//ding//links/2", "--json").rows
    cli("remove", filled, row["hash"], "--reason", "not ours")
    answer = cli("sync", filled, other, "--policy", texts["ding"], "--explain", row["hash"])
    assert answer.code == 0
    assert "received       nothing" in answer.lines
    assert "it was removed here and is refused: not ours" in answer.text
    assert answer.lines[answer.lines.index("refused        1 record") + 1] == (
        f"  {row['hash']}  //u//ding//links/2  removed: not ours"
    )
    assert f"{row['hash']}: not moved; it was removed here and is refused (not ours); only the other side has it" in (
        answer.lines
    )
    there = cli("sync", other, filled, "--policy", texts["ding"], "--json").json
    assert there["refused_there"] == {row["hash"]: "not ours"}
    assert there["places"] == {row["hash"]: "//u//ding//links/2"}


def test_a_damaged_record_is_named_with_the_lace_to_look_into(
    filled: Path, other: Path, texts: dict[str, Path], cli: Cli
) -> None:
    change_store(filled, b"hello", b"hallo")
    answer = cli("sync", filled, other, "--policy", texts["ding"])
    assert answer.code == 1
    assert f"  {PLEX_1}  //u//ding//links/1  blob-digest" in answer.lines
    assert f"`bobbin fsck {filled}`" in answer.err
    assert f"`bobbin fsck {other}`" not in answer.err


def test_an_idle_exchange_names_the_statement_that_stands(
    filled: Path, other: Path, texts: dict[str, Path], cli: Cli
) -> None:
    arguments = ("sync", filled, other, "--policy", texts["ding"], "--statement")
    made = cli(*arguments, "--json").json["statement"]
    for _ in range(2):
        answer = cli(*arguments)
        assert (answer.code, answer.err) == (0, f"statement {made} stands: it says all that a new one would say\n")
    value = cli(*arguments, "--json").json
    assert (value["statement"], value["standing_statement"]) == (None, made)


def test_the_large_profile_raises_the_budgets_of_rules(
    filled: Path, other: Path, texts: dict[str, Path], cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    tight = Budgets(peer=ProgramLimits(derived_tuples_max=1))
    monkeypatch.setattr(executables, "BUDGETS", {"default": tight, "large": executables.BUDGETS["large"]})
    arguments = ("sync", filled, other, "--policy", texts["ding"])
    stopped = cli(*arguments)
    assert stopped.code == 7
    assert "derive more than 1 tuples" in stopped.text
    asked = cli(*arguments, "--explain", PLEX_1)
    assert (asked.code, asked.lines[-1]) == (7, stopped.lines[-1]), "the account stands, though nothing is explained"
    assert "warning: nothing is explained" in asked.err
    assert cli(*arguments, "--limits", "large").code == 0


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
    assert cli("sync", filled, "http:example.org:4790", *ding).code == 2
    assert cli("sync", filled, "wss://example.org/lace", *ding).code == 2
    assert cli("sync", filled, filled, *ding).code == 2
    assert cli("sync", filled, tmp_path / "nothing", *ding).code == 2
    assert cli("sync", filled, other).code == 2
    assert cli("sync", filled, other, "--policy", tmp_path / "nothing.policy").code == 4
    assert cli("sync", filled, other, "--policy", texts["wrong"]).code == 7
    assert cli("sync", filled, other, *ding, "--rounds", "0").code == 2
    assert cli("sync", filled, other, *ding, "--limits", "endless").code == 2
    assert "--policy FILE" in cli("sync", filled, other).err
    answer = cli("sync", filled, other, *ding, "--verifier", VERIFIER, "--allow-insecure")
    assert (answer.code, "--verifier, --allow-insecure: " in answer.err) == (2, True)


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
    stdout = cli("sync", filled, other, "--policy", texts["ding"], "--record", "-")
    assert (stdout.code, "stdout has the account" in stdout.err) == (2, True)
    assert not Path("-").exists()


# ---- a peer elsewhere -----------------------------------------------------------------------------------------------


def test_an_address_is_exchanged_with(filled: Path, ding: Path, node: Served, cli: Cli) -> None:
    answer = cli("sync", filled, node.addresses["tcp"], "--policy", ding)
    assert answer.code == 0
    assert answer.lines[0] == f"peer           {node.verifier} · {node.addresses['tcp']}"
    assert answer.lines[1:3] == ["received       1 record, 191 B", "sent           1 record, 190 B"]
    assert answer.lines[3].startswith("phases         setup ")
    assert " kB" in answer.lines[3], "bytes, by phase"
    assert answer.lines[4] == "found out by   listing, equal"
    assert answer.lines[5].startswith("converged: ")
    assert listed(cli, filled) == {"links/1", "links/2"}
    assert listed(cli, node.folder) == {"links/1", "links/2", "links/3"}


def test_a_known_name_brings_its_policy_and_key(filled: Path, ding: Path, node: Served, cli: Cli) -> None:
    where = ("--address", node.addresses["tls"], "--certificate", node.certificate)
    cli("peers", "add", filled, "y", "--verifier", node.verifier, *where, "--policy", ding)
    value = cli("sync", filled, "y", "--state", "--ledger", "--json").json
    assert (value["fixed_point"], value["peer"], value["peer_name"]) == (True, node.addresses["tls"], "y")
    assert value["peer_verifier"] == node.verifier
    assert value["state"]["peer"] == node.verifier
    assert value["sent"] == [PLEX_1]
    assert all(figure["bytes"] > 0 for figure in value["phases"].values())
    assert cli("sync", filled, node.addresses["tls"], "--json").json["peer_name"] == "y", "the address is noted, too"


def test_why_a_record_moved_as_far_as_this_side_can_say(filled: Path, ding: Path, node: Served, cli: Cli) -> None:
    asked = (PLEX_1, "//u//ding//links/2", "//private//ding//links/3")
    explain = [part for record in asked for part in ("--explain", record)]
    answer = cli("sync", filled, node.addresses["tcp"], "--policy", ding, *explain)
    assert answer.code == 1, "nothing was found at the last place"
    assert f"{PLEX_1}: sent; both sides have it" in answer.lines
    assert f"by {ding}:1" in answer.text
    assert "the other side: the peer advertises it, so both policies let this side have it" in answer.lines
    assert any(line.startswith("//u//ding//links/2: received, as P.") for line in answer.lines)
    assert "//private//ding//links/3: not moved; this side has no record there" in answer.text
    value = cli("sync", filled, node.addresses["tcp"], "--policy", ding, "--json", *explain).json
    assert (value["unknown"], "arrived" in value) == (["//private//ding//links/3"], False), "it was here by then"


def test_a_place_of_which_a_peer_elsewhere_tells_nothing_is_said(
    filled: Path, ding: Path, node: Served, cli: Cli
) -> None:
    place = "//private//ding//links/3"
    cli("put", filled, "-g", "private", "-a", "ding", "-N", "links/3", "-", stdin=b"ours")
    arguments = ("sync", filled, node.addresses["tcp"], "--policy", ding, "--explain", place)
    answer = cli(*arguments)
    assert answer.code == 0
    assert answer.lines[-1] == f"{place}: the peer tells of no record there, so only what this side has is explained"
    assert cli(*arguments, "--json").json["untold"] == [place]


def test_what_a_peer_elsewhere_knows_nothing_of(filled: Path, ding: Path, texts: dict[str, Path], cli: Cli) -> None:
    arguments = ("sync", filled, "tcp:127.0.0.1:4790", "--policy", ding)
    for wrong in (("--dry-run",), ("--through-codec",), ("--peer-policy", ding), ("--peer-query-policy", ding)):
        answer = cli(*arguments, *wrong)
        assert (answer.code, answer.err.startswith(f"error: {wrong[0]}: ")) == (2, True)
    assert cli("sync", filled, "tcp:127.0.0.1:4790").code == 2, "a policy is missing"
    assert cli("sync", filled, "tcp:127.0.0.1:4790", "--policy", texts["wrong"]).code == 7
    assert cli("sync", filled, "nobody", "--policy", ding).code == 2


def test_a_statement_and_a_recording_of_an_exchange_elsewhere(
    filled: Path, ding: Path, node: Served, tmp_path: Path, cli: Cli
) -> None:
    file = tmp_path / "one.recording"
    arguments = ("sync", filled, node.addresses["tls"], "--policy", ding, "--verifier", node.verifier)
    answer = cli(*arguments, "--statement", "--receipts", "--record", file, "--json")
    assert answer.code == 0, answer.err
    assert answer.json["statement"].startswith("S.")
    assert len(answer.json["receipts"]) == 1
    assert cli("replay", file).code == 0


def test_a_node_that_does_not_know_us_is_named(tmp_path: Path, ding: Path, node: Served, cli: Cli) -> None:
    stranger = tmp_path / "z.lace"
    cli("init", stranger)
    cli("key", "new", stranger)
    answer = cli("sync", stranger, node.addresses["tcp"], "--policy", ding)
    assert (answer.code, "is not listed there" in answer.err) == (6, True)
    answer = cli("sync", stranger, "tcp:127.0.0.1:1", "--policy", ding, "--json")
    assert (answer.code, answer.error["retry"]) == (5, True)

"""``bobbin peers``: who is known, for people and for programs."""

import stat
from pathlib import Path

import pytest

from bobbin.records.signing import SigningKey
from tests.support.served import served
from tests.unit.cli.command_line import VERIFIER, Cli

_OTHER = SigningKey.from_secret(bytes([2]) * 32).verifier
_LAB = SigningKey.from_secret(bytes([3]) * 32).verifier
_PIN = "sha256:" + "ab" * 32
_POLICY = "SelectHave(P) :- Have(P), Field(P,'Group',_,'u').\n"
_TWO_ADDRESSES = ("--address", "tls:a.example", "--address", "wss:b.example")


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    path = tmp_path / "lab.policy"
    path.write_text(_POLICY)
    return path


@pytest.fixture
def known(folder: Path, policy: Path, cli: Cli) -> Path:
    """A lace that knows a peer called lab."""
    where = ("--address", "tls:lab.example:4791", "--certificate", _PIN)
    answer = cli("peers", "add", folder, "lab", "--verifier", _LAB, *where, "--policy", policy, "--follow")
    assert (answer.code, answer.text) == (0, "lab is known\n")
    return folder


def test_nobody_is_known_at_first(folder: Path, cli: Cli) -> None:
    answer = cli("peers", "list", folder)
    assert (answer.code, answer.text) == (0, "")
    assert "bobbin peers add" in answer.err
    assert cli("peers", "list", folder, "--json").rows == []


def test_a_peer_that_was_added_is_listed_with_stable_fields(known: Path, policy: Path, cli: Cli) -> None:
    assert cli("peers", "list", known).lines == [f"lab  {_LAB}  tls:lab.example:4791  {policy}  follow"]
    assert cli("peers", "list", known, "--json").rows == [
        {
            "name": "lab",
            "verifier": _LAB,
            "address": "tls:lab.example:4791",
            "addresses": ["tls:lab.example:4791"],
            "certificate": _PIN,
            "certificates": [_PIN],
            "policy": str(policy),
            "query_policy": None,
            "limits": None,
            "strategy": None,
            "follow": True,
            "admit": True,
            "anonymous": False,
        }
    ]
    assert stat.S_IMODE((known / "peers.toml").stat().st_mode) == 0o600


@pytest.mark.parametrize("pins", [(), (_PIN,), (_PIN, "sha256:" + "cd" * 32)], ids=len)
def test_a_peer_may_have_several_addresses(folder: Path, cli: Cli, pins: tuple[str, ...]) -> None:
    given = [part for pin in pins for part in ("--certificate", pin)]
    assert cli("peers", "add", folder, "hall", "--verifier", _LAB, *_TWO_ADDRESSES, *given).code == 0
    assert "tls:a.example  wss:b.example" in cli("peers", "list", folder).text
    (row,) = cli("peers", "list", folder, "--json").rows
    assert (row["address"], row["addresses"]) == ("tls:a.example", ["tls:a.example", "wss:b.example"])
    assert row["certificates"] == (list(pins) * 2)[:2], "a single one holds at all of them"
    shown = cli("peers", "show", folder, "hall").lines
    assert "address       tls:a.example, wss:b.example" in shown


def test_the_terms_for_the_unproven_are_listed_too(known: Path, cli: Cli) -> None:
    with (known / "peers.toml").open("a") as stream:
        stream.write('\n[anonymous]\npolicy = "open.policy"\n')
    assert cli("peers", "list", known).lines[1] == "anonymous  (whoever proves nothing)  open.policy"
    assert [row["anonymous"] for row in cli("peers", "list", known, "--json").rows] == [False, True]
    assert cli("peers", "show", known, "anonymous", "--json").json["verifier"] is None


def test_one_peer_is_shown_with_the_identifiers_of_its_policies(known: Path, cli: Cli, policy: Path) -> None:
    identifier = cli("policy", "id", policy).text.strip()
    shown = cli("peers", "show", known, "lab")
    assert shown.code == 0
    assert f"policy        {policy}  {identifier}" in shown.lines
    assert "links         followed, may dial us" in shown.lines
    value = cli("peers", "show", known, "lab", "--json").json
    assert (value["policy_id"], value["problem"], value["limit_values"]["phase_timeout"]) == (identifier, None, 30)


def test_a_policy_that_is_wrong_now_is_shown_with_its_mistakes(known: Path, cli: Cli, policy: Path) -> None:
    policy.write_text("SelectHave(P) :- Have(Q).\n")
    shown = cli("peers", "show", known, "lab")
    assert shown.code == 1
    assert f"{policy}:1:" in shown.err
    value = cli("peers", "show", known, "lab", "--json").json
    assert value["policy_id"] is None
    assert f"{policy}:1:" in value["problem"]
    assert cli("peers", "list", known).code == 0


def test_a_peer_can_be_forgotten(known: Path, cli: Cli) -> None:
    answer = cli("peers", "remove", known, "lab", "--json")
    assert (answer.code, answer.json) == (0, {"removed": "lab", "verifier": _LAB})
    assert cli("peers", "list", known, "--json").rows == []


def test_who_is_not_there_is_not_found(known: Path, cli: Cli) -> None:
    for command in ("show", "remove"):
        answer = cli("peers", command, known, "nobody")
        assert answer.code == 1
        assert "there is no peer 'nobody'" in answer.err


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("new",), "--verifier"),
        (("new", "--verifier", _OTHER, "--unproven"), "either"),
        (("new", "--verifier", "V.x"), "no verifier"),
        (("new", "--verifier", _LAB), "known already"),
        (("lab", "--verifier", _OTHER), "already"),
        (("NEW", "--verifier", _OTHER), "not a name"),
        (("new", "--verifier", _OTHER, "--address", "lab"), "not an address"),
        (("new", "--verifier", _OTHER, "--follow"), "no address"),
        (("new", "--verifier", _OTHER, "--certificate", "ab"), "64 hexadecimal"),
        (("new", "--verifier", _OTHER, "--certificate", _PIN), "tls or wss"),
        (("new", "--verifier", _OTHER, *_TWO_ADDRESSES, *(["--certificate", _PIN] * 3)), "one for each"),
        (("new", "--unproven", *_TWO_ADDRESSES), "only a key"),
        (("new", "--unproven"), "address"),
        (("new", "--verifier", _OTHER, "--policy", "-"), "stdin"),
    ],
)
def test_what_makes_no_sense_changes_nothing(known: Path, cli: Cli, arguments: tuple[str, ...], word: str) -> None:
    before = (known / "peers.toml").read_bytes()
    answer = cli("peers", "add", known, *arguments)
    assert answer.code == 2
    assert word in answer.err
    assert (known / "peers.toml").read_bytes() == before


def test_a_policy_is_checked_before_anybody_is_known_by_it(folder: Path, cli: Cli, policy: Path) -> None:
    policy.write_text("No\n")
    answer = cli("peers", "add", folder, "lab", "--verifier", _LAB, "--policy", policy)
    assert answer.code == 7
    assert not (folder / "peers.toml").exists()


def test_a_peer_without_a_policy_is_taken_with_a_word_about_it(folder: Path, cli: Cli) -> None:
    answer = cli("peers", "add", folder, "lab", "--verifier", _LAB, "--limits", "large", "--no-admit")
    assert answer.code == 2
    answer = cli("peers", "add", folder, "lab", "--verifier", _LAB, "--limits", "large")
    assert answer.code == 0
    assert "the node's default" in answer.err
    assert cli("peers", "list", folder, "--json").json["limits"] == "large"


def test_another_file_can_be_meant(folder: Path, cli: Cli, tmp_path: Path) -> None:
    other = tmp_path / "friends.toml"
    assert cli("peers", "list", folder, "--peers", other).code == 4
    assert cli("peers", "add", folder, "lab", "--verifier", _LAB, "--peers", other).code == 0
    assert cli("peers", "list", folder, "--json").rows == []
    assert cli("peers", "list", folder, "--peers", other, "--json").json["name"] == "lab"


def test_mistakes_in_the_file_are_all_said(known: Path, cli: Cli) -> None:
    with (known / "peers.toml").open("a") as stream:
        stream.write('verifer = "x"\n[[peer]]\n')
    answer = cli("peers", "list", known)
    assert answer.code == 2
    assert "did you mean verifier?" in answer.err
    assert "peer 2, name" in answer.err


def test_a_folder_without_a_lace_has_no_peers(tmp_path: Path, cli: Cli) -> None:
    assert cli("peers", "list", tmp_path).code == 2
    assert cli("peers", "add", tmp_path, "lab", "--verifier", _LAB).code == 2
    assert list(tmp_path.iterdir()) == []


def test_a_policy_that_lets_nothing_move_is_remarked_on_as_by_policy_check(
    folder: Path, policy: Path, ding: Path, cli: Cli
) -> None:
    remark = f"{policy}:1:1: nothing defines SelectAdvertised, so neither side may request anything"
    assert remark.replace("1:1:", "1:1: remark:") in cli("policy", "check", policy).lines
    answer = cli("peers", "add", folder, "lab", "--verifier", _LAB, "--policy", policy)
    assert (answer.code, answer.err) == (0, f"warning: {remark}\n")
    assert cli("peers", "add", folder, "other", "--verifier", _OTHER, "--policy", ding).err == ""


def test_a_lace_is_not_its_own_peer(folder: Path, ding: Path, cli: Cli) -> None:
    answer = cli("peers", "add", folder, "me", "--verifier", VERIFIER, "--policy", ding)
    assert (answer.code, "this lace's own key 'main'" in answer.err) == (2, True)
    assert cli("key", "new", folder, "second").code == 0
    second = cli("key", "show", folder, "second", "--json").json["verifier"]
    assert "own key 'second'" in cli("peers", "add", folder, "me", "--verifier", second).err
    assert not (folder / "peers.toml").exists()
    (folder / "keys" / "second.key").chmod(0o644)
    assert cli("peers", "add", folder, "lab", "--verifier", _LAB).code == 0, "a bad key file is another's affair"


def test_a_change_that_the_running_node_does_not_read_is_said(
    elsewhere: Path, tmp_path: Path, policy: Path, cli: Cli
) -> None:
    other = tmp_path / "etc.toml"
    other.touch()
    add = ("peers", "add", elsewhere, "lab", "--verifier", _LAB, "--policy", policy)
    with served(elsewhere, peers=other):
        answer = cli(*add)
        assert answer.code == 0
        read = other.resolve()
        assert f"reads its peers from {read}, not from {elsewhere / 'peers.toml'}" in answer.err
        assert f"say --peers {read}" in answer.err
        assert "reads its peers from" in cli("peers", "remove", elsewhere, "lab").err
        assert "reads its peers from" not in cli(*add, "--peers", other).err
        assert "reads its peers from" not in cli("peers", "remove", elsewhere, "lab", "--peers", other).err
    assert "reads its peers from" not in cli(*add).err, "no node runs"
    cli("peers", "remove", elsewhere, "lab")
    with served(elsewhere):
        assert "reads its peers from" not in cli(*add).err


def test_all_policies_that_are_missing_are_named_at_once(folder: Path, tmp_path: Path, cli: Cli) -> None:
    missing = tmp_path / "a.policy", tmp_path / "b.policy"
    answer = cli(
        "peers", "add", folder, "lab", "--verifier", _LAB, "--policy", missing[0], "--query-policy", missing[1]
    )
    assert answer.code == 4
    assert all(f"there is no file {file}" in answer.err for file in missing)

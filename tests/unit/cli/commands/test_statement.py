"""``bobbin statement``."""

from pathlib import Path

import pytest

from bobbin.datalog.limits import Limits
from bobbin.policy.executables import Budgets
from tests.unit.cli.command_line import PLEX_1, VERIFIER, Cli
from tests.unit.cli.policy_texts import DING, SEALED


@pytest.fixture
def stated(filled: Path, tmp_path: Path, cli: Cli) -> str:
    """A statement in the first lace about an exchange with another."""
    other = tmp_path / "y.lace"
    cli("init", other)
    cli("key", "new", other)
    (tmp_path / "ding.policy").write_text(DING, encoding="utf-8")
    (tmp_path / "sealed.policy").write_text(SEALED, encoding="utf-8")
    value = cli("sync", filled, other, "--policy", tmp_path / "ding.policy", "--statement", "--json").json
    assert isinstance(value["statement"], str)
    return value["statement"]


def test_what_one_says(filled: Path, stated: str, cli: Cli) -> None:
    answer = cli("statement", "show", filled, stated)
    assert answer.code == 0
    assert answer.lines[0] == f"statement      {stated}"
    assert answer.lines[1].startswith(f"signed by      {VERIFIER}, ")
    assert "moved          0 received, 1 sent" in answer.lines
    value = cli("statement", "show", filled, stated, "--json").json
    assert (value["signed_by"], value["sent"], value["offered"]["count"]) == (VERIFIER, 1, 1)
    assert value["operands"][value["issuer"]]["origin"] == VERIFIER


def test_it_holds(filled: Path, stated: str, tmp_path: Path, cli: Cli) -> None:
    arguments = ("statement", "check", filled, stated, "--policy", tmp_path / "ding.policy")
    answer = cli(*arguments)
    assert answer.code == 0
    assert answer.lines[0] == "holds · checked with the issuer's records"
    cli("put", filled, "-g", "u", "-a", "ding", "-N", "later", "-", stdin=b"x")
    assert "  since then 1 came in the selected set" in cli(*arguments).lines
    value = cli(*arguments, "--json").json
    assert (value["holds"], value["checked_as"], value["problems"]) == (True, "issuer", [])


def test_the_peer_can_check_it_too(filled: Path, stated: str, tmp_path: Path, cli: Cli) -> None:
    bundle = tmp_path / "s.bundle"
    cli("export", filled, bundle, "--at", "//lace//")
    other = tmp_path / "y.lace"
    cli("import", other, bundle)
    arguments = ("statement", "check", other, stated, "--policy", tmp_path / "ding.policy")
    assert cli(*arguments).lines[0] == "holds · checked with the peer's records"
    assert cli(*arguments, "--as", "issuer", "--json").json["checked_as"] == "issuer"


def test_a_third_lace_says_what_it_can_see_and_what_not(filled: Path, stated: str, tmp_path: Path, cli: Cli) -> None:
    bundle, third = tmp_path / "s.bundle", tmp_path / "third.lace"
    cli("export", filled, bundle, "--at", "//lace//")
    cli("init", third)
    cli("key", "new", third)
    cli("import", third, bundle)
    arguments = ("statement", "check", third, stated, "--policy", tmp_path / "ding.policy")
    answer = cli(*arguments)
    assert answer.code == 1, "a script must not take it for checked"
    assert answer.lines[0] == "cannot be judged here · this lace is neither the issuer's nor the peer's"
    assert f"    issuer {VERIFIER}" in answer.lines
    assert any(line.startswith("  not seen: what was offered") for line in answer.lines)
    value = cli(*arguments, "--json").json
    assert (value["holds"], value["checked_as"], value["problems"]) == (None, None, [])
    wrong = cli("statement", "check", third, stated, "--policy", tmp_path / "sealed.policy", "--json").json
    assert wrong["holds"] is False
    assert cli(*arguments, "--as", "peer", "--json").json["checked_as"] == "peer"


def test_it_does_not_hold(filled: Path, stated: str, tmp_path: Path, cli: Cli) -> None:
    wrong = cli("statement", "check", filled, stated, "--policy", tmp_path / "sealed.policy")
    assert wrong.code == 1
    assert wrong.lines[0].startswith("does not hold")
    cli("remove", filled, PLEX_1, "--reason", "test")
    gone = cli("statement", "check", filled, stated, "--policy", tmp_path / "ding.policy")
    assert gone.code == 1
    assert "1 fewer" in gone.text


def test_what_is_no_statement(filled: Path, stated: str, tmp_path: Path, cli: Cli) -> None:
    assert stated
    assert cli("statement", "show", filled, PLEX_1).code == 2
    assert cli("statement", "show", filled, "//u//ding//nothing").code == 1
    check = ("--policy", tmp_path / "ding.policy")
    assert cli("statement", "check", filled, PLEX_1, *check).code == 2
    assert cli("statement", "check", filled, "//u//ding//nothing", *check).code == 1


def test_a_check_past_a_limit_names_the_option(
    filled: Path, stated: str, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = Budgets(own=Limits(derived_tuples_max=1))
    monkeypatch.setattr("bobbin.policy.executables.BUDGETS", {"default": small, "large": Budgets()})
    cli("put", filled, "-g", "u", "-a", "ding", "-N", "later", "-", stdin=b"x")
    arguments = ("statement", "check", filled, stated, "--policy", tmp_path / "ding.policy")
    over = cli(*arguments)
    assert over.code == 7
    assert "derived_tuples_max" in over.err
    assert "say --limits large" in over.err
    assert cli(*arguments, "--limits", "large").code == 0
    monkeypatch.setattr("bobbin.policy.executables.BUDGETS", {"default": small, "large": small})
    assert "none beyond --limits large" in cli(*arguments, "--limits", "large").err


def test_the_limits_that_are_noted_for_the_other_side_hold(
    filled: Path, stated: str, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "bobbin.policy.executables.BUDGETS",
        {"default": Budgets(own=Limits(derived_tuples_max=1)), "large": Budgets()},
    )
    cli("put", filled, "-g", "u", "-a", "ding", "-N", "later", "-", stdin=b"x")
    arguments = ("statement", "check", filled, stated, "--policy", tmp_path / "ding.policy")
    said = cli("statement", "show", filled, stated, "--json").json
    other = said["operands"][1 - said["issuer"]]["origin"]
    (filled / "peers.toml").write_text(f'[[peer]]\nname = "y"\nverifier = "{other}"\n', encoding="utf-8")
    assert cli(*arguments).code == 7
    (filled / "peers.toml").write_text(
        f'[[peer]]\nname = "y"\nverifier = "{other}"\nlimits = "large"\n', encoding="utf-8"
    )
    assert cli(*arguments).code == 0
    assert cli(*arguments, "--limits", "default").code == 7, "what is typed comes first"
    (filled / "peers.toml").write_text("[[peer", encoding="utf-8")
    assert cli(*arguments, "--limits", "large").code == 0, "a file that is no part of the check does not stop it"
    assert cli(*arguments).code == 7

"""``bobbin tangle account``."""

from pathlib import Path

import pytest

from tests.unit.cli.command_line import Cli
from tests.unit.cli.tangle_laces import Woven


def _keys(cli: Cli, woven: Woven) -> dict[str | None, list[str]]:
    value = cli("tangle", "account", "show", woven.folder, woven.account, "--json").json
    assert value["account"] == woven.account
    return {key["name"]: key["powers"] for key in value["keys"]}


def test_ones_own_account(woven: Woven, cli: Cli) -> None:
    public = cli("tangle", "key", "list", woven.folder, "--json").rows[0]["public"]
    value = cli("tangle", "account", "show", woven.folder, "--json").json
    assert value == {
        "account": woven.account,
        "keys": [{"public": public, "powers": ["add", "del"], "name": "account"}],
    }
    shown = cli("tangle", "account", "show", woven.folder).text
    assert woven.account in shown
    assert f"{public}  add, del  key account of this lace" in shown
    assert cli("tangle", "account", "show", woven.folder, woven.account[:8], "--json").json == value


def test_a_key_of_this_lace_is_added_and_removed(woven: Woven, cli: Cli) -> None:
    cli("tangle", "key", "new", woven.folder, "laptop")
    assert cli("tangle", "append", woven.folder, woven.feed, "--key", "laptop", "-d", "{}").code == 2
    added = cli("tangle", "account", "add", woven.folder, "laptop", "--json").json
    assert (added["account"], added["powers"]) == (woven.account, [])
    assert _keys(cli, woven) == {"account": ["add", "del"], "laptop": []}
    assert cli("tangle", "append", woven.folder, woven.feed, "--key", "laptop", "-d", "{}").code == 0
    refused = cli("tangle", "account", "del", woven.folder, "account", "--key", "laptop")
    assert refused.code == 2
    assert cli("tangle", "account", "del", woven.folder, "laptop").code == 0
    assert _keys(cli, woven) == {"account": ["add", "del"]}
    assert cli("tangle", "append", woven.folder, woven.feed, "--key", "laptop", "-d", "{}").code == 2
    assert {row["standing"] for row in cli("tangle", "log", woven.folder, woven.feed, "--json").rows} == {"full"}
    assert cli("fsck", woven.folder).code == 0


def test_a_key_elsewhere_agrees_first(woven: Woven, folder: Path, cli: Cli) -> None:
    cli("tangle", "key", "new", folder)
    answer = cli("tangle", "account", "consent", folder, woven.account)
    public, consent = answer.text.split()
    assert cli("tangle", "account", "consent", folder, woven.account, "--json").json == {
        "account": woven.account,
        "public": public,
        "consent": consent,
    }
    missing = cli("tangle", "account", "add", woven.folder, public)
    assert missing.code == 2
    assert f"bobbin tangle account consent DIR {woven.account}" in missing.err
    wrong = cli("tangle", "account", "add", woven.folder, public, consent[::-1])
    assert wrong.code == 2
    assert "has not agreed" in wrong.err
    added = cli("tangle", "account", "add", woven.folder, public, consent, "--power", "add", "--json")
    assert added.json["powers"] == ["add"]
    assert _keys(cli, woven) == {"account": ["add", "del"], None: ["add"]}
    cli("tangle", "goal", folder, woven.feed, "all")
    cli("tangle", "goal", folder, woven.account, "all")
    cli("tangle", "sync", folder, woven.folder)
    assert cli("tangle", "append", folder, woven.feed, "-d", '{"text":"from the phone"}').code == 0


def test_the_last_key_that_may_add_stays(woven: Woven, cli: Cli) -> None:
    cli("tangle", "key", "new", woven.folder, "laptop")
    cli("tangle", "account", "add", woven.folder, "laptop", "--power", "del")
    answer = cli("tangle", "account", "del", woven.folder, "account")
    assert answer.code == 2
    assert "is the last key that may add keys" in answer.err
    cli("tangle", "account", "add", woven.folder, "laptop", "--power", "add")
    assert cli("tangle", "account", "del", woven.folder, "account", "--key", "laptop").code == 0
    assert _keys(cli, woven) == {"laptop": ["add", "del"]}


@pytest.mark.parametrize("command", ["add", "del"])
def test_what_makes_no_sense(woven: Woven, cli: Cli, command: str) -> None:
    answer = cli("tangle", "account", command, woven.folder, "nobody")
    assert answer.code == 2
    assert "neither an account key of this lace nor a public key" in answer.err
    answer = cli("tangle", "account", command, woven.folder, woven.thread, "--account", woven.feed)
    assert answer.code == 2
    assert "there is no account" in answer.err


def test_what_is_not_there(woven: Woven, folder: Path, cli: Cli) -> None:
    assert cli("tangle", "account", "show", woven.folder, woven.feed).code == 1
    assert cli("tangle", "account", "show", folder).code == 2
    cli("tangle", "key", "new", folder)
    answer = cli("tangle", "account", "show", folder)
    assert answer.code == 2
    assert "bobbin tangle new" in answer.err
    public = cli("tangle", "key", "list", folder, "--json").rows[0]["public"]
    assert cli("tangle", "account", "del", woven.folder, public).code == 1
    assert cli("tangle", "account", "consent", folder, "short").code == 2
    (woven.folder / "keys" / "account.ed25519").write_bytes(b"damaged\n")
    assert cli("tangle", "account", "show", woven.folder, woven.account, "--json").json["keys"][0]["name"] is None

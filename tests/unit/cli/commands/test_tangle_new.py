"""``bobbin tangle new``."""

from pathlib import Path

import pytest

from bobbin.tangles.message import moot_id
from tests.unit.cli.command_line import Cli
from tests.unit.cli.tangle_laces import Woven


def test_an_account_is_begun(folder: Path, cli: Cli) -> None:
    assert cli("tangle", "key", "new", folder).code == 0
    answer = cli("tangle", "new", folder, "account", "--json").json
    assert answer["kind"] == "account"
    again = cli("tangle", "new", folder, "account")
    assert (again.code, again.text.strip()) == (0, answer["tangle"]), "it is the same one"
    assert "has this account already" in again.err
    other = cli("tangle", "new", folder, "account", "--domain", "device").text.strip()
    assert other != answer["tangle"]
    torn = cli("tangle", "new", folder, "feed", "--domain", "post")
    assert torn.code == 2
    assert all(part in torn.err for part in ("--account", other, answer["tangle"]))


def test_without_an_account_it_is_said_how_to_begin_one(folder: Path, cli: Cli) -> None:
    cli("tangle", "key", "new", folder)
    answer = cli("tangle", "new", folder, "thread", "--data", "{}")
    assert answer.code == 2
    assert f"bobbin tangle new {folder} account" in answer.err


def test_a_feed_has_the_id_that_follows_from_its_account(woven: Woven, cli: Cli) -> None:
    assert woven.feed == moot_id(woven.account, "post")
    answer = cli("tangle", "new", woven.folder, "feed", "--domain", "post", "--json")
    assert answer.json == {"tangle": woven.feed, "kind": "feed"}, "it is the same one"


def test_every_message_is_a_record_at_a_place_that_follows_from_it(woven: Woven, cli: Cli) -> None:
    rows = cli("list", woven.folder, "--json").rows
    assert {(row["group"], row["app"]) for row in rows} == {(woven.account, "pzp")}
    names = {row["name"] for row in rows}
    assert f"account__person/{woven.account}" in names
    assert {f"post/{post}" for post in woven.posts} <= names
    assert len(names) == 7
    assert cli("fsck", woven.folder).code == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["feed"], "a feed has a domain"),
        (["feed", "--domain", "no domain"], "domain"),
        (["feed", "--domain", "post", "--data", "{}"], "--data"),
        (["account", "--account", "any"], "--account"),
        (["thread"], "say what the message says"),
        (["thread", "--data", "[]"], "JSON object"),
        (["thread", "--data", "{"], "JSON object"),
        (["thread", "--data", "{}", "--account", "zzz"], "--account: 'zzz' is too short"),
        (["weave"], "weave"),
        (["account", "--key", "nobody"], "no account key 'nobody'"),
    ],
)
def test_what_makes_no_sense(woven: Woven, cli: Cli, arguments: list[str], sentence: str) -> None:
    answer = cli("tangle", "new", woven.folder, *arguments)
    assert answer.code == 2
    assert sentence in answer.err


def test_a_thread_of_nobody_in_particular(woven: Woven, cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "data.json"
    file.write_text('{"text":"hello"}')
    answer = cli("tangle", "new", woven.folder, "thread", file, "--account", "any", "--json")
    shown = cli("tangle", "show", woven.folder, answer.json["tangle"], "--json").json
    assert (shown["account"], shown["domain"], shown["kind"]) == ("any", "post", "thread")

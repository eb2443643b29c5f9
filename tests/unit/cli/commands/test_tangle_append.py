"""``bobbin tangle append``."""

from tests.unit.cli.command_line import Cli
from tests.unit.cli.tangle_laces import Woven


def test_a_message_stands_after_everything(woven: Woven, cli: Cli) -> None:
    answer = cli("tangle", "append", woven.folder, woven.feed[:8], "-", "--json", stdin=b'{"text":"more"}').json
    assert answer["tangles"] == {woven.feed: 5}
    assert (answer["account"], answer["domain"]) == (woven.account, "post")
    rows = cli("tangle", "log", woven.folder, woven.feed, "--json").rows
    assert rows[-1]["id"] == answer["id"]
    assert woven.posts[-1] in rows[-1]["prev"]


def test_a_reply_stands_in_two_tangles(woven: Woven, cli: Cli) -> None:
    ids = [row["id"] for row in cli("tangle", "log", woven.folder, woven.thread, "--json").rows]
    assert ids == [woven.thread, woven.posts[-1]]


def test_what_makes_no_sense(woven: Woven, cli: Cli) -> None:
    for arguments in (["zzzzzz", "-d", "{}"], [woven.feed], [woven.feed, "-d", "1"], ["1" * 32, "-d", "{}"]):
        assert cli("tangle", "append", woven.folder, *arguments).code == 2
    cli("tangle", "key", "new", woven.folder, "stranger")
    answer = cli("tangle", "append", woven.folder, woven.feed, "-d", "{}", "--key", "stranger")
    assert answer.code == 2
    assert f"may not sign for the account {woven.account}" in answer.err
    answer = cli("tangle", "append", woven.folder, woven.account, "-d", "{}")
    assert (answer.code, "only messages that add and remove keys" in answer.err) == (2, True)
    answer = cli("tangle", "append", woven.folder, woven.feed, "-d", "{}", "--also", "zzzz")
    assert (answer.code, "--also: 'zzzz'" in answer.err) == (2, True)


def test_a_name_that_is_given_twice_is_not_signed_once(woven: Woven, cli: Cli) -> None:
    for data in ('{"a":1,"a":2}', '{"x":[{"b":1,"a":0,"b":2}]}'):
        answer = cli("tangle", "append", woven.folder, woven.feed, "--data", data)
        assert (answer.code, "twice in one object" in answer.err) == (2, True)
    long = '{"a":{"n":' + "9" * 5_000 + '},"b":{"n":1}}'
    assert cli("tangle", "append", woven.folder, woven.feed, "--data", long).code in (0, 2)
    assert cli("tangle", "append", woven.folder, woven.feed, "--data", '{"a":{"n":1},"b":{"n":1}}').code == 0


def test_a_set_says_what_it_takes(woven: Woven, cli: Cli) -> None:
    names = cli("tangle", "new", woven.folder, "feed", "--domain", "set_v1__names").text.strip()
    answer = cli("tangle", "append", woven.folder, names, "-d", '{"text":"hello"}')
    assert answer.code == 2
    assert '{"add":[VALUE…],"del":[VALUE…],"supersedes":[ID…]}' in answer.err
    assert cli("tangle", "append", woven.folder, names, "-d", '{"add":["a"],"del":[],"supersedes":[]}').code == 0

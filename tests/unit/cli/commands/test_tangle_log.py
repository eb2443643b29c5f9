"""``bobbin tangle log``."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bobbin.lace import Lace
from tests.support.tangle_messages import Author
from tests.unit.cli.command_line import Cli
from tests.unit.cli.tangle_laces import Woven
from tests.unit.runtime.tangle_stores import placed


def test_the_tangles_of_a_lace(woven: Woven, cli: Cli) -> None:
    rows = cli("tangle", "log", woven.folder, "--json").rows
    assert {(row["tangle"], row["kind"], row["messages"]) for row in rows} == {
        (woven.account, "account", 1),
        (woven.feed, "feed", 5),
        (woven.thread, "thread", 2),
    }
    assert len(cli("tangle", "log", woven.folder).lines) == 3


def test_the_messages_of_a_tangle(woven: Woven, cli: Cli) -> None:
    rows = cli("tangle", "log", woven.folder, woven.feed, "--json").rows
    assert [row["id"] for row in rows] == [woven.feed, *woven.posts]
    assert [row["depth"] for row in rows] == [0, 1, 2, 3, 4]
    assert {row["standing"] for row in rows} == {"full"}
    assert rows[1]["data"] == {"text": "post 0"}
    last = cli("tangle", "log", woven.folder, woven.feed, "--limit", "2").lines
    assert len(last) == 2
    assert "reply" in last[-1]


def test_what_is_not_proven_says_why(folder: Path, cli: Cli) -> None:
    alice = Author("alice")
    moot, first, second = alice.feed(2)
    third = alice.post(moot.id, {"text": "\u202eevil\x1b[0m"})
    wrong = placed(alice, moot, [first.id, second.id], 7)
    waits = placed(alice, moot, [second.id, third.id], 4)
    with Lace.open(folder) as lace:
        lace.tangles.commit([alice.account, moot, first, wrong, second, waits], tangle=moot.id)
    lines = "\n".join(cli("tangle", "log", folder, moot.id).lines)
    assert "waiting: waits for 2 messages" in lines or "waiting: waits for 1 message" in lines
    assert "1 messages" not in lines
    assert "interop: tangle: depth is not max prev depth + 1" in lines
    with Lace.open(folder) as lace:
        lace.tangles.commit([third], tangle=moot.id)
    shown = cli("tangle", "log", folder, moot.id).text
    assert "\x1b" not in shown
    assert "\u202e" not in shown


def test_nothing_yet(folder: Path, cli: Cli) -> None:
    answer = cli("tangle", "log", folder)
    assert (answer.code, answer.text) == (0, "")
    assert "bobbin tangle new" in answer.err
    assert cli("tangle", "log", folder, "1" * 32).code == 1


def _alter(folder: Path, id: str, old: bytes, new: bytes) -> None:
    """Change the bytes of a message behind the back of the store."""
    with closing(sqlite3.connect(folder / "records.db")) as connection, connection:
        (raw,) = connection.execute("SELECT raw FROM message WHERE id = ?", (id,)).fetchone()
        assert raw.count(old) == 1
        connection.execute("UPDATE message SET raw = ? WHERE id = ?", (raw.replace(old, new), id))


@pytest.mark.parametrize(
    ("old", "new"),
    [(b"post 1", b"POST 1"), (b'"depth":2', b'"depth":3'), (b'"v":4', b'"v":5'), (b'{"data":', b'{"DATA":')],
    ids=["data", "metadata", "version", "form"],
)
def test_damaged_bytes_are_never_shown(woven: Woven, cli: Cli, old: bytes, new: bytes) -> None:
    _alter(woven.folder, woven.posts[1], old, new)
    for words in (["log"], ["log", "--json"], ["show", "--graph"]):
        command, *options = words
        answer = cli("tangle", command, woven.folder, woven.feed, *options)
        assert answer.code == 3
        assert woven.posts[1] in answer.err
        assert "bobbin fsck" in answer.err
        assert "POST 1" not in answer.text
    checked = cli("fsck", woven.folder)
    assert checked.code == 3
    assert woven.posts[1] in checked.text + checked.err


def test_who_says_it_stands_beside_each_message(woven: Woven, cli: Cli) -> None:
    public = cli("tangle", "key", "list", woven.folder, "--json").rows[0]["public"]
    for words in (["log"], ["show", "--graph"]):
        lines = [line for line in cli("tangle", *words, woven.folder, woven.thread).lines if "topic" in line]
        assert [woven.account[:8] in line for line in lines] == [True]
    assert public[:8] in cli("tangle", "log", woven.folder, woven.account).lines[0]
    nobody = cli("tangle", "new", woven.folder, "thread", "--account", "any", "-d", '{"text":"x"}').text.strip()
    assert cli("tangle", "log", woven.folder, nobody).lines[0].split()[2] == "any"


def test_a_limit_is_the_last_messages_or_the_first_tangles(woven: Woven, cli: Cli) -> None:
    shown = " ".join(cli("tangle", "log", "--help").text.split())
    assert "Only the last N messages, or the first N tangles" in shown.replace(" │ │ ", " ")
    every = cli("tangle", "log", woven.folder, "--json").rows
    assert cli("tangle", "log", woven.folder, "--json", "--limit", "2").rows == every[:2]

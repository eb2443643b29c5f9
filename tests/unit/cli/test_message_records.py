"""What is in the place of a message: the message, or a word that nobody vouches for it."""

from itertools import count
from pathlib import Path

import pytest

from bobbin.cli.message_records import take_in
from bobbin.lace import Lace
from bobbin.records.record import Plex
from bobbin.tangles.plex import plex_of
from tests.support.tangle_messages import Author, signed_again
from tests.unit.cli.command_line import Cli
from tests.unit.cli.tangle_laces import Woven


def _forge(cli: Cli, folder: Path, group: str, name: str, *more: str) -> None:
    assert cli("put", folder, "-", "-g", group, "-a", "pzp", "-N", name, *more, stdin=b"forged").code == 0


@pytest.mark.parametrize("signed", [(), ("--sign",)])
def test_nothing_stands_before_a_message(woven: Woven, cli: Cli, signed: tuple[str, ...]) -> None:
    cli("key", "new", woven.folder)
    place = f"//{woven.account}//pzp//thread/{woven.thread}"
    genuine = cli("get", woven.folder, place, "--json").json
    _forge(cli, woven.folder, woven.account, f"thread/{woven.thread}", *signed)
    answer = cli("get", woven.folder, place, "--json")
    assert (answer.json, answer.err) == (genuine, "")
    assert cli("show", woven.folder, place, "--json").json["hash"] == genuine["hash"]
    listed = [row["hash"] for row in cli("list", woven.folder, place, "--json").rows]
    assert (len(listed), listed[0]) == (2, genuine["hash"])
    for prefix in (f"//{woven.account}//pzp//thread/", f"//{woven.account}//pzp//", f"//{woven.account}//"):
        tips = [row["hash"] for row in cli("list", woven.folder, prefix, "--tips", "--json").rows]
        assert genuine["hash"] in tips
        assert listed[1] not in tips
        rows = [row["hash"] for row in cli("list", woven.folder, prefix, "--json").rows]
        assert len(rows) == len(set(rows)) == len(tips) + 1
    with Lace.open(woven.folder) as lace:
        record = lace.get(place)
    assert isinstance(record, Plex)
    assert record.hash == genuine["hash"]


def test_a_copy_that_a_stranger_has_signed_does_not_either(woven: Woven, cli: Cli) -> None:
    place = f"//{woven.account}//pzp//thread/{woven.thread}"
    genuine = cli("get", woven.folder, place, "--json").json["hash"]
    with Lace.open(woven.folder) as lace:
        message = lace.tangles.message(woven.thread)
        assert message is not None
        copies = (plex_of(signed_again(Author(f"stranger {number}").key, message)) for number in count())
        lace.put_record(next(copy for copy in copies if copy is not None and copy.hash > genuine))
    assert cli("get", woven.folder, place, "--json").json["hash"] == genuine
    cli("tangle", "log", woven.folder)
    assert cli("get", woven.folder, place, "--json").json["hash"] == genuine


def test_of_a_message_that_is_not_here_only_what_says_the_same(folder: Path, cli: Cli) -> None:
    alice = Author("alice")
    message = alice.root({"text": "topic"}, "thread")
    record = plex_of(message)
    assert record is not None
    place = str(record.coordinate)
    _forge(cli, folder, record.group, record.name)
    answer = cli("get", folder, place)
    assert (answer.code, answer.out) == (1, b"")
    assert "is not the message of this name" in answer.err
    with Lace.open(folder) as lace:
        lace.put_record(record)
    for command in ("get", "show"):
        answer = cli(command, folder, place)
        assert "topic" in answer.text
        assert f"nothing here proves that {alice.account.id} has written it" in answer.err
        assert f"bobbin tangle show {folder} {message.id}" in answer.err
    assert cli("get", folder, record.hash).err == "", "whoever names a hash knows which record is meant"
    with Lace.open(folder) as lace:
        lace.tangles.commit([alice.account, message])
    assert cli("get", folder, place).err == ""


def test_an_exchange_of_records_brings_messages(woven: Woven, folder: Path, cli: Cli, tmp_path: Path) -> None:
    policy = tmp_path / "all.policy"
    policy.write_text(cli("policy", "build", "--app", "pzp").text)
    assert cli("sync", folder, woven.folder, "--policy", policy, "--dry-run").code == 0
    assert cli("stat", folder, "--json").json["messages"] == 0
    assert cli("sync", folder, woven.folder, "--policy", policy).code == 0
    assert cli("stat", folder, "--json").json["messages"] == 7
    answer = cli("get", folder, f"//{woven.account}//pzp//thread/{woven.thread}")
    assert (answer.code, answer.err) == (0, "")


def test_what_has_no_tangles_takes_nothing_in(filled: Path) -> None:
    with Lace.open(filled) as lace:
        take_in(lace)
        assert lace.stat().messages == 0

"""``bobbin remote``: single records of a node on loopback."""

from pathlib import Path

import pytest

from bobbin.interlace.messages import Message
from bobbin.interlace.state import Awaits
from bobbin.lace import Lace
from bobbin.runtime.exchange import LinkEnded
from bobbin.runtime.stream_link import StreamLink
from tests.support.served import Served
from tests.unit.cli.command_line import PLEX_1, Answer, Cli

_NOBODYS = PLEX_1.replace("ty", "ux")


@pytest.fixture
def knowing(filled: Path, ding: Path, node: Served, cli: Cli) -> Path:
    """A lace that knows the node, as y."""
    where = ("--address", node.addresses["tls"])
    assert cli("peers", "add", filled, "y", "--verifier", node.verifier, *where, "--policy", ding).code == 0
    return filled


def _names(folder: Path) -> set[str]:
    with Lace.open(folder, read_only=True) as lace:
        return {listed.name for listed in lace.list()}


def test_get_fetches_one_record_and_sends_nothing(knowing: Path, node: Served, cli: Cli) -> None:
    cli("put", node.folder, "-g", "u", "-a", "ding", "-N", "links/9", "-", stdin=b"not asked for")
    answer = cli("remote", "get", knowing, "y", "//u//ding//links/2")
    assert (answer.code, answer.out) == (0, b"theirs")
    assert _names(knowing) == {"links/1", "links/2"}
    assert "links/1" not in _names(node.folder)
    with Lace.open(knowing) as lace:
        record = lace.get("//u//ding//links/2")
    assert record is not None
    assert cli("remote", "get", knowing, "y", record.hash, "--record").out == record.raw
    assert cli("remote", "get", knowing, "y", record.hash, "--json").json["hash"] == record.hash


def test_get_needs_no_policy(filled: Path, node: Served, cli: Cli) -> None:
    answer = cli("remote", "get", filled, node.addresses["tcp"], "//u//ding//links/2")
    assert (answer.code, answer.out) == (0, b"theirs")


def test_what_the_peer_does_not_give(knowing: Path, cli: Cli) -> None:
    answer = cli("remote", "get", knowing, "y", "//private//ding//links/3")
    assert (answer.code, answer.out) == (1, b"")
    said = f"there is no record at //private//ding//links/3 in {knowing}, and y gives none"
    assert answer.err == f"not found: {said}\n"
    assert f" in {knowing}, and y gives none" in cli("remote", "get", knowing, "y", _NOBODYS).err
    assert cli("remote", "get", knowing, "y", "//u//").code == 2


def test_list_fetches_what_is_below_a_place(knowing: Path, cli: Cli) -> None:
    answer = cli("remote", "list", knowing, "y", "//u//ding//")
    assert answer.code == 0
    assert [line.rpartition("  ")[2] for line in answer.lines] == ["//u//ding//links/1", "//u//ding//links/2"]
    rows = cli("remote", "list", knowing, "y", "//u//ding//", "--json", "--limit", "1").rows
    assert [row["name"] for row in rows] == ["links/1"]
    nothing = cli("remote", "list", knowing, "y", "//nowhere//")
    assert (nothing.code, nothing.text) == (0, "")
    assert "nothing at //nowhere//" in nothing.err


def test_put_hands_over_exactly_what_is_named(knowing: Path, node: Served, cli: Cli) -> None:
    private = cli("put", knowing, "-g", "private", "-a", "ding", "-N", "mine", "-", stdin=b"mine").text.strip()
    answer = cli("remote", "put", knowing, "y", "//u//ding//links/1", private)
    assert answer.code == 1
    assert answer.lines == [
        f"{PLEX_1}  stored there",
        f"{private}  not taken: one of the policies does not select it",
    ]
    assert "links/1" in _names(node.folder)
    again = cli("remote", "put", knowing, "y", PLEX_1, "--json")
    assert (again.code, again.json) == (0, {"hash": PLEX_1, "fate": "there-already", "reason": None})
    assert cli("remote", "put", knowing, "y", "//u//ding//nothing").code == 1


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Links that are gone as soon as both sides have introduced themselves."""

    async def lose(self: StreamLink, awaits: Awaits) -> Message:
        del self, awaits
        raise LinkEnded

    monkeypatch.setattr(StreamLink, "receive", lose)


@pytest.mark.usefixtures("hasty")
def test_after_a_broken_link_nothing_is_said_of_what_was_not_settled(knowing: Path, cli: Cli) -> None:
    answer = cli("remote", "put", knowing, "y", PLEX_1)
    assert (answer.code, answer.lines) == (
        5,
        [f"{PLEX_1}  unknown: the exchange ended before it was settled (link-lost)"],
    )
    assert answer.err.startswith("error: the exchange ended early, link-lost")
    answer = cli("remote", "put", knowing, "y", PLEX_1, "--json")
    assert (answer.code, answer.json) == (5, {"hash": PLEX_1, "fate": "unknown", "reason": "link-lost"})
    _check_lost(answer)


def _check_lost(answer: Answer) -> None:
    """A lost link is an error of its own kind, not a warning beside an answer."""
    error = answer.error
    assert (error["error"], error["exit_code"], error["retry"]) == ("try-again", 5, True)
    assert error["reason"] == "link-lost"


@pytest.mark.usefixtures("hasty")
def test_a_list_whose_link_broke_shows_what_is_here_and_is_an_error(knowing: Path, cli: Cli) -> None:
    answer = cli("remote", "list", knowing, "y", "//u//ding//")
    assert answer.code == 5
    assert [line.rpartition("  ")[2] for line in answer.lines] == ["//u//ding//links/1"]
    assert answer.err.startswith("error: the exchange ended early, link-lost")
    answer = cli("remote", "list", knowing, "y", "//u//ding//", "--json")
    assert [row["name"] for row in answer.rows] == ["links/1"]
    _check_lost(answer)
    empty = cli("remote", "list", knowing, "y", "//nowhere//", "--json")
    assert empty.rows == []
    _check_lost(empty)


@pytest.mark.usefixtures("hasty")
def test_a_get_of_what_was_here_says_that_the_peer_was_not_heard(knowing: Path, cli: Cli) -> None:
    answer = cli("remote", "get", knowing, "y", "//u//ding//links/1")
    assert (answer.code, answer.out) == (5, b"hello")
    assert answer.err.startswith("error: the exchange ended early, link-lost")


@pytest.mark.usefixtures("hasty")
def test_a_get_whose_link_broke_is_an_error_and_not_an_absence(knowing: Path, cli: Cli) -> None:
    answer = cli("remote", "get", knowing, "y", _NOBODYS, "--json")
    assert (answer.code, answer.out) == (5, b"")
    _check_lost(answer)
    assert "link-lost" in answer.error["message"]


def test_what_makes_no_sense(knowing: Path, tmp_path: Path, cli: Cli) -> None:
    assert cli("remote", "get", knowing, tmp_path, PLEX_1).code == 2
    assert cli("remote", "get", knowing, "nobody", PLEX_1).code == 2
    assert cli("remote", "list", knowing, "y", PLEX_1).code == 2
    assert cli("remote", "put", knowing, "y").code == 2
    assert cli("remote", "get", knowing, "tcp:127.0.0.1:1", PLEX_1).code == 5

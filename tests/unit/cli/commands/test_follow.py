"""``bobbin follow``: every record that comes, on a line."""

import asyncio
import json
from pathlib import Path

import pytest
from msgspec import structs

from bobbin.cli import output
from bobbin.cli.commands import follow as module
from bobbin.cli.elsewhere import Chosen, Demands, find_elsewhere
from bobbin.cli.output import Output
from bobbin.lace import Lace
from bobbin.runtime.following import ObservationsMissed
from bobbin.runtime.reconnect import Backoff, Lost, Once
from bobbin.runtime.remote import RemoteFollowing
from tests.support.served import Served
from tests.unit.cli.command_line import PLEX_1, Cli


def test_records_are_shown_as_they_come(filled: Path, ding: Path, node: Served, cli: Cli) -> None:
    answer = cli("follow", filled, node.addresses["tcp"], "--policy", ding, "--count", "1")
    assert answer.code == 0
    (line,) = answer.lines
    assert line.endswith("     6 B  //u//ding//links/2")
    assert answer.err == f"following {node.verifier} · {node.addresses['tcp']}\n"
    with Lace.open(node.folder, read_only=True) as there:
        assert there.have(PLEX_1), "what both policies select goes both ways"


def test_only_what_comes_at_a_place_is_shown(filled: Path, ding: Path, node: Served, cli: Cli) -> None:
    for name in ("a/1", "b/1"):
        cli("put", node.folder, "-g", "u", "-a", "ding", "-N", name, "-", stdin=b"x")
    arguments = ("follow", filled, node.addresses["tcp"], "--policy", ding, "--at", "//u//ding//b/", "--count", "1")
    rows = cli(*arguments, "--json").rows
    assert [row["name"] for row in rows] == ["b/1"]


def test_what_comes_later_is_shown_at_once(
    filled: Path, ding: Path, node: Served, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    async def scene() -> None:
        with Lace.open(filled) as lace:
            there = find_elsewhere(
                filled, node.addresses["tls"], Demands(verifier=node.verifier), Chosen(policy=str(ding))
            )
            task = asyncio.create_task(module._follow(Output(as_json=False), lace, there, None, 2))
            shown = b""
            while b"links/2" not in shown:
                await asyncio.sleep(0.002)
                assert not task.done()
                shown += capsysbinary.readouterr().out
            with Lace.open(node.folder) as other:
                other.put(b"later", group="u", app="ding", name="later/1")
            async with asyncio.timeout(60):
                await task

    asyncio.run(scene())
    assert b"//u//ding//later/1" in capsysbinary.readouterr().out


def test_lost_links_and_records_that_came_too_fast_are_said(
    filled: Path, ding: Path, node: Served, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    taken = RemoteFollowing.__anext__
    missed = [ObservationsMissed(7)]

    async def take(self: RemoteFollowing) -> object:
        if missed:
            self._tell(Lost(why="the peer has closed the link", wait_seconds=2.5, attempts=1))
            raise missed.pop()
        return await taken(self)

    monkeypatch.setattr(RemoteFollowing, "__anext__", take)
    monkeypatch.setattr(output, "flush", lambda: None)

    async def scene() -> None:
        with Lace.open(filled) as lace:
            there = find_elsewhere(filled, node.addresses["tcp"], Demands(), Chosen(policy=str(ding)))
            await module._follow(Output(as_json=False), lace, there, None, 1)

    asyncio.run(scene())
    said = capsysbinary.readouterr().err.decode().splitlines()
    assert "the link is lost: the peer has closed the link; trying again within 3 s (attempt 1)" in said
    assert "warning: 7 records came too fast to be shown here; `bobbin list` has them" in said


def test_a_link_that_is_back_is_said(
    filled: Path, ding: Path, node: Served, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    once, lost = RemoteFollowing._run_once, [Once(was_good=True, why="somebody pulled the plug")]

    async def run_once(self: RemoteFollowing) -> Once:
        if not lost:
            return await once(self)
        assert self._first is not None
        await self._first.link.close()
        self._first = None
        return lost.pop()

    monkeypatch.setattr(RemoteFollowing, "_run_once", run_once)
    monkeypatch.setattr(Backoff, "wait_seconds", lambda _: 0.0)
    answer = cli("follow", filled, node.addresses["tcp"], "--policy", ding, "--count", "1")
    following = f"following {node.verifier} · {node.addresses['tcp']}"
    assert answer.err.splitlines() == [
        following,
        "the link is lost: somebody pulled the plug; trying again within 1 s (attempt 1)",
        f"the link is back: {following}",
    ]


def test_with_json_events_say_which_address_is_in_use(
    filled: Path, ding: Path, node: Served, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    once, lost = RemoteFollowing._run_once, [Once(was_good=True, why="somebody pulled the plug")]

    async def run_once(self: RemoteFollowing) -> Once:
        if not lost:
            return await once(self)
        assert self._first is not None
        await self._first.link.close()
        self._first = None
        return lost.pop()

    monkeypatch.setattr(RemoteFollowing, "_run_once", run_once)
    places = [part for scheme in ("tls", "tcp") for part in ("--address", node.addresses[scheme])]
    cli("peers", "add", filled, "hall", "--verifier", node.verifier, *places, "--policy", ding)
    answer = cli("follow", filled, "hall", "--count", "1", "--json")
    first, gone, second = map(json.loads, answer.err.splitlines())
    assert first == {
        "event": "linked",
        "peer": "hall",
        "verifier": node.verifier,
        "address": node.addresses["tls"],
    }
    assert gone == {
        "event": "lost",
        "address": node.addresses["tls"],
        "reason": "somebody pulled the plug",
        "wait_seconds": 0.0,
        "attempts": 1,
    }
    assert (second["event"], second["address"]) == ("linked", node.addresses["tcp"])
    assert len(answer.rows) == 1, "records only on stdout"


def test_lost_names_the_address_that_was_lost_and_none_where_no_address_leads_to_the_peer(
    filled: Path, ding: Path, node: Served, cli: Cli
) -> None:
    places = [part for scheme in ("tls", "tcp") for part in ("--address", node.addresses[scheme])]
    cli("peers", "add", filled, "hall", "--verifier", node.verifier, *places, "--policy", ding)
    there = find_elsewhere(filled, "hall", Demands(), Chosen())
    assert str(there.address) == node.addresses["tls"]
    lost = Lost(why="gone", wait_seconds=0.0, attempts=1, at=1)
    assert there.lost_address(lost) == node.addresses["tcp"]
    assert there.lost_address(structs.replace(lost, at=None)) is None
    single = find_elsewhere(filled, node.addresses["tcp"], Demands(), Chosen())
    assert single.lost_address(structs.replace(lost, at=None)) == node.addresses["tcp"]


def test_what_makes_no_sense(filled: Path, ding: Path, tmp_path: Path, cli: Cli) -> None:
    assert cli("follow", filled, tmp_path, "--policy", ding).code == 2
    assert cli("follow", filled, "tcp:127.0.0.1:1").code == 2, "a policy is missing"
    assert cli("follow", filled, "tcp:127.0.0.1:1", "--policy", ding).code == 5
    assert cli("follow", filled, "tcp:127.0.0.1:1", "--policy", ding, "--count", "0").code == 2
    assert cli("follow", filled, "tcp:127.0.0.1:1", "--policy", ding, "--at", PLEX_1).code == 2

"""``bobbin tangle serve``, and ``sync`` with what it serves: two processes and a socket."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bobbin.cli.commands import tangle_serve
from bobbin.runtime.tangle_node import TangleNode
from bobbin.runtime.tangle_store import TangleStore
from bobbin.store.base import StoreError
from bobbin.tangles.message import MessageId
from tests.end_to_end.command import environment
from tests.unit.cli.command_line import Cli
from tests.unit.cli.tangle_laces import Woven


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[str]:
    """A served lace; gives its address, and stops it in order."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bobbin", "tangle", "serve", folder, "--listen", "127.0.0.1:0", "--json", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert process.stdout is not None
    try:
        started = json.loads(process.stdout.readline())
        assert started["event"] == "started"
        yield started["address"]
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, b"")
        events = [json.loads(line) for line in out.splitlines()]
        assert events[-1] == {"event": "stopped"}
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_a_served_lace_is_synchronised_with_in_either_mode(woven: Woven, folder: Path, cli: Cli) -> None:
    cli("tangle", "key", "new", folder)
    cli("tangle", "goal", folder, woven.feed, "all")
    with serving(woven.folder) as address:
        answer = cli("tangle", "sync", folder, address, "--json")
        assert (answer.code, answer.err) == (0, "")
        value = answer.json
        assert (value["mode"], value["peer"]) == ("modern", address)
        assert set(value["runs"][0]["added"]) == {woven.account, woven.feed, *woven.posts}
        assert value["link_bytes_in"] > value["bytes_in"]
        late = cli("tangle", "append", woven.folder, woven.feed, "-d", '{"text":"late"}').text.strip()
        value = cli("tangle", "sync", folder, address, "--nine-phases", "--json").json
        assert value["mode"] == "nine phases"
        assert cli("tangle", "show", folder, woven.feed, "--json").json["tips"] in ([late], [woven.posts[-1]])
    assert cli("tangle", "sync", folder, address).code == 5, "nobody listens there any more"


@pytest.mark.slow
def test_who_is_not_admitted_gets_nothing(woven: Woven, folder: Path, cli: Cli) -> None:
    own = cli("tangle", "key", "new", folder).text.strip()
    other = cli("tangle", "key", "new", folder, "other").text.strip()
    cli("tangle", "goal", folder, woven.feed, "all")
    with serving(woven.folder, "--admit", other) as address:
        assert cli("tangle", "sync", folder, address).code in (5, 6)
        assert cli("tangle", "show", folder, woven.feed).code == 1
        assert cli("tangle", "sync", folder, address, "--key", "other").code == 0
    assert own != other


def test_a_store_that_fails_for_a_while_is_told_and_looked_at_again(
    woven: Woven, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one that fails for good ends the process, which could only look as if it served."""
    busy, full = StoreError("another writer", retry=True), StoreError("no space", retry=True)
    looks: Iterator[tuple[MessageId, ...] | StoreError] = iter(
        [(), busy, busy, full, ("one",), full, StoreError("broken", retry=False)]
    )
    told: list[tuple[MessageId, ...]] = []

    def refresh(store: TangleStore) -> tuple[MessageId, ...]:
        del store
        look = next(looks)
        if isinstance(look, StoreError):
            if not look.retry:
                # Should it go on all the same, it is stopped as people stop it, and the test fails.
                asyncio.get_running_loop().call_later(10.0, signal.raise_signal, signal.SIGTERM)
            raise look
        return look

    monkeypatch.setattr(TangleStore, "refresh", refresh)
    monkeypatch.setattr(TangleNode, "added", lambda _, messages: told.append(messages))
    monkeypatch.setattr(tangle_serve, "LOOK_SECONDS", 0.0)
    answer = cli("tangle", "serve", woven.folder, "--listen", "127.0.0.1:0", "--json")
    assert answer.code == 4
    assert "broken" in answer.err
    events = [json.loads(line) for line in answer.text.splitlines()]
    assert events[0]["event"] == "started"
    assert events[1:] == [
        {"event": "failed", "message": message} for message in ("another writer", "no space", "no space")
    ]
    assert told == [("one",)]


def test_what_makes_no_sense(woven: Woven, cli: Cli) -> None:
    for options in (["--listen", "nowhere:port"], ["--admit", "no key"], ["--key", "nobody"]):
        assert cli("tangle", "serve", woven.folder, *options).code == 2
    answer = cli("tangle", "serve", woven.folder, "--listen", "nonsense")
    assert (answer.code, "a host and a port" in answer.err) == (2, True)

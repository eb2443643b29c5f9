"""Two real processes and a real network: what a person types, and what comes of it."""

import json
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from msgspec import Struct

from bobbin.cli.node_client import ask_links
from bobbin.config.enrolment import NewPeer, add_peer
from bobbin.policy import builder
from bobbin.records.ids import Verifier
from bobbin.runtime.roster import Way
from bobbin.wire import address
from tests.end_to_end.command import COMMAND, bobbin, environment
from tests.end_to_end.served_process import PATIENCE_SECONDS, make_lace, names, put, serving, until

SCHEMES = ["tcp", "tls", "unix", "ws", "wss"]


class _Pair(Struct, frozen=True):
    """A lace to be served and one that asks, each known to the other."""

    node: Path
    client: Path
    policy: Path
    node_key: Verifier
    client_key: Verifier


@pytest.fixture
def pair(tmp_path: Path) -> _Pair:
    node, client, policy = tmp_path / "n.lace", tmp_path / "c.lace", tmp_path / "trade.policy"
    node_key, client_key = make_lace(node), make_lace(client)
    policy.write_text(builder.write(builder.select(builder.group("trade"))))
    add_peer(node / "peers.toml", NewPeer(name="client", verifier=client_key, policy=policy))
    put(node, "theirs")
    put(node, "private", group="inside")
    put(client, "ours")
    return _Pair(node, client, policy, node_key, client_key)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_an_exchange_over_every_transport(pair: _Pair, tmp_path: Path, scheme: str) -> None:
    where = f"unix:{tmp_path}/n.sock" if scheme == "unix" else f"{scheme}:127.0.0.1:0"
    with serving(pair.node, "--listen", where) as node:
        arguments = (
            "sync",
            pair.client,
            node.addresses[scheme],
            "--policy",
            pair.policy,
            "--verifier",
            pair.node_key,
            "--json",
        )
        done = bobbin(*arguments, "--state")
        assert done.code == 0, done.err
        value = json.loads(done.text)
        assert (value["fixed_point"], len(value["received"]), len(value["sent"])) == (True, 1, 1)
        assert value["peer_verifier"] == pair.node_key
        node.signal(signal.SIGTERM)
        code, log = node.wait()
    assert code == 0
    assert names(pair.client) == {"ours", "theirs"}
    assert names(pair.node) == {"ours", "theirs", "private"}
    (up,) = [entry for entry in log if entry["event"] == "link-up"]
    assert (up["peer"], up["encrypted"]) == ("client", scheme in {"tls", "wss"})


def test_over_standard_input_and_output(pair: _Pair) -> None:
    near, far = socket.socketpair()
    with near, far:
        node = subprocess.Popen(
            [*COMMAND, "serve", str(pair.node), "--listen", "stdio"],
            stdin=far.fileno(),
            stdout=far.fileno(),
            stderr=subprocess.PIPE,
            env=environment(),
        )
        client = subprocess.Popen(
            [*COMMAND, "sync", str(pair.client), "stdio", "--policy", str(pair.policy)],
            stdin=near.fileno(),
            stdout=near.fileno(),
            stderr=subprocess.PIPE,
            env=environment(),
        )
    _, said = client.communicate(timeout=PATIENCE_SECONDS)
    _, log = node.communicate(timeout=PATIENCE_SECONDS)
    assert (client.returncode, node.returncode) == (0, 0), log
    assert b"converged" in said, "stdout is the link, so the account goes to stderr"
    assert names(pair.node) == {"ours", "theirs", "private"}
    assert not (pair.node / "node.sock").exists()


def test_nobody_without_a_listed_key_obtains_anything(pair: _Pair, tmp_path: Path) -> None:
    stranger = tmp_path / "s.lace"
    make_lace(stranger)
    with serving(pair.node, "--listen", "tls:127.0.0.1:0") as node:
        arguments = ("sync", stranger, node.addresses["tls"], "--policy", pair.policy, "--pin")
        done = bobbin(*arguments, node.started["certificate"])
        assert (done.code, "is not listed there" in done.err) == (6, True)
        assert ask_links(pair.node).refused == {"unknown-key": 1}
    assert names(stranger) == set()


def test_a_follower_hears_of_later_records_and_comes_back_after_a_restart(pair: _Pair, tmp_path: Path) -> None:
    where = f"unix:{tmp_path}/n.sock"
    peer = NewPeer(name="n", verifier=pair.node_key, ways=(Way(address=address.parse(where)),))
    add_peer(pair.client / "peers.toml", peer)
    with serving(pair.node, "--listen", where) as node:
        follower = subprocess.Popen(
            [*COMMAND, "follow", str(pair.client), "n", "--policy", str(pair.policy), "--json", "--count", "3"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
        )
        assert follower.stdout is not None
        assert json.loads(follower.stdout.readline())["name"] == "theirs"
        put(pair.node, "later")
        assert json.loads(follower.stdout.readline())["name"] == "later"
        node.signal(signal.SIGTERM)
        assert node.wait()[0] == 0
    put(pair.node, "meanwhile")
    with serving(pair.node, "--listen", where):
        assert json.loads(follower.stdout.readline())["name"] == "meanwhile"
        _, err = follower.communicate(timeout=PATIENCE_SECONDS)
    assert follower.returncode == 0
    events = [json.loads(line) for line in err.splitlines()]
    assert {row["event"] for row in events} == {"linked", "lost"}
    assert {row["address"] for row in events} == {where}


def test_a_node_follows_by_itself(pair: _Pair, tmp_path: Path) -> None:
    where = f"unix:{tmp_path}/n.sock"
    there = address.parse(where)
    peer = NewPeer(name="n", verifier=pair.node_key, ways=(Way(address=there),), policy=pair.policy, follow=True)
    add_peer(pair.client / "peers.toml", peer)
    with serving(pair.client) as client:
        assert client.started["listening"] == []
        (link,) = until(pair.client, lambda status: status.links[0].last_end is not None).links
        assert link.last_end is not None
        assert (link.peer, link.last_end.reason) == ("n", "connect-failed")
        with serving(pair.node, "--listen", where):
            (link,) = until(pair.client, lambda status: status.links[0].records_in == 1).links
            assert (link.direction, link.address) == ("out", where)
        client.signal(signal.SIGTERM)
        assert client.wait()[0] == 0
    assert names(pair.client) == {"ours", "theirs"}


# ---- signals --------------------------------------------------------------------------------------------------------


def test_a_hangup_reads_the_files_and_a_wrong_one_changes_nothing(pair: _Pair) -> None:
    peers = pair.node / "peers.toml"
    good = peers.read_text()
    with serving(pair.node, "--listen", "tcp:127.0.0.1:0") as node:
        peers.write_text(good + "nonsense = 1\n")
        node.signal(signal.SIGHUP)
        assert "nonsense" in node.event("reload-failed")["message"]
        arguments = ("sync", pair.client, node.addresses["tcp"], "--policy", pair.policy)
        assert bobbin(*arguments).code == 0, "what was in force stays in force"
        peers.write_text("")
        assert node.event("reloaded")["peers"] == 0
        assert bobbin(*arguments).code == 6
        node.signal(signal.SIGINT)
        assert node.event("stopping")["signal"] == "SIGINT"
        assert node.wait()[0] == 0


def test_a_second_signal_ends_the_process_at_once(pair: _Pair, tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text("[links]\nstop_seconds_max = 3600\n")
    with serving(pair.node, "--listen", "tcp:127.0.0.1:0", "--config", file) as node:
        follower = subprocess.Popen(
            [*COMMAND, "follow", str(pair.client), node.addresses["tcp"], "--policy", str(pair.policy)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment(),
        )
        try:
            until(pair.node, lambda status: [link.state for link in status.links] == ["idle"])
            follower.send_signal(signal.SIGSTOP)
            put(pair.node, "later")
            until(pair.node, lambda status: [link.state for link in status.links] == ["exchanging"])
            node.signal(signal.SIGTERM)
            assert node.event("stopping")["signal"] == "SIGTERM"
            status = ask_links(pair.node)
            assert (status.stopping, len(status.links)) == (True, 1), "the link is given time"
            node.signal(signal.SIGTERM)
            assert node.wait()[0] == -signal.SIGTERM
        finally:
            follower.kill()
            follower.wait()
    with serving(pair.node, "--listen", "tcp:127.0.0.1:0") as node:
        assert node.started["peers"] == 1, "a socket that was left behind is no obstacle"
    assert "later" in names(pair.node)


# ---- single records -------------------------------------------------------------------------------------------------


def test_single_records_of_a_known_peer(pair: _Pair) -> None:
    with serving(pair.node, "--listen", "tls:127.0.0.1:0") as node:
        got = bobbin("remote", "get", pair.client, node.addresses["tls"], "//trade//orders//theirs", "--trust-new", "n")
        assert (got.code, got.out) == (0, b"x")
        assert bobbin("remote", "get", pair.client, "n", "//inside//orders//private").code == 1
        assert len(bobbin("remote", "list", pair.client, "n", "//trade//").lines) == 2
        assert bobbin("remote", "put", pair.client, "n", "//trade//orders//ours").code == 0
        assert bobbin("top", pair.node).lines[0].startswith("node        ok")
        assert "over:" in bobbin("links", pair.node).lines
    assert names(pair.node) == {"ours", "theirs", "private"}

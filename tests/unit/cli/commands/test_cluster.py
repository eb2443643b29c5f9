"""``bobbin cluster …``."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bobbin.cli.cluster_token import read_token
from bobbin.config.cluster import create_cluster, prepare, read_folder
from bobbin.config.shards import read_set
from tests.support.clusters import free_ports, served_folder, until
from tests.unit.cli.command_line import Cli


@pytest.fixture
def node(tmp_path: Path, cli: Cli) -> Iterator[Path]:
    """The folder of the one node of a cluster, which runs and leads."""
    folder = tmp_path / "here"
    assert cli("cluster", "init", folder, "--listen", f"tls:127.0.0.1:{free_ports(1)[0]}").code == 0
    with served_folder(folder) as running:
        asyncio.run(until(lambda: running.leader is not None))
        yield folder


def test_several_nodes_are_made_at_once(tmp_path: Path, cli: Cli) -> None:
    answer = cli("cluster", "init", tmp_path / "c", "--nodes", "3", "--listen", "tls:127.0.0.1:7000", "--json")
    assert answer.code == 0
    value = json.loads(answer.out)
    assert [node["address"] for node in value["nodes"]] == [f"tls:127.0.0.1:{port}" for port in (7000, 7001, 7002)]
    read = read_folder(tmp_path / "c" / "n2")
    assert read.settings.cluster.hex() == value["cluster"]
    assert read.node == value["nodes"][1]["node"]


def test_an_even_number_of_nodes_draws_a_warning(tmp_path: Path, cli: Cli) -> None:
    assert "tolerate no more" in cli("cluster", "init", tmp_path / "c", "--nodes", "4").err
    assert "tolerate" not in cli("cluster", "init", tmp_path / "d", "--nodes", "5").err


def test_a_set_of_shards_is_made_at_once(tmp_path: Path, cli: Cli) -> None:
    made = ["cluster", "init", tmp_path / "c", "--nodes", "3", "--shards", "2", "--listen", "tls:127.0.0.1:7000"]
    answer = cli(*made, "--json")
    assert answer.code == 0
    value = json.loads(answer.out)
    assert [[node["address"] for node in one["nodes"]] for one in value["shards"]] == [
        [f"tls:127.0.0.1:{port}" for port in ports] for ports in ((7000, 7001, 7002), (7003, 7004, 7005))
    ]
    read = read_set(tmp_path / "c" / "n2")
    assert [one.settings.cluster.hex() for one in read] == [one["cluster"] for one in value["shards"]]
    assert cli(*made).code == 2
    assert cli("cluster", "init", tmp_path / "d", "--shards", "2").code == 2
    assert cli("cluster", "init", tmp_path / "d", "--shards", "2", "--nodes", "1", "--address", "tls:h:1").code == 2
    assert "tolerate no more" in cli("cluster", "init", tmp_path / "e", "--shards", "1", "--nodes", "2").err
    assert "served together" in cli("cluster", "serve", tmp_path / "c" / "n1" / "s0").err
    down = cli("cluster", "status", tmp_path / "c" / "n1", "--seconds", "0.2", "--wait", "0.1")
    assert (down.code, "shard 0, cluster " in down.text, "shard 1, cluster " in down.text) == (5, True, True)
    assert "name one of them" in cli("cluster", "snapshot", tmp_path / "c" / "n1").err


@pytest.mark.parametrize(
    ("asked", "instead"),
    [
        (("put", "colour", "green"), "tx {} --put colour=VALUE"),
        (("get", "colour"), "get {} colour"),
        (("delete", "colour"), "tx {} --delete colour"),
        (("scan",), "get {} KEY…"),
    ],
)
def test_keys_of_a_set_of_shards_are_those_of_its_chain(
    tmp_path: Path, cli: Cli, asked: tuple[str, ...], instead: str
) -> None:
    assert cli("cluster", "init", tmp_path / "sh", "--nodes", "1", "--shards", "2").code == 0
    folder = tmp_path / "sh" / "n1"
    command, *rest = asked
    answer = cli("cluster", command, folder, *rest)
    assert answer.code == 2
    assert f"keeps its keys in a chain: bobbin chain {instead.format(folder)}\n" in answer.err


@pytest.mark.parametrize(
    ("asked", "instead"),
    [
        (("put", "colour", "green"), "tx {} --put colour=VALUE"),
        (("put", "colour", "green", "--new"), "tx {} --put colour=VALUE"),
        (("delete", "colour"), "tx {} --delete colour"),
    ],
)
def test_nothing_is_written_beside_the_chain_of_a_shard(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, asked: tuple[str, ...], instead: str
) -> None:
    assert cli("cluster", "init", tmp_path / "sh", "--nodes", "1", "--shards", "2").code == 0
    folder = tmp_path / "sh" / "n1"
    command, *rest = asked
    answer = cli("cluster", command, folder / "s0", *rest)
    assert answer.code == 2
    assert f"keeps its keys in a chain: bobbin chain {instead.format(folder)}\n" in answer.err
    monkeypatch.chdir(folder / "s1")
    assert f"bobbin chain {instead.format(folder)}\n" in cli("cluster", command, ".", *rest).err


@pytest.mark.parametrize("asked", [("put", "a", "b"), ("delete", "a")])
def test_nothing_is_written_beside_a_replicated_lace(tmp_path: Path, cli: Cli, asked: tuple[str, ...]) -> None:
    lace = tmp_path / "hall"
    assert cli("init", lace, "--cluster").code == 0
    command, *rest = asked
    answer = cli("cluster", command, lace / "cluster", *rest)
    assert (answer.code, f"keeps records and no keys: bobbin put {lace}\n" in answer.err) == (2, True)


@pytest.mark.parametrize("shard", ["", "s0"])
@pytest.mark.parametrize("asked", [("invite",), ("replace", "5f1c", "9ab2")])
def test_no_machine_joins_a_set_of_shards(tmp_path: Path, cli: Cli, asked: tuple[str, ...], shard: str) -> None:
    assert cli("cluster", "init", tmp_path / "sh", "--nodes", "1", "--shards", "2").code == 0
    command, *rest = asked
    answer = cli("cluster", command, tmp_path / "sh" / "n1" / shard, *rest)
    assert (answer.code, answer.out) == (2, b"")
    assert "whose machines are those that it was made with" in answer.err


@pytest.mark.parametrize("more", [(), ("--shards", "2")])
@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (("--preset", "moon"), "no preset"),
        (("--listen", "tcp:127.0.0.1:7000"), "TLS alone"),
        (("--listen", "tls:127.0.0.1:65534"), "need the ports"),
    ],
)
def test_nothing_is_left_of_several_nodes_that_could_not_be_made(
    tmp_path: Path, cli: Cli, wrong: tuple[str, str], why: str, more: tuple[str, ...]
) -> None:
    answer = cli("cluster", "init", tmp_path / "c", "--nodes", "3", *more, *wrong)
    assert (answer.code, why in answer.err) == (2, True)
    assert not (tmp_path / "c").exists()


def test_what_makes_no_sense_is_refused(tmp_path: Path, cli: Cli) -> None:
    folder = tmp_path / "c"
    assert cli("cluster", "init", folder, "--listen", "tcp:127.0.0.1:1").code == 2
    assert cli("cluster", "init", folder, "--nodes", "3", "--address", "tls:h:1").code == 2
    assert cli("cluster", "init", folder, "--preset", "moon").code == 2
    assert cli("cluster", "serve", tmp_path).code == 2
    assert cli("cluster", "join", folder, "--token", "nonsense").code == 2
    assert cli("cluster", "put", tmp_path, "a", "b").code == 2
    assert not folder.exists()


@pytest.mark.slow
def test_keys_are_put_read_compared_and_taken_away(node: Path, cli: Cli) -> None:
    assert cli("cluster", "put", node, "colour", "green").text.startswith("version ")
    assert cli("cluster", "get", node, "colour").out == b"green"
    assert cli("cluster", "put", node, "colour", "blue", "--expect", "red").code == 1
    assert cli("cluster", "put", node, "colour", "blue", "--expect", "green").code == 0
    assert cli("cluster", "put", node, "colour", "red", "--new").code == 1
    assert cli("cluster", "put", node, "colour", "red", "--new", "--expect", "x").code == 2
    assert cli("cluster", "put", node, "size", "-", stdin=b"\xff").code == 0
    rows = [json.loads(line) for line in cli("cluster", "scan", node, "--json").text.splitlines()]
    assert [(row["key"], row.get("value"), row.get("value_base64")) for row in rows] == [
        ("colour", "blue", None),
        ("size", None, "/w=="),
    ]
    assert cli("cluster", "scan", node, "--limit", "1", "--stale").text == "colour  blue\n"
    assert json.loads(cli("cluster", "get", node, "colour", "--json").out)["value"] == "blue"
    assert cli("cluster", "delete", node, "size").code == 0
    assert cli("cluster", "delete", node, "size").code == 1
    assert cli("cluster", "get", node, "size", "--stale").code == 1


@pytest.mark.slow
def test_operators_look_and_change(node: Path, tmp_path: Path, cli: Cli) -> None:
    own = read_folder(node).node
    status = cli("cluster", "status", node)
    assert status.code == 0
    assert f"{own[:8]} leads in term 1" in status.text
    value = json.loads(cli("cluster", "status", node, "--json").out)
    assert value["leader"] == own
    assert value["problems"] == []
    assert cli("cluster", "snapshot", node).text.startswith("snapshot up to ")
    # What a node writes down about itself when it begins may still come; after that there is nothing new.
    assert 1 in (cli("cluster", "snapshot", node).code for _ in range(10))
    token = json.loads(cli("cluster", "invite", node, "--json").out)["token"]
    place = f"tls:127.0.0.1:{free_ports(1)[0]}"
    joined = cli("cluster", "join", tmp_path / "there", "--token", "-", "--listen", place, stdin=token.encode())
    assert joined.code == 0, joined.err
    there = read_folder(tmp_path / "there")
    assert there.settings.bootstrap is None
    assert set(there.known.directory.members) == {own, there.node}
    assert there.operator.certificate in there.known.directory.callers
    # It is known, and does not run: so it is down, and the status says so and ends with 1.
    down = cli("cluster", "status", node, "--seconds", "1")
    assert down.code == 1
    assert f"{there.node[:8]} does not answer" in down.text
    used = cli("cluster", "join", tmp_path / "again", "--token", token, "--listen", place, "--seconds", "2")
    assert used.code == 4
    assert "does not take this token: it was used already" in used.err
    assert not (tmp_path / "again").exists()


@pytest.mark.slow
def test_a_token_names_the_certificate_that_the_node_shows(node: Path, tmp_path: Path, cli: Cli) -> None:
    """Not that of a key which it uses from its next start on."""
    shown = read_folder(node).own.certificate
    assert cli("cluster", "rotate", node).code == 0
    token = json.loads(cli("cluster", "invite", node, "--json").out)["token"]
    assert read_token(token).certificate == shown != read_folder(node).own.certificate
    place = f"tls:127.0.0.1:{free_ports(1)[0]}"
    joined = cli("cluster", "join", tmp_path / "there", "--token", token, "--listen", place, "--learner")
    assert joined.code == 0, joined.err
    there = read_folder(tmp_path / "there")
    assert not there.known.directory.members[there.node].wants_vote


def test_without_a_node_that_runs_there_is_no_answer(tmp_path: Path, cli: Cli) -> None:
    folder = tmp_path / "here"
    cli("cluster", "init", folder, "--listen", f"tls:127.0.0.1:{free_ports(1)[0]}")
    down = cli("cluster", "status", folder, "--seconds", "0.5")
    assert down.code == 5
    assert "no leader" in down.text
    silent = cli("cluster", "get", folder, "colour", "--seconds", "0.3")
    assert (silent.code, "the only node of the cluster, " in silent.err) == (5, True)
    # A snapshot is one node's own affair.
    assert "nothing listens there" in cli("cluster", "snapshot", folder, "--seconds", "0.3").err


@pytest.mark.slow
def test_without_a_majority_it_is_said_who_answers(tmp_path: Path, cli: Cli) -> None:
    places = [f"tls:127.0.0.1:{port}" for port in free_ports(3)]
    folders = [tmp_path / name for name in ("n1", "n2", "n3")]
    create_cluster([prepare(folder, listen=place) for folder, place in zip(folders, places, strict=True)])
    there, *away = (read_folder(folder).node[:8] for folder in folders)
    with served_folder(folders[0]):
        for command in (("put", folders[0], "a", "b"), ("get", folders[1], "a")):
            answer = cli("cluster", *command, "--seconds", "0.5")
            assert answer.code == 5
            assert f"no majority of the 3 voters answers: {there} does, {', '.join(sorted(away))} do not" in answer.err
            assert f"see `bobbin cluster status {command[1]}`" in answer.err
        stale = cli("cluster", "get", folders[0], "a", "--stale", "--seconds", "0.5")
        assert (stale.code, "has not yet learnt what is committed" in stale.err) == (5, True)

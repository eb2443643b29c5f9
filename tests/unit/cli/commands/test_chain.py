"""``bobbin chain …``, against one process that serves two shards."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bobbin.cli.chain_asking import ask
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.operations import NodeCreate
from bobbin.cluster.transactions.names import ShardId, TxId
from bobbin.errors import ResourceError
from bobbin.runtime.tensor_chain import TensorChain
from bobbin.wire.cluster.chain import ChainOpen, ChainRequest, PendingTransaction
from tests.end_to_end.shard_processes import shard_processes
from tests.unit.cli.command_line import Cli


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of the one machine of a set of two shards, which runs."""
    with shard_processes(tmp_path_factory.mktemp("set"), count=1) as running:
        yield running.folders[0]


@pytest.mark.slow
def test_a_transaction_is_done_whole_or_not_at_all(machine: Path, cli: Cli) -> None:
    assert cli("chain", "tx", machine, "--put", "alice=10", "--put", "bob=0").lines[-1].startswith("committed ")
    moved = cli(
        "chain", "tx", machine, "--if", "alice=10", "--put", "alice=7", "--put", "bob=3", "--get", "bob", "--json"
    )
    assert moved.code == 0
    assert moved.json["read"] == {"bob": "0"}
    again = cli("chain", "tx", machine, "--if", "alice=10", "--put", "alice=4", "--put", "bob=6")
    assert again.code == 1
    assert "alice holds 7" in again.err
    assert cli("chain", "get", machine, "alice", "bob", "--json").json == {"alice": "7", "bob": "3"}
    assert cli("chain", "tx", machine, "--if", "carol=", "--add", "carol=2", "--delete", "bob").code == 0
    missing = cli("chain", "get", machine, "bob", "carol")
    assert (missing.code, missing.lines) == (1, ["carol  2"])
    assert "bob" in missing.err


@pytest.mark.slow
def test_what_the_state_refuses_is_said(machine: Path, cli: Cli) -> None:
    cli("chain", "tx", machine, "--put", "word=x")
    answer = cli("chain", "tx", machine, "--add", "word=1", "--json")
    assert answer.code == 1
    assert answer.json["refusals"] == [{"key": "word", "reason": "the key holds no number to add to"}]
    wide = cli("chain", "tx", machine, "--add", "word=1", "--put", "alice=1", "--put", "bob=1", "--put", "x1=1")
    assert wide.code == 1
    assert "word was left as it is" in wide.err


@pytest.mark.slow
def test_history_blocks_and_verification(machine: Path, cli: Cli) -> None:
    for value in ("a", "b"):
        assert cli("chain", "tx", machine, "--put", f"seen={value}").code == 0
    rows = cli("chain", "history", machine, "seen", "--json").rows
    assert [(row["operation"], row["data"], row["refusal"]) for row in rows] == [("Put", "a", None), ("Put", "b", None)]
    head, *lines = cli("chain", "history", machine, "seen").lines
    assert (head.split(), len(lines)) == (["height", "transaction", "operation"], 2)
    assert [line.split()[1] for line in lines] == [row["tx"] for row in rows], "as `chain resolve` takes it"
    assert cli("chain", "history", machine, "never").code == 1
    blocks = cli("chain", "blocks", machine, "--limit", "500", "--json").rows
    assert {row["shard"] for row in blocks} == {0, 1}
    for shard in (0, 1):
        own = [row for row in blocks if row["shard"] == shard]
        assert [row["height"] for row in own] == list(range(len(own)))
        assert [row["previous"] for row in own[1:]] == [row["hash"] for row in own[:-1]]
    assert {
        row["height"]
        for row in cli("chain", "blocks", machine, "--shard", "1", "--from", "1", "-n", "1", "--json").rows
    } <= {1}
    head, first, *_ = cli("chain", "blocks", machine).lines
    assert head.split() == ["shard", "height", "hash", "proposer", "transactions", "operations"]
    assert first.split()[:2] == ["0", "0"]
    above = cli("chain", "blocks", machine, "--from", "1000000")
    assert (above.code, above.out, above.err) == (0, b"", "there is no block of height 1,000,000 or above\n")
    assert cli("chain", "blocks", machine, "--from", "1000000", "--json").err == ""
    head, first, _, last = cli("chain", "verify", machine).lines
    assert head.split() == ["shard", "node", "height", "tip"]
    assert len(first.split()) == 4
    assert last.startswith("holds: every block on 2 nodes of 2 shards ")
    verdicts = cli("chain", "verify", machine, "--json")
    assert verdicts.code == 0
    assert [(row["shard"], row["fault_height"]) for row in verdicts.rows] == [(0, None), (1, None)]


@pytest.mark.slow
def test_what_is_written_to_one_key_is_done_in_the_order_of_the_line(machine: Path, cli: Cli) -> None:
    done = cli("chain", "tx", machine, "--put", "turn=1", "--delete", "turn", "--add", "turn=2", "--put", "other=x")
    assert done.code == 0, done.err
    rows = cli("chain", "history", machine, "turn", "--json").rows
    assert [row["operation"] for row in rows] == ["Put", "Delete", "CounterAdd"]
    assert cli("chain", "tx", machine, "--add", "turn=1", "--delete", "turn", "--put=turn=last").code == 0
    assert cli("chain", "get", machine, "turn").text == "turn  last\n"


@pytest.mark.slow
def test_what_is_no_text_is_said_to_be_there(machine: Path, cli: Cli) -> None:
    async def write(chain: TensorChain, _: object) -> None:
        workspace = await chain.begin()
        await workspace.join(b"tags", b"red")
        await workspace.join(b"tags", b"blue")
        await workspace.embed(b"place", Embedding.of(128, {3: 1.5}))
        await workspace.do(NodeCreate(b"ann", "person"))
        assert (await chain.commit(workspace)).is_committed

    ask(machine, write)
    there = cli("chain", "get", machine, "tags", "place", "ann")
    assert (there.code, there.lines) == (
        0,
        ["tags  (a set: blue, red)", "place  (a vector of 128 dimensions)", "ann  (a node of a graph: person)"],
    )
    held = {
        "tags": {"set": ["blue", "red"]},
        "place": {"vector": {"dimension": 128, "positions": [3], "values": [1.5]}},
        "ann": {"node": "person"},
    }
    assert cli("chain", "get", machine, *held, "--json").json == held
    assert cli("chain", "tx", machine, "--get", "place", "--json").json["read"] == {"place": held["place"]}


@pytest.mark.slow
def test_a_number_that_is_too_large_is_named_by_its_key(machine: Path, cli: Cli) -> None:
    answer = cli("chain", "tx", machine, "--put", "fine=1", "--add", f"huge={10**40}")
    assert (answer.code, answer.out) == (2, b"")
    assert answer.err.startswith("error: huge: ")


@pytest.mark.slow
def test_what_was_added_is_in_the_history(machine: Path, cli: Cli) -> None:
    for amount in ("5", "-1200"):
        assert cli("chain", "tx", machine, "--add", f"visits={amount}").code == 0
    assert [row["amount"] for row in cli("chain", "history", machine, "visits", "--json").rows] == [5, -1200]
    assert [line.split()[2:] for line in cli("chain", "history", machine, "visits").lines[1:]] == [
        ["CounterAdd", "+5"],
        ["CounterAdd", "-1,200"],
    ]


@pytest.mark.slow
def test_a_height_is_told_where_there_is_one(machine: Path, cli: Cli) -> None:
    one = cli("chain", "tx", machine, "--put", "alone=1", "--json").json
    (row,) = cli("chain", "history", machine, "alone", "--json").rows
    assert (one["height"], one["tx"]) == (row["height"], row["tx"])
    keys = [f"wide{number}" for number in range(8)]
    wide = cli("chain", "tx", machine, *(word for key in keys for word in ("--put", f"{key}=1")), "--json").json
    assert "height" not in wide, "its parts have one on each shard"


@pytest.mark.slow
def test_pending_resolve_and_codebook(machine: Path, cli: Cli, tmp_path: Path) -> None:
    pending = cli("chain", "pending", machine)
    assert (pending.code, pending.lines, pending.err) == (0, [], "every transaction is over\n")
    quiet = cli("chain", "pending", machine, "--json")
    assert (quiet.rows, quiet.err) == ([], "")
    unknown = cli("chain", "resolve", machine, "ab" * 16, "abort", "--shard", "0", "--reason", "to see")
    assert unknown.code == 1
    assert [row["version"] for row in cli("chain", "codebook", machine, "--json").rows] == [0, 0]
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("1,2,x\n", encoding="utf-8")
    assert cli("chain", "codebook", machine, "--replace", wrong).code == 2
    empty = tmp_path / "empty.csv"
    empty.write_text("\n", encoding="utf-8")
    dropped = cli("chain", "codebook", machine, "--replace", empty)
    assert (dropped.code, f"{empty} holds no vector" in dropped.err) == (2, True)
    book = tmp_path / "book.csv"
    book.write_text("\n".join(",".join("1" if at == one else "0" for at in range(128)) for one in range(2)), "utf-8")
    assert cli("chain", "codebook", machine, "--replace", book, "--shard", "1").code == 0
    assert [row["version"] for row in cli("chain", "codebook", machine, "--json").rows] == [0, 1]


@pytest.mark.slow
def test_without_a_majority_one_node_does_not_say_that_all_is_over(tmp_path: Path, cli: Cli) -> None:
    with shard_processes(tmp_path, count=2, shards=1) as running:
        here, other = running.folders
        assert cli("chain", "pending", here).err == "every transaction is over\n"
        running.kill(other)
        alone = cli("chain", "pending", here, "--seconds", "1")
        assert (alone.code, alone.out) == (5, b"")
        assert "no majority of the 2 voters answers" in alone.err
        assert "is over" not in alone.err


@pytest.mark.slow
def test_of_a_shard_without_a_majority_one_node_is_still_heard(
    machine: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever ends a transaction by hand, since a shard is gone for good, needs to know what the others hold."""
    pending = PendingTransaction(
        tx=TxId(bytes(16)), role="participant", standing="prepared", coordinator=ShardId(0), shards=(), keys=2
    )
    asked = TensorChain.ask

    async def answer(chain: TensorChain, shard: ShardId, kind: type, make: Callable[[int], ChainRequest]) -> object:
        if kind is not ChainOpen:
            if shard == 1:
                raise ResourceError("nobody leads", retry=False)
            return await asked(chain, shard, kind, make)
        return ChainOpen(number=0, transactions=(pending,) if shard == 1 else (), total=1)

    monkeypatch.setattr(TensorChain, "ask", answer)
    told = cli("chain", "pending", machine)
    assert told.lines == [f"  1  {'0' * 32}  participant (prepared), coordinated by shard 0, 2 keys locked"]
    assert told.code == 4
    assert "of shard 1 this is what one node knows" in told.err
    assert "nobody leads" in told.err


def test_what_makes_no_sense_is_refused(tmp_path: Path, cli: Cli) -> None:
    assert (
        cli("cluster", "init", tmp_path / "c", "--nodes", "1", "--shards", "2", "--listen", "tls:127.0.0.1:7000").code
        == 0
    )
    folder = tmp_path / "c" / "n1"
    assert "nothing to do" in cli("chain", "tx", folder).err
    assert "KEY=VALUE" in cli("chain", "tx", folder, "--put", "alice").err
    assert "whole number" in cli("chain", "tx", folder, "--add", "alice=many").err
    assert "32 hexadecimal digits" in cli("chain", "resolve", folder, "x", "abort", "--shard", "0", "--reason", "").err
    for empty in (("get", folder, ""), ("tx", folder, "--delete", ""), ("tx", folder, "--get=")):
        answer = cli("chain", *empty)
        assert (answer.code, answer.err) == (2, "error: a key has 1 to 4,096 bytes, not 0\n")
    assert "a key has 1 to 4,096 bytes, not 4,097" in cli("chain", "tx", folder, "--put", f"{'k' * 4097}=x").err
    assert cli("chain", "get", tmp_path, "alice").code == 2
    assert f"ask the whole set, in {folder}\n" in cli("chain", "get", folder / "s0", "alice").err
    silent = cli("chain", "tx", folder, "--put", "a=b", "--seconds", "0.2")
    assert silent.code == 5
    assert "shard 0: the only node of the cluster, " in silent.err
    assert f"and so it is with 1 more of 2 shards; see `bobbin cluster status {folder}`" in silent.err

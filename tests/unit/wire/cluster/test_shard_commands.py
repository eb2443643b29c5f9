import pytest

from bobbin.cluster.names import Index, Term
from bobbin.cluster.operations import CounterAdd, Transaction
from bobbin.cluster.settings import ChainConfig
from bobbin.cluster.shard.commands import TAGS, Append, Kind, Outcome, Prepare
from bobbin.cluster.transactions.names import ShardId
from bobbin.errors import PeerError, UsageError
from bobbin.wire.cluster.shard_commands import (
    MALFORMED,
    ShardCodec,
    decode_command,
    decode_outcome,
    encode_command,
    encode_outcome,
    shard_machine,
)
from tests.unit.wire.cluster.shard_samples import BLOCK, COMMANDS, ENTRIES, OUTCOMES, PREPARE
from tests.vectors.load import load

VECTORS = load("cluster/shard.json")


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_have_these_bytes_for_ever(name: str) -> None:
    raw = bytes.fromhex(VECTORS["commands"][name])
    assert encode_command(COMMANDS[name]) == raw
    assert decode_command(raw) == COMMANDS[name]
    assert raw[1] in TAGS


@pytest.mark.parametrize("name", OUTCOMES)
def test_outcomes_have_these_bytes_for_ever(name: str) -> None:
    raw = bytes.fromhex(VECTORS["outcomes"][name])
    assert encode_outcome(OUTCOMES[name]) == raw
    assert decode_outcome(raw) == OUTCOMES[name]


@pytest.mark.parametrize("name", ENTRIES)
def test_entries_of_snapshots_have_these_bytes_for_ever(name: str) -> None:
    raw = bytes.fromhex(VECTORS["entries"][name])
    assert ShardCodec.entry(ENTRIES[name]) == raw
    assert ShardCodec.read_entry(raw) == ENTRIES[name]
    assert raw[1] in TAGS


def test_every_kind_has_a_vector() -> None:
    assert {type(command) for command in COMMANDS.values()} >= {Append, Prepare}
    assert [VECTORS[group].keys() for group in ("commands", "outcomes", "entries")] == [
        COMMANDS.keys(),
        OUTCOMES.keys(),
        ENTRIES.keys(),
    ]


@pytest.mark.parametrize("name", COMMANDS)
def test_no_piece_of_a_command_and_nothing_longer_is_a_command(name: str) -> None:
    raw = encode_command(COMMANDS[name])
    for end in range(0, len(raw), max(1, len(raw) // 50)):
        with pytest.raises(PeerError) as caught:
            decode_command(raw[:end])
        assert caught.value.code == MALFORMED
    with pytest.raises(PeerError):
        decode_command(raw + b"\x00")


@pytest.mark.parametrize(
    "raw", [b"", b"\xc1", b"\x92\x1f\x00", b"\x92\x22\xa1x", b"\x93\x22\xc4\x00\x00", b"\x91" * 9_999]
)
def test_what_is_nothing_of_a_shard_is_refused(raw: bytes) -> None:
    for read in (decode_command, decode_outcome, ShardCodec.read_entry, ShardCodec.chain.read_entry):
        with pytest.raises(PeerError):
            read(raw)


def test_the_chain_reads_only_what_is_its_own() -> None:
    assert ShardCodec.chain.read_entry(ShardCodec.chain.entry(ENTRIES["key"])) == ENTRIES["key"]  # type: ignore[arg-type]
    with pytest.raises(PeerError):
        ShardCodec.chain.read_entry(ShardCodec.entry(ENTRIES["shard"]))


def test_what_cannot_be_written_down_is_the_callers_fault() -> None:
    part = Transaction(PREPARE.tx, (CounterAdd(b"k", 2**64),))
    with pytest.raises(UsageError):
        encode_command(Append(type(BLOCK)(BLOCK.header, (part,))))


def test_an_empty_shard_takes_commands_and_answers_in_bytes() -> None:
    shard = shard_machine(shard=ShardId(3), config=ChainConfig(embedding_dimension=8))
    answer = shard.apply(Index(1), Term(1), encode_command(COMMANDS["proof"]))
    assert decode_outcome(answer) == Outcome(Kind.LOGGED, 0)

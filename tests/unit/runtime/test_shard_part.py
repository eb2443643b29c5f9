"""The state of a shard as one of the machines of a node."""

import pytest
from msgspec.structs import replace

from bobbin.cluster.names import Index, Term
from bobbin.cluster.operations import Put
from bobbin.cluster.shard.commands import Append, Kind, Log
from bobbin.errors import IntegrityError, ResourceError
from bobbin.runtime import shard_part
from bobbin.runtime.shard_part import EXPECTED_MAX, ShardPart, ShardSource
from bobbin.wire.cluster.shard_commands import encode_command, shard_machine
from tests.support.shards import block_of, new_shard

_LOG = encode_command(Log(()))


def test_commands_are_done_and_told_to_whoever_wants_to_hear() -> None:
    part = ShardPart(new_shard())
    block, _ = block_of(part.shard, Put(b"a", b"1"), number=1)
    raw = encode_command(Append(block))
    assert part.apply_many([(Index(1), Term(1), raw)]) == [b""]
    assert part.take() == []
    part.is_heard = True
    assert part.apply_many([(Index(2), Term(1), raw), (Index(3), Term(1), b"\x91\x20"), (Index(4), Term(1), _LOG)]) == [
        b"",
        b"",
        b"",
    ]
    heard = part.take()
    assert [(index, outcome.kind) for index, _, outcome in heard] == [(2, Kind.STALE_BLOCK), (4, Kind.LOGGED)]
    assert part.take() == []
    part.apply_many([(Index(5), Term(1), _LOG)])
    part.close()
    assert (part.take(), part.is_heard) == ([], False)


def test_a_command_that_was_made_here_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    part = ShardPart(new_shard())
    part.is_heard = True
    command = Log(())
    part.expect(_LOG, command)
    with monkeypatch.context() as patched:
        patched.setattr(shard_part, "decode_command", None)
        part.apply_many([(Index(1), Term(1), _LOG)])
    ((_, heard, _),) = part.take()
    assert heard is command
    part.apply_many([(Index(2), Term(1), _LOG)])
    ((_, again, _),) = part.take()
    assert again == command
    assert again is not command


def test_no_more_commands_are_remembered_than_a_bound() -> None:
    part = ShardPart(new_shard())
    part.is_heard = True
    first = Log(())
    part.expect(_LOG, first)
    for number in range(EXPECTED_MAX):
        part.expect(b"%d" % number, Log(()))
    part.apply_many([(Index(1), Term(1), _LOG)])
    ((_, heard, _),) = part.take()
    assert heard == first
    assert heard is not first


def test_a_snapshot_builds_the_same_beside_it() -> None:
    source = ShardSource(new_shard)
    one = source.open()
    block, _ = block_of(one.shard, Put(b"a", b"1"), number=1)
    one.apply_many([(Index(1), Term(1), encode_command(Append(block)))])
    entries = list(one.snapshot())
    assert {entry[1] in source.tags for entry in entries} == {True}
    other = source.build(iter(entries), Index(1))
    assert other.root == one.root
    assert other.shard is not one.shard
    with pytest.raises(IntegrityError):
        source.build(iter(entries[1:]), Index(1))


def test_a_node_that_is_set_for_other_vectors_than_its_chain_has_stops_at_the_first_block() -> None:
    theirs = new_shard()
    block, _ = block_of(theirs, Put(b"a", b"1"), number=1)
    raw = encode_command(Append(block))
    dimension = theirs.config.embedding_dimension
    other = replace(theirs.config, embedding_dimension=dimension + 1)
    part = ShardPart(shard_machine(shard=theirs.shard, config=other))
    with pytest.raises(ResourceError, match=f"write embedding_dimension = {dimension} under") as found:
        part.apply_many([(Index(1), Term(1), raw)])
    assert not found.value.retry
    # A block that stands on nobody's genesis is no reason to stop.
    astray = Append(replace(block, header=replace(block.header, prev_hash=bytes(32))))
    part.apply_many([(Index(2), Term(1), encode_command(astray))])

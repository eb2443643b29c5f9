from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest

from bobbin.cluster.chain.block import ZERO, Block, BlockHeader
from bobbin.cluster.chain.local_chain import Committed, LocalChain
from bobbin.cluster.conflicts.delta import DeltaVector
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.names import NodeId
from bobbin.cluster.operations import Average, CounterAdd, Embed, Operation, Put, Transaction, VectorAdd
from bobbin.errors import ResourceError, UsageError
from bobbin.pipeline.batches.deltas import DELTAS
from bobbin.pipeline.delta_table import deltas_of_blocks, read_blocks, write_blocks, write_table


def _block(height: int, *parts: tuple[Operation, ...]) -> Block:
    header = BlockHeader(
        height=height,
        prev_hash=ZERO,
        tx_root=ZERO,
        envelope_hash=ZERO,
        state_root=ZERO,
        delta_embedding=Embedding.zero(2),
        quantized_codes=(),
        codebook_version=0,
        timestamp_ms=0,
        proposer=NodeId("n"),
    )
    return Block(header, tuple(Transaction(bytes([height, place]), part) for place, part in enumerate(parts)))


_EAST, _NORTH = Embedding.dense((1.0, 0.0)), Embedding.dense((0.0, 1.0))


def test_vectors_are_carried_from_block_to_block() -> None:
    blocks = [
        _block(0),
        _block(1, (Embed(b"k", _EAST),), (VectorAdd(b"k", _NORTH),)),
        _block(2, (Average(b"k", _EAST),)),
        _block(3, (Embed(b"k", _EAST), Put(b"p", b"")), (VectorAdd(b"k", Embedding.dense((1.0,))),)),
        _block(4, (Embed(b"k", _NORTH),)),
    ]
    found = list(deltas_of_blocks(blocks, dimension=2, window_heights=2))
    assert [window for window, _ in found] == [0, 0, 1, 1, 1, 2]
    deltas = [delta for _, delta in found]
    assert deltas[0] == DeltaVector(_EAST, (b"k",), bytes([1, 0]))
    assert deltas[1].delta == _NORTH
    assert deltas[2].delta == Embedding.dense((0.0, -0.5))
    assert deltas[3].keys == (b"k", b"p")
    # What was refused, since it has another dimension, has moved nothing.
    assert deltas[5].delta == Embedding.dense((-1.0, 1.0))


def test_the_changes_of_a_real_chain_are_those_in_its_headers() -> None:
    chain = LocalChain(chance=Random(1), optimistic_locking=False)
    chance = Random(2)
    for number in range(8):
        workspace = chain.begin()
        vector = Embedding.dense(tuple(chance.random() for _ in range(128)))
        key = b"k%d" % chance.randrange(2)
        moves: list[Operation] = [Embed(key, vector), VectorAdd(key, vector), Average(key, vector)]
        workspace.add_operation(chance.choice(moves))
        workspace.add_operation(CounterAdd(b"c", number))
        assert isinstance(chain.commit(workspace, now_ms=number), Committed)
    blocks = list(chain.ledger.blocks(1, chain.ledger.height))
    found = [delta.delta for _, delta in deltas_of_blocks(blocks, dimension=128, window_heights=1)]
    assert found == [block.header.delta_embedding for block in blocks]
    assert len(found) == 8


def test_blocks_come_in_order() -> None:
    with pytest.raises(UsageError, match="block 3 does not follow"):
        list(deltas_of_blocks([_block(1), _block(3)], dimension=2, window_heights=1))
    with pytest.raises(UsageError, match="block 2 does not follow"):
        list(deltas_of_blocks([_block(2)], dimension=2, window_heights=1))
    with pytest.raises(UsageError, match="at least one height"):
        list(deltas_of_blocks([], dimension=2, window_heights=0))


def test_a_table_has_the_columns_that_the_job_reads(tmp_path: Path) -> None:
    deltas = [(number % 3, DeltaVector(_EAST, (b"a", b"b"), bytes([number]))) for number in range(5)]
    assert write_table(tmp_path / "deltas.parquet", deltas) == 5
    table = pq.read_table(tmp_path / "deltas.parquet")
    assert table.schema.names == DELTAS.schema.names
    assert table.to_pylist()[4] == {
        "tx": b"\x04",
        "window": 1,
        "dimension": 2,
        "positions": [0],
        "values": [1.0],
        "keys": [b"a", b"b"],
    }


def test_a_table_that_cannot_be_written_is_an_error_of_the_machine(tmp_path: Path) -> None:
    with pytest.raises(ResourceError, match="cannot write"):
        write_table(tmp_path / "none" / "deltas.parquet", [])


def test_blocks_come_back_from_a_file(tmp_path: Path) -> None:
    blocks = [_block(0), _block(1, (Embed(b"\x00\xff", _EAST), Put(b"p", b"\xff")), (Average(b"k", _NORTH),))]
    assert write_blocks(tmp_path / "x.blocks.jsonl", blocks) == 2
    assert list(read_blocks(tmp_path / "x.blocks.jsonl")) == blocks
    with (tmp_path / "x.blocks.jsonl").open("ab") as stream:
        stream.write(b"[]\n")
    with pytest.raises(UsageError, match="line 3"):
        list(read_blocks(tmp_path / "x.blocks.jsonl"))
    with pytest.raises(ResourceError, match="cannot read"):
        list(read_blocks(tmp_path / "none"))
    with pytest.raises(ResourceError, match="cannot write"):
        write_blocks(tmp_path / "none" / "x", blocks)

"""Tables of changes for the job ``conflicts``: written from changes at hand, or from the blocks of a chain.

A block says what transactions did, not by how much they moved the vectors of keys. That follows from the blocks before,
so blocks are read in order, from the first on, and the vectors are carried along.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from bobbin.cluster.chain.block import Block
from bobbin.cluster.chain.holdings import Held, result_of, vector_of
from bobbin.cluster.conflicts.delta import DeltaVector
from bobbin.cluster.conflicts.of_operations import delta_of
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.operations import Average, Embed, Transaction, VectorAdd, storage_key
from bobbin.config.durable import replacing
from bobbin.errors import ResourceError, UsageError
from bobbin.pipeline.batches.deltas import DELTAS

_ROWS: Final = 1 << 14


def deltas_of_blocks(
    blocks: Iterable[Block], *, dimension: int, window_heights: int
) -> Iterator[tuple[int, DeltaVector]]:
    """The change of each transaction with its window: so many heights make one.

    Blocks come from the lowest on without a gap; genesis may be left out.
    """
    if window_heights < 1:
        raise UsageError(f"a window has at least one height, not {window_heights}")
    held: dict[bytes, Held] = {}
    height = None

    def before(key: bytes) -> Embedding | None:
        found = held.get(key)
        return None if found is None else vector_of(found.value)

    for block in blocks:
        if block.header.height not in ({0, 1} if height is None else {height + 1}):
            raise UsageError(f"block {block.header.height} does not follow what came before it")
        height = block.header.height
        for transaction in block.transactions:
            delta = delta_of(transaction.operations, before, dimension, tx=transaction.id)
            _carry(held, transaction)
            yield height // window_heights, delta


def read_blocks(source: Path) -> Iterator[Block]:
    """The blocks of a file that has one a line, as ``write_blocks`` writes them."""
    decoder = msgspec.json.Decoder(Block)
    try:
        with source.open("rb") as stream:
            for number, line in enumerate(stream, start=1):
                try:
                    yield decoder.decode(line)
                except msgspec.DecodeError as error:
                    raise UsageError(f"line {number} of {source} is no block: {error}") from error
    except OSError as error:
        raise ResourceError(f"cannot read {source}: {error.strerror or error}", retry=False) from error


def write_blocks(target: Path, blocks: Iterable[Block]) -> int:
    """Write blocks, one a line; how many there are. The file appears when it is whole."""
    count = 0
    try:
        with replacing(target) as stream:
            for block in blocks:
                stream.write(msgspec.json.encode(block) + b"\n")
                count += 1
    except OSError as error:
        raise ResourceError(f"cannot write {target}: {error.strerror or error}", retry=False) from error
    return count


def tables_of(deltas: Iterable[tuple[int, DeltaVector]]) -> Iterator[pa.Table]:
    """Changes, each with its window, as tables of changes of bounded size; at least one."""
    rows: list[dict[str, object]] = []
    is_first = True
    for window, delta in deltas:
        rows.append(_row(window, delta))
        if len(rows) == _ROWS:
            yield pa.Table.from_pylist(rows, DELTAS.schema)
            rows, is_first = [], False
    if rows or is_first:
        yield pa.Table.from_pylist(rows, DELTAS.schema)


def write_table(target: Path, deltas: Iterable[tuple[int, DeltaVector]]) -> int:
    """Write changes, each with its window, as a table of changes; how many there are. It appears when it is whole."""
    count = 0
    try:
        with replacing(target) as stream, pq.ParquetWriter(stream, DELTAS.schema, compression="zstd") as writer:
            for table in tables_of(deltas):
                writer.write(table)
                count += table.num_rows
    except OSError as error:
        raise ResourceError(f"cannot write {target}: {error.strerror or error}", retry=False) from error
    return count


def _row(window: int, delta: DeltaVector) -> dict[str, object]:
    return {
        "tx": delta.tx,
        "window": window,
        "dimension": delta.delta.dimension,
        "positions": list(delta.delta.positions),
        "values": list(delta.delta.values),
        "keys": list(delta.keys),
    }


def _carry(held: dict[bytes, Held], transaction: Transaction) -> None:
    """Do to the vectors what a transaction did; what was refused changes nothing."""
    for operation in transaction.operations:
        if isinstance(operation, Embed | VectorAdd | Average):
            key = storage_key(operation)
            result = result_of(operation, held.get(key))
            if isinstance(result, Held):
                held[key] = result

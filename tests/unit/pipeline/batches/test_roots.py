"""Roots made in one pass over sorted rows are the roots of the interlace machine."""

import random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bobbin.interlace import merkle
from bobbin.interlace.partitions import Partitions
from bobbin.pipeline.batches import roots
from bobbin.pipeline.batches.roots import RunningRoot, Tree, summarise
from bobbin.records.ids import Kind, hash_text


def keys_of(rows: list[tuple[str, bytes]], shortest: int) -> list[bytes]:
    """Prefixes of the longest length, with digests, as sorted keys."""
    return sorted(prefix[:shortest].encode() + digest + prefix[shortest:].encode() for prefix, digest in rows)


def batch_of(keys: list[bytes]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(keys, pa.binary())], ["key"])


def leaves_of(digests: list[bytes]) -> list[bytes]:
    return [merkle.leaf(digest) for digest in sorted(digests)]


def cut(source: random.Random, items: list[bytes]) -> list[list[bytes]]:
    """The items in pieces of any length, some of them empty."""
    places = sorted(source.choices(range(len(items) + 1), k=source.randrange(5)))
    return [items[begin:end] for begin, end in zip([0, *places], [*places, len(items)], strict=True)]


@pytest.mark.parametrize("leaves_max", [1, 2, 3, 7, 64, roots.LEAVES_MAX])
def test_the_root_of_any_number_of_digests_in_any_pieces(leaves_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roots, "LEAVES_MAX", leaves_max)
    source = random.Random(leaves_max)
    for count in [*range(70), 127, 128, 129, 1000, 1023, 1024, 1025, 2047, 3000]:
        digests = [source.randbytes(32) for _ in range(count)]
        running = RunningRoot(Tree())
        for piece in cut(source, leaves_of(digests)):
            running.add(piece)
        assert running.count == count
        assert running.root() == merkle.root(digests)


def test_memory_is_the_logarithm_of_the_number() -> None:
    running = RunningRoot(Tree())
    for number in range(200):
        running.add([number.to_bytes(32, "big")] * 777)
        assert len(running._leaves) < roots.LEAVES_MAX
        assert len(running._pending) <= running.count.bit_length()


@given(st.randoms(use_true_random=False), st.integers(0, 300), st.sets(st.integers(1, 4), min_size=1))
def test_summaries_are_those_of_the_machine(source: random.Random, count: int, lengths: set[int]) -> None:
    # Few different beginnings, so that partitions of all lengths have several records.
    starts = [source.randbytes(3) for _ in range(6)]
    records = {
        hash_text(Kind.PLEX, source.choice(starts)[: source.randrange(4)].ljust(32, source.randbytes(1))[:32]): (
            source.randbytes(32)
        )
        for _ in range(count)
    }
    ascending = sorted(lengths)
    keys = keys_of([(record[2 : 2 + ascending[-1]], digest) for record, digest in records.items()], ascending[0])
    batches = []
    while keys:
        size = source.randrange(1, 50)
        batches.append(batch_of(keys[:size]))
        keys = keys[size:]
    made = {(row["k"], row["prefix"]): row for batch in summarise(batches, ascending) for row in batch.to_pylist()}
    for length in ascending:
        machine = Partitions(length)
        for record, digest in records.items():
            machine.add(record, digest)
        expected = {(length, one.prefix): (one.count, one.root) for one in machine.summaries()}
        assert {key: (row["count"], row["root"]) for key, row in made.items() if key[0] == length} == expected


def test_summaries_come_out_as_the_rows_go_in() -> None:
    keys = [f"{number:05d}".encode() + b"d" * 32 for number in range(20_000)]
    sizes = [made.num_rows for made in summarise(iter([batch_of(keys[:9_000]), batch_of(keys[9_000:])]), [5])]
    assert sum(sizes) == len(keys)
    assert len(sizes) > 1


def test_hashes_are_those_of_the_machine() -> None:
    digests = [bytes([number]) * 32 for number in range(8)]
    tree = Tree()
    leaves = tree.leaves(digests)
    assert leaves == [merkle.leaf(digest) for digest in digests]
    assert tree.join(leaves) == list(map(merkle.node, leaves[::2], leaves[1::2]))
    assert tree.root(leaves) == merkle.root(digests)
    assert tree.root([]) == merkle.EMPTY


def test_nothing_gives_no_summary() -> None:
    assert list(summarise([], [2])) == []

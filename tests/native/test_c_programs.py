"""The C library from programs in C: its contract, what happens when memory runs out, and that nothing leaks."""

from hashlib import sha256
from itertools import chain
from pathlib import Path
from zlib import crc32

import pytest

from bobbin.cluster.content_tree import ContentTree
from bobbin.native.content_tree import tree_functions
from tests.fuzz.__main__ import committed_inputs
from tests.native.programs import VALGRIND, build_against_the_library, build_with_the_sources, run

_OF_HASHES = ("sha256", "tree_texts")
_OF_TREES = ("content_tree", "merkle", "pairs", "tree_bucket", *_OF_HASHES)


def test_a_program_that_is_linked_against_the_library(tmp_path: Path) -> None:
    """RX-076, RX-077, RX-078, RX-079, RX-080, RX-081, RX-083, RX-163."""
    assert run([str(build_against_the_library("contract", tmp_path))]) == "the contract holds\n"


def test_memory_that_runs_out_is_a_status(tmp_path: Path) -> None:
    """RX-082: in C, what would be a panic is an allocation that fails; each one is tried."""
    program = build_with_the_sources("allocation", tmp_path, wrapped=True)
    assert run([str(program)]) == "memory that runs out is survived\n"


def test_a_program_with_trees(tmp_path: Path) -> None:
    """It makes and frees them in every order, and comes to the hashes of the tree in Python."""
    assert run([str(build_against_the_library("trees", tmp_path))]) == _hashes_of_trees()


def test_memory_that_runs_out_under_a_tree(tmp_path: Path) -> None:
    program = build_with_the_sources("tree_allocation", tmp_path, only=_OF_TREES, wrapped=True)
    assert run([str(program)]) == "a tree survives memory that runs out\n"


def test_the_hashes_of_both_ways(tmp_path: Path) -> None:
    """SHA-256 in plain C, and by instructions where the processor has them."""
    way = "plain C and instructions\n" if tree_functions().is_fast else "plain C\n"
    assert run([str(build_with_the_sources("hashes", tmp_path, only=_OF_HASHES))]) == way


@pytest.mark.slow
def test_a_full_channel(tmp_path: Path) -> None:
    assert run([str(build_against_the_library("full_channel", tmp_path))]) == "a full channel refuses\n"


@pytest.mark.slow
def test_the_contract_under_valgrind(tmp_path: Path) -> None:
    """RX-079, RX-080: no access to what was freed, nothing that nobody frees."""
    program = build_against_the_library("contract", tmp_path)
    assert run([*VALGRIND, str(program)]) == "the contract holds\n"


@pytest.mark.slow
def test_memory_that_runs_out_under_valgrind(tmp_path: Path) -> None:
    program = build_with_the_sources("allocation", tmp_path, wrapped=True)
    assert run([*VALGRIND, str(program)]) == "memory that runs out is survived\n"


@pytest.mark.slow
def test_trees_under_valgrind(tmp_path: Path) -> None:
    """Drafts on drafts, merges, roots and threads: nothing is read that was freed, nothing stays behind.

    Valgrind has no instructions for SHA-256, so these are also the hashes of the plain way.
    """
    assert run([*VALGRIND, str(build_against_the_library("trees", tmp_path))]) == _hashes_of_trees()
    program = build_with_the_sources("tree_allocation", tmp_path, only=_OF_TREES, wrapped=True)
    assert run([*VALGRIND, str(program)]) == "a tree survives memory that runs out\n"
    assert "plain C" in run([*VALGRIND, str(build_with_the_sources("hashes", tmp_path, only=_OF_HASHES))])


@pytest.mark.slow
def test_the_fuzz_corpus_under_valgrind(tmp_path: Path) -> None:
    inputs = committed_inputs("native_frames")
    program = build_with_the_sources("replay", tmp_path)
    statuses = run([*VALGRIND, str(program), *map(str, inputs)]).split()
    assert len(statuses) == len(inputs)
    assert set(statuses) == {"0", "3"}


# ---- what trees.c comes to ------------------------------------------------------------------------------------------


def _numbers(first: int, end: int, turn: int) -> list[tuple[bytes, bytes | None]]:
    """As ``change_numbers`` in changes.h makes them."""
    return [(b"name %d" % number, b"content %d %d" % (number, turn) if turn else None) for number in range(first, end)]


def _top(*changes: list[tuple[bytes, bytes | None]]) -> bytes:
    tree = ContentTree()
    tree.update(chain(*changes))
    return tree.top


def _hashes_of_trees() -> str:
    filled = _numbers(0, 300, 1)
    story = [filled, _numbers(0, 100, 2), _numbers(50, 150, 0), _numbers(100, 120, 3)]
    tops = [_top(*story[:count]) for count in range(len(story) + 1)]
    named = dict(zip(("empty", "filled", "first", "second", "third"), tops, strict=True))
    named["merged"] = tops[-1]
    above = [*filled, *_numbers(0, 10, 2), *_numbers(10, 30, 3), *_numbers(20, 50, 4), *_numbers(5, 25, 0)]
    named["above"] = _top(above)
    named |= _hashes_of_long_names()
    leaves = [
        sha256(b"".join((b"head", _sized(name), b"middle", _sized(value or b"")))).digest()
        for name, value in _numbers(0, 8, 1)
    ]
    named |= {f"root-{count}": _root(leaves[:count]) for count in range(8)}
    named["threads"] = _top(_numbers(0, 4 * 12 * 20, 1))
    return "".join(f"{name} {hash.hex()}\n" for name, hash in named.items())


def _hashes_of_long_names() -> dict[str, bytes]:
    """As ``change_long`` in changes.h names them."""
    ends = (0, 22107, 61680, 95063, 134475, 183511)
    names = [b"n" * 2_000 + b"%d" % end for end in ends]
    assert len({crc32(name) % (1 << 16) for name in names}) == 1
    most: list[tuple[bytes, bytes | None]] = [
        (name, b"content %d 1" % number) for number, name in enumerate(names[:-1])
    ]
    two = [*most, (names[3], None), (names[5], b"content 5 2")]
    return {"long": _top(two), "longer": _top([*two, (names[0], b"content 0 3")])}


def _sized(part: bytes) -> bytes:
    return len(part).to_bytes(4, "big") + part


def _root(level: list[bytes]) -> bytes:
    """As ``merkle.root_of``, under the tag of the program."""
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=False)
        level = [sha256(b"node" + one + other).digest() for one, other in pairs] + level[len(level) // 2 * 2 :]
    return level[0] if level else bytes(32)

import ctypes
from collections.abc import Iterable, Iterator
from hashlib import sha256
from threading import Thread
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

import bobbin.native.hashing as native
from bobbin.cluster.chain.hashing import PLAIN
from bobbin.cluster.chain.ledger import Ledger
from bobbin.cluster.content_tree import EMPTY
from bobbin.cluster.operations import CounterAdd, Delete, Put, Transaction
from bobbin.cluster.settings import ChainConfig
from bobbin.errors import UsageError
from bobbin.native.content_tree import NativeContentTree, Pieces, TreeStatus, tree_functions
from bobbin.native.hashing import NativeHashing, hashing, why_plain
from bobbin.native.library import LibraryAbsent
from tests.support.chains import DIMENSION, PlainCodec, put_on
from tests.vectors.load import load

_ID = bytes(16)


@pytest.fixture
def _chosen_anew() -> Iterator[None]:
    """The best way is found out once in a process."""
    for found in (why_plain, hashing):
        found.cache_clear()
    yield
    for found in (why_plain, hashing):
        found.cache_clear()


def _puts(count: int) -> list[Put]:
    """Of any lengths, empty ones among them."""
    return [Put(b"k" * (number % 5 * 13), b"%d" % number * (number % 70)) for number in range(count)]


def _sha256(*texts: bytes) -> bytes:
    """Of one text; of several the root, whose nodes have no tag."""
    pieces = Pieces([b""] * len(texts), texts)
    return pieces.given_to(tree_functions().holding.bobbin_merkle_root, None, b"", 0)


# ---- SHA-256 -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "hash"),
    [
        (b"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        (b"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        (
            b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
        ),
        (b"a" * 1_000_000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"),
    ],
    ids=len,
)
def test_the_examples_of_the_standard(text: bytes, hash: str) -> None:
    """FIPS 180-4: a single leaf is its own root, and without a form it is the hash of its value."""
    assert _sha256(text).hex() == hash


def test_texts_of_every_length_alone_and_in_pairs() -> None:
    """Around the ends of blocks, and around the longest that waits for another one, which is 2,049 bytes."""
    text = bytes(number * 7 % 256 for number in range(5_000))
    lengths = [*range(200), *range(2_040, 2_060), 4_096, 5_000]
    for at, length in enumerate(lengths):
        other = text[: lengths[at - 3]]
        hashes = sha256(text[:length]).digest(), sha256(other).digest()
        assert _sha256(text[:length]) == hashes[0]
        assert _sha256(text[:length], other) == sha256(b"".join(hashes)).digest()


# ---- roots ---------------------------------------------------------------------------------------------------------


def test_known_bytes() -> None:
    puts = [Put(b"k", bytes([number])) for number in range(3)]
    assert NativeHashing().root_of_puts(puts).hex() == load("cluster/chain.json")["tx_root"]


@pytest.mark.parametrize("count", [*range(18), 31, 32, 33, 255, 1_000, 2_001])
def test_roots_of_puts_are_those_of_the_plain_way(count: int) -> None:
    puts = _puts(count)
    assert NativeHashing().root_of_puts(puts) == PLAIN.root_of_puts(puts)
    assert NativeHashing().root_of_puts(tuple(puts[::-1])) == PLAIN.root_of_puts(puts[::-1])


@pytest.mark.parametrize("size", [2_000, 2_048, 2_049, 70_000, 1 << 20])
def test_puts_of_any_size(size: int) -> None:
    puts = [Put(b"a", bytes(size)), Put(b"b" * 4_096, b""), Put(b"", bytes(size - 50))]
    for count in (1, 2, 3):
        assert NativeHashing().root_of_puts(puts[:count]) == PLAIN.root_of_puts(puts[:count])


def test_a_tag_of_nodes_of_any_length() -> None:
    texts = [b"%d" % number for number in range(7)]
    for tag in (b"", b"t", b"t" * 1_984, b"t" * 1_985, b"t" * 1_986, b"t" * 5_000):
        level = [sha256(text).digest() for text in texts]
        while len(level) > 1:
            pairs = zip(level[::2], level[1::2], strict=False)
            level = [sha256(tag + one + other).digest() for one, other in pairs] + level[len(level) // 2 * 2 :]
        given = Pieces(texts, texts)
        assert given.given_to(tree_functions().holding.bobbin_merkle_root, None, tag, len(tag)) == level[0]


def test_roots_of_transactions_are_those_of_the_plain_way() -> None:
    puts = tuple(_puts(9))
    for transactions in (
        [],
        [Transaction(_ID, puts)],
        [Transaction(_ID, (put,)) for put in puts],
        [Transaction(_ID, puts), Transaction(_ID, (Delete(b"k"), CounterAdd(b"n", 1)))],
    ):
        assert NativeHashing().tx_root(transactions) == PLAIN.tx_root(transactions)


def test_many_or_large_puts_let_other_threads_run() -> None:
    called: list[str] = []

    def noting(name: str) -> Any:  # noqa: ANN401 -- as a function of the library
        def root(*given: object) -> int:
            called.append(name)
            return int(tree_functions().holding.bobbin_merkle_root(*given))

        return SimpleNamespace(bobbin_merkle_root=root)

    recorded: Any = SimpleNamespace(holding=noting("holding"), yielding=noting("yielding"))
    with patch.object(native, "tree_functions", lambda: recorded):
        one = NativeHashing()
    for puts in (_puts(1_999), _puts(2_000), [Put(b"k", bytes(1 << 20))], [Put(b"k" * 4_096, b"")] * 256):
        assert one.root_of_puts(puts) == PLAIN.root_of_puts(puts)
    assert called == ["holding", "yielding", "yielding", "yielding"]


# ---- what is refused -----------------------------------------------------------------------------------------------


def test_what_is_no_put() -> None:
    nothing: Any = None
    text: Any = "text"
    with pytest.raises(UsageError, match="bytes"):
        NativeHashing().root_of_puts([Put(b"k", nothing)])
    for wrong in (Put(b"k", text), Put(text, b"v"), Put(nothing, b"v")):
        with pytest.raises(TypeError):
            NativeHashing().root_of_puts([wrong])


def test_null_pointers_and_lengths_are_a_status() -> None:
    root = tree_functions().holding.bobbin_merkle_root
    out = (ctypes.c_char * len(EMPTY))()
    nothing = (0, None, 0, None, None, 0, None)
    assert root(None, None, 0, *nothing, ctypes.byref(out)) == TreeStatus.OK
    assert out.raw == bytes(32)
    assert root(None, None, 0, *nothing, None) == TreeStatus.NULL_POINTER
    assert root(None, None, 1, *nothing, ctypes.byref(out)) == TreeStatus.NULL_POINTER
    for wrong in ((0, b"a", 1, None, None, 0, None), (1, *nothing[1:]), (0, None, 1, None, None, 0, None)):
        assert root(None, None, 0, *wrong, ctypes.byref(out)) == TreeStatus.INVALID


# ---- the best way ---------------------------------------------------------------------------------------------------


def test_a_new_tree_is_one_in_c() -> None:
    one, other = NativeHashing().new_tree(), NativeHashing().new_tree()
    one.update([(b"a", b"1")])
    assert type(one) is type(other) is NativeContentTree
    assert (other.top, len(other)) == (EMPTY, 0)


def test_a_ledger_is_restored_some_keys_at_a_time() -> None:
    """Not all that a shard holds is in memory once more, and no call is as long as the table is large."""
    ledger, copy = (
        Ledger(config=ChainConfig(embedding_dimension=DIMENSION), hashing=NativeHashing()) for _ in range(2)
    )
    for first in range(0, 4_000, 500):
        put_on(ledger, *(Put(b"%d" % number, bytes(3_000)) for number in range(first, first + 500)))
    counts: list[int] = []

    def update(tree: NativeContentTree, changes: Iterable[tuple[bytes, bytes | None]]) -> None:
        some = list(changes)
        counts.append(len(some))
        original(tree, some)

    original = NativeContentTree.update
    codec = PlainCodec()
    with patch.object(NativeContentTree, "update", update):
        copy.restore(codec, ledger.snapshot(codec))
    assert copy.state_root == ledger.state_root
    assert sum(counts) == 4_000
    assert len(counts) == 3


@pytest.mark.usefixtures("_chosen_anew")
@pytest.mark.parametrize("is_fast", [True, False])
def test_it_is_in_c_where_the_processor_has_the_instructions(is_fast: bool) -> None:  # noqa: FBT001
    functions: Any = SimpleNamespace(is_fast=is_fast)
    with patch.object(native, "tree_functions", lambda: functions):
        assert hashing() is hashing()
        assert isinstance(hashing(), NativeHashing) is is_fast
        assert (hashing() is PLAIN) is not is_fast
        reason = why_plain()
        assert reason is None if is_fast else reason is not None and "no instructions" in reason


@pytest.mark.usefixtures("_chosen_anew")
def test_without_the_library_it_is_in_python() -> None:
    with patch.object(native, "tree_functions", side_effect=LibraryAbsent("a test")):
        assert hashing() is PLAIN
        assert why_plain() == "the C library cannot be used: a test"
        with pytest.raises(LibraryAbsent, match="a test"):
            NativeHashing()


@pytest.mark.usefixtures("_chosen_anew")
def test_on_this_machine() -> None:
    assert isinstance(hashing(), NativeHashing) is tree_functions().is_fast
    assert (why_plain() is None) is tree_functions().is_fast


def test_several_threads_at_once() -> None:
    puts = _puts(2_500)
    expected = [PLAIN.root_of_puts(puts[first:]) for first in range(4)]
    found: dict[int, set[bytes]] = {}

    def work(first: int) -> None:
        found[first] = {NativeHashing().root_of_puts(puts[first:]) for _ in range(20)}

    threads = [Thread(target=work, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {first: {root} for first, root in enumerate(expected)}

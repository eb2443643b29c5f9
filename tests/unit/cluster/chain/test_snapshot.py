from collections.abc import Iterable
from sys import getallocatedblocks

import pytest
from msgspec.structs import replace

from bobbin.cluster.chain.holdings import Holds
from bobbin.cluster.chain.ledger import Ledger
from bobbin.cluster.chain.snapshot import BlockEntry, ChainHead, CodebookEntry, KeyEntry, SnapshotEntry
from bobbin.cluster.chain.versions import Item, Version
from bobbin.cluster.codebook.global_book import GlobalCodebook
from bobbin.cluster.operations import CompareAndSwap, CounterAdd, Delete, Embed, Put
from bobbin.cluster.settings import ChainConfig
from bobbin.errors import IntegrityError
from tests.support.chains import PlainCodec, drafted, fingerprint, forged, new_ledger, put_on, transaction, unit

CODEC = PlainCodec()


def _ledger() -> Ledger:
    ledger = new_ledger()
    put_on(ledger, Put(b"a", b"1"), Put(b"gone", b""))
    put_on(ledger, Put(b"a", b"2"), CompareAndSwap(b"a", b"x", b"y"))
    assert ledger.replace_codebook(GlobalCodebook(1, [unit(1)])) is None
    put_on(ledger, Delete(b"gone"), Embed(b"v", unit(1)), CounterAdd(b"n", 1))
    return ledger


def _entries(ledger: Ledger) -> list[SnapshotEntry]:
    return [CODEC.read_entry(raw) for raw in ledger.snapshot(CODEC)]


def _restored(entries: Iterable[SnapshotEntry]) -> Ledger:
    ledger = new_ledger()
    ledger.restore(CODEC, map(CODEC.entry, entries))
    return ledger


def test_a_restored_ledger_is_the_same_and_goes_on_alike() -> None:
    ledger = _ledger()
    copy = _restored(_entries(ledger))
    assert fingerprint(copy) == fingerprint(ledger)
    assert copy.codebook == ledger.codebook
    assert copy.get(b"a", 1) == Item(b"a", b"1", 1)
    assert copy.history(b"a") == ledger.history(b"a")
    assert copy.refusals(2) == ledger.refusals(2) != ()
    assert copy.similar(unit(1)) == ledger.similar(unit(1))
    assert copy.verify() is None
    assert copy.correction == ""
    for one in (transaction(Put(b"gone", b""), since=2), transaction(CounterAdd(b"n", 1), since=2)):
        assert copy.clash(one) == ledger.clash(one)
    draft = drafted(ledger, transaction(Put(b"a", b"3"), since=3))
    assert copy.append(draft.block) == ledger.append(draft.block, draft)
    assert fingerprint(copy) == fingerprint(ledger)


def test_the_entries_come_in_one_order_and_are_as_many_as_was_said() -> None:
    ledger = _ledger()
    capture = ledger.snapshot(CODEC)
    entries = _entries(ledger)
    assert len(capture) == len(entries) == 2 + 3 + 4
    assert [type(entry) for entry in entries] == [ChainHead, CodebookEntry] + [BlockEntry] * 3 + [KeyEntry] * 4
    assert [entry.key for entry in entries if isinstance(entry, KeyEntry)] == [b"a", b"emb:v", b"gone", b"n"]
    assert [raw[1] for raw in capture][:3] == [40, 43, 41]


def test_a_capture_stays_what_it_was_while_the_ledger_goes_on() -> None:
    ledger = _ledger()
    capture = ledger.snapshot(CODEC)
    before = list(capture)
    put_on(ledger, Put(b"a", b"3"), Delete(b"n"))
    assert list(capture) == before


def test_a_capture_makes_nothing_for_each_block_or_key_before_it_is_written() -> None:
    """Whoever takes it holds everybody else up, so it copies references, and no more than that."""
    ledger = _ledger()
    ledger._links[1:] = [ledger._links[1]] * 20_000
    ledger._versions._present.update(
        dict.fromkeys((b"key-%d" % at for at in range(20_000)), Version(1, Holds.BYTES, b""))
    )
    before = getallocatedblocks()
    capture = ledger.snapshot(CODEC)
    assert getallocatedblocks() - before < 1_000
    assert len(capture) > 40_000


@pytest.mark.parametrize("said", [0, 2, 4, 999])
def test_a_head_that_disagrees_with_the_blocks_is_corrected(said: int) -> None:
    """Ahead of the blocks or behind them: the blocks are right, and the next snapshot says so."""
    ledger = _ledger()
    head, *rest = _entries(ledger)
    assert isinstance(head, ChainHead)
    copy = _restored([replace(head, height=said, tip=bytes(32)), *rest])
    assert fingerprint(copy) == fingerprint(ledger)
    assert str(said) in copy.correction
    assert _entries(copy)[0] == head
    assert _restored(_entries(copy)).correction == ""


def test_blocks_and_keys_that_disagree_are_refused() -> None:
    """A head that was written before its block, or after it, has keys of another height: nothing can be corrected."""
    ledger = _ledger()
    entries = _entries(ledger)
    put_on(ledger, Put(b"a", b"3"))
    later = _entries(ledger)
    blocks, keys = entries[:5], later[6:]
    head = replace(entries[0], keys=len(keys))
    for mixed in ([head, *blocks[1:], *keys], [later[0], *entries[1:2], *later[2:6], *entries[5:]]):
        with pytest.raises(IntegrityError):
            _restored(mixed)


def _spoilt() -> dict[str, list[SnapshotEntry]]:
    entries = _entries(_ledger())
    head, codebook, first, second, third, *keys = entries
    assert isinstance(head, ChainHead)
    assert isinstance(codebook, CodebookEntry)
    assert isinstance(first, BlockEntry)
    assert isinstance(second, BlockEntry)
    assert isinstance(keys[0], KeyEntry)
    other_genesis = Ledger(config=ChainConfig(embedding_dimension=9)).genesis
    late = replace(second, block=forged(second.block, timestamp_ms=5))
    broken_header = replace(second.block.header, prev_hash=b"")
    return {
        "nothing": [],
        "no head": entries[1:],
        "no codebook": [head, first, second, third, *keys],
        "two heads": [head, *entries],
        "two codebooks": [head, codebook, *entries[1:]],
        "codebook late": [head, first, codebook, second, third, *keys],
        "a format of the future": [replace(head, format=2), *entries[1:]],
        "another genesis": [replace(head, genesis=other_genesis.header.prev_hash), *entries[1:]],
        "a block missing": [head, codebook, first, third, *keys],
        "blocks turned round": [head, codebook, second, first, third, *keys],
        "another block": [head, codebook, first, late, third, *keys],
        "a header without sense": [
            head,
            codebook,
            first,
            replace(second, block=replace(second.block, header=broken_header)),
            third,
            *keys,
        ],
        "blocks after keys": [head, codebook, *keys, first, second, third],
        "a key missing": [head, *entries[1:-1]],
        "a key missing, and counted so": [replace(head, keys=3), *entries[1:-1]],
        "keys turned round": [head, codebook, first, second, third, *reversed(keys)],
        "a value changed": [
            *entries[:5],
            replace(keys[0], versions=(replace(keys[0].versions[-1], value=b"?"),)),
            *keys[1:],
        ],
        "a version of the future": [
            *entries[:5],
            replace(keys[0], versions=(replace(keys[0].versions[-1], height=9),)),
            *keys[1:],
        ],
        "a floor above the chain": [replace(head, floor=4), *entries[1:]],
        "a floor that forgot too little": [replace(head, floor=3), *entries[1:]],
        "a codebook that is none": [head, replace(codebook, content=b"?"), *entries[2:]],
    }


@pytest.mark.parametrize("name", list(_spoilt()))
def test_what_no_ledger_wrote_is_refused_and_changes_nothing(name: str) -> None:
    ledger = new_ledger()
    put_on(ledger, Put(b"mine", b""))
    before = fingerprint(ledger)
    with pytest.raises(IntegrityError):
        ledger.restore(CODEC, map(CODEC.entry, _spoilt()[name]))
    assert fingerprint(ledger) == before


def test_bytes_that_are_no_entry_are_refused() -> None:
    with pytest.raises(IntegrityError):
        new_ledger().restore(CODEC, [b"\xc1"])

from msgspec.structs import replace

from bobbin.cluster.chain.draft import ClashKind, Overlay
from bobbin.cluster.chain.ledger import Ledger
from bobbin.cluster.chain.meaning import codes_fault, transition_fault, transitions_fault
from bobbin.cluster.codebook.global_book import GlobalCodebook
from bobbin.cluster.operations import Average, Embed, Put, Transaction, VectorAdd
from tests.support.chains import ALICE, made, new_ledger, put_on, transaction, unit

BOOK = GlobalCodebook(1, [unit(1), unit(2)])


def _ledger() -> Ledger:
    ledger = new_ledger()
    assert ledger.replace_codebook(BOOK) is None
    put_on(ledger, Embed(b"k", unit(1)))
    return ledger


def _kinds(ledger: Ledger, *transactions: Transaction) -> list[ClashKind]:
    draft = ledger.draft(transactions, proposer=ALICE.node, timestamp_ms=0)
    return [clash.kind for _, clash in draft.clashes]


def test_an_empty_codebook_asks_nothing() -> None:
    ledger = new_ledger()
    assert _kinds(ledger, transaction(Embed(b"k", unit(5, 100.0)))) == []


def test_vectors_move_only_where_the_codebook_knows() -> None:
    """A transaction that does not is left out before anything is proposed."""
    ledger = _ledger()
    for good in (Embed(b"k", unit(1, 1.9)), Embed(b"new", unit(2, 50.0)), Put(b"x", b""), Embed(b"k", unit(1, 0.0))):
        assert _kinds(ledger, transaction(good, since=1)) == []
    for bad in (Embed(b"new", unit(3)), Embed(b"k", unit(2)), Embed(b"k", unit(1, 2.1)), VectorAdd(b"k", unit(3, 0.9))):
        assert _kinds(ledger, transaction(bad, since=1)) == [ClashKind.MEANING]
    assert _kinds(ledger, transaction(Average(b"k", unit(2)), since=1)) == [ClashKind.MEANING]


def test_what_counts_is_where_a_transaction_leaves_a_vector() -> None:
    ledger = _ledger()
    there_and_back = transaction(Embed(b"k", unit(3)), Embed(b"k", unit(1, 1.5)), since=1)
    assert _kinds(ledger, there_and_back) == []


def test_a_promised_part_is_in_nobodys_way() -> None:
    ledger = _ledger()
    part = transaction(Embed(b"k", unit(3)), since=1)
    assert ledger.clash(part) is not None
    assert ledger.clash(part, promised=True) is None
    overlay = Overlay(ledger._versions, None, 2)
    assert transition_fault(overlay, part, BOOK) is not None
    assert transitions_fault(overlay, [part], BOOK, {part.id}) is None
    assert transitions_fault(Overlay(ledger._versions, None, 2), [part], BOOK, ()) is not None


def test_codes_are_those_of_the_change() -> None:
    ledger = _ledger()
    block = made(ledger, transaction(Embed(b"new", unit(2)), since=1))
    delta = block.header.delta_embedding
    assert block.header.quantized_codes == (1,)
    assert codes_fault(block, delta, BOOK) is None
    for codes in ((), (0,), (1, 0)):
        wrong = replace(block, header=replace(block.header, quantized_codes=codes))
        assert codes_fault(wrong, delta, BOOK) is not None

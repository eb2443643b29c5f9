"""Geometry refuses, and never allows."""

from bobbin.cluster.chain.ledger import Ledger
from bobbin.cluster.chain.likeness import COMPARED_MAX, change_of, found_alike
from bobbin.cluster.conflicts.classify import ConflictClass, Thresholds
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.operations import CounterAdd, EdgeCreate, Embed, Put, TableInsert, Transaction, VectorAdd
from tests.support.chains import drafted, new_ledger, put_on, transaction, unit

T = Thresholds()


def _other(ledger: Ledger, given: Transaction) -> bytes | None:
    found = found_alike(ledger, given, thresholds=T)
    return None if found is None else found.other


def test_a_change_very_like_one_made_since_is_found() -> None:
    """Both add to the vector of one key, which the versions allow."""
    ledger = new_ledger()
    late = transaction(VectorAdd(b"k", unit(1)), Put(b"x", b""), since=0)
    put_on(ledger, VectorAdd(b"k", unit(1, 5.0)))
    assert ledger.clash(late) is None
    found = found_alike(ledger, late, thresholds=T)
    assert found is not None
    assert found.result.conflict_class is ConflictClass.CONFLICTING
    assert found.other == ledger.tip_block.transactions[0].id


def test_what_was_there_when_it_began_is_not_in_its_way() -> None:
    ledger = new_ledger()
    put_on(ledger, VectorAdd(b"k", unit(1)))
    assert _other(ledger, transaction(VectorAdd(b"k", unit(1)), Put(b"x", b""), since=1)) is None


def test_only_shared_keys_are_compared() -> None:
    ledger = new_ledger()
    put_on(ledger, Embed(b"other", unit(1)))
    assert _other(ledger, transaction(Embed(b"k", unit(1)), Put(b"x", b""))) is None


def test_orthogonal_changes_of_one_affected_key_are_no_conflict() -> None:
    ledger = new_ledger(dimension=65_536)
    put_on(ledger, TableInsert(b"t", (b"1",)))
    assert _other(ledger, transaction(TableInsert(b"t", (b"2",)))) is None
    put_on(ledger, EdgeCreate(b"a", b"b", "t"))
    assert _other(ledger, transaction(EdgeCreate(b"a", b"c", "t"))) is None


def test_equal_additions_are_identical_and_stand() -> None:
    ledger = new_ledger()
    put_on(ledger, CounterAdd(b"n", 1))
    assert _other(ledger, transaction(CounterAdd(b"n", 100))) is None


def test_drafts_are_looked_at_too() -> None:
    ledger = new_ledger()
    below = drafted(ledger, transaction(VectorAdd(b"k", unit(1))))
    late = transaction(VectorAdd(b"k", unit(1)), Put(b"x", b""))
    assert found_alike(ledger, late, thresholds=T) is None
    found = found_alike(ledger, late, thresholds=T, on=below)
    assert found is not None
    assert found.other == below.transactions[0].id


def test_a_past_change_is_measured_from_what_was_there_then() -> None:
    ledger = new_ledger()
    put_on(ledger, Embed(b"k", unit(1)))
    put_on(ledger, Embed(b"k", unit(1, 3.0)))
    put_on(ledger, Embed(b"k", unit(2)))
    second = ledger.blocks(2, 2)[0].transactions[0]
    assert change_of(ledger, second, 1).delta == unit(1, 2.0)
    assert change_of(ledger, second).delta == Embedding(8, (1, 2), (3.0, -1.0))


def test_the_newest_are_compared_and_no_more_than_so_many() -> None:
    ledger = new_ledger()
    put_on(ledger, VectorAdd(b"k", unit(1)))
    late = transaction(VectorAdd(b"k", unit(1)), Put(b"x", b""))
    for _ in range(COMPARED_MAX - 1):
        put_on(ledger, VectorAdd(b"k", unit(2)))
    assert _other(ledger, late) is not None
    put_on(ledger, VectorAdd(b"k", unit(2)))
    assert _other(ledger, late) is None

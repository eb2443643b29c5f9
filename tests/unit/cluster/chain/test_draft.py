"""Who may commit: versions decide, and nothing else lets anybody through."""

from itertools import product

import pytest

from bobbin.cluster.chain.draft import Clash, ClashKind, Overlay, content, kinds_of_writes
from bobbin.cluster.chain.holdings import Held, Holds, result_of
from bobbin.cluster.chain.ledger import Appended, Ledger
from bobbin.cluster.chain.versions import Versions, held_by, written
from bobbin.cluster.geometry import cosine
from bobbin.cluster.operations import (
    COMMUTATIVE,
    CompareAndSwap,
    CounterAdd,
    Delete,
    EdgeCreate,
    Embed,
    Operation,
    Put,
    SetAdd,
    TableInsert,
    Transaction,
    Update,
    VectorAdd,
    commutative_tag,
)
from tests.support.chains import ALICE, drafted, new_ledger, put_on, transaction, unit


def _clashes(ledger: Ledger, *transactions: Transaction) -> list[tuple[int, ClashKind]]:
    draft = ledger.draft(transactions, proposer=ALICE.node, timestamp_ms=0)
    return [(place, clash.kind) for place, clash in draft.clashes]


def test_of_two_blind_writes_of_one_key_the_first_wins() -> None:
    ledger = new_ledger()
    one, other = transaction(Put(b"k", b"1")), transaction(Put(b"k", b"2"))
    assert _clashes(ledger, one, other) == [(1, ClashKind.OVERTAKEN)]
    drafted_one = drafted(ledger, one)
    assert isinstance(ledger.append(drafted_one.block, drafted_one), Appended)
    assert _clashes(ledger, other) == [(0, ClashKind.OVERTAKEN)]


def test_orthogonal_and_zero_changes_of_one_key_clash_all_the_same() -> None:
    """No class of likeness lets two writers of one key both commit."""
    for first, second in (
        (Embed(b"k", unit(1)), Embed(b"k", unit(2))),
        (Embed(b"k", unit(1, 0.0)), Embed(b"k", unit(2, 0.0))),
        (Embed(b"k", unit(1)), Embed(b"k", unit(1, -1.0))),
        (Embed(b"k", unit(1)), Embed(b"k", unit(1))),
    ):
        ledger = new_ledger()
        one, other = transaction(first), transaction(second)
        assert _clashes(ledger, one, other) == [(1, ClashKind.OVERTAKEN)]
        ledger.append(drafted(ledger, one).block)
        assert _clashes(ledger, other) == [(0, ClashKind.OVERTAKEN)]
    assert cosine(unit(1), unit(2)) == 0.0


def test_a_writer_that_is_long_done_is_in_the_way_too() -> None:
    """Begun before and committed after another writer of the same key, which nobody remembers as active."""
    ledger = new_ledger()
    early = transaction(Put(b"k", b"mine"), since=ledger.height)
    put_on(ledger, Put(b"k", b"theirs"))
    for number in range(5):
        put_on(ledger, Put(b"other%d" % number, b""))
    assert ledger.clash(early) == Clash(
        ClashKind.OVERTAKEN, "somebody else has written a key since this one began", b"k"
    )
    assert _clashes(ledger, early) == [(0, ClashKind.OVERTAKEN)]


def test_what_was_read_must_still_be_so() -> None:
    ledger = new_ledger()
    put_on(ledger, Put(b"k", b"1"))
    for reads, expected in (
        ({b"k": 1}, []),
        ({b"k": 0}, [(0, ClashKind.STALE_READ)]),
        ({b"none": 0}, []),
        ({b"none": 1}, [(0, ClashKind.STALE_READ)]),
        ({b"k": 2}, [(0, ClashKind.AHEAD)]),
    ):
        assert _clashes(ledger, transaction(Put(b"x", b""), since=1, reads=reads)) == expected
    put_on(ledger, Put(b"k", b"2"))
    assert _clashes(ledger, transaction(since=1, reads={b"k": 1})) == [(0, ClashKind.STALE_READ)]
    put_on(ledger, Delete(b"k"))
    assert _clashes(ledger, transaction(since=3, reads={b"k": 0})) == []


def test_a_key_that_came_and_went_was_not_absent_all_the_time() -> None:
    """Whoever is refused at one height is refused at every later one."""
    ledger = new_ledger()
    reader = transaction(Put(b"x", b""), since=0, reads={b"k": 0})
    assert _clashes(ledger, reader) == []
    put_on(ledger, Put(b"k", b"1"))
    assert _clashes(ledger, reader) == [(0, ClashKind.STALE_READ)]
    put_on(ledger, Delete(b"k"))
    assert _clashes(ledger, reader) == [(0, ClashKind.STALE_READ)]


def test_whoever_knows_more_than_this_node_is_not_called_wrong() -> None:
    ledger = new_ledger()
    put_on(ledger, Put(b"k", b"1"))
    for ahead in (transaction(Put(b"x", b""), since=2), transaction(since=1, reads={b"k": 2})):
        clash = ledger.clash(ahead)
        assert clash is not None
        assert (clash.kind, clash.is_final) == (ClashKind.AHEAD, False)


def test_write_skew_is_refused() -> None:
    ledger = new_ledger()
    put_on(ledger, Put(b"a", b"1"), Put(b"b", b"1"))
    one = transaction(Put(b"a", b"0"), since=1, reads={b"a": 1, b"b": 1})
    other = transaction(Put(b"b", b"0"), since=1, reads={b"a": 1, b"b": 1})
    assert _clashes(ledger, one, other) == [(1, ClashKind.STALE_READ)]


_ADDITIONS: list[Operation] = [CounterAdd(b"k", 1), SetAdd(b"k", b"m"), VectorAdd(b"k", unit(1))]


@pytest.mark.parametrize(("first", "second"), list(product(_ADDITIONS, _ADDITIONS)))
@pytest.mark.parametrize("apart", [True, False])
def test_only_additions_of_one_declared_kind_pass_one_another(
    first: Operation, second: Operation, *, apart: bool
) -> None:
    ledger = new_ledger()
    one, other = transaction(first), transaction(second)
    may = type(first) is type(second) or isinstance(first, VectorAdd) != isinstance(second, VectorAdd)
    expected = [] if may else [ClashKind.OVERTAKEN]
    if apart:
        ledger.append(drafted(ledger, one).block)
        assert [kind for _, kind in _clashes(ledger, other)] == expected
    else:
        assert [kind for _, kind in _clashes(ledger, one, other)] == expected


def test_additions_do_not_pass_anything_else() -> None:
    for between in (Put(b"k", b"7"), Delete(b"k"), CompareAndSwap(b"k", b"1", b"7"), Update(b"k", b"7")):
        ledger = new_ledger()
        put_on(ledger, CounterAdd(b"k", 1))
        late = transaction(CounterAdd(b"k", 1), since=1)
        blind = transaction(between, since=0)
        assert _clashes(ledger, blind) == [(0, ClashKind.OVERTAKEN)]
        put_on(ledger, between)
        assert _clashes(ledger, late) == [(0, ClashKind.OVERTAKEN)]
        put_on(ledger, Delete(b"k"))
        put_on(ledger, CounterAdd(b"k", 1))
        assert _clashes(ledger, late) == [(0, ClashKind.OVERTAKEN)]
        assert _clashes(ledger, transaction(CounterAdd(b"k", 1), since=3)) == []


def test_an_addition_next_to_a_write_of_the_same_key_is_a_write() -> None:
    mixed: list[Operation] = [CounterAdd(b"k", 1), Put(b"k", b"5")]
    assert kinds_of_writes(mixed) == {b"k": 0} == kinds_of_writes(mixed[::-1])
    assert kinds_of_writes([CounterAdd(b"k", 1), CounterAdd(b"k", 2), SetAdd(b"s", b"")]) == {b"k": 12, b"s": 13}
    assert kinds_of_writes([CounterAdd(b"k", 1), SetAdd(b"k", b"")]) == {b"k": 0}
    assert len(COMMUTATIVE) == 3


def test_operations_on_one_affected_key_but_different_places_do_not_clash_by_versions() -> None:
    ledger = new_ledger()
    pairs: list[tuple[Operation, Operation]] = [
        (TableInsert(b"t", (b"1",)), TableInsert(b"t", (b"2",))),
        (EdgeCreate(b"a", b"b", "t"), EdgeCreate(b"a", b"c", "t")),
    ]
    for first, second in pairs:
        assert _clashes(ledger, transaction(first), transaction(second)) == []


def test_a_draft_leaves_out_and_takes_in_by_order() -> None:
    ledger = new_ledger()
    given = [
        transaction(Put(b"a", b"1")),
        transaction(Put(b"a", b"2")),
        transaction(Update(b"absent", b"x"), Put(b"b", b"1")),
        transaction(Put(b"emb:reserved", b"")),
        transaction(Put(b"c", b""), since=1),
    ]
    draft = ledger.draft(given, proposer=ALICE.node, timestamp_ms=5)
    assert draft.transactions == (given[0], given[2])
    kinds = [(place, clash.kind, clash.is_final) for place, clash in draft.clashes]
    assert kinds == [(1, ClashKind.OVERTAKEN, False), (3, ClashKind.MALFORMED, True), (4, ClashKind.AHEAD, False)]
    assert draft.refusals == ((1, 0, "there is nothing to update"),)
    assert ledger.height == 0


def test_a_draft_has_room_for_so_many_operations() -> None:
    ledger = new_ledger(max_transactions=3)
    given = [transaction(*[Put(b"%d-%d" % (number, n), b"") for n in range(2)]) for number in range(2)]
    assert _clashes(ledger, *given, transaction(Put(b"one more", b""))) == [(1, ClashKind.NO_ROOM)]
    too_many = transaction(*[Put(b"%d" % number, b"") for number in range(4)])
    assert _clashes(ledger, too_many) == [(0, ClashKind.MALFORMED)]
    assert _clashes(ledger, given[0], given[0]) == [(1, ClashKind.OVERTAKEN)]
    reader = transaction(reads={b"x": 0})
    assert _clashes(ledger, reader, reader) == [(1, ClashKind.MALFORMED)]


def test_the_content_of_a_key_has_all_its_lengths() -> None:
    assert content(b"k", Holds.BYTES, b"v") == (
        b"\0\0\0\x01k" + b"\0\0\0\x02" + b"\0\0\0\x05holds\0\0\0\x01\x01" + b"\0\0\0\x05value\0\0\0\x01v"
    )
    assert content(b"ab", Holds.BYTES, b"c") != content(b"a", Holds.BYTES, b"bc")


@pytest.mark.parametrize("before", [None, Put(b"k", b"0"), Delete(b"k"), CounterAdd(b"k", 1), SetAdd(b"k", b"m")])
def test_a_put_makes_the_version_that_its_result_makes_whatever_was_there(before: Operation | None) -> None:
    """It does not look at what is there, as any other operation does."""
    versions, put = Versions(), Put(b"k", b"1")
    if before is not None:
        earlier = Overlay(versions, None, 1)
        earlier.do(0, transaction(before))
        versions.put(1, earlier.changes)
    overlay = Overlay(versions, None, 2)
    present = overlay.newest(b"k")
    result = result_of(put, held_by(present))
    assert isinstance(result, Held)
    overlay.do(0, transaction(put))
    assert overlay.changes == {b"k": written(present, 2, result, commutative_tag(put))}
    assert overlay.refusals == []

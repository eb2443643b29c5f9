from bobbin.cluster.chain.history import History, names_of, touches
from bobbin.cluster.operations import Delete, EdgeCreate, Embed, Put
from tests.support.chains import made, new_ledger, put_on, transaction, unit


def test_names_are_affected_and_storage_keys() -> None:
    assert names_of([Put(b"a", b""), Embed(b"b", unit(0)), EdgeCreate(b"c", b"d", "t")]) == {
        b"a",
        b"b",
        b"emb:b",
        b"c",
        b"edge:c:d:t",
    }


def test_each_block_is_listed_once_and_in_order() -> None:
    ledger = new_ledger()
    history = History()
    for operations in ([Put(b"a", b"1"), Delete(b"a")], [Put(b"b", b"")], [Delete(b"a")], [Put(b"a", b"2")]):
        put_on(ledger, *operations)
        history.add(ledger.tip_block)
    assert list(history.heights(b"a")) == [1, 3, 4]
    assert list(history.heights(b"b")) == [2]
    assert list(history.heights(b"c")) == []


def test_touches_tell_whose_they_were_and_what_came_of_them() -> None:
    one, other = transaction(Put(b"a", b"1"), Put(b"b", b"")), transaction(Embed(b"a", unit(1)))
    block = made(new_ledger(), one, other, at_ms=77)
    found = list(touches(block, ((1, 0, "because"),), b"a"))
    assert [(touch.transaction, touch.operation, touch.refusal) for touch in found] == [
        (one.id, Put(b"a", b"1"), ""),
        (other.id, Embed(b"a", unit(1)), "because"),
    ]
    assert {(touch.height, touch.timestamp_ms) for touch in found} == {(1, 77)}

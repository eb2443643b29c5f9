from bobbin.cluster.conflicts.classify import Thresholds
from bobbin.cluster.conflicts.delta import DeltaVector
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.operations import CounterAdd, Embed, Operation, Put, SetAdd, TableInsert
from bobbin.cluster.shard.rivals import RIVALS_MAX, compare, kinds, shared_key
from tests.unit.cluster.shard.driven import DrivenShards


def of(*operations: Operation) -> dict[bytes, int]:
    return kinds(DrivenShards().transaction(*operations))


def test_keys_have_the_one_commutative_kind_of_all_operations_on_them() -> None:
    assert of(CounterAdd(b"a", 1), CounterAdd(b"a", 2), SetAdd(b"b", b""), Put(b"c", b"")) == {
        b"a": 12,
        b"b": 13,
        b"c": 0,
    }
    assert of(CounterAdd(b"a", 1), Put(b"a", b"")) == {b"a": 0}


def test_a_key_that_both_only_add_to_in_one_way_is_no_reason_to_compare() -> None:
    assert shared_key({b"a": 12}, {b"a": 12}) is None
    assert shared_key({b"a": 12}, {b"a": 13}) == b"a"
    assert shared_key({b"a": 0, b"b": 12}, {b"a": 0, b"b": 12, b"c": 0}) == b"a"
    assert shared_key({b"a": 0}, {b"b": 0}) is None


def test_only_a_conflicting_class_is_in_the_way() -> None:
    one = DeltaVector.of(Embedding(4, (0,), (1.0,)), (b"k",), b"1" * 16)
    same = DeltaVector.of(Embedding(4, (0,), (1.0,)), (b"k", b"j"), b"2" * 16)
    apart = DeltaVector.of(Embedding(4, (1,), (1.0,)), (b"k", b"j"), b"3" * 16)
    found = compare(one, same, b"k", Thresholds())
    assert found is not None
    assert (found.other, found.similarity, found.key) == (b"2" * 16, 1.0, b"k")
    assert compare(one, apart, b"k", Thresholds()) is None


def test_what_was_committed_since_is_compared_and_nothing_before() -> None:
    world = DrivenShards()
    here = Embedding(16, (5,), (1.0,))
    late = world.transaction(Embed(b"k", here), Put(b"other", b""))
    state = world[0].state
    assert state.rival(late, kinds(late)) is None
    world.commit(world.transaction(Embed(b"k", Embedding(16, (5,), (2.0,)))))
    world.run()
    rival = state.rival(late, kinds(late))
    assert rival is not None
    assert rival.key == b"k"
    later = world.transaction(Embed(b"k", here), Put(b"other", b""))
    assert state.rival(later, kinds(later)) is None


def test_only_so_much_is_compared_and_always_the_same() -> None:
    world = DrivenShards()
    late = world.transaction(TableInsert(b"t", (b"late",)))
    for number in range(RIVALS_MAX + 5):
        world.commit(world.transaction(TableInsert(b"t", (b"%d" % number,))))
        world.run()
    before = world[0].state.rival(late, kinds(late))
    world.commit(world.transaction(TableInsert(b"t", (b"more",))))
    world.run()
    assert world[0].state.rival(late, kinds(late)) == before

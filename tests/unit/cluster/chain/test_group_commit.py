from msgspec.structs import replace

from bobbin.cluster.chain.group_commit import LOOKED_AT_MAX, Waiting, all_commute, choose
from bobbin.cluster.conflicts.delta import DeltaVector
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.operations import CounterAdd, Operation, Put, SetAdd
from bobbin.cluster.settings import AutoMergeConfig
from tests.support.chains import transaction, unit

CONFIG = AutoMergeConfig()


def _waiting(vector: Embedding, *operations: Operation, asked_ms: int = 1_000) -> Waiting:
    given = transaction(*operations)
    return Waiting(given, DeltaVector.of(vector, tx=given.id), asked_ms)


def _chosen(
    waiting: list[Waiting], *, now_ms: int = 1_000, config: AutoMergeConfig = CONFIG, room: int = 1_000
) -> list[int]:
    chosen = choose(waiting, now_ms=now_ms, config=config, operations_max=room)
    return [waiting.index(one) for one in chosen]


def _apart(count: int) -> list[Waiting]:
    return [_waiting(unit(number, dimension=64), Put(b"%d" % number, b"")) for number in range(count)]


def test_nobody_waits_for_nothing() -> None:
    assert choose([], now_ms=0, config=CONFIG, operations_max=1_000) == ()


def test_at_most_ten_share_a_block() -> None:
    assert _chosen(_apart(15)) == list(range(10))
    assert _chosen(_apart(15), config=AutoMergeConfig(max_merge_batch=3)) == [0, 1, 2]


def test_only_those_of_the_window_go_along() -> None:
    one, two, three = _apart(3)
    early, late = replace(two, asked_ms=899), replace(three, asked_ms=900)
    assert _chosen([one, early, late]) == [0, 2]
    assert _chosen([replace(one, asked_ms=0), two, three]) == [0, 1, 2]


def test_off_means_one_for_each_block() -> None:
    assert _chosen(_apart(5), config=AutoMergeConfig(enabled=False)) == [0]


def test_the_most_orthogonal_go_first_and_all_are_orthogonal_to_one_another() -> None:
    lead = _waiting(unit(0), Put(b"a", b""))
    nearly = _waiting(Embedding(8, (0, 1), (0.05, 1.0)), Put(b"b", b""))
    wholly = _waiting(unit(2), Put(b"c", b""))
    alike = _waiting(Embedding(8, (0, 1), (0.11, 1.0)), Put(b"d", b""))
    like_wholly = _waiting(unit(2, 5.0), Put(b"e", b""))
    opposite = _waiting(unit(0, -1.0), Put(b"f", b""))
    assert _chosen([lead, nearly, wholly, alike, like_wholly, opposite]) == [0, 2, 1]
    assert _chosen([lead, alike], config=AutoMergeConfig(orthogonal_threshold=0.2)) == [0, 1]


def test_zero_changes_are_orthogonal_to_all() -> None:
    zeros = [_waiting(unit(0, 0.0), Put(b"%d" % number, b"")) for number in range(3)]
    assert _chosen(zeros) == [0, 1, 2]


def test_whoever_shares_a_key_waits_unless_both_only_add() -> None:
    lead = _waiting(unit(0), Put(b"k", b""))
    assert _chosen([lead, _waiting(unit(1), Put(b"k", b""))]) == [0]
    adds = [_waiting(unit(0), CounterAdd(b"n", number)) for number in (1, 5)]
    assert _chosen(adds) == [0, 1]
    assert _chosen([adds[0], _waiting(unit(1), SetAdd(b"n", b""))]) == [0]
    assert _chosen([adds[0], _waiting(unit(1), Put(b"n", b""))]) == [0]


def test_a_read_of_what_is_added_to_is_in_the_way() -> None:
    adds, reads = transaction(CounterAdd(b"n", 1)), transaction(CounterAdd(b"n", 1), reads={b"n": 0})
    assert all_commute(adds, adds, {b"n"})
    assert not all_commute(adds, reads, {b"n"})
    assert not all_commute(reads, adds, {b"n"})


def test_the_block_has_room_for_so_many_operations() -> None:
    waiting = [
        _waiting(unit(number, dimension=64), *[Put(b"%d-%d" % (number, at), b"") for at in range(4)])
        for number in range(3)
    ]
    small = _waiting(unit(9, dimension=64), Put(b"small", b""))
    assert _chosen([*waiting, small], room=9) == [0, 1, 3]


def test_so_many_are_compared_and_no_more() -> None:
    waiting = [_waiting(unit(0), Put(b"%d" % number, b"")) for number in range(LOOKED_AT_MAX)]
    beyond = _waiting(unit(1), Put(b"beyond", b""))
    assert _chosen([*waiting, beyond]) == [0]
    assert _chosen([*waiting[1:], beyond]) == [0, LOOKED_AT_MAX - 1]

"""Programs at rest: numbers of one database become numbers of one list, and back."""

import msgspec
import numpy as np

from bobbin.datalog.local.columns import Block
from bobbin.datalog.local.conjunction import Source
from bobbin.datalog.local.values import Values
from bobbin.policy.frozen import FORMAT, Frozen, FrozenProgram, Pool
from bobbin.policy.runtime_facts import RuntimeFacts


def _block(*columns: list[int]) -> Block:
    return Block([np.array(column, dtype=np.int32) for column in columns])


def _spelled(program: FrozenProgram, texts: list[str]) -> dict[str, set[tuple[str, ...]]]:
    own = program.spell(texts)
    assert own == [texts[place] for place in program.places]
    same = np.arange(len(own), dtype=np.int32)
    return {
        relation.source.predicate: {tuple(own[number] for number in row) for row in relation.table(same).rows}
        for relation in (*program.base, *program.derived)
    }


def test_one_list_serves_several_programs() -> None:
    pool = Pool()
    first, second = Values(), Values()
    first.encode_many(["gone", "a", "b"])
    second.encode_many(["b", "a"])
    one = pool.program({Source("A"): _block([1, 2], [2, 2])}, {Source("B"): _block([2])}, first.texts)
    two = pool.program({}, {Source("C"): _block([0, 1])}, second.texts)
    assert sorted(pool.texts) == ["a", "b"], "what occurs nowhere is left behind"
    assert _spelled(one, pool.texts) == {"A": {("a", "b"), ("b", "b")}, "B": {("b",)}}
    assert _spelled(two, pool.texts) == {"C": {("a",), ("b",)}}


def test_a_column_of_one_value_is_that_value() -> None:
    values = Values()
    values.encode_many(["x", *map(str, range(100))])
    same = np.broadcast_to(np.array([0], dtype=np.int32), (100,))
    block = Block([np.arange(1, 101, dtype=np.int32), same])
    pool = Pool()
    program = pool.program({Source("Field", "App"): block}, {}, values.texts)
    (relation,) = program.base
    assert relation.source == Source("Field", "App")
    assert list(map(len, relation.columns)) == [400, 4]
    assert _spelled(program, pool.texts) == {"Field": {(str(number), "x") for number in range(100)}}


def test_a_relation_is_taken_up_in_other_numbers() -> None:
    values = Values()
    values.encode_many(["a", "b"])
    program = Pool().program({Source("A"): _block([0, 1], [1, 1])}, {}, values.texts)
    (relation,) = program.base
    assert set(relation.table(np.array([7, 3], dtype=np.int32)).rows) == {(7, 3), (3, 3)}


def test_relations_without_columns_or_rows() -> None:
    pool = Pool()
    derived = {Source("Yes"): Block((), 1), Source("No"): Block((), 0), Source("None"): _block([])}
    program = pool.program({}, derived, Values().texts)
    assert _spelled(program, pool.texts) == {"Yes": {()}, "No": set(), "None": set()}
    assert pool.texts == []


def test_a_frozen_decision_travels_as_bytes() -> None:
    pool = Pool()
    program = FrozenProgram(b"", [], [])
    frozen = Frozen(
        format=FORMAT,
        own=program,
        offer=None,
        query=program,
        peer=program,
        visible=pool.places(["a", "b"]),
        may_send=pool.places(["b"]),
        may_request=pool.places([]),
        runtime=RuntimeFacts(transport="tcp:1"),
        claims={},
        texts=pool.texts,
    )
    again = msgspec.msgpack.decode(msgspec.msgpack.encode(frozen), type=Frozen)
    assert again == frozen
    assert again.records(again.visible) == {"a", "b"}
    assert again.records(again.may_send) == {"b"}
    assert again.records(again.may_request) == set()


def test_sets_and_numbers_have_the_places_of_their_texts() -> None:
    pool = Pool()
    some = frozenset({"b", "c"})
    first = pool.places_of_set(some)
    assert pool.places_of_set(some) is first
    assert {pool.texts[place] for place in np.frombuffer(first, dtype="<i4")} == some
    values = Values()
    numbers = values.encode_many(["c", "a", "b", "d"])
    for chosen in (numbers[:2], numbers, numbers[2:]):
        places = np.frombuffer(pool._places_of(chosen, values.texts), dtype="<i4")
        assert [pool.texts[place] for place in places] == values.texts.spell(chosen)
    assert sorted(pool.texts) == ["a", "b", "c", "d"]

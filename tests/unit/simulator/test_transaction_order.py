"""T7 from the chains: orders that can be, and circles that cannot."""

from bobbin.cluster.operations import CounterAdd
from bobbin.simulator.transaction_order import Lifetime, Order, Write

A, B, C = b"a", b"b", b"c"
X, Y = (0, b"x"), (1, b"y")


def put(writer: bytes, version: int) -> Write:
    return Write(writer, version, None)


def add(writer: bytes, version: int) -> Write:
    return Write(writer, version, CounterAdd)


def concurrent(*names: bytes) -> dict[bytes, Lifetime]:
    return {name: Lifetime(0, 100) for name in names}


def test_one_order_on_both_shards_is_well() -> None:
    order = Order()
    for key in (X, Y):
        order.wrote(key, put(A, 1))
        order.wrote(key, put(B, 2))
    assert order.find_circle(concurrent(A, B)) == []


def test_two_orders_on_two_shards_are_a_circle() -> None:
    order = Order()
    order.wrote(X, put(A, 1))
    order.wrote(X, put(B, 2))
    order.wrote(Y, put(B, 1))
    order.wrote(Y, put(A, 2))
    assert set(order.find_circle(concurrent(A, B))) == {A, B}


def test_additions_may_stand_in_any_order_among_themselves_alone() -> None:
    order = Order()
    order.wrote(X, add(A, 1))
    order.wrote(X, add(B, 2))
    order.wrote(Y, add(B, 1))
    order.wrote(Y, add(A, 2))
    assert order.find_circle(concurrent(A, B)) == []
    order.read(X, C, 1)
    order.read(Y, C, 1)
    assert set(order.find_circle(concurrent(A, B, C))) >= {C}, "C has seen A without B, and B without A"


def test_write_skew_is_a_circle() -> None:
    order = Order()
    order.read(X, A, 0)
    order.read(Y, B, 0)
    order.wrote(Y, put(A, 1))
    order.wrote(X, put(B, 1))
    assert set(order.find_circle(concurrent(A, B))) == {A, B}


def test_a_view_of_one_half_is_a_circle() -> None:
    order = Order()
    order.wrote(X, put(A, 1))
    order.wrote(Y, put(A, 1))
    order.read(X, B, 1)
    order.read(Y, B, 0)
    assert set(order.find_circle(concurrent(A, B))) == {A, B}


def test_one_that_had_ended_is_seen_by_one_that_was_called_later() -> None:
    order = Order()
    order.wrote(X, put(A, 1))
    order.read(X, B, 0)
    assert order.find_circle({A: Lifetime(0, 10), B: Lifetime(5, 20)}) == []
    assert set(order.find_circle({A: Lifetime(0, 10), B: Lifetime(11, 20)})) == {A, B}
    assert order.find_circle({A: Lifetime(0, None), B: Lifetime(11, 20)}) == [], "nobody knows when A has ended"

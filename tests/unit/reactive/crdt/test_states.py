import pytest

from bobbin.errors import UsageError
from bobbin.reactive.crdt import states
from bobbin.reactive.crdt.mv import Mv
from bobbin.reactive.crdt.pn_counter import PnCounter
from bobbin.reactive.crdt.states import ENTRIES_MAX, PEERS_MAX, STATE_BYTES_MAX, Kind, MalformedState
from bobbin.reactive.messages import U64_MAX, BlobRef, PeerId

A, B = PeerId(1), PeerId(20)


def test_a_counter_in_bytes() -> None:
    counter = PnCounter({B: 7, A: U64_MAX}, {A: 2})
    raw = b'{"incr":{"1":18446744073709551615,"20":7},"decr":{"1":2}}'
    assert states.encode(counter) == raw
    read = states.decode_counter(raw)
    assert (read.added, read.taken) == (counter.added, counter.taken)


def test_several_values_in_bytes() -> None:
    register = Mv([(frozenset({(B, 1)}), b"b"), (frozenset({(A, 1)}), b"\x00\xff")])
    raw = b'{"entries":[[{"1":1},"AP8="],[{"20":1},"Yg=="]]}'
    assert states.encode(register) == raw
    assert states.decode_values(raw).entries == register.entries


def test_a_tally_of_nothing_is_none() -> None:
    assert states.decode_counter(b'{"incr":{"1":0},"decr":{}}').added == {}


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\xff",
        b"[]",
        b'{"incr":{}}',
        b'{"incr":{},"decr":{},"more":1}',
        b'{"incr":{"1":-1},"decr":{}}',
        b'{"incr":{"1":1.5},"decr":{}}',
        b'{"incr":{"1":18446744073709551616},"decr":{}}',
        b'{"incr":{"18446744073709551616":1},"decr":{}}',
        b'{"incr":{"01":1},"decr":{}}',
        b'{"incr":{"":1},"decr":{}}',
        b'{"incr":{"+1":1},"decr":{}}',
        '{"incr":{"٣":1},"decr":{}}'.encode(),
        b'{"incr":{"%s":1},"decr":{}}' % (b"9" * 5000),
        b'{"incr":{%s},"decr":{}}' % b",".join(b'"%d":1' % peer for peer in range(PEERS_MAX + 1)),
        b'{"incr":{},"decr":{}%s}' % (b" " * STATE_BYTES_MAX),
        b"[" * 100_000,
    ],
)
def test_what_is_no_counter(raw: bytes) -> None:
    with pytest.raises(MalformedState):
        states.decode_counter(raw)


@pytest.mark.parametrize(
    "raw",
    [
        b'{"entries":[[{},"AA=="]]}',
        b'{"entries":[[{"1":0},"AA=="]]}',
        b'{"entries":[[{"1":1},"*"]]}',
        b'{"entries":[[{"1":1}]]}',
        b'{"entries":[%s]}' % b",".join(b'[{"%d":1},"AA=="]' % peer for peer in range(ENTRIES_MAX + 1)),
    ],
)
def test_what_are_no_values(raw: bytes) -> None:
    with pytest.raises(MalformedState):
        states.decode_values(raw)


def test_a_state_is_read_as_the_register_is() -> None:
    raw = states.encode(PnCounter({A: 1}))
    assert isinstance(states.like(states.empty(Kind.PN_COUNTER), raw), PnCounter)
    with pytest.raises(MalformedState):
        states.like(states.empty(Kind.MV), raw)
    with pytest.raises(MalformedState, match="arena"):
        states.like(states.empty(Kind.MV), BlobRef(0, 1, 1, 1, 1))


def test_registers_of_one_kind_are_merged() -> None:
    counter = states.empty(Kind.PN_COUNTER)
    assert states.join(counter, PnCounter({A: 3}))
    assert states.encode(counter) == b'{"incr":{"1":3},"decr":{}}'
    several = states.empty(Kind.MV)
    assert states.join(several, Mv([(frozenset({(A, 1)}), b"a")]))
    assert not states.join(several, Mv([(frozenset({(A, 1)}), b"a")]))


def test_an_opaque_cell_has_no_register() -> None:
    with pytest.raises(UsageError, match="opaque"):
        states.empty(Kind.LWW)

"""States of replicated registers: bytes are a register that is written and read alike, or are refused."""

from bobbin.reactive.crdt import states
from bobbin.reactive.crdt.states import ENTRIES_MAX, Kind, MalformedState


def one_input(data: bytes) -> None:
    for kind in (Kind.PN_COUNTER, Kind.MV):
        try:
            register = states.like(states.empty(kind), data)
        except MalformedState:
            continue
        raw = states.encode(register)
        assert states.encode(states.like(register, raw)) == raw
        assert not states.join(register, states.like(register, data)), "it has that already"
        assert states.encode(register) == raw
        blank = states.empty(kind)
        states.join(blank, register)
        assert states.encode(blank) == raw
        assert raw.count(b"[{") <= ENTRIES_MAX

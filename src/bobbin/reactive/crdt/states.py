"""The bytes that carry the state of a register which is merged rather than replaced.

Towards other makes a state is opaque and the greatest stamp wins: that is how every cell is treated that nobody here
has declared to be of another kind. Only of a cell that was declared so is the state read, in this form:

==============  =====================================================================================
kind            JSON
==============  =====================================================================================
``pn-counter``  ``{"incr": {"<peer>": n, …}, "decr": {"<peer>": n, …}}``
``mv``          ``{"entries": [[{"<peer>": n, …}, "<base64 of the value>"], …]}``
==============  =====================================================================================

Peers are decimal and every number a u64. Equal states have equal bytes.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterable
from enum import StrEnum, unique
from typing import Final, TypeAlias, TypeVar, assert_never

import msgspec
from msgspec import Struct

from bobbin.errors import PeerError, UsageError
from bobbin.reactive.crdt.mv import Entry, Mv
from bobbin.reactive.crdt.pn_counter import PnCounter
from bobbin.reactive.messages import U64_MAX, PeerId, Value

STATE_BYTES_MAX: Final = 1024 * 1024
PEERS_MAX: Final = 256
"""Of one state."""
ENTRIES_MAX: Final = 64
"""Values side by side. Telling which supersede which takes the square of it."""

MALFORMED_STATE: Final = "malformed_state"

_DIGITS_MAX: Final = len(str(U64_MAX))
_ENTRY_BYTES: Final = 32
_COUNT_BYTES: Final = 2 * _DIGITS_MAX + 4
"""What an entry, and one count of its version, take at most besides the value."""

F = TypeVar("F")
Register: TypeAlias = PnCounter | Mv[bytes]
"""What is merged."""


@unique
class Kind(StrEnum):
    """How two states of a cell become one."""

    LWW = "lww"
    MV = "mv"
    PN_COUNTER = "pn-counter"


class MalformedState(PeerError):
    """The bytes are no state of the declared kind. Nothing of the message that had them was kept."""

    def __init__(self, message: str) -> None:
        super().__init__(MALFORMED_STATE, message)


class _CounterForm(Struct, forbid_unknown_fields=True):
    incr: dict[str, int]
    decr: dict[str, int]


class _ValuesForm(Struct, forbid_unknown_fields=True):
    entries: list[tuple[dict[str, int], str]]


_COUNTERS: Final = msgspec.json.Decoder(_CounterForm)
_VALUES: Final = msgspec.json.Decoder(_ValuesForm)


def empty(kind: Kind) -> Register:
    """A register of this kind that nobody has written."""
    match kind:
        case Kind.PN_COUNTER:
            return PnCounter()
        case Kind.MV:
            return Mv()
        case Kind.LWW:
            raise UsageError("a cell where the last writer wins has no register: its state is opaque")
        case _:
            assert_never(kind)


def like(register: Register, state: Value) -> Register:
    """The state of a register of the same kind, or ``MalformedState``."""
    if not isinstance(state, bytes):
        raise MalformedState("the state of a merged register does not lie in an arena")
    return decode_counter(state) if isinstance(register, PnCounter) else decode_values(state)


def encode(register: Register) -> bytes:
    """The bytes of a register."""
    return encode_counter(register) if isinstance(register, PnCounter) else encode_values(register)


def join(into: Register, other: Register) -> bool:
    """Merge two registers of one kind; returns whether there is something else to see."""
    if isinstance(into, PnCounter) and isinstance(other, PnCounter):
        return into.merge(other)
    assert isinstance(into, Mv), "states are read as the register is"
    assert isinstance(other, Mv), "states are read as the register is"
    return into.merge(other)


def excess(register: Register) -> str | None:
    """What a register has too much of to be read by others; None if it can be."""
    if isinstance(register, PnCounter):
        peers = max(len(register.added), len(register.taken))
        return f"tallies of {peers} peers; {PEERS_MAX} are read" if peers > PEERS_MAX else None
    if len(register.entries) > ENTRIES_MAX:
        return f"{len(register.entries)} concurrent values; {ENTRIES_MAX} are read"
    peers = max((len(version) for version, _ in register.entries), default=0)
    if peers > PEERS_MAX:
        return f"versions of {peers} peers; {PEERS_MAX} are read"
    size = sum(_ENTRY_BYTES + _COUNT_BYTES * len(version) + len(value) * 4 // 3 for version, value in register.entries)
    return f"about {size} bytes; {STATE_BYTES_MAX} are read" if size > STATE_BYTES_MAX else None


def encode_counter(counter: PnCounter) -> bytes:
    """The bytes of a counter."""
    return msgspec.json.encode(_CounterForm(incr=_texts(counter.added.items()), decr=_texts(counter.taken.items())))


def decode_counter(raw: bytes) -> PnCounter:
    """The counter that the bytes say, or ``MalformedState``."""
    form = _decode(_COUNTERS, raw)
    return PnCounter(_numbers(form.incr), _numbers(form.decr))


def encode_values(register: Mv[bytes]) -> bytes:
    """The bytes of a register of several values."""
    entries = [(_texts(version), b64encode(value).decode()) for version, value in register.entries]
    entries.sort(key=lambda entry: (sorted(entry[0].items()), entry[1]))
    return msgspec.json.encode(_ValuesForm(entries=entries))


def decode_values(raw: bytes) -> Mv[bytes]:
    """The register that the bytes say, or ``MalformedState``."""
    form = _decode(_VALUES, raw)
    if len(form.entries) > ENTRIES_MAX:
        raise MalformedState(f"{len(form.entries)} concurrent values; {ENTRIES_MAX} are read")
    entries: list[Entry[bytes]] = []
    for version, text in form.entries:
        try:
            value = b64decode(text, validate=True)
        except ValueError as error:
            raise MalformedState(f"a value of the register is no base64: {error}") from error
        counts = _numbers(version)
        if not counts:
            raise MalformedState("a value of the register has no version")
        entries.append((frozenset(counts.items()), value))
    return Mv(entries)


def _decode(decoder: msgspec.json.Decoder[F], raw: bytes) -> F:
    if len(raw) > STATE_BYTES_MAX:
        raise MalformedState(f"a state of {len(raw)} bytes; {STATE_BYTES_MAX} are read")
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedState(f"no state of a register: {error}") from error


def _texts(counts: Iterable[tuple[PeerId, int]]) -> dict[str, int]:
    return {str(peer): count for peer, count in sorted(counts)}


def _numbers(form: dict[str, int]) -> dict[PeerId, int]:
    if len(form) > PEERS_MAX:
        raise MalformedState(f"{len(form)} peers in one state; {PEERS_MAX} are read")
    counts: dict[PeerId, int] = {}
    for text, count in form.items():
        # One spelling for each peer, so that nobody has two tallies.
        if (
            not (text.isascii() and text.isdigit())
            or (text[0] == "0" and text != "0")
            or len(text) > _DIGITS_MAX
            or int(text) > U64_MAX
        ):
            raise MalformedState(f"not the id of a peer: {text[:40]!r}")
        if not 0 <= count <= U64_MAX:
            raise MalformedState(f"peer {text} cannot have counted to {count}")
        if count:
            counts[PeerId(int(text))] = count
    return counts

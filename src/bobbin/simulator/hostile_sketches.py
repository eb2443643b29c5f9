"""What peers with the capability for sketches can do wrong on purpose (``hostile``).

Symbols that no set has, or that come apart one by one, streams without end, standings that are not true, ids and names
that nobody offers, and giving up again and again. All of it has the right form.
"""

from collections.abc import Callable
from random import Random
from typing import Final, TypeAlias

from msgspec import structs

from bobbin.interlace.choice import Strategy
from bobbin.interlace.messages import Advertise, Message
from bobbin.interlace.reconciliation import (
    HELD_BYTES,
    NAME_SYMBOLS,
    Changed,
    Compared,
    Cut,
    Fallback,
    Lacking,
    More,
    Part,
    Plain,
    Probe,
    Ranged,
    Sketched,
    Standing,
    Supplied,
)
from bobbin.reconcile.symbols import SYMBOL_BYTES
from bobbin.records import b64a
from bobbin.simulator.chained_symbols import chained

_MANY: Final = 10**6
_ID: Final = 8

Twist: TypeAlias = Callable[[Random, Message], list[Message]]


def craft_symbols(random: Random, message: Message) -> list[Message]:
    """Symbols and ids that are not those of any set."""
    match _part(message):
        case Sketched(first=first, raw=raw):
            crafted = (
                random.randbytes(len(raw)),
                bytes(len(raw)),
                raw[:SYMBOL_BYTES] * (len(raw) // SYMBOL_BYTES),
                _flipped(random, raw),
                raw[:-1],
                raw + random.randbytes(SYMBOL_BYTES * random.randint(1, 40)),
                chained(raw),
                b"",
            )
            at = random.choice((first, first, first, first + 1, _MANY))
            return _with(message, Sketched(first=at, raw=random.choice(crafted)))
        case Ranged(moment=moment, ids=raw):
            others = (random.randbytes(len(raw)), raw[_ID:], raw + raw[:_ID], _flipped(random, raw), b"x")
            at = random.choice((moment, 0, 2**64 - 1))
            return _with(message, Ranged(moment=at, ids=random.choice(others)))
        case Probe(bulk=bulk, cuts=cuts):
            counters = (_flipped(random, bulk), bulk[:-1], bytes(len(bulk)), random.randbytes(len(bulk)))
            lied = tuple(Cut(moment=cut.moment, sum=random.getrandbits(64)) for cut in cuts)
            return _with(message, Probe(bulk=random.choice(counters), cuts=random.choice((cuts, lied, ()))))
        case _:
            return [message]


def stream_without_end(random: Random, message: Message) -> list[Message]:
    """Ask for more, or send more, whatever the other side says."""
    if not isinstance(message, Advertise) or isinstance(message.part, Standing):
        return [message]
    symbols = random.choice((1, 16, 64, _MANY))
    more = More(symbols=symbols)
    further = Sketched(first=random.choice((0, 16, 32, 48)), raw=random.randbytes(SYMBOL_BYTES * random.randint(1, 64)))
    return [Advertise(part=random.choice((more, more, further)), tick=message.tick)]


def misstate_standing(random: Random, message: Message) -> list[Message]:
    """Another count, another root, another memory."""
    part = _part(message)
    if not isinstance(part, Standing):
        return [message]
    twists: tuple[dict[str, object], ...] = (
        {"count": random.choice((0, part.count + 1, max(part.count - 1, 0), 10**9))},
        {"root": random.randbytes(32)},
        {"root": part.held + part.root[HELD_BYTES:]},
        {"held": part.root[:HELD_BYTES]},
        {"held": random.randbytes(HELD_BYTES)},
        {"wish": random.choice((Strategy.SKETCH, Strategy.RANGES))},
    )
    return _with(message, structs.replace(part, **random.choice(twists)))


def misname(random: Random, message: Message) -> list[Message]:
    """Lack, take back and add what is not there."""
    names = tuple(sorted({_name(random) for _ in range(random.randint(1, 3))}))
    match _part(message):
        case Lacking(ids=ids):
            lacked = (ids + random.randbytes(_ID), ids[_ID:], ids + ids, b"x", random.randbytes(_ID * 400))
            return _with(message, Lacking(ids=random.choice(lacked)))
        case Changed(added=added, removed=removed):
            kind = random.randrange(3)
            twisted = Changed(added=names if kind else added[1:], removed=names if kind == 2 else removed[1:])
            return _with(message, twisted)
        case Compared(removed=removed):
            return _with(message, Compared(removed=random.choice((names, removed[1:]))))
        case Supplied():
            assert isinstance(message, Advertise), "only these have parts"
            return [structs.replace(message, records=message.records[1:])]
        case _:
            return [message]


def give_up(random: Random, message: Message) -> list[Message]:
    """Say that nothing is of use, or tell everything once more, at any moment."""
    if not isinstance(message, Advertise):
        return [message]
    part: Part = random.choice((Fallback(why="no reason"), Fallback(why="no reason"), Plain(), Supplied(), Changed()))
    return [random.choice((Advertise(part=part), structs.replace(message, part=part)))]


TWISTS: Final[dict[str, Twist]] = {
    "crafted symbols": craft_symbols,
    "endless stream": stream_without_end,
    "misstated standing": misstate_standing,
    "false names": misname,
    "giving up": give_up,
}


def _part(message: Message) -> Part | None:
    return message.part if isinstance(message, Advertise) else None


def _with(message: Message, part: Part) -> list[Message]:
    assert isinstance(message, Advertise), "only these have parts"
    return [structs.replace(message, part=part)]


def _flipped(random: Random, raw: bytes) -> bytes:
    if not raw:
        return raw
    at = random.randrange(len(raw))
    return raw[:at] + bytes([raw[at] ^ (1 << random.randrange(8))]) + raw[at + 1 :]


def _name(random: Random) -> str:
    return b64a.encode(random.randbytes(NAME_SYMBOLS))[:NAME_SYMBOLS]

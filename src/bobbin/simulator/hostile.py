"""Peers that break the rules on purpose.

A hostile peer is a correct machine whose words are twisted on their way out, so it knows the protocol well enough to
get far. What it does is drawn from a seed: one or two vices for one exchange, each at its own moments. Its messages are
of the right form, since a decoder lets nothing else through; on a byte stream it may also spoil the bytes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Final, TypeAlias

from msgspec import structs

from bobbin.interlace.advertise import advertisement
from bobbin.interlace.messages import (
    Advertise,
    Advertisement,
    Delivered,
    Hello,
    Message,
    Partition,
    Request,
    Response,
    Setup,
    Transfer,
    Unavailable,
)
from bobbin.interlace.schema import Schema
from bobbin.policy.claims import ClaimedField
from bobbin.policy.operands import Operand, Origin
from bobbin.records import ids, tai
from bobbin.records.record import Record
from bobbin.simulator.clock import EPOCH_TAI_NS, SECOND_NS
from bobbin.simulator.hostile_sketches import TWISTS, Twist

_SYMBOLS: Final = "0123456789ABCXYZ_abcxyz~"
_MANY: Final = 300

Vice: TypeAlias = Callable[["Hostile", Message], list[Message]]


class Hostile:
    """Twists the messages of one exchange."""

    def __init__(self, random: Random, records: Sequence[Record], names: Sequence[str] | None = None) -> None:
        """``records``: everything that it could send. ``names``: its vices; otherwise drawn."""
        self.random: Final = random
        self.records: Final = records
        self.names: Final = tuple(names or _draw(random))
        self.rate: Final = random.choice((0.2, 0.5, 1.0))
        self.source: Origin = Origin("source:0")
        self.said: Final[list[Message]] = []
        self.setup: Setup | None = None
        self.silent = False
        self.twisted = 0

    def __call__(self, message: Message) -> list[Message]:
        if isinstance(message, Setup):
            self.setup, self.source = message, message.operand.origin
        messages = [message]
        for name in self.names:
            if self.random.random() < self.rate:
                messages = [twisted for one in messages for twisted in VICES[name](self, one)]
        self.twisted += messages != [message]
        self.said.append(message)
        return messages

    def spoil(self, raw: bytes) -> bytes:
        """Change bytes, now and then, if that is one of its vices."""
        if "spoilt bytes" not in self.names or not raw or self.random.random() > 0.1:
            return raw
        at = self.random.randrange(len(raw))
        kind = self.random.randrange(3)
        self.twisted += 1
        if kind == 0:
            return raw[:at] + bytes([raw[at] ^ (1 << self.random.randrange(8))]) + raw[at + 1 :]
        return raw[:at] + raw[at + 1 :] if kind == 1 else raw[:at] + self.random.randbytes(3) + raw[at:]

    def invent(self) -> str:
        """The name of a record that nobody has."""
        kind = self.random.choice(list(ids.Kind))
        name = str(ids.hash_text(kind, self.random.randbytes(32)))
        return name.replace(".H3", ".H9") if self.random.random() < 0.2 else name


def _lie_about_fields(self: Hostile, message: Message) -> list[Message]:
    if not isinstance(message, Advertise) or not message.records:
        return [message]
    chosen = self.random.choice(message.records)
    fields = [
        ClaimedField(field.name, field.index, self.random.choice(("u", "ward", "member", "a", field.value)))
        for field in chosen.fields
    ]
    return [_listing(message, [*(ad for ad in message.records if ad is not chosen), _ad(self, chosen.record, fields)])]


def _invent_records(self: Hostile, message: Message) -> list[Message]:
    if not isinstance(message, Advertise) or message.partitions:
        return [message]
    fields = message.records[0].fields if message.records else ()
    invented = [_ad(self, self.invent(), fields) for _ in range(self.random.randint(1, 3))]
    invented += [_ad(self, self.random.choice(self.records).hash, fields)]
    return [_listing(message, [*message.records, *invented])]


def _misstate_partitions(self: Hostile, message: Message) -> list[Message]:
    if not isinstance(message, Advertise) or not message.partitions:
        return [message]
    at = self.random.randrange(len(message.partitions))
    parts = list(message.partitions)
    kind = self.random.randrange(4)
    if kind == 0:
        parts[at] = structs.replace(parts[at], root=self.random.randbytes(32))
    elif kind == 1:
        parts[at] = structs.replace(parts[at], count=self.random.choice((0, parts[at].count + 1, 10**9)))
    elif kind == 2:
        del parts[at]
    else:
        parts[at] = structs.replace(parts[at], prefix=parts[at].prefix + self.random.choice(_SYMBOLS))
    return [structs.replace(message, partitions=_by_prefix(parts))]


def _send_unrequested(self: Hostile, message: Message) -> list[Message]:
    if not isinstance(message, Transfer):
        return [message]
    record = self.random.choice(self.records)
    extra: Response = Delivered(record=record.hash, raw=record.raw)
    if self.random.random() < 0.2:
        extra = Unavailable(record=record.hash)
    at = self.random.randrange(len(message.responses) + 1)
    return [structs.replace(message, responses=(*message.responses[:at], extra, *message.responses[at:]))]


def _send_wrong_bytes(self: Hostile, message: Message) -> list[Message]:
    if not isinstance(message, Transfer):
        return [message]
    return [structs.replace(message, responses=tuple(_wrong(self, response) for response in message.responses))]


def _wrong(self: Hostile, response: Response) -> Response:
    if not isinstance(response, Delivered):
        return response
    raw = response.raw
    at = self.random.randrange(len(raw))
    wrong = (
        raw[:at],
        raw + b"x",
        raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :],
        self.random.choice(self.records).raw,
        b"",
        self.random.randbytes(50),
    )
    return structs.replace(response, raw=self.random.choice(wrong))


def _replay(self: Hostile, message: Message) -> list[Message]:
    if not self.said:
        return [message, message]
    old = self.random.choice(self.said)
    return self.random.choice(([message, old], [old], [old, message], [message, message]))


def _overload(self: Hostile, message: Message) -> list[Message]:
    many = [self.invent() for _ in range(_MANY)]
    if isinstance(message, Request):
        return [structs.replace(message, records=tuple(sorted({*message.records, *many})))]
    if not isinstance(message, Advertise):
        return [message]
    if self.random.random() < 0.5:
        return [_listing(message, [*message.records, *(_ad(self, name, ()) for name in many)])]
    parts = [Partition(prefix=name[2:4], count=1, root=self.random.randbytes(32)) for name in many]
    return [structs.replace(message, records=(), partitions=_by_prefix(parts))]


def _speak_out_of_turn(self: Hostile, message: Message) -> list[Message]:
    others: list[Message] = [Advertise(), Request(), Transfer(last=True), Transfer(), Advertise(lists=("00",))]
    others += self.said[-1:]
    other = self.random.choice(others)
    return self.random.choice(([other], [other, message], [message, other]))


def _repeat_parts(self: Hostile, message: Message) -> list[Message]:
    if not isinstance(message, Transfer):
        return [message]
    if message.responses and self.random.random() < 0.5:
        return [structs.replace(message, responses=(*message.responses, message.responses[0]))]
    return [structs.replace(message, last=False), message] if self.random.random() < 0.5 else [message, message]


def _withdraw(self: Hostile, message: Message) -> list[Message]:
    """Change its mind between phases."""
    if isinstance(message, Transfer):
        gone = tuple(Unavailable(record=response.record) for response in message.responses)
        return [structs.replace(message, responses=gone)]
    if isinstance(message, Advertise) and message.records:
        kept = [ad for ad in message.records if self.random.random() < 0.5]
        return [_listing(message, kept)]
    return [message]


def _fall_silent(self: Hostile, message: Message) -> list[Message]:
    self.silent = self.silent or (len(self.said) > 1 and self.random.random() < 0.5)
    return [] if self.silent else [message]


def _speak_for_others(self: Hostile, message: Message) -> list[Message]:
    if not isinstance(message, Setup):
        return [message]
    origins = ("source:0", "source:1", "source:x", "local", str(ids.verifier_text(self.random.randbytes(32))))
    operand = Operand(module=message.operand.module, origin=Origin(self.random.choice(origins)))
    index = self.random.choice((0, 1))
    return [structs.replace(message, operand=operand, index=index)]


def _twist_time(self: Hostile, message: Message) -> list[Message]:
    if isinstance(message, Setup | Hello):
        return [message]
    base = EPOCH_TAI_NS if message.tick is None else tai.parse(message.tick)
    moved = base + self.random.choice((-1000, -10, -1, 1, 10, 1000, 10**6)) * SECOND_NS
    tick = self.random.choice((tai.render(max(moved, 0)), tai.render(max(moved, 0) + 1), "soon"))
    return [structs.replace(message, tick=tick)]


def _greet_absurdly(self: Hostile, message: Message) -> list[Message]:
    if not isinstance(message, Hello):
        return [message]
    stranger = ids.verifier_text(self.random.randbytes(32))
    twists: tuple[dict[str, object], ...] = (
        {"tai": tai.render(0)},
        {"tai": tai.render(tai.TAI_MAX)},
        {"tai": tai.render(tai.parse(message.tai) + self.random.randrange(-400, 400) * SECOND_NS)},
        {
            "limits": {
                **message.limits,
                self.random.choice(sorted(message.limits)): self.random.choice((0, 1, 2, 2**70)),
            }
        },
        {"limits": {}},
        {"formats": frozenset({"H9"})},
        {"formats": frozenset({"H3", "H9"})},
        {"schema": Schema()},
        {"schema": Schema(all=True)},
        {"schema": Schema(names=frozenset({"Group"}))},
        {"tick_interval_ns": self.random.choice((0, 1, 2**63))},
        {"plan": message.plan[:-1] + "0"},
        {"plan_bytes": b"nonsense\n"},
        {"signer": stranger},
        {"signer": None},
    )
    return [structs.replace(message, **self.random.choice(twists))]


def _set_up_again(self: Hostile, message: Message) -> list[Message]:
    if self.setup is None or isinstance(message, Setup):
        return [message]
    again: Message = self.setup
    return self.random.choice(([again], [again, message], [message, again]))


def _ask_nonsense(self: Hostile, message: Message) -> list[Message]:
    if not isinstance(message, Advertise):
        return [message]
    prefixes = {
        "".join(self.random.choice(_SYMBOLS) for _ in range(self.random.choice((1, 2, 3, 8, 43))))
        for _ in range(self.random.randint(1, 4))
    }
    asked = tuple(sorted(prefixes))
    return [structs.replace(message, **{self.random.choice(("lists", "narrows")): asked})]


def _ask_for_everything(self: Hostile, message: Message) -> list[Message]:
    if not isinstance(message, Request):
        return [message]
    names = {*message.records, *(record.hash for record in self.records)}
    ordered = sorted(names)
    if self.random.random() < 0.1:
        self.random.shuffle(ordered)
    return [structs.replace(message, records=tuple(ordered))]


def _break_module(self: Hostile, message: Message) -> list[Message]:
    if not isinstance(message, Setup) or message.module is None:
        return [message]
    wrong = (message.module + b"\n", b"", b"\xff", b"SelectHave(P) :- Have(P).\n", None)
    return [structs.replace(message, module=self.random.choice(wrong))]


def _spoil_bytes(self: Hostile, message: Message) -> list[Message]:
    """Nothing here: on a byte stream, ``spoil`` does it."""
    del self
    return [message]


def _twisting(twist: Twist) -> Vice:
    return lambda self, message: twist(self.random, message)


VICES: Final[Mapping[str, Vice]] = {
    "lies about fields": _lie_about_fields,
    "invented records": _invent_records,
    "misstated partitions": _misstate_partitions,
    "unrequested records": _send_unrequested,
    "wrong bytes": _send_wrong_bytes,
    "replays": _replay,
    "overload": _overload,
    "out of turn": _speak_out_of_turn,
    "repeated parts": _repeat_parts,
    "withdrawals": _withdraw,
    "silence": _fall_silent,
    "foreign origin": _speak_for_others,
    "twisted time": _twist_time,
    "absurd hello": _greet_absurdly,
    "second setup": _set_up_again,
    "nonsense questions": _ask_nonsense,
    "requests for everything": _ask_for_everything,
    "broken module": _break_module,
    "spoilt bytes": _spoil_bytes,
    **{name: _twisting(twist) for name, twist in TWISTS.items()},
}


_EARLY: Final = frozenset({"foreign origin", "absurd hello", "broken module", "silence"})
"""Vices that end most exchanges before they have begun: the others are drawn more often."""


def _draw(random: Random) -> list[str]:
    names = sorted(VICES)
    weights = [1 if name in _EARLY else 3 for name in names]
    return sorted(set(random.choices(names, weights, k=random.choice((1, 2, 2)))))


def _ad(self: Hostile, record: str, fields: Iterable[ClaimedField]) -> Advertisement:
    return advertisement(record, self.source, fields)


def _listing(message: Advertise, records: Iterable[Advertisement]) -> Advertise:
    unique = {ad.record: ad for ad in records}
    return structs.replace(message, records=tuple(unique[name] for name in sorted(unique)))


def _by_prefix(parts: Iterable[Partition]) -> tuple[Partition, ...]:
    unique = {part.prefix: part for part in parts}
    return tuple(unique[prefix] for prefix in sorted(unique))

"""Peers that change, repeat, drop and swap their frames: nothing invalid is stored, and honest ones converge after."""

from random import Random

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from bobbin.tangles import modern_frames, phases
from bobbin.tangles.message import Message, MessageId
from bobbin.tangles.modern_frames import Answer, Ask, Form, ModernFrame, Parcel, Part, Stop
from bobbin.tangles.modern_turns import SpanLimits
from bobbin.tangles.phases import Frame, Messages, MessagesAndFilter
from bobbin.tangles.ranges import Range
from bobbin.tangles.session import SessionConfig
from bobbin.tangles.session_events import Received
from tests.properties.effort import scaled
from tests.support.tangle_messages import Author, closed
from tests.tangle_pairs import Pair, held, modern_pair, phase_pair, store_of, sync

_FRAMES_MAX = 400


def _forged(random: Random, texts: tuple[bytes, ...]) -> tuple[bytes, ...]:
    changed = [text.replace(b'"text":"', b'"text":"forged ', 1) if random.random() < 0.3 else text for text in texts]
    if random.random() < 0.3:
        random.shuffle(changed)
    if random.random() < 0.2:
        changed.append(random.choice((b"{}", b"[]", b"7", b"null", b"{")))
    if changed and random.random() < 0.2:
        changed.pop(random.randrange(len(changed)))
    return tuple(changed)


def _changed_phase(random: Random, frame: Frame) -> Frame:
    if isinstance(frame, Messages | MessagesAndFilter):
        return msgspec.structs.replace(frame, messages=_forged(random, frame.messages))
    depths = Range(random.randrange(-2, 20), random.randrange(-2, 20))
    match frame:
        case phases.Have():
            return phases.Have(frame.id, depths)
        case phases.HaveAndWant():
            return phases.HaveAndWant(frame.id, depths, frame.want if random.random() < 0.5 else depths)
        case phases.WantAndFilter():
            return phases.WantAndFilter(frame.id, frame.bloom, depths)
        case phases.IdsAndFilter():
            number = random.choice((frame.phase, 4, 5, 6, 7))
            return phases.IdsAndFilter(frame.id, number, frame.bloom, frame.ids[: random.randrange(3)])


def _changed_part(random: Random, part: Part) -> Part:
    body = bytearray(part.body)
    if body:
        body[random.randrange(len(body))] ^= 1 << random.randrange(8)
    span, form = random.choice((part.span, 0, 1, 3)), random.choice((part.form, *Form))
    size = len(body) - len(body) % 8 if form is Form.LISTED else len(body)
    return Part(span, form, random.choice((part.first, 0, 7, 2**40)), bytes(body[:size]))


def _changed_modern(random: Random, frame: ModernFrame) -> ModernFrame:
    changes: dict[str, object]
    match frame:
        case Parcel():
            return msgspec.structs.replace(frame, messages=_forged(random, frame.messages))
        case Stop():
            return frame
        case Ask():
            field = random.choice(("low", "high", "top"))
            return msgspec.structs.replace(frame, **{field: random.randrange(-3, 30)})
        case Answer():
            changes = {
                "parts": tuple(_changed_part(random, part) for part in frame.parts),
                "floor": random.choice((frame.floor, 0, 1, 5)),
                "high": random.randrange(-1, 30),
                "root": random.randbytes(16),
                "parcels": frame.parcels + random.randrange(2),
                "accounts": random.random() < 0.5,
            }
        case _:
            changes = {
                "parts": tuple(_changed_part(random, part) for part in frame.parts),
                "wants": frame.wants + random.randbytes(8),
                "ghosts": random.randbytes(8),
                "parcels": frame.parcels + random.randrange(2),
                "done": random.random() < 0.5,
            }
    return msgspec.structs.replace(frame, **dict(random.sample(sorted(changes.items()), 2)))


def _meddle(random: Random, pair: Pair, tangle: MessageId, *, modern: bool) -> None:
    """Run, with a peer on side 1 that does what it likes to every second frame or so."""
    pair.open(random.randrange(2), tangle)
    said: list[Frame | ModernFrame] = []
    for _ in range(_FRAMES_MAX):
        if not pair.wire:
            return
        number, raw = pair.wire.popleft()
        frame: Frame | ModernFrame
        if modern:
            frame = modern_frames.decode(raw, modern_frames.ModernLimits())
        else:
            frame = phases.decode(raw, phases.FrameLimits())
        if number == 1:
            said.append(frame)
            drawn = random.random()
            if drawn < 0.1:
                continue
            if drawn < 0.2:
                pair.step(0, Received(random.choice(said)))
            elif drawn < 0.5 and isinstance(frame, ModernFrame):
                frame = _changed_modern(random, frame)
            elif drawn < 0.5 and not isinstance(frame, ModernFrame):
                frame = _changed_phase(random, frame)
        pair.step(1 - number, Received(frame))
    raise AssertionError("the victim does not come to an end")


def _world(random: Random) -> tuple[MessageId, list[Message], list[list[Message]]]:
    author = Author()
    messages = author.star(50) if random.random() < 0.3 else author.weave(random, 14, moot=random.random() < 0.5)
    tangle = messages[0].id
    numbers = range(len(messages))
    parts = [closed(messages, tangle, [n for n in numbers if random.random() < 0.7]) for _ in range(2)]
    return tangle, [*author.account_messages, *messages], [[*author.account_messages, *part] for part in parts]


@given(st.integers(0, 2**32))
@scaled(0.4)
def test_a_hostile_peer_in_nine_phases(seed: int) -> None:
    random = Random(seed)
    tangle, everything, parts = _world(random)
    stores = [store_of(part, {tangle: "all"}) for part in parts]
    config = SessionConfig(checking=True, size_by_count=True)
    _meddle(random, phase_pair(stores[0], stores[1], config), tangle, modern=False)
    valid = {message.id: message for message in everything}
    assert all(message in (valid[message.id], valid[message.id].erased()) for message in stores[0])
    assert {message.id for message in parts[0]} <= {message.id for message in stores[0]}
    sync(phase_pair(stores[0], store_of(everything, {tangle: "all"}), config), tangle)
    assert held(stores[0], tangle).keys() == {message.id for message in everything if not message.is_account}


@given(st.integers(0, 2**32))
@scaled(0.4)
def test_a_hostile_peer_in_the_modern_mode(seed: int) -> None:
    random = Random(seed)
    tangle, everything, parts = _world(random)
    stores = [store_of(part, {tangle: "all"}) for part in parts]
    spans = SpanLimits(first_symbols=random.choice((1, 8, 32)))
    _meddle(random, modern_pair(stores[0], stores[1], seed=seed, spans=spans), tangle, modern=True)
    valid = {message.id: message for message in everything}
    assert all(message in (valid[message.id], valid[message.id].erased()) for message in stores[0])
    assert {message.id for message in parts[0]} <= {message.id for message in stores[0]}
    whole = store_of(everything, {tangle: "all"})
    pair = modern_pair(stores[0], whole, seed=seed + 1)
    sync(pair, tangle)
    assert held(stores[0], tangle) == held(whole, tangle)
    assert pair.sides[0].finished[-1].agreed is True

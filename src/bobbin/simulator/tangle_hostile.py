"""A peer that wants harm: what its session says is twisted, repeated, cut, held back, or joined by what it never said.

It has an honest session underneath, so that it gets as far into a run as anybody, and a forger beside it.
"""

import re
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Final

from msgspec import structs

from bobbin.simulator.tangle_forgery import Forger
from bobbin.simulator.tangle_keepers import Keeper
from bobbin.tangles import modern_frames, phases
from bobbin.tangles.message import Message, MessageId
from bobbin.tangles.modern_frames import Answer, Ask, ModernFrame, Parcel, Turn, WireWish, id_bytes
from bobbin.tangles.phases import Frame, Have, HaveAndWant, Messages, MessagesAndFilter, WantAndFilter
from bobbin.tangles.ranges import Range

_ABSURD_DEPTHS: Final = (-(2**53) + 1, -1, 0, 7, 2**31, 2**53 - 1)
_FILTER: Final = (
    b'{"type":"BloomFilter","_size":%d,"_nbHashes":%d,"_filter":{"size":%d,"content":"%b"},"_seed":78187493520}'
)


def encode(frame: Frame | ModernFrame) -> bytes:
    """A frame of either mode as bytes."""
    return modern_frames.encode(frame) if isinstance(frame, ModernFrame) else phases.encode(frame)


class Hostile:
    """Twists what one node says on one link."""

    def __init__(
        self,
        random: Random,
        forger: Forger,
        keeper: Keeper,
        learn: Callable[[Message], None],
        tangles: Callable[[], list[MessageId]],
        tally: Counter[str],
    ) -> None:
        """``learn`` is told of every message that is made up; ``tangles`` are those of the world."""
        self._random: Final = random
        self._forger: Final = forger
        self._keeper: Final = keeper
        self._learn: Final = learn
        self._tangles: Final = tangles
        self._tally: Final = tally
        self._said: list[bytes] = []
        self._held_back: list[bytes] = []

    def twist(self, frame: Frame | ModernFrame) -> list[bytes]:
        """What goes out in place of a frame."""
        raw = encode(frame)
        self._said.append(raw)
        if self._random.random() < 0.45:
            return [raw]
        # What carries messages is where forgeries are taken for what was asked for.
        carries = isinstance(frame, Messages | MessagesAndFilter | Parcel)
        vice = "add_forged" if carries and self._random.random() < 0.7 else self._random.choice(_VICES)
        self._tally[f"vice: {vice}"] += 1
        out: list[bytes] = getattr(self, f"_{vice}")(frame, raw)
        if self._held_back and self._random.random() < 0.3:
            out += self._held_back
            self._held_back = []
        return out

    # ---- vices ----------------------------------------------------------------------------------------------------

    def _add_forged(self, frame: Frame | ModernFrame, raw: bytes) -> list[bytes]:
        if not isinstance(frame, Messages | MessagesAndFilter | Parcel):
            return [*self._unasked(frame, raw)]
        tangle = frame.id if not isinstance(frame, Parcel) else modern_frames.id_text(frame.tangle)
        texts = list(frame.messages)
        for forged in self._forgeries(tangle):
            texts.insert(self._random.randrange(len(texts) + 1), forged)
        return [encode(structs.replace(frame, messages=tuple(texts)))]

    def _unasked(self, frame: Frame | ModernFrame, raw: bytes) -> list[bytes]:
        """Messages after the frame that nobody has asked for, perhaps of another tangle."""
        tangle = self._random.choice(self._tangles())
        texts = tuple(self._forgeries(tangle))
        if isinstance(frame, ModernFrame):
            run = self._random.choice((0, frame.run))
            return [raw, encode(Parcel(tangle=id_bytes(tangle), run=run, messages=texts))]
        return [raw, encode(Messages(tangle, texts))]

    def _replay(self, frame: Frame | ModernFrame, raw: bytes) -> list[bytes]:
        del frame
        return [raw, self._random.choice(self._said)]

    def _hold_back(self, frame: Frame | ModernFrame, raw: bytes) -> list[bytes]:
        del frame
        self._held_back.append(raw)
        return []

    def _swallow(self, frame: Frame | ModernFrame, raw: bytes) -> list[bytes]:
        del frame, raw
        return []

    def _cut(self, frame: Frame | ModernFrame, raw: bytes) -> list[bytes]:
        del frame
        return [raw[: self._random.randrange(len(raw))]]

    def _spoil(self, frame: Frame | ModernFrame, raw: bytes) -> list[bytes]:
        del frame
        spoilt = bytearray(raw)
        for _ in range(self._random.randint(1, 3)):
            spoilt[self._random.randrange(len(spoilt))] = self._random.randrange(256)
        return [bytes(spoilt)]

    def _noise(self, frame: Frame | ModernFrame, raw: bytes) -> list[bytes]:
        del frame
        noise = self._random.choice((b"", b"null", b"[]", b"{}", b"[" * 400, self._random.randbytes(40)))
        return [noise, raw]

    def _wrong_phase(self, frame: Frame | ModernFrame, raw: bytes) -> list[bytes]:
        if isinstance(frame, ModernFrame):
            return [encode(structs.replace(frame, run=self._random.choice((0, 1, 2, frame.run + 1, 2**53 - 1))))]
        phase = self._random.choice((0, 1, 2, 3, 5, 6, 8, 9, 10, -1))
        return [raw.replace(b'"phase":%d' % frame.phase, b'"phase":%d' % phase, 1)]

    def _absurd_filter(self, frame: Frame | ModernFrame, raw: bytes) -> list[bytes]:
        if isinstance(frame, ModernFrame):
            return self._absurd_ranges(frame, raw)
        bits, hashes = self._random.choice(((2**31, 17), (96, 2**31), (0, 0), (-1, 17), (96, 17), (2**60, 1)))
        absurd = _FILTER % (bits, hashes, 96, self._random.choice((b"AAAA", b"", b"////////////////")))
        return [re.sub(rb'\{"type":"BloomFilter".*?\},"_seed":\d+\}', lambda _: absurd, raw, count=1)]

    def _absurd_ranges(self, frame: Frame | ModernFrame, raw: bytes) -> list[bytes]:
        low, high = self._random.choice(_ABSURD_DEPTHS), self._random.choice(_ABSURD_DEPTHS)
        match frame:
            case Have():
                return [encode(Have(frame.id, Range(low, high)))]
            case HaveAndWant() | WantAndFilter():
                return [encode(structs.replace(frame, want=Range(low, high)))]
            case Ask():
                return [encode(structs.replace(frame, low=low, high=high, top=self._random.choice(_ABSURD_DEPTHS)))]
            case Answer():
                floor = self._random.choice((frame.floor, low))
                return [encode(structs.replace(frame, low=low, high=high, floor=floor))]
            case _:
                return [raw]

    def _lie(self, frame: Frame | ModernFrame, raw: bytes) -> list[bytes]:
        """A frame that is well formed and not true."""
        random = self._random
        match frame:
            case Ask():
                marks = tuple(mark for mark in frame.marks if random.random() < 0.5)
                return [encode(structs.replace(frame, marks=marks, wish=WireWish(random.randrange(4), 3)))]
            case Answer():
                parts = tuple(part for part in frame.parts if random.random() < 0.5)
                more = random.choice((0, 1, 5))
                return [encode(structs.replace(frame, parts=parts, parcels=frame.parcels + more))]
            case Turn():
                shorts = random.randbytes(8 * random.randrange(4))
                lie = structs.replace(frame, wants=shorts, done=not frame.done, root=random.randbytes(16))
                return [encode(lie)]
            case _:
                return [raw]

    # ---- parts ----------------------------------------------------------------------------------------------------

    def _forgeries(self, tangle: MessageId) -> list[bytes]:
        """A few messages that should not be, and one now and then that is right and came from elsewhere."""
        texts: list[bytes] = []
        structure = self._keeper.tangle(tangle)
        known = [message for id in structure if (message := self._keeper.message(id)) is not None]
        # Account messages are let through with messages of any tangle.
        accounts = [message.account for message in known if not message.is_account]
        for _ in range(self._random.randint(1, 3)):
            target = structure
            if accounts and self._random.random() < 0.25:
                target = self._keeper.tangle(self._random.choice(accounts))
            forged = self._forger.forge(target, self._keeper.tangle, known)
            if forged is not None:
                # Without data that is not its own, a copy may be as right as any.
                self._learn(forged)
                self._learn(forged.erased())
                texts.append((forged.erased() if self._random.random() < 0.15 else forged).raw)
        if known and self._random.random() < 0.3:
            texts.append(self._random.choice(known).raw)
        if self._random.random() < 0.15:
            texts.append(self._random.choice((b"null", b"{}", b"[1]", b'{"data":1}')))
        return texts


_VICES: Final = (
    "add_forged",
    "add_forged",
    "add_forged",
    "unasked",
    "unasked",
    "replay",
    "hold_back",
    "swallow",
    "cut",
    "spoil",
    "noise",
    "wrong_phase",
    "absurd_filter",
    "absurd_ranges",
    "lie",
)

"""Two sides that advertise very many records which are nearly the same, and what it costs them to find that out.

The machines, the codec and the index are the real ones. Only the store behind them is not: it knows names, fields and
times of records that nobody has made, lets all of them be sent and asks for none, so that an exchange is one round of
advertising. What the link carries is counted as it goes through the codec. Processor time is that of one side: its
steps, its encoder, its decoder; the evaluation of rules is left out, as is everything before the peer's first block.
"""

import gc
import random
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Final
from unittest.mock import patch

import numpy as np
from blake3 import blake3
from msgspec import Struct, structs
from numpy.typing import NDArray

from benchmarks.material import FIRST_TAI
from bobbin.interlace import dialogue
from bobbin.interlace.advertise import Renderer, claim_digests
from bobbin.interlace.choice import Strategy
from bobbin.interlace.claim_index import ClaimIndex, Columns
from bobbin.interlace.config import Config
from bobbin.interlace.cursor import Cursor
from bobbin.interlace.effects import Effect, Persist, Remember, SaveCursor
from bobbin.interlace.epoch import Epoch
from bobbin.interlace.events import Event, Now, Received, Settled, Started
from bobbin.interlace.limits import LARGE
from bobbin.interlace.machine import InterlaceMachine
from bobbin.interlace.messages import Advertise, Message, Request
from bobbin.interlace.ports import Evaluated, Memory, Question
from bobbin.interlace.schema import Schema
from bobbin.interlace.setup import Party
from bobbin.policy.claims import ClaimedField
from bobbin.policy.executables import LocalPolicy, PolicyCache
from bobbin.policy.modules import Selector, compile_selector
from bobbin.policy.operands import Index, Origin
from bobbin.policy.plan import Plan
from bobbin.records import b64a, tai
from bobbin.records.signing import SigningKey
from bobbin.runtime.codec_channel import CodecChannel, Tap
from bobbin.runtime.pair import Observer, Side
from bobbin.wire.interlace import encode

SELECTOR: Final = b"""\
SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'Group',_,'bench'), AdvertisedField(P,S,'App',_,_).
SelectHave(P) :- Have(P), Field(P,'Group',_,'bench'), Field(P,'App',_,_).
"""
TIME_SELECTOR: Final = SELECTOR + b"SelectAdvertised(P,S) :- Advertised(P,S), AdvertisedField(P,S,'TAI',_,_).\n"
FIELDS: Final = (ClaimedField("App", "0", "measurement"), ClaimedField("Group", "0", "bench"))
"""What every record says of itself that a rule reads."""
_KEYS: Final = tuple(SigningKey.from_secret(bytes([number]) * 32).verifier for number in (1, 2))


class Kind(StrEnum):
    """Where the differences lie."""

    SCATTERED = "scattered"
    RECENT = "recent"
    EMPTY = "empty"
    """One side has nothing."""
    UNCHANGED = "unchanged"
    """Nothing differs, and each side remembers the other's advertisements in a cursor."""


class Told(StrEnum):
    """What is advertised of each record."""

    SAME = "same"
    """Its group and its application: the same of all of them."""
    TIME = "time"
    """When it was made, too: something else of each. Only then may sketches tell times, and ranges be used."""


class Talk(Struct, frozen=True, kw_only=True):
    """What one advertise phase has cost."""

    identify_bytes: int
    """Both directions, without the advertisement records that are listed."""
    list_bytes: int
    """Of the blocks, what the listed advertisement records add to them."""
    records_listed: int
    turns: int
    """Blocks of each side. Both speak at once, so two turns take one round trip."""
    identify_turns: int
    """Until the first record was listed."""
    cpu_seconds: list[float]
    """Of each side, the initiator first."""
    way: str
    """How the initiator came to know."""

    @property
    def bytes(self) -> int:
        """Of all blocks of the phase."""
        return self.identify_bytes + self.list_bytes


# ---- material -------------------------------------------------------------------------------------------------------


class Material(Struct, frozen=True, kw_only=True):
    """The names that each side has, and the time of each record."""

    sides: tuple[list[str], list[str]]
    moments: dict[str, int]
    told: Told = Told.SAME

    def fields(self, name: str) -> tuple[ClaimedField, ...]:
        """What is advertised of a record."""
        if self.told is Told.SAME:
            return FIELDS
        return (*FIELDS, ClaimedField("TAI", "0", tai.render(self.moments[name])))

    def times(self, names: Sequence[str]) -> NDArray[np.uint64]:
        """What an index knows of when records were made: nothing, where it is not told."""
        return np.array([self.moments[name] if self.told is Told.TIME else 0 for name in names], np.uint64)


def make(count: int, differences: int, kind: Kind, told: Told = Told.SAME) -> Material:
    """Sides of ``count`` names; ``differences`` names in all are only on one of them, half of them on each."""
    pairs, odd = divmod(differences, 2)
    apart = list(range(count - pairs - odd, count))
    if kind is Kind.SCATTERED:
        apart = random.Random(count).sample(range(count), pairs + odd)
    replaced = set(apart)
    common = [(_name("common", number), number) for number in range(count) if number not in replaced]
    left = common + [(_name("left", number), number) for number in apart]
    right = common + [(_name("right", number), number) for number in apart[odd:]]
    if kind is Kind.EMPTY:
        left = []
    return Material(
        sides=([name for name, _ in left], [name for name, _ in right]),
        moments={name: FIRST_TAI + number * tai.NANOSECONDS for name, number in left + right},
        told=told,
    )


def _name(what: str, number: int) -> str:
    return f"P.{b64a.encode(blake3(b'%s %d' % (what.encode(), number)).digest())}.H3"


class Names:
    """The holdings of one side: all of its records may be sent, and none is wanted."""

    def __init__(self, names: Sequence[str], material: Material) -> None:
        self.told: Final = material.told
        self._names: Final = frozenset(names)
        self._material: Final = material
        digests = claim_digests((name, material.fields(name)) for name in names)
        self._index: Final = ClaimIndex.of(Columns(list(names), b"".join(digests), material.times(names)))
        self._policies: Final = PolicyCache()
        self._modules: Final[dict[str, bytes]] = {}
        self._is_told = False
        self._cursor: Cursor | None = None

    def __len__(self) -> int:
        return len(self._names)

    def prepare(self, plan: Plan, index: Index, *, own: Selector, peer_module: bytes) -> LocalPolicy:
        return self._policies.prepare(plan, index, own=own, peer_module=peer_module)

    def module(self, identifier: str) -> bytes | None:
        return self._modules.get(identifier)

    def begin(self, policy: LocalPolicy, schema: Schema, key: str | None) -> Memory | None:
        del policy, schema, key
        self._is_told = False
        return None

    def evaluate(self, question: Question) -> Evaluated:
        del question
        told, self._is_told = self._is_told, True
        return Evaluated() if told else Evaluated(send_added=self._names)

    def absent(self, records: Collection[str]) -> frozenset[str]:
        return frozenset(records) - self._names

    def describe(self, records: Collection[str], schema: Schema) -> list[tuple[ClaimedField, ...] | None]:
        assert ("TAI" in schema) is (self.told is Told.TIME), "the rules read what is told"
        return list(map(self._material.fields, records))

    def expect(self, records: Sequence[str]) -> None:
        del records
        raise AssertionError("nothing is asked for")

    def load(self, record: str) -> bytes | None:
        del record
        raise AssertionError("nothing is asked for")

    def kept_index(self, schema: Schema) -> ClaimIndex | None:
        """The index stands before a link is up, as it does in a lace that has had one before."""
        del schema
        return self._index.copy()

    def built(self, records: Collection[str], schema: Schema, length: int) -> None:
        """Nothing was computed beforehand."""
        del records, schema, length

    def cursor(self, key: str) -> Cursor | None:
        del key
        return self._cursor

    def persist(self, effect: Persist) -> tuple[Settled, ...]:
        del effect
        raise AssertionError("nothing is sent")

    def save(self, effect: SaveCursor) -> bool:
        self._cursor = effect.cursor
        return True

    def remember(self, effect: Remember) -> None:
        """Each exchange starts as after a restart: from the cursor."""


# ---- one exchange ---------------------------------------------------------------------------------------------------


def sides_of(material: Material) -> tuple[Names, Names]:
    """What both machines read."""
    left, right = (Names(names, material) for names in material.sides)
    return left, right


def talk(holdings: tuple[Names, Names], strategy: Strategy, *, capable: bool = False) -> Talk:
    """One exchange; what its advertise phase has cost.

    ``capable``: both sides have the capability also for partitions and listing, which then go compressed.
    """
    if capable and not strategy.is_negotiated:
        with _told_plainly(strategy):
            return talk(holdings, Strategy.AUTO)
    machines = [
        InterlaceMachine(_config(strategy, side.told, initiator=not at), side) for at, side in enumerate(holdings)
    ]
    book = _Book()
    sides = [
        Side(machine, held, [book.observer(at)])
        for at, (machine, held) in enumerate(zip(machines, holdings, strict=True))
    ]
    channels = [CodecChannel(machines[at], machines[1 - at], tap=book.tap(machines[at], at)) for at in (0, 1)]
    for side in sides:
        side.give(Started())
    now = Now(tai_ns=FIRST_TAI, monotonic_ns=0)
    moved = [True, True]
    with _evaluations_apart() as evaluating:
        while any(moved):
            if book.has_begun():
                # What the building of a million claims has left behind is no business of the talk about them.
                gc.collect()
            for at, side in enumerate(sides):
                before = time.process_time() - evaluating[0]
                closed = sides[1 - at].closed
                moved[at] = side.turn(channels[1 - at], channels[at], peer_closed=closed, now=now)
                book.spend(at, time.process_time() - evaluating[0] - before)
    for side in sides:
        if side.result is None or not side.result.fixed_point:
            raise AssertionError(f"the exchange did not come to its end: {side.result}")
        epoch = side.machine.epoch
        if epoch is None or len(epoch.learned) != len(holdings[side is sides[0]]):
            raise AssertionError("not everything is known that the peer offers")
    assert sides[0].result is not None
    return book.talk("; ".join([*sides[0].result.strategies, *sides[0].result.fallbacks]))


class _Book:
    """What was said in the advertise phase, and how long each side has worked on what it heard."""

    def __init__(self) -> None:
        self._identify = self._list = self._records = 0
        self._blocks = [0, 0]
        self._identified: int | None = None
        self._cpu = [0.0, 0.0]
        self._is_advertise = [False, False]
        self._is_new = True
        self._has_asked = [False, False]
        self._is_over = [False, False]
        """The round after that is about something else: whether what was received changes what is offered."""

    def has_begun(self) -> bool:
        """Whether both sides have just said their first block; true once."""
        begun, self._is_new = self._is_new and all(self._blocks), self._is_new and not all(self._blocks)
        return begun

    def observer(self, at: int) -> Observer:
        def observe(event: Event, effects: tuple[Effect, ...]) -> None:
            del effects
            self._is_advertise[at] = isinstance(event, Received) and isinstance(event.message, Advertise)

        return observe

    def tap(self, machine: InterlaceMachine, at: int) -> Tap:
        def take(message: Message, size: int) -> None:
            self._has_asked[at] |= isinstance(message, Request)
            if not isinstance(message, Advertise) or self._has_asked[at]:
                return
            self._blocks[at] += 1
            bare = size
            if message.records:
                self._records += len(message.records)
                self._identified = self._identified or self._blocks[at]
                assert machine.epoch is not None
                pieces = encode(structs.replace(message, records=()), compressed=machine.epoch.agreement.compresses)
                bare = sum(map(len, pieces))
            self._identify += bare
            self._list += size - bare

        return take

    def spend(self, at: int, seconds: float) -> None:
        """A side has made a step; it counts if that was about a block of the advertise phase."""
        if self._is_advertise[at] and not self._is_over[at]:
            self._cpu[at] += seconds
        self._is_advertise[at] = False
        self._is_over[at] = self._has_asked[at]

    def talk(self, way: str) -> Talk:
        return Talk(
            identify_bytes=self._identify,
            list_bytes=self._list,
            records_listed=self._records,
            turns=max(self._blocks),
            identify_turns=self._identified or max(self._blocks),
            cpu_seconds=self._cpu,
            way=way,
        )


@contextmanager
def _evaluations_apart() -> Iterator[list[float]]:
    """Seconds that went into the evaluation of rules: those have nothing to do with how claims were told."""
    spent = [0.0]
    plain = Epoch.evaluate

    def evaluate(epoch: Epoch) -> None:
        before = time.process_time()
        plain(epoch)
        spent[0] += time.process_time() - before

    with patch.object(Epoch, "evaluate", evaluate):
        yield spent


@contextmanager
def _told_plainly(strategy: Strategy) -> Iterator[None]:
    """Both sides have the capability and go the plain way, which nobody who has it can wish for."""
    with (
        patch.object(dialogue, "begins_plainly", lambda *_: True),
        patch.object(dialogue, "plain_way", lambda *_, **__: strategy),
    ):
        yield


def _config(strategy: Strategy, told: Told, *, initiator: bool) -> Config:
    own, peer = _KEYS if initiator else reversed(_KEYS)
    return Config(
        selector=compile_selector(SELECTOR if told is Told.SAME else TIME_SELECTOR),
        own=Party(verifier=own),
        peer=Party(verifier=peer),
        initiator=initiator,
        limits=LARGE,
        encrypted=True,
        strategy=strategy,
        # Fixed, so that a run can be repeated; the two make up the key.
        share=0xB0BB1 if initiator else 0xB1B0B,
    )


def listing_bytes(material: Material) -> int:
    """What it takes to list everything that both sides have, as plain text."""
    return sum(
        len(render(name, material.fields(name)))
        for names, key in zip(material.sides, _KEYS, strict=True)
        for render in [Renderer(Origin(key)).render]
        for name in names
    )

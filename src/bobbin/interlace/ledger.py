"""The books of one exchange: what the peer could learn, and how far its word could be trusted.

A ledger watches the steps of a machine and takes part in nothing. What it says stays here: it may speak of records that
the peer must not know of.
"""

from collections.abc import Callable, Collection
from typing import Final, TypeAlias

from msgspec import Struct

from bobbin.interlace.effects import Effect, Send
from bobbin.interlace.events import Event, Fate, Persisted, Received
from bobbin.interlace.machine import InterlaceMachine
from bobbin.interlace.messages import Advertise, Delivered, Message, Request, Setup, Shared, Transfer, Unavailable
from bobbin.interlace.reconciliation import (
    Changed,
    Compared,
    Lacking,
    Probe,
    Ranged,
    Sketched,
    Standing,
    Supplied,
)
from bobbin.interlace.schema import Schema
from bobbin.policy.claims import ClaimedField

Describe: TypeAlias = Callable[[Collection[str], Schema], list[tuple[ClaimedField, ...] | None]]
"""The fields of stored records under a schema."""


class Disclosure(Struct, frozen=True, kw_only=True):
    """What this side has told the peer."""

    modules: tuple[str, ...]
    """Selectors whose text was sent."""
    advertised: frozenset[str]
    """Records that the peer could learn of, with their fields: listed, or part of a whole that it can put together."""
    fields: frozenset[str]
    """Names of fields that were told of at least one record."""
    summaries: int
    """Partition summaries: a count and a root each, which say something about records that were not listed."""
    requested: frozenset[str]
    """Asking tells that one lacks a record, and that its rules select it."""
    sent: frozenset[str]
    sketches: int = 0
    """Counts, roots, counters, symbols and ids, block by block: they say something about all that was offered."""


class Difference(Struct, frozen=True, kw_only=True):
    """One field on which a claim and the validated record differ; None where a side has no such field."""

    name: str
    index: str
    claimed: str | None
    actual: str | None


class Honesty(Struct, frozen=True, kw_only=True):
    """What the peer claimed that turned out otherwise. None of it is proof of bad intent."""

    received: int
    differing: dict[str, tuple[Difference, ...]]
    """Received records whose validated fields are not what was advertised."""
    never_served: frozenset[str]
    """Advertised, requested, and answered as not available."""
    rejected: frozenset[str]
    """Delivered as bytes that are not the record."""


class Ledger:
    """Watches one machine."""

    def __init__(self, machine: InterlaceMachine) -> None:
        self._machine = machine
        self._modules: dict[str, None] = {}
        self._advertised: set[str] = set()
        self._fields: set[str] = set()
        self._summaries = 0
        self._is_whole_open = False
        """Whether something was said of all offers together that the peer may not have understood yet."""
        self._sketches = 0
        self._requested: dict[str, tuple[ClaimedField, ...]] = {}
        """With what was claimed of the record when it was asked for."""
        self._sent: set[str] = set()
        self._stored: set[str] = set()
        self._never_served: set[str] = set()
        self._rejected: set[str] = set()
        self._schema = Schema()
        self._shown: dict[int, Shared] = {}
        """Offers that the peer could read for itself."""

    def observe(self, event: Event, effects: tuple[Effect, ...]) -> None:
        """One step of the machine has been made."""
        match event:
            case Received(Transfer(responses=responses)):
                self._never_served.update(one.record for one in responses if isinstance(one, Unavailable))
            case Persisted(settled):
                self._stored.update(one.record for one in settled if one.fate in (Fate.STORED, Fate.DUPLICATE))
                self._rejected.update(one.record for one in settled if one.fate is Fate.REJECTED)
            case _:
                pass
        for effect in effects:
            if isinstance(effect, Send):
                self._say(effect.message)

    def disclosure(self) -> Disclosure:
        """What the peer could learn so far."""
        shown = [one for shared in self._shown.values() for one in shared.current().values()]
        return Disclosure(
            modules=tuple(self._modules),
            advertised=frozenset(self._advertised.union(one.record for one in shown)),
            fields=frozenset(self._fields.union(field.name for one in shown for field in one.fields)),
            summaries=self._summaries,
            requested=frozenset(self._requested),
            sent=frozenset(self._sent),
            sketches=self._sketches,
        )

    def honesty(self, describe: Describe) -> Honesty:
        """How the peer's claims compare with the records that came."""
        received = sorted(self._stored & self._requested.keys())
        differing: dict[str, tuple[Difference, ...]] = {}
        for record, actual in zip(received, describe(received, self._schema), strict=True):
            claimed = self._requested[record]
            if actual is not None and actual != claimed:
                differing[record] = _compare(claimed, actual)
        return Honesty(
            received=len(received),
            differing=differing,
            never_served=frozenset(self._never_served - self._stored),
            rejected=frozenset(self._rejected - self._stored),
        )

    def _say(self, message: Message) -> None:
        match message:
            case Setup(operand=operand):
                self._modules[operand.module] = None
            case Advertise(records=records, partitions=partitions, part=part, direct=direct):
                self._summaries += len(partitions)
                self._is_whole_open = self._is_whole_open or bool(partitions) or part is not None
                self._sketches += isinstance(part, Standing | Probe | Sketched | Ranged)
                if direct is not None:
                    self._shown[id(direct)] = direct
                for advertisement in records:
                    self._advertised.add(advertisement.record)
                    self._fields.update(field.name for field in advertisement.fields)
                if isinstance(part, Sketched | Ranged | Lacking | Supplied | Changed | Compared):
                    self._tell_whole()
            case Request(records=wanted):
                # Only after a phase in which each side has proven that it knows all that the other offers.
                self._tell_whole()
                self._ask(wanted)
            case Transfer(responses=responses):
                self._sent.update(one.record for one in responses if isinstance(one, Delivered))
            case _:
                pass

    def _tell_whole(self) -> None:
        """The peer can know everything that was announced, whatever of it was listed.

        It may offer the same, hold it from before, or find it out from what it has and the little that was told.
        """
        epoch = self._machine.epoch
        if epoch is None or not self._is_whole_open:
            return
        self._is_whole_open = False
        for advertisement in epoch.offers.announced():
            if advertisement.record not in self._advertised:
                self._advertised.add(advertisement.record)
                self._fields.update(field.name for field in advertisement.fields)

    def _ask(self, wanted: tuple[str, ...]) -> None:
        epoch = self._machine.epoch
        assert epoch is not None, "requests are made under a plan"
        self._schema = epoch.terms.schema
        for record in wanted:
            claim = epoch.learned.advertisement(record)
            self._requested[record] = () if claim is None else claim.fields


def _compare(claimed: tuple[ClaimedField, ...], actual: tuple[ClaimedField, ...]) -> tuple[Difference, ...]:
    said: Final = {(field.name, field.index): field.value for field in claimed}
    true: Final = {(field.name, field.index): field.value for field in actual}
    places = sorted(said.keys() | true.keys(), key=lambda place: (place[0].encode(), int(place[1])))
    return tuple(
        Difference(name=name, index=index, claimed=said.get((name, index)), actual=true.get((name, index)))
        for name, index in places
        if said.get((name, index)) != true.get((name, index))
    )

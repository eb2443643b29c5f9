"""What two machines say to each other, phase by phase (Lace-050).

A message is one block of one side in one phase. Both sides speak at the same time and in step: a machine that has sent
its block of a phase waits for the peer's block of the same phase. How a message becomes bytes is the business of
``wire``; a message that exists has been checked as far as that needs no state.

=============  ======================================================================================================
``Setup``      the active selector operand, with the bytes of its module
``Hello``      plan, identity, time, formats, field schema, limits
``Advertise``  what is offered: advertisement records, or summaries of partitions, and questions about the peer's
``Request``    the records that this side wants now; none, if there is nothing to want
``Transfer``   answers to the peer's request list: bytes, or that a record is not available; the rest is deferred
=============  ======================================================================================================

``tick`` is the sender's latest ``TickReady``; it rides on whatever is sent in the loop.
"""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Protocol, TypeAlias

from msgspec import Struct

from bobbin.interlace.reconciliation import Part
from bobbin.interlace.schema import Schema
from bobbin.policy.claims import ClaimedField
from bobbin.policy.operands import Index, Operand, Origin
from bobbin.records.ids import Verifier


class Setup(Struct, frozen=True, kw_only=True):
    """One side's complete operand for this epoch. ``module`` has the canonical bytes, where the binding brings them."""

    index: Index
    operand: Operand
    module: bytes | None = None


class Hello(Struct, frozen=True, kw_only=True):
    """What one side can do and wants, for the plan that it has computed."""

    plan: str
    tai: str
    tick_interval_ns: int
    formats: frozenset[str]
    schema: Schema
    signer: Verifier | None = None
    limits: Mapping[str, int] = MappingProxyType({})
    """Only recognised names; the others are dropped where bytes become messages."""
    plan_bytes: bytes | None = None
    """The canonical plan, where it is not the one that follows from the operands alone."""
    reconcile: int | None = None
    """This side's share of the key for sketches; None where it does not have the capability (``capability``)."""


class Partition(Struct, frozen=True, kw_only=True):
    """A summary of the advertisement records whose digest text begins with ``prefix``."""

    prefix: str
    count: int
    root: bytes


class Advertisement(Struct, frozen=True, kw_only=True, gc=False):
    """One record as its holder advertises it. Made by ``advertise.advertisement``, which computes the digest."""

    record: str
    fields: tuple[ClaimedField, ...]
    """In canonical order: by name, then by index as a number."""
    digest: bytes = b""
    """Empty where nobody has needed it yet. It follows from the record, the fields and who advertises them."""


class Shared(Protocol):
    """The advertisements of a side in the same process, to be read directly (Lace-050, reconciliation bypass).

    It shows the moment at which it was handed over, whatever its owner does afterwards.
    """

    @property
    def owner(self) -> object:
        """Whose advertisements these are: the same object on every occasion."""
        ...

    @property
    def source(self) -> Origin | None: ...

    @property
    def version(self) -> int:
        """Of this moment; it rises with every change."""
        ...

    def current(self) -> Mapping[str, Advertisement]:
        """Everything that was offered at this moment."""
        ...

    def since(self, version: int) -> Collection[str] | None:
        """The records that came or went from then to this moment; None if that is too long ago to say."""
        ...


class Advertise(Struct, frozen=True, kw_only=True):
    """One block of the advertise phase. The first block of a loop has no questions.

    First block of an exchange: either every advertisement record (``records``), or every non-empty partition. Later
    first blocks: nothing if nothing has changed, or every record, or the partitions that have changed, one that has
    become empty with count 0. Blocks after the first answer the peer's questions of the block before, and ask.
    """

    records: tuple[Advertisement, ...] = ()
    """By record, bytewise; no record twice."""
    partitions: tuple[Partition, ...] = ()
    """By prefix, bytewise; no prefix twice."""
    lists: tuple[str, ...] = ()
    """Prefixes of the peer's partitions whose records are wanted."""
    narrows: tuple[str, ...] = ()
    """Prefixes of the peer's partitions whose child summaries are wanted."""
    part: Part | None = None
    """Where both sides have the capability: about the claims as a whole."""
    tick: str | None = None
    direct: Shared | None = None
    """Instead of all that, between two sides of one process that trust each other's memory. It never goes on a wire."""

    @property
    def says_nothing(self) -> bool:
        """Whether the block neither offers nor asks."""
        offers = self.records or self.partitions or self.part is not None or self.direct is not None
        return not (offers or self.lists or self.narrows)


class Request(Struct, frozen=True, kw_only=True):
    """The records wanted now: unique, bytewise ascending."""

    records: tuple[str, ...] = ()
    tick: str | None = None


class Delivered(Struct, frozen=True, kw_only=True, gc=False):
    """Bytes, tied by the binding to the hash text of a record. Whether they are that record is not known yet."""

    record: str
    raw: bytes


class Unavailable(Struct, frozen=True, kw_only=True, gc=False):
    """A requested record can no longer be sent."""

    record: str


Response: TypeAlias = Delivered | Unavailable


class Transfer(Struct, frozen=True, kw_only=True):
    """A part of one side's answers to the peer's request list; ``last`` ends the phase."""

    responses: tuple[Response, ...] = ()
    last: bool = False
    tick: str | None = None


Message: TypeAlias = Setup | Hello | Advertise | Request | Transfer

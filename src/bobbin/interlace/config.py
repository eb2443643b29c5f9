"""What one side brings to one exchange. Nothing here changes while the exchange runs."""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from bobbin.errors import UsageError
from bobbin.interlace.choice import Strategy
from bobbin.interlace.limits import VALUE_MAX, Limits, Service
from bobbin.interlace.schema import Schema
from bobbin.interlace.setup import Party
from bobbin.policy.modules import Selector
from bobbin.records import ids
from bobbin.records.ids import Verifier


class Bounded(Struct, frozen=True):
    """Run to the fixed point and close. With ``ticks``, let time advance by so many ticks before closing."""

    ticks: int = 0


class Open(Struct, frozen=True):
    """Stay at the fixed point and go on when anything changes."""


class Config(Struct, frozen=True, kw_only=True):
    """One side's part in one exchange."""

    selector: Selector
    own: Party
    """This side, as it has proven itself on this link."""
    peer: Party
    """The other side, as the binding has proven it."""
    initiator: bool
    lifecycle: Bounded | Open = Bounded()
    limits: Limits = Limits()
    service: Service = Service()
    formats: frozenset[str] = frozenset({ids.SUFFIX})
    """Hash suffixes that the local store accepts."""
    schema: Schema | None = None
    """Fields that this side is willing to advertise and hear; None for exactly those that the plan needs."""
    parameters: Mapping[str, str] = MappingProxyType({})
    """Plan parameters that this side wants."""
    pinned: Verifier | None = None
    """The only peer that will do."""
    transport: str | None = None
    encrypted: bool = False
    """Only with proof that nobody else reads the stream."""
    cursor_key: str | None = None
    """A local name for the link where a side has proven nothing; None to remember nothing then."""
    direct: bool = False
    """Hand the advertisements over for reading instead of listing them. Both sides are in one process, and say so."""
    strategy: Strategy = Strategy.AUTO
    """How advertisements are reconciled, where there is a choice."""
    share: int | None = None
    """A number of 64 bits by chance, this side's share of the key of sketches. Without one there are none."""
    checking: bool = False
    """Check every invariant after every step."""

    def __post_init__(self) -> None:
        if not self.formats:
            raise UsageError("an exchange accepts at least one record format")
        if isinstance(self.lifecycle, Bounded) and self.lifecycle.ticks < 0:
            raise UsageError("a number of ticks to wait for is not negative")
        if self.share is not None and not 1 <= self.share <= VALUE_MAX:
            raise UsageError(f"a share of a key lies between 1 and {VALUE_MAX}")

    @property
    def offered_share(self) -> int | None:
        """What the hello says of the capability to reconcile by sketches; None for nothing."""
        return self.share if self.strategy.is_negotiated and not self.direct else None

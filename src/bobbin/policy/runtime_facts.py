"""What a running exchange tells the rules about itself, as one explicit value (Lace-050 runtime facts).

Rules see these facts and no others: no clock is read, nothing private is added. What is None or False here is absent,
and absence means "not proven"; there is no placeholder that a rule could match. The times, the skew and the transport
are shared inputs; ``here`` and ``peer`` are each side's own view of the same pair.
"""

import unicodedata

from msgspec import Struct

from bobbin import profile
from bobbin.errors import UsageError
from bobbin.facts.relations import Tuple
from bobbin.policy import vocabulary
from bobbin.records import ids, tai

_SKEW_LIMIT = 2**64


class RuntimeFacts(Struct, frozen=True, kw_only=True):
    """The runtime facts of one evaluation. A value that exists is valid."""

    here: ids.Verifier | None = None
    """This side's verifier, if it has one in this context."""
    peer: ids.Verifier | None = None
    """The other side's verifier: only with proof."""
    transport: str | None = None
    """Address of the active connection."""
    transport_encrypted: bool = False
    """True only with proof that nobody else reads the stream."""
    start_tai: str | None = None
    tick_tai: str | None = None
    """The moving time of an open exchange; never before the start."""
    clock_skew_seconds: int | None = None

    def __post_init__(self) -> None:
        for verifier in (self.here, self.peer):
            if verifier is not None:
                _check_verifier(verifier)
        for time in (self.start_tai, self.tick_tai):
            if time is not None:
                tai.parse(time)
        if self.start_tai is not None and self.tick_tai is not None and self.tick_tai < self.start_tai:
            raise UsageError(f"the tick {self.tick_tai} lies before the start {self.start_tai}")
        if self.clock_skew_seconds is not None and not 0 <= self.clock_skew_seconds < _SKEW_LIMIT:
            raise UsageError(f"a clock skew is a number of seconds from 0, not {self.clock_skew_seconds}")
        if self.transport is not None:
            _check_address(self.transport)

    def tuples(self) -> dict[str, frozenset[Tuple]]:
        """The facts as rules see them, by predicate; absent ones have no entry."""
        skew = None if self.clock_skew_seconds is None else str(self.clock_skew_seconds)
        single = {
            vocabulary.HERE: self.here,
            vocabulary.PEER: self.peer,
            vocabulary.TRANSPORT: self.transport,
            vocabulary.START_TAI: self.start_tai,
            vocabulary.TICK_TAI: self.tick_tai,
            vocabulary.CLOCK_SKEW_SECONDS: skew,
        }
        facts: dict[str, frozenset[Tuple]] = {
            name: frozenset({(value,)}) for name, value in single.items() if value is not None
        }
        if self.transport_encrypted:
            facts[vocabulary.TRANSPORT_ENCRYPTED] = frozenset({()})
        return facts


def _check_verifier(text: str) -> None:
    try:
        ids.parse_verifier(text)
    except ids.IdentifierError as error:
        raise UsageError(str(error)) from error


def _check_address(text: str) -> None:
    plain = text.isprintable() and unicodedata.is_normalized("NFC", text)
    if not text or not plain or len(text.encode()) > profile.FACT_VALUE_BYTES_MAX:
        raise UsageError(f"not the address of a transport: {text[:80]!r}")

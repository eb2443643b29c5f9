"""How much one exchange may cost: the limits of Lace-050, and the few that are only this side's business.

The first seven are negotiated: for each, the smaller of the two sides' values holds. The others bound what this side
does and are not told to anyone.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct, structs

from bobbin.errors import UsageError

VALUE_MAX: Final = 2**64 - 1
SECOND_NS: Final = 1_000_000_000


class Limits(Struct, frozen=True, kw_only=True):
    """Limits of one exchange. The defaults are those of the protocol page."""

    max_fact_block_size: int = 64 * 1024 * 1024
    max_advertisement_records_listed: int = 100_000
    """In one listing, of a partition or of everything."""
    max_partition_summaries: int = 16_384
    """Sent or received in one exchange (in an open one: in one round)."""
    max_narrowing_depth: int = 12
    """Steps below the starting prefix."""
    max_total_transferred_bytes: int = 1024 * 1024 * 1024
    """Record bytes of both directions, as this side counts them, in one round."""
    max_loop_iterations: int = 16
    phase_timeout: int = 30
    """Seconds."""

    def __post_init__(self) -> None:
        for name in NAMES:
            if not 1 <= getattr(self, name) <= VALUE_MAX:
                raise UsageError(f"the limit {name} lies between 1 and {VALUE_MAX}")

    def negotiated(self, advertised: Mapping[str, int]) -> "Limits":
        """The smaller of both values for each name that the peer has named. Other names are of no consequence."""
        smaller = {name: min(getattr(self, name), value) for name, value in advertised.items() if name in NAMES}
        return structs.replace(self, **smaller)

    def advertised(self) -> dict[str, int]:
        """What this side tells in its hello."""
        return {name: getattr(self, name) for name in NAMES}


NAMES: Final = (
    "max_fact_block_size",
    "max_advertisement_records_listed",
    "max_partition_summaries",
    "max_narrowing_depth",
    "max_total_transferred_bytes",
    "max_loop_iterations",
    "phase_timeout",
)
"""The names of ``HelloLimit``."""

LARGE: Final = Limits(
    max_fact_block_size=256 * 1024 * 1024,
    max_advertisement_records_listed=1_000_000,
    max_partition_summaries=1_048_576,
    max_total_transferred_bytes=64 * 1024 * 1024 * 1024,
    max_loop_iterations=64,
    phase_timeout=600,
)
"""For laces of millions of records."""

PROFILES: Final[Mapping[str, Limits]] = MappingProxyType({"default": Limits(), "large": LARGE})


CLAIMS_MAX: Final = 4_000_000
"""Advertisement records of one peer that are held at a time."""


class Service(Struct, frozen=True, kw_only=True):
    """What this side asks for and serves at a time. None of it is told to the peer, none of it ends an exchange."""

    request_records_max: int = 100_000
    """In one request list."""
    serve_records_max: int = 100_000
    """In one transfer phase; what is left is deferred."""
    serve_bytes_max: int = 1024 * 1024 * 1024
    chunk_records_max: int = 4_096
    chunk_bytes_max: int = 4 * 1024 * 1024
    """In one step of a transfer: what is in memory at a time."""
    unsettled_records_max: int = 8_192
    """Received and not yet stored. Beyond it the peer has to wait."""
    list_outright_max: int = 256
    """Up to so many advertisement records are listed without asking; more go as partition summaries."""
    list_partition_max: int = 64
    """A partition that differs and has at most so many records is listed; a larger one is narrowed if it can be."""
    sketch_symbols_max: int = 262_144
    """Told or taken in one advertise phase. Where more would be needed, partitions are used instead."""
    sketch_ids_max: int = 262_144
    """Short ids, or beginnings of names, told or taken at a time."""
    sketch_turns_max: int = 6
    """Stretches of symbols that are asked for in one advertise phase."""
    claims_max: int = CLAIMS_MAX
    """Advertisement records of the peer that are held at a time. More end the exchange."""
    tick_interval_ns: int = 10 * SECOND_NS
    tick_interval_ns_max: int = 24 * 3600 * SECOND_NS
    clock_skew_seconds_max: int = 300

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if not 0 < getattr(self, name) <= VALUE_MAX:
                raise UsageError(f"{name} lies between 1 and {VALUE_MAX}")
        if self.tick_interval_ns > self.tick_interval_ns_max:
            raise UsageError("the tick interval is longer than the longest one that is accepted")

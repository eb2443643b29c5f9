"""How a node serves: where it listens, how many links it takes and how fast, what it tells its operator.

These are values. A configuration file has the same tables and keys, and the bounds stated here are those that the file
is checked against; the description of a field is its line in the manual.
"""

from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta, Struct

from bobbin.wire.address import Address

COUNT_MAX: Final = 1_000_000
SECONDS_MAX: Final = 86_400


def _count(description: str, *, least: int = 1) -> Meta:
    return Meta(ge=least, le=COUNT_MAX, description=description)


def _seconds(description: str) -> Meta:
    return Meta(gt=0, le=SECONDS_MAX, description=description)


class LinkBounds(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How many links a node has at a time, and how much of its time one of them may take."""

    total_max: Annotated[int, _count("Open links in all.")] = 512
    per_peer_max: Annotated[int, _count("Open links that one key has opened.")] = 4
    silent_seconds_min: Annotated[
        float, _seconds("How long a link is silent before a new one of its key may take its place.")
    ] = 60.0
    per_address_max: Annotated[int, _count("Open links from one IP address.")] = 64
    anonymous_max: Annotated[int, _count("Open links with peers that have proven nothing, in all.")] = 16
    introducing_max: Annotated[int, _count("Streams at a time that have not said who they are.")] = 64
    introduction_seconds_max: Annotated[float, _seconds("How long a stream may take to say who it is.")] = 10.0
    new_per_minute_max: Annotated[int, _count("New streams a minute from one IP address, in the long run.")] = 60
    new_burst_max: Annotated[int, _count("New streams that one IP address may open at once.")] = 30
    operand_changes_per_minute_max: Annotated[
        int, _count("How often a minute a peer may change its policy on an open link.")
    ] = 12
    empty_rounds_per_minute_max: Annotated[
        int, _count("Rounds a minute that a peer may start without anything new.")
    ] = 120
    stop_seconds_max: Annotated[float, _seconds("How long links have to come to an end when the node stops.")] = 15.0


class Reconnecting(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long to wait before a peer that is followed is dialled again."""

    delay_seconds_min: Annotated[float, _seconds("The longest wait after the first failure; it doubles each time.")] = (
        1.0
    )
    delay_seconds_max: Annotated[float, _seconds("The longest wait after many failures.")] = 120.0


class LogLevel(StrEnum):
    """What is worth a line in the log."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogForm(StrEnum):
    """How a line of the log is written."""

    JSON = "json"
    TEXT = "text"


class Logging(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The log, on stderr."""

    level: Annotated[LogLevel, Meta(description="The least that is worth a line.")] = LogLevel.INFO
    format: Annotated[LogForm, Meta(description="One JSON object a line, or text for people.")] = LogForm.JSON


class Telemetry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Traces by OpenTelemetry; needs the extra ``telemetry``."""

    enabled: Annotated[bool, Meta(description="Send a span for each link, with what happens on it as events.")] = False
    endpoint: Annotated[
        str | None, Meta(description="Where to send them (OTLP over HTTP); else OpenTelemetry's own variables say.")
    ] = None
    service_name: Annotated[str, Meta(min_length=1, max_length=255, description="What the node is called there.")] = (
        "bobbin"
    )


class Metrics(Struct, frozen=True, kw_only=True):
    """What operators read over HTTP besides the socket in the lace's folder."""

    listen: Address | None = None
    """A ``tcp`` address; None for the socket only."""
    off_loopback: bool = False
    """Whether that address may be reachable from other machines."""
    links: bool = False
    """Whether the links, with the names and keys of peers, are shown there."""


class NodeSettings(Struct, frozen=True, kw_only=True):
    """Everything that a node is told besides its peers."""

    listen: tuple[Address, ...] = ()
    allow_insecure: bool = False
    """Whether links off this machine may be unencrypted or with peers that have proven nothing."""
    links: LinkBounds = LinkBounds()
    reconnect: Reconnecting = Reconnecting()
    metrics: Metrics = Metrics()
    log: Logging = Logging()
    telemetry: Telemetry = Telemetry()

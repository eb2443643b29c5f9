"""Spans of links and rounds for OpenTelemetry, where that is installed and wanted; nothing at all where it is not.

The node calls the same few methods either way. Spans have the words of this program, and the name of a peer as its
owner wrote it; nothing that a peer said.
"""

from collections.abc import Mapping
from importlib import import_module, metadata
from typing import TYPE_CHECKING, Final, Protocol

from bobbin.errors import UsageError
from bobbin.runtime.node_settings import Telemetry

if TYPE_CHECKING:
    from opentelemetry.trace import Span as OtelSpan
    from opentelemetry.trace import Tracer

Value = str | int | float | bool


class Span(Protocol):
    """One link, from its stream to its end."""

    def event(self, name: str, values: Mapping[str, Value]) -> None:
        """Something happened on it."""
        ...

    def end(self, values: Mapping[str, Value], *, error: str | None = None) -> None:
        """It is over. ``error`` says why, where that was no good end."""
        ...


class Tracing(Protocol):
    """Where spans go."""

    def link(self, values: Mapping[str, Value]) -> Span:
        """A link is up."""
        ...

    def close(self) -> None:
        """Send what has not been sent, for a bounded time."""
        ...


class _NoSpan:
    def event(self, name: str, values: Mapping[str, Value]) -> None:
        del name, values

    def end(self, values: Mapping[str, Value], *, error: str | None = None) -> None:
        del values, error


class NoTracing:
    """Nobody wants spans."""

    _SPAN: Final = _NoSpan()

    def link(self, values: Mapping[str, Value]) -> Span:
        del values
        return self._SPAN

    def close(self) -> None:
        pass


class _OtelSpan:
    def __init__(self, span: "OtelSpan") -> None:
        self._span = span

    def event(self, name: str, values: Mapping[str, Value]) -> None:
        self._span.add_event(name, dict(values))

    def end(self, values: Mapping[str, Value], *, error: str | None = None) -> None:
        from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415 -- only where it is installed

        self._span.set_attributes(dict(values))
        if error is not None:
            self._span.set_status(Status(StatusCode.ERROR, error))
        self._span.end()


class OtelTracing:
    """Spans go to OpenTelemetry."""

    def __init__(self, tracer: "Tracer", *, shutdown: "Shutdown | None" = None) -> None:
        self._tracer = tracer
        self._shutdown = shutdown

    def link(self, values: Mapping[str, Value]) -> Span:
        return _OtelSpan(self._tracer.start_span("bobbin.link", attributes=dict(values)))

    def close(self) -> None:
        if self._shutdown is not None:
            self._shutdown()


class Shutdown(Protocol):
    """Ends whatever sends spans."""

    def __call__(self) -> None: ...


def make_tracing(settings: Telemetry) -> Tracing:
    """What the settings ask for. Raises ``UsageError`` where they ask for what is not installed."""
    if not settings.enabled:
        return NoTracing()
    try:
        # By its name, since the types of what is not installed cannot be looked at.
        exporters = import_module("opentelemetry.exporter.otlp.proto.http.trace_exporter")
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 -- optional
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 -- optional
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 -- optional
    except ImportError as error:
        detail = "telemetry is enabled, and OpenTelemetry is not installed; install bobbin[telemetry]"
        raise UsageError(detail) from error
    provider = TracerProvider(resource=Resource.create({"service.name": settings.service_name}))
    provider.add_span_processor(BatchSpanProcessor(exporters.OTLPSpanExporter(endpoint=settings.endpoint)))
    tracer = provider.get_tracer("bobbin", metadata.version("bobbin"))
    return OtelTracing(tracer, shutdown=provider.shutdown)

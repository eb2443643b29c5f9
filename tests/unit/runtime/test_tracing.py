"""Spans, where OpenTelemetry is installed and wanted."""

import sys

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from bobbin.errors import UsageError
from bobbin.runtime.node_settings import Telemetry
from bobbin.runtime.tracing import NoTracing, OtelTracing, make_tracing


def test_nothing_is_traced_unless_it_is_wanted() -> None:
    tracing = make_tracing(Telemetry())
    assert isinstance(tracing, NoTracing)
    span = tracing.link({"peer": "bob"})
    span.event("fixed-point", {"received": 1})
    span.end({"end": "fixed-point"})
    tracing.close()


def test_wanting_what_is_not_installed_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(UsageError, match=r"bobbin\[telemetry\]"):
        make_tracing(Telemetry(enabled=True))


def test_a_link_is_a_span_with_its_rounds_as_events() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    closed: list[bool] = []
    tracing = OtelTracing(provider.get_tracer("test"), shutdown=lambda: closed.append(True))
    good, bad = tracing.link({"peer": "bob", "link": 1}), tracing.link({"peer": "eve"})
    good.event("fixed-point", {"received": 3, "sent": 0})
    good.end({"end": "fixed-point", "records_in": 3})
    bad.end({"end": "phase-timeout"}, error="phase-timeout")
    tracing.close()
    first, second = exporter.get_finished_spans()
    assert first.name == "bobbin.link"
    assert dict(first.attributes or {}) == {"peer": "bob", "link": 1, "end": "fixed-point", "records_in": 3}
    assert [(event.name, dict(event.attributes or {})) for event in first.events] == [
        ("fixed-point", {"received": 3, "sent": 0})
    ]
    assert first.status.is_ok or first.status.is_unset
    assert not second.status.is_ok
    assert second.status.description == "phase-timeout"
    assert closed == [True]

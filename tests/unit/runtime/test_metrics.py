"""The figures of a node, and the page that describes them."""

import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from bobbin.runtime.metrics import Meter

_PAGE = Path(__file__).resolve().parents[3] / "docs" / "metrics.md"


def _families(meter: Meter) -> dict[str, str]:
    return {
        family.name: family.type
        for family in text_string_to_metric_families(meter.expose().decode())
        if family.name.startswith("bobbin_") and not family.name.endswith("_created")
    }


def test_what_is_counted_is_exposed() -> None:
    meter = Meter()
    meter.links.labels("fixed-point").inc()
    meter.bytes.labels("in", "hello").inc(7)
    meter.step_seconds.observe(0.003)
    text = meter.expose().decode()
    assert 'bobbin_links_total{end="fixed-point"} 1.0' in text
    assert 'bobbin_bytes_total{direction="in",phase="hello"} 7.0' in text
    assert 'bobbin_step_seconds_bucket{le="0.005"} 1.0' in text


def test_two_nodes_count_apart() -> None:
    one, other = Meter(), Meter()
    one.slowed.inc()
    assert "bobbin_slowed_total 1.0" in one.expose().decode()
    assert "bobbin_slowed_total 0.0" in other.expose().decode()


def test_the_page_lists_exactly_what_there_is() -> None:
    meter = Meter()
    names = {name + ("_total" if kind == "counter" else "") for name, kind in _families(meter).items()}
    listed = set(re.findall(r"^\| `(bobbin_[a-z_]+)", _PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    assert listed == names


def test_the_process_itself_is_measured() -> None:
    assert "process_resident_memory_bytes" in Meter().expose().decode()

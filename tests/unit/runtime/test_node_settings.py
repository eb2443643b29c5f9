"""The settings of a node: their defaults keep within their own bounds, and every one is described."""

import msgspec
import pytest
from msgspec import Struct

from bobbin.config import schema
from bobbin.runtime.node_settings import LinkBounds, Logging, NodeSettings, Reconnecting, Telemetry

_TABLES: list[type[Struct]] = [LinkBounds, Reconnecting, Logging, Telemetry]


@pytest.mark.parametrize("table", _TABLES)
def test_the_defaults_pass_the_checks_of_a_file(table: type[Struct]) -> None:
    assert msgspec.convert(msgspec.to_builtins(table()), table) == table()


@pytest.mark.parametrize("table", _TABLES)
def test_every_setting_is_described(table: type[Struct]) -> None:
    assert [row.key for row in schema.rows(table) if not row.description] == []


@pytest.mark.parametrize("value", [0, -1, 1_000_001, "4", True])
def test_a_count_has_bounds(value: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"total_max": value}, LinkBounds)


def test_a_node_without_settings_listens_nowhere_and_allows_nothing_insecure() -> None:
    settings = NodeSettings()
    assert settings.listen == ()
    assert not settings.allow_insecure
    assert settings.metrics.listen is None
    assert not settings.telemetry.enabled

"""The bounds of a store."""

import pytest

from bobbin import profile
from bobbin.store.sqlite import Config


def test_defaults_keep_every_record_that_could_be_valid_and_bound_the_rest() -> None:
    config = Config()
    assert config.quarantine_item_bytes_max >= profile.RECORD_BYTES_MAX
    assert config.quarantine_bytes_max == 256 * 1024 * 1024
    bounds = [value for field in config.__struct_fields__ if isinstance(value := getattr(config, field), int)]
    assert len(bounds) >= 9
    assert min(bounds) > 0


def test_a_config_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Config().busy_timeout_ms = 1  # type: ignore[misc]

"""A plugin for pytest under mutmut, which reads a private name that this pytest no longer has."""

import pytest

if not hasattr(pytest.Item, "_nodeid"):
    setattr(pytest.Item, "_nodeid", property(lambda item: item.nodeid))  # noqa: B010 (the name is not ours)

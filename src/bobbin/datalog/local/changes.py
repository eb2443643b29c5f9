"""How relations differ from what they were: the rows that came and the rows that went."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from bobbin.datalog.local.conjunction import Source
from bobbin.datalog.local.table import Row

NEVER_FRESH: Final = 1 << 62
"""A number that no value has."""


class Changes(Struct, frozen=True):
    """Net changes: no row of a relation stands on both sides, and no relation without rows is named."""

    added: Mapping[Source, list[Row]] = {}
    removed: Mapping[Source, list[Row]] = {}
    fresh: int = NEVER_FRESH
    """Values from this number on were in no relation before the change: a row that has one is new."""


NO_CHANGES: Final = Changes()

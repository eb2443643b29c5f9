"""How relations differ from what they were: the rows that came and the rows that went."""

from collections.abc import Mapping

from msgspec import Struct

from bobbin.datalog.local.conjunction import Source
from bobbin.datalog.local.table import Row


class Changes(Struct, frozen=True):
    """Net changes: no row of a relation stands on both sides, and no relation without rows is named."""

    added: Mapping[Source, list[Row]] = {}
    removed: Mapping[Source, list[Row]] = {}

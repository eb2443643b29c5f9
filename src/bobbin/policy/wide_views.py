"""A peer's view of a source that can answer for many fields at once (see ``datalog.local.wide``)."""

from collections.abc import Collection, Iterator
from typing import Final

from bobbin.datalog.local.wide import WideRow, WideSource, is_wide
from bobbin.facts.relations import FactSource
from bobbin.policy.views import FilteredSource

_WIDE_MIN: Final = 4_096
"""Below, asking record by record is cheaper than a pass over everything."""


class WideView(FilteredSource):
    """Record facts behind a view, read in one pass."""

    def __init__(self, source: WideSource, visible: frozenset[str]) -> None:
        super().__init__(source, visible)
        self._wide: Final = source
        self._shown: Final = visible

    def wide_fields(self) -> frozenset[str]:
        return self._wide.wide_fields()

    def wide(self, fields: tuple[str, ...]) -> Iterator[WideRow]:
        return (row for row in self._wide.wide(fields) if row[0] in self._shown)


def shown(source: FactSource, visible: Collection[str]) -> FactSource:
    """The facts of these records, read in the way that suits their number."""
    records = frozenset(visible)
    if len(records) >= _WIDE_MIN and is_wide(source):
        return WideView(source, records)
    return FilteredSource(source, records)

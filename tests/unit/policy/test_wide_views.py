"""A view that is read in one pass."""

from collections.abc import Iterator

from bobbin.datalog.local.wide import WideRow, WideSource
from bobbin.facts.relations import HAVE
from bobbin.policy import wide_views
from bobbin.policy.views import FilteredSource, RecordFacts
from bobbin.policy.wide_views import WideView, shown
from tests.policy_worlds import plex, record, stored

HASHES = [plex(number) for number in range(4)]
FACTS = [record(hash, App="a", Level=str(number)) for number, hash in enumerate(HASHES)]


class _Wide(RecordFacts):
    """Facts in memory that can be read in one pass."""

    def __init__(self) -> None:
        super().__init__(fact for facts in FACTS for fact in facts)

    def wide_fields(self) -> frozenset[str]:
        return frozenset({"App"})

    def wide(self, fields: tuple[str, ...]) -> Iterator[WideRow]:
        return ((hash, *("a" for _ in fields)) for hash in HASHES)


def test_a_large_view_of_a_wide_source_is_wide() -> None:
    assert type(shown(_Wide(), HASHES)) is FilteredSource
    assert type(shown(stored(*FACTS), HASHES)) is FilteredSource
    many = [plex(number) for number in range(wide_views._WIDE_MIN + 1)]
    view = shown(_Wide(), many[1:])
    assert isinstance(view, WideView)
    assert isinstance(view, WideSource)
    assert view.wide_fields() == {"App"}
    assert list(view.wide(("App",))) == [(hash, "a") for hash in HASHES[1:]]
    assert set(view.enumerate(HAVE)) == {(hash,) for hash in HASHES[1:]}

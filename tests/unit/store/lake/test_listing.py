"""Order and places are held to by the conformance kit; here, that a limit bounds what is held."""

from pathlib import Path

import pytest

from bobbin.errors import UsageError
from bobbin.records.coordinate import Prefix
from bobbin.records.record import Blob, build_plex
from bobbin.store.lake import listing
from bobbin.store.lake.lake import Lake
from bobbin.store.lake.moment import Moment, open_moment
from tests.support.lake_tables import SMALL, ingest, make_facts
from tests.support.lakes import some_records

EVERYTHING = Prefix(group="u")
RECORDS = [
    *some_records(40, 3),
    *(build_plex(group="u", app="é", name="n/1", tai_ns=number, data=b"x") for number in range(20)),
]


@pytest.fixture
def moment(tmp_path: Path) -> Moment:
    lake = Lake.create(tmp_path / "lake")
    ingest(lake, RECORDS, shape=SMALL)
    make_facts(lake, RECORDS, shape=SMALL)
    return open_moment(lake)


@pytest.mark.parametrize("tips", [False, True])
@pytest.mark.parametrize("limit", [0, 1, 3, 10, 100])
def test_a_limit_gives_the_beginning_of_the_whole(
    moment: Moment, monkeypatch: pytest.MonkeyPatch, *, tips: bool, limit: int
) -> None:
    every = list(listing.walk(moment.rows, moment.records, EVERYTHING, tips=tips, limit=None))
    assert len(every) == (
        len({record.name for record in RECORDS if not isinstance(record, Blob)})
        if tips
        else sum(not isinstance(record, Blob) for record in RECORDS)
    )
    monkeypatch.setattr(listing, "_TRIMMED_MIN", 1)
    monkeypatch.setattr(listing, "_CHUNK", 2)
    assert list(listing.walk(moment.rows, moment.records, EVERYTHING, tips=tips, limit=limit)) == every[:limit]


def test_lines_have_the_numbers_of_their_records(moment: Moment) -> None:
    for line in listing.walk(moment.rows, moment.records, EVERYTHING, tips=False, limit=None):
        assert moment.records.locate(line.hash) == line.id


def test_a_name_without_an_app_is_refused(moment: Moment) -> None:
    with pytest.raises(UsageError, match="names no app"):
        list(listing.walk(moment.rows, moment.records, Prefix(group="u", name="n/"), tips=False, limit=None))

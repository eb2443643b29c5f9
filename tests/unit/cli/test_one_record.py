"""Which record a text means, where a command must not guess."""

from pathlib import Path

import pytest

from bobbin.cli.one_record import one_record
from bobbin.errors import UsageError
from bobbin.lace import Lace
from bobbin.records.coordinate import Address, Coordinate
from bobbin.records.ids import HashText, Kind
from tests.unit.cli.command_line import AT, PLEX_1

PLACE = Coordinate(group="u", app="ding", name="links/1")


def _put(lace: Lace, data: bytes = b"hello", *, tai: str = AT, sign: bool = False) -> HashText:
    return lace.put(data, group="u", app="ding", name="links/1", tai=tai, sign=sign)


def test_a_hash_means_itself_and_a_coordinate_its_only_record(folder: Path) -> None:
    with Lace.open(folder) as lace:
        assert one_record(lace, Address(hash=HashText(PLEX_1))) == PLEX_1
        assert one_record(lace, PLACE) is None
        assert _put(lace) == PLEX_1
        assert one_record(lace, PLACE) == PLEX_1


def test_several_records_are_named_up_to_a_bound(folder: Path) -> None:
    with Lace.open(folder) as lace:
        _put(lace)
        newer = _put(lace, tai="1640995201:000000000")
        with pytest.raises(UsageError, match="several records") as caught:
            one_record(lace, PLACE)
        assert str(caught.value).splitlines()[1:] == [f"  {newer}", f"  {PLEX_1}"]
        for number in range(10):
            _put(lace, b"%d" % number)
        with pytest.raises(UsageError) as caught:
            one_record(lace, PLACE)
        assert len(str(caught.value).splitlines()) == 7
        assert str(caught.value).endswith("…")


def test_records_of_another_kind_do_not_count(folder: Path) -> None:
    with Lace.open(folder) as lace:
        _put(lace)
        seal = _put(lace, sign=True)
        assert one_record(lace, PLACE, kind=Kind.PLEX) == PLEX_1
        assert one_record(lace, PLACE, kind=Kind.SEAL) == seal
        with pytest.raises(UsageError, match="several records"):
            one_record(lace, PLACE)
        _put(lace, b"other")
        with pytest.raises(UsageError, match="several Plexes"):
            one_record(lace, PLACE, kind=Kind.PLEX)

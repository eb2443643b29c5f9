"""The records that benchmarks read: valid, of one size, and found where the prefixes say."""

import pytest

from benchmarks.material import FOLDER_RECORDS, RECORD_BYTES, Shape, make_shard, place_of
from bobbin.records import link
from bobbin.records.record import Blob, Plex, Seal, validate


@pytest.mark.parametrize("shape", list(Shape))
def test_every_record_is_valid_and_has_the_same_size(shape: Shape) -> None:
    shard = make_shard(95, 105, shape)
    raws = [shard[at : at + RECORD_BYTES] for at in range(0, len(shard), RECORD_BYTES)]
    records = [validate(raw) for raw in raws]
    assert len({record.hash for record in records}) == 10
    for number, record in enumerate(records, 95):
        assert isinstance(record, Plex if shape is Shape.PLEX else Seal)
        assert not isinstance(record, Blob)
        place = place_of(number // FOLDER_RECORDS)
        assert (record.group, record.app) == (place.group, place.app)
        assert record.name.startswith(place.name)
        links = [made for name, value in record.extras if (made := link.parse(name, value))]
        assert len(links) == (1 if shape is Shape.SEAL_WITH_HEADERS else 0)


def test_the_bytes_do_not_depend_on_how_they_are_divided() -> None:
    assert make_shard(0, 4, Shape.SEAL) == make_shard(0, 1, Shape.SEAL) + make_shard(1, 4, Shape.SEAL)

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from bobbin.errors import UsageError
from bobbin.pipeline.reading.sources import ChangedSource, MissingSource
from bobbin.pipeline.source import bundle_slices, columns
from bobbin.pipeline.source.bundle_slices import BundleSlice, DamagedBundle
from bobbin.records.record import Record
from tests.conformance import samples

MIBIBYTE = 1 << 20


def _bundle(path: Path, records: Sequence[Record]) -> Path:
    path.write_bytes(b"".join(record.raw for record in records))
    return path


def _names(slices: Sequence[BundleSlice]) -> list[str]:
    schema = columns.schema(("record",))
    return [name for one in slices for made in bundle_slices.read(one, schema) for name in made.column(0).to_pylist()]


def _large(number: int) -> list[Record]:
    """Records of 100 kB, some of which hold a record in their data."""
    inner = samples.plex(77).raw
    return [
        samples.plex(one, data=bytes([one]) * 100_000 + (b"\n" + inner if one % 3 else b"")) for one in range(number)
    ]


def test_slices_join_and_hold_each_record_once(tmp_path: Path) -> None:
    records = _large(60)
    path = _bundle(tmp_path / "x.bundle", records)
    slices = bundle_slices.plan(path, bytes_per_slice=MIBIBYTE)
    assert len(slices) >= 3
    assert slices[0].begin == 0
    assert slices[-1].end == path.stat().st_size
    assert all(one.end == other.begin for one, other in pairwise(slices))
    assert _names(slices) == [record.hash for record in records]


def test_a_small_bundle_is_one_slice(tmp_path: Path) -> None:
    records: list[Record] = [samples.plex(1), samples.sealed(2), samples.EMPTY_BLOB]
    slices = bundle_slices.plan(_bundle(tmp_path / "x.bundle", records), bytes_per_slice=MIBIBYTE)
    assert len(slices) == 1
    assert _names(slices) == [record.hash for record in records]


def test_an_empty_bundle_has_no_slice(tmp_path: Path) -> None:
    assert bundle_slices.plan(_bundle(tmp_path / "x.bundle", []), bytes_per_slice=MIBIBYTE) == []


@pytest.mark.parametrize("keep", [0.2, 0.5, 0.99])
def test_a_truncated_bundle_says_where(tmp_path: Path, keep: float) -> None:
    path = _bundle(tmp_path / "x.bundle", _large(40))
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * keep)])
    slices = bundle_slices.plan(path, bytes_per_slice=MIBIBYTE)
    with pytest.raises(DamagedBundle, match=r"at byte \d+ .*DROPMALFORMED"):
        _names(slices)


def test_a_damaged_record_is_passed_over_if_that_is_wanted(tmp_path: Path) -> None:
    records = _large(30)
    path = _bundle(tmp_path / "x.bundle", records)
    content = bytearray(path.read_bytes())
    at = sum(len(record.raw) for record in records[:20]) + 50_000
    content[at] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamagedBundle):
        _names(bundle_slices.plan(path, bytes_per_slice=MIBIBYTE))
    slices = bundle_slices.plan(path, bytes_per_slice=MIBIBYTE, lenient=True)
    assert len(slices) == 1
    assert _names(slices) == [record.hash for number, record in enumerate(records) if number != 20]


def test_damaged_headers_end_the_skimming_and_the_query(tmp_path: Path) -> None:
    records = _large(30)
    path = _bundle(tmp_path / "x.bundle", records)
    content = bytearray(path.read_bytes())
    at = content.index(b"Data-Length", sum(len(record.raw) for record in records[:20]))
    content[at : at + 4] = b"Atad"
    path.write_bytes(content)
    slices = bundle_slices.plan(path, bytes_per_slice=MIBIBYTE)
    with pytest.raises(DamagedBundle):
        _names(slices)
    assert len(_names(bundle_slices.plan(path, bytes_per_slice=1, lenient=True))) == 29


def test_a_bundle_that_changes_or_vanishes_meanwhile(tmp_path: Path) -> None:
    path = _bundle(tmp_path / "x.bundle", [samples.plex(1)])
    slices = bundle_slices.plan(path, bytes_per_slice=MIBIBYTE)
    _bundle(path, [samples.plex(1), samples.plex(2)])
    with pytest.raises(ChangedSource):
        _names(slices)
    path.unlink()
    with pytest.raises(ChangedSource):
        _names(slices)
    with pytest.raises(MissingSource):
        bundle_slices.plan(path, bytes_per_slice=MIBIBYTE)


def test_json_lines_are_no_bundle(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"type": "blob"}\n')
    assert not bundle_slices.is_bundle(path)
    with pytest.raises(UsageError, match="no bundle"):
        bundle_slices.plan(path, bytes_per_slice=MIBIBYTE)

import errno
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest
from blake3 import blake3

from bobbin.errors import ResourceError
from bobbin.pipeline.batches import write_parts as writing
from bobbin.pipeline.batches.write_parts import ROWS, Note, finished, note_file, part_file, write_part, write_parts
from bobbin.store.lake.errors import DamagedLake
from tests.conformance import samples

RECORDS = [(record.hash, record.raw) for record in (samples.plex(number) for number in range(6))]


def _batch(*rows: tuple[int, int]) -> pa.RecordBatch:
    """Rows of (part, number of the record)."""
    return pa.RecordBatch.from_pylist(
        [{"part": part, "record": RECORDS[one][0], "raw": RECORDS[one][1]} for part, one in rows], ROWS
    )


def test_parts_are_written_one_after_the_other(tmp_path: Path) -> None:
    made = [
        row
        for batch in write_parts([_batch((2, 0), (2, 1)), _batch((2, 2), (5, 3))], tmp_path)
        for row in batch.to_pylist()
    ]
    whole = b"".join(RECORDS[number][1] for number in range(3))
    assert made == [
        {"part": 2, "rows": 3, "bytes": len(whole), "digest": blake3(whole).hexdigest()},
        {"part": 5, "rows": 1, "bytes": len(RECORDS[3][1]), "digest": blake3(RECORDS[3][1]).hexdigest()},
    ]
    assert part_file(tmp_path, 2).read_bytes() == whole
    assert sorted(finished(tmp_path, 9)) == [2, 5]
    assert finished(tmp_path, 9)[2] == Note(**made[0])


def test_nothing_in_writes_nothing(tmp_path: Path) -> None:
    assert list(write_parts([], tmp_path)) == []
    assert list(tmp_path.iterdir()) == []


def test_writing_again_replaces(tmp_path: Path) -> None:
    first = write_part(tmp_path, 0, RECORDS[:2])
    assert write_part(tmp_path, 0, RECORDS[:2]) == first
    assert len(list(tmp_path.iterdir())) == 2


def test_a_part_without_its_note_or_its_size_is_not_finished(tmp_path: Path) -> None:
    for part in range(4):
        write_part(tmp_path, part, RECORDS[part : part + 1])
    note_file(tmp_path, 0).unlink()
    part_file(tmp_path, 1).write_bytes(b"short")
    note_file(tmp_path, 2).write_bytes(b"{}")
    assert list(finished(tmp_path, 9)) == [3]


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        (RECORDS[0][0], RECORDS[1][1]),
        (RECORDS[0][0], RECORDS[0][1][:-1]),
        (RECORDS[0][0], b""),
        ("no name", RECORDS[0][1]),
    ],
)
def test_a_record_that_is_not_its_name_is_damage(tmp_path: Path, name: str, raw: bytes) -> None:
    with pytest.raises(DamagedLake):
        write_part(tmp_path, 0, [RECORDS[2], (name, raw)])
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_no_part(tmp_path: Path) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    with patch.object(writing, "_check", side_effect=full), pytest.raises(ResourceError, match="No space left"):
        write_part(tmp_path, 0, RECORDS)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ResourceError, match="cannot write"):
        write_part(tmp_path / "gone", 0, RECORDS)

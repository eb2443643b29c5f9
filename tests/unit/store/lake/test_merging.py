from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bobbin.errors import UsageError
from bobbin.store.lake import merging, reading, staging, tables
from bobbin.store.lake.errors import DamagedLake
from bobbin.store.lake.files import LocalFiles
from bobbin.store.lake.manifest import DataFile
from bobbin.store.lake.tables import Table
from bobbin.store.lake.writing import PartWriter, Shape
from tests.support.lake_tables import Row, batch


def write(folder: Path, table: Table, rows: Sequence[Row], *, group: int = 3) -> DataFile:
    folder.mkdir(parents=True)
    files = LocalFiles(folder.parent)
    with PartWriter(files, table, folder.name, Shape(group_rows_max=group)) as writer:
        writer.write(batch(table, rows))
    return staging.describe(files, table, f"{folder.name}/part-00000.parquet")


def rows_of(folder: Path, table: Table, parts: list[DataFile], columns: list[str] | None = None) -> list[Any]:
    found = merging.merged(LocalFiles(folder), table, parts, columns=columns)
    return [row for piece in found for row in piece.to_pylist()]


@given(
    contents=st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=12, unique=True), min_size=1, max_size=5),
    group=st.integers(1, 5),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
def test_many_sorted_files_become_one_sorted_stream(
    tmp_path_factory: pytest.TempPathFactory, contents: list[list[int]], group: int
) -> None:
    folder = tmp_path_factory.mktemp("lake")
    parts = [
        write(
            folder / str(number),
            tables.RECORDS,
            [{"record": f"P.{name:03d}", "raw": b"%d" % number} for name in sorted(names)],
            group=group,
        )
        for number, names in enumerate(contents)
    ]
    found = rows_of(folder, tables.RECORDS, parts)
    expected = sorted((f"P.{name:03d}", b"%d" % number) for number, names in enumerate(contents) for name in names)
    assert [row["record"] for row in found] == [name for name, _ in expected]
    assert sorted((row["record"], row["raw"]) for row in found) == expected
    assert merging.do_overlap(parts) == any(
        max(min(one), min(other)) <= min(max(one), max(other))
        for number, one in enumerate(contents)
        for other in contents[:number]
    )


def test_files_that_do_not_overlap_are_opened_one_after_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [
        write(tmp_path / str(number), tables.RECORDS, [{"record": f"P.{number}{row}", "raw": b""} for row in range(8)])
        for number in range(5)
    ]
    opened: list[str] = []
    real = reading.pieces

    def counted(files: LocalFiles, file: DataFile, *rest: Any, **named: Any) -> Any:  # noqa: ANN401
        opened.append(file.path)
        return real(files, file, *rest, **named)

    monkeypatch.setattr("bobbin.store.lake.reading.pieces", counted)
    stream = merging.merged(LocalFiles(tmp_path), tables.RECORDS, list(reversed(parts)))
    next(stream)
    assert opened == ["0/part-00000.parquet"]
    list(stream)
    assert len(opened) == 5


def test_the_quarantine_sorts_by_source_and_offset(tmp_path: Path) -> None:
    def row(source: str, offset: int | None) -> Row:
        texts = {"reason": "r", "detail": "d", "run": "x"}
        return {"raw": b"", "size": 0, "digest": b"", "source": source, "offset": offset, **texts}

    places = [("", None), ("a", None), ("a", 0), ("a", 5), ("a", 2**63 - 1), ("a\0b", 1), ("a b", 1), ("ä", 0)]
    parts = [
        write(tmp_path / str(number), tables.QUARANTINE, [row(*place) for place in places[number::2]])
        for number in range(2)
    ]
    found = rows_of(tmp_path, tables.QUARANTINE, parts)
    assert [(row["source"], row["offset"]) for row in found] == places


def test_lists_survive_and_columns_can_be_chosen(tmp_path: Path) -> None:
    extras = [{"name": "A", "index": 0, "value": "x"}]

    def row(name: str) -> Row:
        return {"record": name, "type": "P", "data_length": 1, "extras": extras, "links": []}

    parts = [
        write(tmp_path / str(number), tables.FACTS, [row(f"P.{number + 2 * step}") for step in range(3)])
        for number in range(2)
    ]
    found = rows_of(tmp_path, tables.FACTS, parts)
    assert [row["record"] for row in found] == [f"P.{number}" for number in range(6)]
    assert all(row["extras"] == extras for row in found)
    assert rows_of(tmp_path, tables.FACTS, parts, ["record"]) == [{"record": f"P.{number}"} for number in range(6)]


def test_a_file_that_is_not_sorted_is_refused(tmp_path: Path) -> None:
    rows = [{"record": name, "raw": b""} for name in ("P.1", "P.2", "P.3", "P.2")]
    part = write(tmp_path / "0", tables.RECORDS, rows, group=4)
    with pytest.raises(DamagedLake, match="not sorted by record"):
        rows_of(tmp_path, tables.RECORDS, [part])


def test_tables_without_such_an_order_are_refused() -> None:
    rows = [{"k": 2, "prefix": "a", "count": 1, "root": b""}]
    with pytest.raises(UsageError):
        merging.keys_of(tables.PARTITIONS, batch(tables.PARTITIONS, rows))


def test_payload_order_leaves_the_letter_out() -> None:
    made = batch(tables.ADVERTISEMENTS, [{"record": "S.a", "digest": b""}])
    assert merging.key_at(merging.keys_of(tables.ADVERTISEMENTS, made), 0) == b"a"


class CountedFiles(LocalFiles):
    """Files that know how many of them were open at once."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._opened: list[Any] = []
        self.most = 0

    def open(self, path: str) -> Any:  # noqa: ANN401 -- what pyarrow takes as a file
        self._opened = [stream for stream in self._opened if not stream.closed] + [super().open(path)]
        self.most = max(self.most, len(self._opened))
        return self._opened[-1]


@pytest.mark.parametrize("columns", [None, ["record"]])
@pytest.mark.parametrize("folder", [None, "_merging"])
def test_no_more_files_are_open_than_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: list[str] | None, folder: str | None
) -> None:
    monkeypatch.setattr(merging, "OPEN_FILES_MAX", 3)
    files = CountedFiles(tmp_path)
    parts = [
        write(
            tmp_path / str(number),
            tables.RECORDS,
            [{"record": f"P.{place:02d}.{number:02d}", "raw": b"%d" % number} for place in range(5)],
        )
        for number in range(20)
    ]
    scratch = None if folder is None else merging.Scratch(files, folder)
    found = [
        row
        for piece in merging.merged(files, tables.RECORDS, parts, columns=columns, scratch=scratch)
        for row in piece.to_pylist()
    ]
    assert [row["record"] for row in found] == [
        f"P.{place:02d}.{number:02d}" for place in range(5) for number in range(20)
    ]
    assert all(row.keys() == set(columns or ("record", "raw")) for row in found)
    assert columns is not None or all(row["raw"] == b"%d" % int(row["record"][-2:]) for row in found)
    assert 1 < files.most <= 3
    assert (tmp_path / "_merging").exists() == (folder is not None)
    assert all((tmp_path / part.path).exists() for part in parts)


def test_files_that_follow_one_another_are_not_written_in_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(merging, "OPEN_FILES_MAX", 1)
    parts = [write(tmp_path / name, tables.RECORDS, [{"record": f"P.{name}", "raw": b""}]) for name in "abcd"]
    scratch = merging.Scratch(LocalFiles(tmp_path), "_merging")
    assert (
        sum(piece.num_rows for piece in merging.merged(LocalFiles(tmp_path), tables.RECORDS, parts, scratch=scratch))
        == 4
    )
    assert not (tmp_path / "_merging").exists()

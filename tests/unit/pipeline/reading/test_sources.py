"""What names lead to."""

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from bobbin.errors import ResourceError, UsageError
from bobbin.lace import Lace
from bobbin.pipeline.reading.sources import (
    ChangedSource,
    Form,
    Format,
    MissingSource,
    check_unchanged,
    find_sources,
    name_of,
    open_source,
)
from bobbin.records import jsonl
from bobbin.store.lake.lake import Lake
from tests.support.lakes import some_records

RECORDS = some_records(3, 1)
BUNDLE = b"".join(record.raw for record in RECORDS)


def parquet(path: Path, column: str = "raw", kind: pa.DataType | None = None) -> Path:
    values = [record.raw if kind is None else "text" for record in RECORDS]
    pq.write_table(pa.table({column: pa.array(values, kind or pa.binary())}), path)
    return path


def forms(*names: object, form: Format = Format.AUTO) -> list[tuple[str, Form]]:
    return [(Path(source.name).name, source.form) for source in find_sources([str(name) for name in names], form)]


def test_the_first_bytes_say_what_a_file_is(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(BUNDLE)
    (tmp_path / "b").write_bytes(jsonl.encode(RECORDS[0]) + b"\n")
    parquet(tmp_path / "c")
    (tmp_path / "d").write_bytes(b"")
    (tmp_path / "e").write_bytes(b"noise")
    assert forms(*(tmp_path / name for name in "abcde")) == [
        ("a", Form.BUNDLE),
        ("b", Form.JSONL),
        ("c", Form.PARQUET),
        ("d", Form.BUNDLE),
        ("e", Form.BUNDLE),
    ]
    assert forms(tmp_path / "b", form=Format.BUNDLE) == [("b", Form.BUNDLE)]


def test_the_same_file_is_one_source_by_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.bundle").write_bytes(BUNDLE)
    (tmp_path / "link").symlink_to(tmp_path / "a.bundle")
    monkeypatch.chdir(tmp_path)
    names = ["a.bundle", str(tmp_path / "link"), "./a.bundle", (tmp_path / "a.bundle").as_uri()]
    (source,) = find_sources(names)
    assert source.name == str((tmp_path / "a.bundle").resolve())
    assert source.size == len(BUNDLE)


def test_a_folder_of_records_is_walked_by_name(tmp_path: Path) -> None:
    folder = tmp_path / "records"
    (folder / "sub").mkdir(parents=True)
    (folder / "b").write_bytes(RECORDS[0].raw)
    (folder / "sub" / "c").write_bytes(RECORDS[1].raw)
    (folder / "a.jsonl").write_bytes(jsonl.encode(RECORDS[2]))
    (folder / "loop").symlink_to(folder)
    assert forms(folder) == [("a.jsonl", Form.JSONL), ("b", Form.BUNDLE), ("c", Form.BUNDLE)]
    assert forms(folder, form=Format.FILES)[0] == ("a.jsonl", Form.BUNDLE)
    with pytest.raises(UsageError, match="is a folder"):
        forms(folder, form=Format.BUNDLE)
    with pytest.raises(UsageError, match="no Parquet file"):
        forms(folder, form=Format.PARQUET)
    with pytest.raises(UsageError, match="no lace"):
        forms(folder, form=Format.LACE)


def test_a_folder_of_parquet_files_is_those_files(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    parquet(tmp_path / "t" / "x.parquet")
    parquet(tmp_path / "t" / "y.parquet")
    (tmp_path / "t" / "_SUCCESS").write_bytes(b"")
    (tmp_path / "t" / "_temporary").mkdir()
    parquet(tmp_path / "t" / "_temporary" / "z.parquet")
    assert forms(tmp_path / "t") == [("x.parquet", Form.PARQUET), ("y.parquet", Form.PARQUET)]


def test_beside_parquet_files_the_others_are_taken_as_what_they_are(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    (folder / "sub").mkdir(parents=True)
    parquet(folder / "a.parquet")
    (folder / "b.bundle").write_bytes(BUNDLE)
    (folder / "_c.bundle").write_bytes(BUNDLE)
    (folder / "sub" / "d.jsonl").write_bytes(jsonl.encode(RECORDS[0]))
    for left in ("_SUCCESS", ".a.parquet.crc", "_metadata", "_e.parquet"):
        (folder / left).write_bytes(b"")
    assert forms(folder) == [
        ("_c.bundle", Form.BUNDLE),
        ("a.parquet", Form.PARQUET),
        ("b.bundle", Form.BUNDLE),
        ("d.jsonl", Form.JSONL),
    ]
    with pytest.raises(UsageError, match=r"not everything is a Parquet file: .*_c\.bundle, .*b\.bundle, .*d\.jsonl;"):
        forms(folder, form=Format.PARQUET)
    (folder / "sub" / "e").write_bytes(BUNDLE)
    with pytest.raises(UsageError, match=r"d\.jsonl and 1 more; --form auto"):
        forms(folder, form=Format.PARQUET)
    (folder / "broken.parquet").write_bytes(b"nothing")
    with pytest.raises(UsageError, match=r"broken\.parquet is no Parquet file"):
        forms(folder)


def test_a_lace_over_a_lake_is_no_source(tmp_path: Path) -> None:
    Lake.create(tmp_path / "a.lake")
    Lace.create(tmp_path / "over.lace", lake=tmp_path / "a.lake").close()
    with pytest.raises(UsageError, match=r"has its records in the lake .*a\.lake; .*pipeline load"):
        find_sources([str(tmp_path / "over.lace")])


def test_a_lace_is_a_source_and_its_files_are_not(tmp_path: Path) -> None:
    with Lace.create(tmp_path / "n.lace") as lace:
        for record in RECORDS:
            lace.put_record(record)
    (source,) = find_sources([str(tmp_path / "n.lace")])
    assert (source.form, source.positions) == (Form.LACE, 3)
    with pytest.raises(UsageError, match="inside the lace"):
        find_sources([str(tmp_path / "n.lace" / "records.db")])
    with pytest.raises(UsageError, match="lace or a lake inside"):
        find_sources([str(tmp_path)])
    with pytest.raises(UsageError, match="cannot be read as"):
        find_sources([str(tmp_path / "n.lace")], Format.PARQUET)


def test_a_lake_is_no_source_and_neither_is_what_is_in_it(tmp_path: Path) -> None:
    lake = Lake.create(tmp_path / "lake")
    with pytest.raises(UsageError, match="is a lake"):
        find_sources([str(tmp_path / "lake")])
    with pytest.raises(UsageError, match="inside the lake"):
        find_sources([str(tmp_path / "lake" / "lake.json")], lake=lake.location)


def test_a_parquet_file_must_have_the_column_and_bytes_in_it(tmp_path: Path) -> None:
    parquet(tmp_path / "a.parquet", column="bytes")
    with pytest.raises(UsageError, match="has no column 'raw'; it has bytes"):
        find_sources([str(tmp_path / "a.parquet")])
    assert find_sources([str(tmp_path / "a.parquet")], column="bytes")[0].form is Form.PARQUET
    parquet(tmp_path / "b.parquet", kind=pa.string())
    with pytest.raises(UsageError, match="holds string, not bytes"):
        find_sources([str(tmp_path / "b.parquet")])
    (tmp_path / "c.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(UsageError, match="no Parquet file, or a damaged one"):
        find_sources([str(tmp_path / "c.parquet")])


def test_what_cannot_be_read_in_parts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="stdin"):
        find_sources(["-"])
    with pytest.raises(MissingSource, match="there is no source"):
        find_sources([str(tmp_path / "nothing")])
    strange = os.fsdecode(b"\xff.bundle")
    (tmp_path / strange).write_bytes(BUNDLE)
    with pytest.raises(UsageError, match="no UTF-8 text"):
        find_sources([str(tmp_path / strange)])
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="no regular file"):
        find_sources([str(tmp_path / "pipe")], Format.BUNDLE)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UsageError, match="a lace is a folder"):
        find_sources([str(tmp_path / "file")], Format.LACE)


def test_addresses_are_told_by_their_names() -> None:
    (source,) = find_sources(["hdfs://node/x.parquet"])
    assert (source.form, source.name) == (Form.PARQUET, "hdfs://node/x.parquet")
    with pytest.raises(UsageError, match="say it with --form"):
        find_sources(["hdfs://node/x"])
    with pytest.raises(UsageError, match="folders of this machine"):
        find_sources(["hdfs://node/x"], Format.LACE)
    assert name_of("hdfs://node/x.parquet") == "hdfs://node/x.parquet"
    assert name_of("file:///tmp/a%20b%25.parquet") == "/tmp/a b%.parquet"


def test_a_parquet_file_with_a_colon_in_its_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a:b").mkdir()
    assert find_sources([str(parquet(tmp_path / "a:b" / "x.parquet"))])[0].form is Form.PARQUET
    with pytest.raises(UsageError, match="has a colon in its name"):
        find_sources([str(parquet(tmp_path / "x:1.parquet"))])


def test_a_name_with_a_colon_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "notes:1.bundle").write_bytes(BUNDLE)
    monkeypatch.chdir(tmp_path)
    (source,) = find_sources(["notes:1.bundle"], lake="lake:prod")
    assert source.name == str((tmp_path / "notes:1.bundle").resolve())
    (tmp_path / "lake:prod").mkdir()
    (tmp_path / "lake:prod" / "x").write_bytes(BUNDLE)
    for lake in ("lake:prod", (tmp_path / "lake:prod").as_uri()):
        with pytest.raises(UsageError, match="inside the lake"):
            find_sources(["lake:prod/x"], lake=lake)


def test_an_address_of_this_machine_is_unquoted(tmp_path: Path) -> None:
    path = tmp_path / "50% a b#c?.bundle"
    path.write_bytes(BUNDLE)
    names = [path.as_uri(), path.as_uri().replace("file://", "file://localhost"), path.as_uri().replace("//", "", 1)]
    (source,) = find_sources(names)
    assert source.name == str(path.resolve())
    for wrong in ("file://elsewhere/x", "file:///x?y", "file:///x#y"):
        with pytest.raises(UsageError, match="no file or folder of this machine"):
            find_sources([wrong])


def test_a_source_that_changes_or_vanishes_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.bundle"
    path.write_bytes(BUNDLE)
    (source,) = find_sources([str(path)])
    check_unchanged(source)
    path.write_bytes(BUNDLE + b"more")
    with pytest.raises(ChangedSource, match="has changed") as changed:
        check_unchanged(source)
    assert isinstance(changed.value, ResourceError)
    path.unlink()
    with pytest.raises(ChangedSource, match="vanished"):
        check_unchanged(source)
    with pytest.raises(ChangedSource, match="vanished"):
        open_source(source.name)


def test_a_lace_may_grow_but_not_vanish(tmp_path: Path) -> None:
    with Lace.create(tmp_path / "n.lace") as lace:
        (source,) = find_sources([str(tmp_path / "n.lace")])
        lace.put_record(RECORDS[0])
        check_unchanged(source)
    (tmp_path / "n.lace").rename(tmp_path / "other")
    with pytest.raises(ChangedSource, match="vanished"):
        check_unchanged(source)


def test_an_address_is_read_and_watched_like_a_path(tmp_path: Path) -> None:
    path = tmp_path / "a.bundle"
    path.write_bytes(BUNDLE)
    (source,) = find_sources([str(path)])
    elsewhere = replace(source, name=path.as_uri())
    with open_source(elsewhere.name) as stream:
        assert stream.read_at(10, 5) == BUNDLE[5:15]
    check_unchanged(elsewhere)
    path.write_bytes(BUNDLE * 2)
    with pytest.raises(ChangedSource, match="has changed"):
        check_unchanged(elsewhere)
    path.unlink()
    with pytest.raises(ChangedSource, match="vanished"):
        check_unchanged(elsewhere)
    with pytest.raises(ResourceError):
        open_source(elsewhere.name)

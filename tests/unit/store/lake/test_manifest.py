from typing import Any

import pytest
from msgspec import structs

from bobbin.store.lake import manifest
from bobbin.store.lake.errors import DamagedLake, OtherVersion
from bobbin.store.lake.manifest import DataFile, Manifest

RUN = "20261116T055643Z-123456-ab12"
FILE = DataFile(f"records/data/{RUN}/part-00000.zstd.parquet", 3, 700, "0f" * 32, "B.a", "S.z")
MANIFEST = Manifest(
    manifest.FORMAT, "records", 1, 4, RUN, "1794808640:473900139", 3, (FILE,), {"plan": "a", "records": "3"}
)


def changed(**values: Any) -> Manifest:  # noqa: ANN401 -- also what the fields do not allow
    return structs.replace(MANIFEST, **values)


def test_a_manifest_is_read_as_it_was_written() -> None:
    assert manifest.decode(manifest.encode(MANIFEST), where="here", table="records") == MANIFEST
    bare = changed(files=(), rows=0)
    assert manifest.decode(manifest.encode(bare), where="here") == bare


def test_the_manifest_of_a_table_never_written_is_empty() -> None:
    nothing = manifest.empty("selections/0123456789abcdef")
    assert (nothing.number, nothing.rows, nothing.files) == (0, 0, ())


def test_properties_say_which_rows_are_the_same_and_in_the_same_places() -> None:
    assert (manifest.content_of(MANIFEST), manifest.order_of(MANIFEST)) == (4, 0)
    rewritten = changed(properties={"content": "2", "order": "4"})
    assert (manifest.content_of(rewritten), manifest.order_of(rewritten)) == (2, 4)
    for nonsense in ("", "-1", "x", "1.5", "9" * 30, "²"):
        assert manifest.content_of(changed(properties={"content": nonsense})) == 4


def test_a_manifest_with_more_at_the_end_is_told_from_other_changes() -> None:
    base = structs.replace(MANIFEST, number=3, properties={"order": "2"})
    other = structs.replace(FILE, path=FILE.path.replace("part", "other"))
    later = structs.replace(base, number=5, files=(*base.files, other))
    assert manifest.is_extended(later, base)
    assert not manifest.is_extended(base, base)
    assert not manifest.is_extended(structs.replace(later, properties={"order": "4"}), base)
    assert not manifest.is_extended(structs.replace(later, files=(other, *base.files)), base)
    assert not manifest.is_extended(later, manifest.empty("records"))


def test_a_file_knows_its_run() -> None:
    assert manifest.run_of(FILE.path) == RUN


@pytest.mark.parametrize("later", [changed(format="bobbin-manifest/2"), changed(schema=2)])
def test_a_later_version_is_said_to_be_one(later: Manifest) -> None:
    with pytest.raises(OtherVersion, match=r"^here "):
        manifest.decode(manifest.encode(later), where="here")


def test_a_later_version_is_recognised_whatever_else_it_says() -> None:
    with pytest.raises(OtherVersion):
        manifest.decode(b'{"format": "bobbin-manifest/9", "schema": 3, "new": []}', where="here")


def with_file(**values: Any) -> Manifest:  # noqa: ANN401 -- also what the fields do not allow
    file = structs.replace(FILE, **values)
    return changed(files=(file,), rows=file.rows)


WRONG = {
    "other format": changed(format="something"),
    "other table": changed(table="facts"),
    "unknown table": changed(table="rows"),
    "no key": changed(table="selections"),
    "no number": changed(number=0),
    "negative number": changed(number=-1),
    "no schema": changed(schema=0),
    "no run": changed(run=""),
    "no time": changed(created="yesterday"),
    "rows that do not add up": changed(rows=4),
    "a file twice": changed(files=(FILE, FILE), rows=6),
    "path upwards": with_file(path=f"records/data/{RUN}/../part.parquet"),
    "path of another table": with_file(path=f"facts/data/{RUN}/part.parquet"),
    "path of no run": with_file(path="records/data/run/part.parquet"),
    "path without a name": with_file(path=f"records/data/{RUN}"),
    "absolute path": with_file(path="/etc/passwd.parquet"),
    "hidden file": with_file(path=f"records/data/{RUN}/.part.parquet"),
    "other file": with_file(path=f"records/data/{RUN}/part.csv"),
    "no rows": with_file(rows=0),
    "no bytes": with_file(bytes=0),
    "short digest": with_file(digest="0f"),
    "digest and a line break": with_file(digest="0f" * 32 + "\n"),
    "half a bound": with_file(low=None),
    "bounds upside down": with_file(low="z", high="a"),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_manifest_that_cannot_be_true_is_damage(wrong: Manifest) -> None:
    with pytest.raises(DamagedLake, match=r"^here is no "):
        manifest.decode(manifest.encode(wrong), where="here", table="records")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"[" * 100_000,
        manifest.encode(MANIFEST)[:-9],
        manifest.encode(MANIFEST).replace(b'"rows": 3', b'"rows": "3"'),
        manifest.encode(MANIFEST).replace(b'"table"', b'"else": 1, "table"'),
        manifest.encode(MANIFEST).replace(b'"B.a"', b'"\\ud800"'),
    ],
)
def test_bytes_that_are_no_manifest_are_damage(raw: bytes) -> None:
    with pytest.raises(DamagedLake):
        manifest.decode(raw, where="here")

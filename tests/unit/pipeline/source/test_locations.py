from pathlib import Path

import pytest

from bobbin.errors import UsageError
from bobbin.lace import Lace
from bobbin.pipeline.source.locations import Kind, Location, find
from bobbin.store.lake.lake import Lake
from tests.conformance import samples


def test_what_paths_lead_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Lace.create(tmp_path / "x.lace").close()
    Lake.create(tmp_path / "lake")
    (tmp_path / "a b.bundle").write_bytes(samples.plex(1).raw)
    (tmp_path / "empty.bundle").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    assert find("x.lace") == Location(Kind.LACE, tmp_path / "x.lace")
    assert find("lake") == Location(Kind.LAKE, tmp_path / "lake")
    assert find((tmp_path / "a b.bundle").as_uri()) == Location(Kind.BUNDLE, tmp_path / "a b.bundle")
    assert find("empty.bundle").kind is Kind.BUNDLE
    (tmp_path / "notes:1.bundle").write_bytes(samples.plex(1).raw)
    assert find("notes:1.bundle") == Location(Kind.BUNDLE, tmp_path / "notes:1.bundle")


def test_a_bundle_whose_first_bytes_are_damaged(tmp_path: Path) -> None:
    (tmp_path / "x.bundle").write_bytes(b"?" + samples.plex(1).raw[1:] + samples.plex(2).raw)
    assert find(str(tmp_path / "x.bundle")).kind is Kind.BUNDLE


def test_a_lace_without_its_settings_is_a_lace(tmp_path: Path) -> None:
    Lace.create(tmp_path / "x.lace").close()
    (tmp_path / "x.lace" / "lace.toml").unlink()
    assert find(str(tmp_path / "x.lace")).kind is Kind.LACE


def test_what_is_neither(tmp_path: Path) -> None:
    Lace.create(tmp_path / "x.lace").close()
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_text("hello")
    for name, words in {
        "nothing": "nothing at",
        "folder": "neither a lace nor a lake",
        "text": "no bundle",
        "x.lace/records.db": "inside the lace",
    }.items():
        with pytest.raises(UsageError, match=words):
            find(str(tmp_path / name))
    with pytest.raises(UsageError, match="ingest"):
        find("hdfs://host/x.bundle")
    with pytest.raises(UsageError, match="no bundle"):
        find("/dev/null")

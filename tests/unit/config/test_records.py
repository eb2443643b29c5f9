"""A lace over a lake: how it is made, what it does, what it says to whoever writes."""

import subprocess
import sys
from pathlib import Path

import pytest

from bobbin.config.layout import Layout
from bobbin.config.records import create_records, open_records
from bobbin.config.settings import read_settings
from bobbin.errors import UsageError
from bobbin.lace import Lace
from bobbin.store.base import DamagedStore
from bobbin.store.lake.errors import NoLake, ReadOnlyLake
from bobbin.store.lake.lake import Lake
from tests.support.lake_tables import ingest
from tests.support.lakes import some_records

RECORDS = some_records(20, 3)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    ingest(Lake.create(tmp_path / "a.lake"), RECORDS)
    return tmp_path / "a.lake"


def test_a_lace_over_a_lake_reads_it_and_has_keys_of_its_own(lake: Path, tmp_path: Path) -> None:
    with Lace.create(tmp_path / "a.lace", lake=lake) as lace:
        lace.new_key()
        assert {record.hash for record in RECORDS if lace.have(record.hash)} == {record.hash for record in RECORDS}
    assert sorted(path.name for path in (tmp_path / "a.lace").iterdir()) == ["keys", "lace.toml"]
    with Lace.open(tmp_path / "a.lace") as lace:
        assert lace.settings.lake == str(lake)
        assert lace.stat().high_water == 20
        assert lace.get(RECORDS[0].hash) == RECORDS[0]
        assert list(lace.check()) == []
        with pytest.raises(ReadOnlyLake, match="pipeline ingest"):
            lace.put(b"x", group="u", app="a", name="n")
        with pytest.raises(ReadOnlyLake, match="pipeline export"):
            lace.backup(tmp_path / "copy.lace")
    assert not (tmp_path / "copy.lace").exists()


def test_a_relative_path_starts_from_the_folder_of_the_lace(lake: Path, tmp_path: Path) -> None:
    Lace.create(tmp_path / "a.lace", lake=lake).close()
    settings = tmp_path / "a.lace" / "lace.toml"
    settings.write_text(settings.read_text(encoding="utf-8").replace(str(lake), "../a.lake"), encoding="utf-8")
    with Lace.open(tmp_path / "a.lace") as lace:
        assert lace.settings.lake == "../a.lake"
        assert lace.stat().high_water == 20


def test_a_lake_that_is_not_there_makes_no_lace(tmp_path: Path) -> None:
    with pytest.raises(NoLake):
        Lace.create(tmp_path / "a.lace", lake=tmp_path / "nowhere")
    assert not Layout(tmp_path / "a.lace").is_lace()


def test_a_folder_with_a_store_does_not_become_a_lace_over_a_lake(lake: Path, tmp_path: Path) -> None:
    Lace.create(tmp_path / "a.lace").close()
    (tmp_path / "a.lace" / "lace.toml").unlink()
    with pytest.raises(UsageError, match="none of its own"):
        create_records(Layout(tmp_path / "a.lace"), default_key="main", lake=lake, now=lambda: 0)


def test_without_pyarrow_the_extra_is_named(lake: Path, tmp_path: Path) -> None:
    """In a process of its own: a second copy of the lake's modules would be strange to other tests."""
    Lace.create(tmp_path / "a.lace", lake=lake).close()
    program = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from bobbin.errors import UsageError\n"
        "from bobbin.lace import Lace\n"
        "try: Lace.open(sys.argv[1])\n"
        "except UsageError as refused: print(refused)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "a.lace"], capture_output=True, text=True, check=True
    )
    assert "pip install 'bobbin[spark]'" in done.stdout


def test_a_lace_without_a_lake_needs_its_store(tmp_path: Path) -> None:
    Lace.create(tmp_path / "a.lace").close()
    layout = Layout(tmp_path / "a.lace")
    settings = read_settings(layout.settings)
    assert settings.lake is None
    layout.records.unlink()
    with pytest.raises(DamagedStore, match="no store"):
        open_records(layout, settings, now=lambda: 0, read_only=False)

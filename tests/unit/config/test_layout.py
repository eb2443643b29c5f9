"""What makes a folder a lace, and what forbids to make one of it."""

from pathlib import Path

from bobbin.config.layout import Layout


def test_the_paths_are_those_that_the_documentation_names(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in (layout.settings, layout.records, layout.keys)] == [
        "lace.toml",
        "records.db",
        "keys",
    ]


def test_only_a_folder_with_settings_is_a_lace(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "x")
    assert not layout.is_lace()
    layout.folder.mkdir()
    layout.records.touch()
    assert not layout.is_lace()
    layout.settings.mkdir()
    assert not layout.is_lace()
    layout.settings.rmdir()
    layout.settings.touch()
    assert layout.is_lace()


def test_what_an_interrupted_creation_leaves_behind_is_no_stranger(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    for name in ("records.db", "records.db-wal", "records.db-shm", ".lace.toml.0123456789ab.tmp"):
        (tmp_path / name).touch()
    layout.keys.mkdir()
    assert layout.strangers() == []


def test_everything_else_is_a_stranger(tmp_path: Path) -> None:
    for name in ("notes.txt", ".hidden", "records.db.bak"):
        (tmp_path / name).touch()
    assert Layout(tmp_path).strangers() == [".hidden", "notes.txt", "records.db.bak"]

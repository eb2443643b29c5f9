"""What makes a folder a lace, and what forbids to make one of it."""

from pathlib import Path

from bobbin.config.layout import Layout, lace_around


def test_the_paths_are_those_that_the_documentation_names(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    paths = (
        layout.settings,
        layout.records,
        layout.keys,
        layout.peers,
        layout.node_socket,
        layout.graph_socket,
        layout.certificate,
        layout.certificate_key,
    )
    assert [path.relative_to(tmp_path).as_posix() for path in paths] == [
        "lace.toml",
        "records.db",
        "keys",
        "peers.toml",
        "node.sock",
        "graph.sock",
        "tls/certificate.pem",
        "tls/key.pem",
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
    temporary = (".lace.toml.0123456789ab.tmp", ".records.db.0123456789ab.tmp", ".records.db.0123456789ab.tmp-wal")
    for name in ("records.db", "records.db-wal", "records.db-shm", "peers.toml", "node.sock", *temporary):
        (tmp_path / name).touch()
    layout.keys.mkdir()
    layout.tls.mkdir()
    assert layout.strangers() == []
    assert [path.name for path in layout.leftovers()] == sorted(temporary)
    layout.clear_leftovers()
    assert layout.leftovers() == []
    assert layout.records.is_file()


def test_everything_else_is_a_stranger(tmp_path: Path) -> None:
    for name in ("notes.txt", ".hidden", "records.db.bak", ".thesis.0123456789ab.tmp", ".records.db.tmp"):
        (tmp_path / name).touch()
    assert Layout(tmp_path).strangers() == [
        ".hidden",
        ".records.db.tmp",
        ".thesis.0123456789ab.tmp",
        "notes.txt",
        "records.db.bak",
    ]


def test_a_folder_holds_what_leads_into_it_by_any_name(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "x.lace")
    layout.keys.mkdir(parents=True)
    layout.records.touch()
    (layout.keys / "main.key").touch()
    layout.tls.mkdir()
    layout.certificate_key.touch()
    (tmp_path / "soft").symlink_to(layout.records)
    (tmp_path / "door").symlink_to(layout.folder)
    (tmp_path / "hard").hardlink_to(layout.records)
    (tmp_path / "hard-key").hardlink_to(layout.keys / "main.key")
    (tmp_path / "hard-tls").hardlink_to(layout.certificate_key)
    (tmp_path / "other").touch()
    named = ("x.lace", "x.lace/records.db", "x.lace/new", "x.lace/keys/../new")
    inside = (*named, "soft", "door/new", "hard", "hard-key", "hard-tls")
    assert [name for name in inside if not layout.holds(tmp_path / name)] == []
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    outside = ("other", "new", "x.lace.bundle", "x.lace/../new", ".", "circle")
    assert [name for name in outside if layout.holds(tmp_path / name)] == []


def test_the_lace_around_a_path(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "x.lace")
    layout.keys.mkdir(parents=True)
    assert lace_around(layout.records) is None
    layout.settings.touch()
    assert lace_around(layout.records) == layout.folder.resolve()
    assert lace_around(layout.keys / "new") == layout.folder.resolve()
    assert lace_around(tmp_path / "new") is None

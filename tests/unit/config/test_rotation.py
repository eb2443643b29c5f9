"""Another key: what happens on the disk."""

import os
import tomllib
from pathlib import Path

import pytest

from bobbin.cluster.names import NodeId
from bobbin.config.cluster import ClusterLayout, create_cluster, prepare, read_folder
from bobbin.config.keys import KeyFileError
from bobbin.config.rotation import changing_keys, keep_seat, next_file, prepare_key, prepared_key, switch_key
from bobbin.errors import ResourceError, UsageError

_SEAT = NodeId("a" * 32)


def _folder(folder: Path) -> ClusterLayout:
    create_cluster([prepare(folder, listen="tls:127.0.0.1:4795")])
    return ClusterLayout(folder)


def test_a_key_is_prepared_once_privately_and_beside_the_one_that_counts(tmp_path: Path) -> None:
    layout = _folder(tmp_path / "n")
    before = layout.node_key.read_bytes()
    assert prepared_key(layout.node_key) is None
    made = prepare_key(layout.node_key)
    assert prepare_key(layout.node_key).certificate == made.certificate
    found = prepared_key(layout.node_key)
    assert found is not None
    assert found.certificate == made.certificate
    assert next_file(layout.node_key).stat().st_mode & 0o077 == 0
    assert layout.node_key.read_bytes() == before
    next_file(layout.node_key).chmod(0o644)
    with pytest.raises(KeyFileError, match="read by others"):
        prepared_key(layout.node_key)


def test_the_prepared_key_takes_the_place_of_the_other_and_nothing_does_where_there_is_none(tmp_path: Path) -> None:
    layout = _folder(tmp_path / "n")
    made = prepare_key(layout.node_key)
    switch_key(layout.node_key)
    assert prepared_key(layout.node_key) is None
    assert read_folder(layout.folder).own.certificate == made.certificate
    assert layout.node_key.stat().st_mode & 0o077 == 0
    switch_key(layout.node_key)
    assert read_folder(layout.folder).own.certificate == made.certificate


def test_a_key_elsewhere_stays_there(tmp_path: Path) -> None:
    layout = _folder(tmp_path / "n")
    safe = tmp_path / "safe"
    safe.mkdir(mode=0o700)
    layout.node_key.rename(safe / "key")
    layout.node_key.symlink_to(safe / "key")
    made = prepare_key(layout.node_key)
    assert (safe / "key.next").exists()
    switch_key(layout.node_key)
    assert layout.node_key.is_symlink()
    assert read_folder(layout.folder).own.certificate == made.certificate


_MINE = """# My node.
format = 1
cluster = "00" # do not touch
address = "tls:a:1"   # by the road

# Slow disk.
[raft]
address = "not this one"
"""


@pytest.mark.parametrize(
    ("text", "after"),
    [
        (_MINE, 'address = "tls:a:1"   # by the road\n'),
        (_MINE.replace("\n", "\r\n"), 'address = "tls:a:1"   # by the road\r\n'),
        ('address = """\ntls:a:1"""\n[raft]\n', ""),
        ("[raft]\nx = 1\naddress = 2\n", ""),
        ('listen = "x"\naddress = "tls:a:1"', ""),
        ("", ""),
    ],
    ids=["commented", "crlf", "in parts", "of a table", "last without an end", "empty"],
)
def test_the_seat_is_one_line_more_and_every_other_byte_stays(tmp_path: Path, text: str, after: str) -> None:
    layout = ClusterLayout(tmp_path)
    layout.settings.write_bytes(text.encode())
    layout.settings.chmod(0o640)
    keep_seat(layout, _SEAT)
    changed = layout.settings.read_bytes().decode()
    assert tomllib.loads(changed) == {**tomllib.loads(text), "seat": _SEAT}
    line = f'seat = "{_SEAT}"' + ("\r\n" if "\r" in text else "\n")
    assert changed == text.replace(after, after + line, 1) if after else changed == line + text
    assert layout.settings.stat().st_mode & 0o777 == 0o640
    keep_seat(layout, NodeId("b" * 32))
    assert layout.settings.read_bytes().decode() == changed, "a seat that is there is never another one"


def test_the_seat_says_what_was_so_before(tmp_path: Path) -> None:
    layout = _folder(tmp_path / "n")
    before = read_folder(layout.folder)
    keep_seat(layout, before.node)
    assert read_folder(layout.folder).node == before.node
    prepare_key(layout.node_key)
    switch_key(layout.node_key)
    after = read_folder(layout.folder)
    assert (after.node, after.own.identity.node == before.node) == (before.node, False)


def test_a_folder_that_is_none_has_no_keys(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for none in (tmp_path / "none", tmp_path / "file"):
        with pytest.raises(UsageError, match="no folder"), changing_keys(none):
            raise AssertionError


def test_one_command_changes_keys_at_a_time(tmp_path: Path) -> None:
    with (
        changing_keys(tmp_path),
        pytest.raises(ResourceError, match="another command") as caught,
        changing_keys(tmp_path),
    ):
        raise AssertionError
    assert caught.value.retry
    with changing_keys(tmp_path):
        pass


@pytest.mark.parametrize("is_allowed", [True, False])
def test_files_that_are_changed_stay_with_their_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_allowed: bool
) -> None:
    """Root changes the key of a node that runs as somebody else."""
    layout = _folder(tmp_path / "n")
    given: list[tuple[int, int, int]] = []

    def fchown(descriptor: int, user: int, group: int) -> None:
        if not is_allowed:
            raise PermissionError
        given.append((os.fstat(descriptor).st_ino, user, group))

    monkeypatch.setattr(os, "fchown", fchown)
    prepare_key(layout.node_key)
    key, settings = layout.node_key.stat(), layout.settings.stat()
    keep_seat(layout, _SEAT)
    switch_key(layout.node_key)
    wanted = [
        (layout.settings.stat().st_ino, settings.st_uid, settings.st_gid),
        (layout.node_key.stat().st_ino, key.st_uid, key.st_gid),
    ]
    assert given == (wanted if is_allowed else [])
    assert read_folder(layout.folder).node == _SEAT


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_root_gives_the_files_back(tmp_path: Path) -> None:
    layout = _folder(tmp_path / "n")
    for file in (layout.node_key, layout.settings):
        os.chown(file, 12_345, 12_346)
    prepare_key(layout.node_key)
    keep_seat(layout, _SEAT)
    switch_key(layout.node_key)
    for file in (layout.node_key, layout.settings):
        assert (file.stat().st_uid, file.stat().st_gid) == (12_345, 12_346)
    assert layout.node_key.stat().st_mode & 0o077 == 0

"""Files of a configuration: read once, remembered, and refused where they cannot be trusted."""

import os
from pathlib import Path

import pytest

from bobbin.config import sources as module
from bobbin.config.sources import MissingFile, Sources, UnusableFile, current_digest, digest, stamp


def test_a_file_is_the_same_however_often_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("one")
    sources = Sources()
    assert sources.read(path) == b"one"
    path.write_text("two, longer")
    assert sources.read(path) == b"one"
    assert sources.seen[path].digest == digest(b"one")
    assert sources.seen[path].stamp != stamp(path)
    assert current_digest(path) == digest(b"two, longer")


def test_a_file_that_cannot_be_read_is_remembered_too(tmp_path: Path) -> None:
    sources = Sources()
    with pytest.raises(MissingFile, match="there is no file"):
        sources.read(tmp_path / "a")
    assert sources.seen[tmp_path / "a"].stamp is None
    assert sources.seen[tmp_path / "a"].digest is None
    assert current_digest(tmp_path / "a") is None


def test_what_is_no_regular_file_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(UnusableFile, match="not a regular file"):
            Sources().read(path)


def test_a_name_that_no_file_can_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableFile):
        Sources().read(tmp_path / "a\0b")
    with pytest.raises(UnusableFile, match="cannot be read"):
        Sources().read(tmp_path / ("x" * 300))


def test_a_file_that_everyone_can_write_is_refused_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("one")
    path.chmod(0o646)
    with pytest.raises(UnusableFile, match="chmod o-w"):
        Sources().read(path)
    path.chmod(0o644)
    assert Sources().read(path) == b"one"


def test_a_file_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FILE_BYTES_MAX", 3)
    (tmp_path / "a").write_text("one")
    (tmp_path / "b").write_text("four")
    assert Sources().read(tmp_path / "a") == b"one"
    with pytest.raises(UnusableFile, match="larger"):
        Sources().read(tmp_path / "b")

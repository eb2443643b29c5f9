"""The package with and without a C compiler: both are built, and both work."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from bobbin.native.library import FILE_NAME
from tests.architecture.source_tree import REPOSITORY

_USE = """
import sys
sys.path[:0] = [sys.argv[1]]
from bobbin.native import library
from bobbin.runtime.arena import Arena
assert library.__file__.startswith(sys.argv[1]), library.__file__
with Arena(100) as arena:
    blob = arena.write(b"lazily shared-memory blob arena")
    assert arena.read(blob) == b"lazily shared-memory blob arena"
print(blob.checksum)
try:
    print(library.library().kind(b'{"OutboxAck":{"through_epoch":1}}'))
except library.LibraryAbsent as absent:
    print(absent)
"""


def _build_and_use(folder: Path, compiler: str) -> tuple[str, set[str], list[str]]:
    """The name of the wheel, the files in its native folder, and what a process says that uses it."""
    environment = {**os.environ, "CC": compiler}
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=REPOSITORY, env=environment, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    unpacked = folder / "unpacked"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(unpacked)
        native = {name.removeprefix("bobbin/native/") for name in archive.namelist() if "bobbin/native/" in name}
    used = subprocess.run([sys.executable, "-c", _USE, str(unpacked)], check=True, capture_output=True, text=True)
    return wheel.name, native, used.stdout.splitlines()


@pytest.mark.slow
def test_a_wheel_has_the_library_and_is_for_this_platform(tmp_path: Path) -> None:
    name, files, said = _build_and_use(tmp_path, os.environ.get("CC", ""))
    assert "-py3-none-" in name
    assert not name.endswith("-any.whl")
    assert {FILE_NAME, "lazily.h", "library.py"} <= files
    assert said == ["13098019626228322701", "5"]


@pytest.mark.slow
def test_without_a_compiler_the_package_still_works(tmp_path: Path) -> None:
    name, files, said = _build_and_use(tmp_path, "no-such-compiler")
    assert name.endswith("-py3-none-any.whl")
    assert FILE_NAME not in files
    assert said[0] == "13098019626228322701"
    assert "install a C compiler" in said[1]

"""The package with a C compiler, with a poor one and without any: each is built, and each works."""

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
from bobbin.cluster.chain.hashing import PLAIN
from bobbin.cluster.content_tree import ContentTree
from bobbin.cluster.operations import Put
from bobbin.native import library
from bobbin.native.content_tree import NativeContentTree
from bobbin.native.hashing import NativeHashing, hashing, why_plain
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
puts = [Put(b"%d" % number, b"value") for number in range(1_000)]
def hashes(tree, ways):
    tree.update((put.key, put.data) for put in puts)
    return tree.top, ways.root_of_puts(puts)
assert hashes(hashing().new_tree(), hashing()) == hashes(ContentTree(), PLAIN)
assert (hashing() is PLAIN) == (why_plain() is not None)
try:
    assert hashes(NativeContentTree(), NativeHashing()) == hashes(ContentTree(), PLAIN)
    print("hashes in C")
except library.LibraryAbsent as absent:
    assert hashing() is PLAIN
    print(why_plain())
"""


def _build_and_use(folder: Path, compiler: str) -> tuple[str, set[str], list[str], str]:
    """The name of the wheel, the files in its native folder, what a process says that uses it, and what hatch said."""
    environment = {**os.environ, "CC": compiler}
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    built = subprocess.run(command, cwd=REPOSITORY, env=environment, check=True, capture_output=True, text=True)
    (wheel,) = folder.glob("*.whl")
    unpacked = folder / "unpacked"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(unpacked)
        native = {name.removeprefix("bobbin/native/") for name in archive.namelist() if "bobbin/native/" in name}
    used = subprocess.run([sys.executable, "-c", _USE, str(unpacked)], check=True, capture_output=True, text=True)
    return wheel.name, native, used.stdout.splitlines(), built.stdout + built.stderr


@pytest.mark.slow
def test_a_wheel_has_the_library_and_is_for_this_platform(tmp_path: Path) -> None:
    name, files, said, of_building = _build_and_use(tmp_path, os.environ.get("CC", ""))
    assert "-py3-none-" in name
    assert not name.endswith("-any.whl")
    assert {FILE_NAME, "lazily.h", "library.py"} <= files
    assert said == ["13098019626228322701", "5", "hashes in C"]
    assert "without" not in of_building


@pytest.mark.slow
def test_without_a_compiler_the_package_still_works(tmp_path: Path) -> None:
    name, files, said, of_building = _build_and_use(tmp_path, "no-such-compiler")
    assert name.endswith("-py3-none-any.whl")
    assert FILE_NAME not in files
    assert said[0] == "13098019626228322701"
    assert "install a C compiler" in said[1]
    assert said[2] == "the C library cannot be used: it was not built"
    assert "built without its C library" in of_building


@pytest.mark.slow
def test_a_compiler_that_cannot_make_hashes_still_makes_the_rest(tmp_path: Path) -> None:
    """It has no atomics, say: frames and checksums do not need them."""
    poor = tmp_path / "poor-compiler"
    poor.write_text(
        "#!/bin/sh\n"
        'for one in "$@"; do grep -sq "include <stdatomic.h>" "$one" && echo "no atomics" >&2 && exit 1; done\n'
        f'exec {os.environ.get("CC") or "cc"} "$@"\n'
    )
    poor.chmod(0o755)
    name, files, said, of_building = _build_and_use(tmp_path, str(poor))
    assert not name.endswith("-any.whl")
    assert FILE_NAME in files
    assert said[:2] == ["13098019626228322701", "5"]
    assert said[2].startswith("the C library cannot be used: it was built without content trees")
    assert "without the hashes of shards in C" in of_building
    assert "no atomics" in of_building

"""Compiles the C library of ``bobbin.native`` while the package is built.

An editable install gets it in the source folder, a wheel in its own copy of that folder, and the wheel is then one for
this platform. Without a C compiler there is a warning and no library: the package works, and what the library would do
faster is done in Python. The hashes of shards ask more of a compiler than the rest does (atomics, a
processor's own instructions); one that cannot make them makes a library without them, and there is a warning, too.
``CC`` names another compiler than the first of cc, gcc and clang that is found.
"""

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_PACKAGE_FOLDER = "bobbin/native"
_FILE_NAME = "liblazily.dylib" if sys.platform == "darwin" else "liblazily.so"
_HASHES = frozenset({"content_tree", "merkle", "pairs", "sha256", "tree_bucket", "tree_texts"})
_FLAGS = ("-std=c11", "-O2", "-fPIC", "-fvisibility=hidden", "-pthread", "-shared")


class CustomBuildHook(BuildHookInterface):
    """The hook that hatchling calls for each wheel; for it, an editable install is a wheel as well."""

    _made: Path | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and say where the result goes."""
        sources = Path(self.root, "src", _PACKAGE_FOLDER)
        if version == "editable":
            self._compile(sources, sources / _FILE_NAME)
            return
        self._made = Path(tempfile.mkdtemp(prefix="bobbin-native-"))
        library = self._made / _FILE_NAME
        if self._compile(sources, library):
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["force_include"][str(library)] = f"{_PACKAGE_FOLDER}/{_FILE_NAME}"
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{platform}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove what was only needed to make the wheel."""
        if self._made is not None:
            shutil.rmtree(self._made, ignore_errors=True)

    def _compile(self, sources: Path, library: Path) -> bool:
        compiler = _compiler()
        if not compiler:
            self.app.display_warning("No C compiler was found: bobbin is built without its C library.")
            return False
        everything = sorted(sources.glob("*.c"))
        wrong = _link(compiler, everything, library)
        if not wrong:
            return True
        is_made = not _link(compiler, [path for path in everything if path.stem not in _HASHES], library)
        missing = "the hashes of shards in C" if is_made else "its C library"
        self.app.display_warning(f"Bobbin is built without {missing}: {shlex.join(compiler)} failed.")
        self.app.display_warning(wrong)
        return is_made


def _link(compiler: list[str], sources: list[Path], library: Path) -> str:
    """Make a library of some sources. Gives what went wrong, which is never empty then; nothing has changed."""
    # A process that has the old library open keeps it: the new one takes its place by name only.
    draft = library.with_name(f".{library.name}.{os.getpid()}")
    command = [*compiler, *_FLAGS, "-o", str(draft), *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)  # noqa: S603
    if done.returncode != 0:
        draft.unlink(missing_ok=True)
        return done.stderr.strip() or f"it ended with {done.returncode}"
    draft.replace(library)
    return ""


def _compiler() -> list[str]:
    """The command of the compiler; empty where there is none."""
    if chosen := shlex.split(os.environ.get("CC", "")):
        return chosen if shutil.which(chosen[0]) else []
    return next(([name] for name in ("cc", "gcc", "clang") if shutil.which(name)), [])

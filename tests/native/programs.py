"""Compiles the C programs of this folder, with every warning an error."""

import os
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from bobbin.native.library import FOLDER

HERE = Path(__file__).resolve().parent
COMPILER = shlex.split(os.environ.get("CC", "")) or ["cc"]
STRICT = (
    *("-std=c11", "-g", "-O1", "-Werror", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow"),
    *("-Wstrict-prototypes", "-Wmissing-prototypes", "-Wvla", "-pthread"),
)
VALGRIND = (
    *("valgrind", "--quiet", "--error-exitcode=99", "--leak-check=full", "--show-leak-kinds=all"),
    "--errors-for-leak-kinds=all",
)
_WRAPPED = "-Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc"


def build_against_the_library(name: str, folder: Path) -> Path:
    """A program that is linked against the library of the package, as anybody's would be."""
    program = folder / name
    library = ("-I", str(FOLDER), "-L", str(FOLDER), "-llazily", f"-Wl,-rpath,{FOLDER}")
    run([*COMPILER, *STRICT, "-o", str(program), str(HERE / f"{name}.c"), *library])
    return program


def build_with_the_sources(name: str, folder: Path, *, only: Sequence[str] = ("*",), wrapped: bool = False) -> Path:
    """A program with sources of the library in it, all or ``only`` some; ``wrapped``: it may make memory run out."""
    program = folder / name
    sources = sorted(str(path) for source in only for path in FOLDER.glob(f"{source}.c"))
    options = [_WRAPPED] if wrapped else []
    run([*COMPILER, *STRICT, *options, "-I", str(FOLDER), "-o", str(program), str(HERE / f"{name}.c"), *sources])
    return program


def run(command: Sequence[str]) -> str:
    """What a command writes to its output. It must succeed, and say nothing on the side."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout

"""Peers from PyPI: each in a virtual environment of its own, made from its lock in ``peers`` and kept.

The lock pins every version and every file by its hash. A peer that asks for another Python than ours gets one that is
on this machine; where there is none, or the peer cannot be installed, the benchmark fails.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias

from benchmarks.material import cache_folder
from benchmarks.network_processes import PeerFailedError

LOCKS: Final = Path(__file__).resolve().parent / "peers"
PYTHON_NAMES: Final = ("python3.12", "python3.13", "python3.14", "python3", "python")

Version: TypeAlias = tuple[int, int]


def version_of(peer: str) -> str:
    """The version of a peer that its lock names."""
    found = re.search(rf"^{re.escape(peer)}==(\S+)", _lock(peer).read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise PeerFailedError(f"the lock of {peer} does not name it")
    return found[1]


def install(peer: str, *, at_least: Version = (3, 11)) -> Path:
    """The interpreter of the environment that has a peer. Quick when that is done."""
    lock = _lock(peer)
    python, version = find_python(at_least, whom=peer)
    content = lock.read_bytes() + f"{version} {sys.platform}".encode()
    folder = cache_folder() / f"{peer}-{hashlib.sha256(content).hexdigest()[:16]}"
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=cache_folder()) as temporary:
            unfinished = Path(temporary) / "environment"
            made = _interpreter(unfinished)
            _require([python, "-m", "venv", str(unfinished)], f"no environment for {peer} can be made")
            options = ["--quiet", "--no-input", "--disable-pip-version-check", "--require-hashes"]
            _require([str(made), "-m", "pip", "install", *options, "-r", str(lock)], f"{peer} cannot be installed")
            unfinished.rename(folder)
    return _interpreter(folder)


def find_python(at_least: Version, *, whom: str) -> tuple[str, Version]:
    """A Python that is new enough, and its version: ours where that will do."""
    for candidate in _candidates():
        version = _version(candidate)
        if version is not None and version >= at_least:
            return candidate, version
    wanted = ".".join(map(str, at_least))
    raise PeerFailedError(f"{whom} needs Python {wanted} or newer, and none was found; put one on the PATH")


def _candidates() -> Iterator[str]:
    """Ours, then what PATH has, then what pyenv keeps besides: a command of its may be there and not work."""
    yield sys.executable
    yield from filter(None, map(shutil.which, PYTHON_NAMES))
    pyenv = shutil.which("pyenv")
    if pyenv is not None:
        root = subprocess.run([pyenv, "root"], check=False, capture_output=True, text=True).stdout.strip()
        yield from map(str, sorted(Path(root).glob("versions/3.*/bin/python"))) if root else ()


def _version(python: str) -> Version | None:
    """What an interpreter says of itself; None for a command that does not run."""
    ask = [python, "-c", "import sys; print(*sys.version_info[:2])"]
    answer = subprocess.run(ask, check=False, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    found = re.fullmatch(r"(\d+) (\d+)", answer.stdout.strip())
    return None if answer.returncode or found is None else (int(found[1]), int(found[2]))


def _require(command: list[str], otherwise: str) -> None:
    # Our own environment is none of the peer's business.
    environment = {name: value for name, value in os.environ.items() if name not in {"VIRTUAL_ENV", "PYTHONPATH"}}
    if subprocess.run(command, check=False, env=environment, stdout=subprocess.DEVNULL).returncode:
        raise PeerFailedError(otherwise)


def _lock(peer: str) -> Path:
    for path in LOCKS.glob(f"*/{peer}.lock"):
        return path
    raise PeerFailedError(f"there is no lock for {peer}")


def _interpreter(folder: Path) -> Path:
    return folder / "bin" / "python"

"""Hypercore, installed by npm from the lock in ``peers/hypercore`` into the cache, measured in a process of its own."""

import hashlib
import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Literal

from benchmarks.material import cache_folder

_RECIPE = Path(__file__).resolve().parent / "peers" / "hypercore"
VERSION: str = json.loads((_RECIPE / "package.json").read_text(encoding="utf-8"))["dependencies"]["hypercore"]

Way = Literal["single", "batch", "replicate"]


def install() -> Path:
    """The folder that has the locked packages. Quick when that is done."""
    lock = (_RECIPE / "package-lock.json").read_bytes()
    folder = cache_folder() / f"hypercore-{hashlib.sha256(lock).hexdigest()[:16]}"
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=cache_folder()) as temporary:
            unfinished = Path(temporary) / "packages"
            unfinished.mkdir()
            for name in ("package.json", "package-lock.json"):
                shutil.copy(_RECIPE / name, unfinished)
            command = ["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"]
            subprocess.run(command, cwd=unfinished, check=True, stdout=subprocess.DEVNULL)
            unfinished.rename(folder)
    return folder


def blocks_per_second(way: Way, *, count: int, size: int) -> float:
    """Write blocks into a new core on the disk, in one of the ways that ``append.mjs`` describes."""
    home = install()
    with tempfile.TemporaryDirectory(prefix="bobbin-bench-") as folder:
        command = ["node", str(_RECIPE / "append.mjs"), folder, way, str(count), str(size)]
        answer = json.loads(subprocess.run(command, cwd=home, check=True, stdout=subprocess.PIPE).stdout)
    return float(answer["blocks"] / answer["seconds"])

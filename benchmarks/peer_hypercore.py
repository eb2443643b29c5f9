"""Hypercore, installed by npm from the lock in ``peers/hypercore`` into the cache, measured in a process of its own."""

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Literal

from benchmarks import peer_packages

VERSION: str = peer_packages.version_of("hypercore", "hypercore")

Way = Literal["single", "batch", "replicate"]


def install() -> Path:
    """The folder that has the locked packages. Quick when that is done."""
    return peer_packages.install("hypercore")


def blocks_per_second(way: Way, *, count: int, size: int) -> float:
    """Write blocks into a new core on the disk, in one of the ways that ``append.mjs`` describes."""
    home = install()
    script = peer_packages.RECIPES / "hypercore" / "append.mjs"
    with tempfile.TemporaryDirectory(prefix="bobbin-bench-") as folder:
        command = ["node", str(script), folder, way, str(count), str(size)]
        answer = json.loads(subprocess.run(command, cwd=home, check=True, stdout=subprocess.PIPE).stdout)
    return float(answer["blocks"] / answer["seconds"])

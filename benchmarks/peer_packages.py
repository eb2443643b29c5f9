"""Packages of npm that a peer needs: installed from the lock in its folder of ``peers`` into the cache."""

import hashlib
import json
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from benchmarks.material import cache_folder

RECIPES: Final = Path(__file__).resolve().parent / "peers"


def version_of(peer: str, package: str) -> str:
    """The version of a package that a peer's recipe names."""
    recipe = json.loads((RECIPES / peer / "package.json").read_text(encoding="utf-8"))
    return str(recipe["dependencies"][package])


def install(peer: str) -> Path:
    """The folder that has the locked packages. Quick when that is done."""
    recipe = RECIPES / peer
    lock = (recipe / "package-lock.json").read_bytes()
    folder = cache_folder() / f"{peer}-{hashlib.sha256(lock).hexdigest()[:16]}"
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=cache_folder()) as temporary:
            unfinished = Path(temporary) / "packages"
            unfinished.mkdir()
            for name in ("package.json", "package-lock.json"):
                shutil.copy(recipe / name, unfinished)
            command = ["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"]
            subprocess.run(command, cwd=unfinished, check=True, stdout=subprocess.DEVNULL)
            unfinished.rename(folder)
    return folder

"""Git: as many unsigned blobs, fetched from one local repository into another by the pack protocol."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from blake3 import blake3

from benchmarks.material import cache_folder
from benchmarks.rounds import rate_of

# The settings of this machine's user must not decide.
ENVIRONMENT = {**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}


def version() -> str:
    """What `git --version` says."""
    return subprocess.run(["git", "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def blobs_per_second(*, count: int, size: int) -> float:
    """Fetch everything into a new repository."""
    source = prepare(count=count, size=size)
    with tempfile.TemporaryDirectory(prefix="bobbin-bench-") as folder:
        git("init", "--quiet", "--bare", folder)
        fetch = ["fetch", "--quiet", source.as_uri(), "refs/heads/main:refs/heads/main"]
        rate = rate_of(lambda: git("-C", folder, *fetch), count)
        listing = git("-C", folder, "ls-tree", "-r", "--name-only", "main")
    if listing.count(b"\n") != count:
        raise AssertionError(f"git fetched something else than {count} blobs")
    return rate


def prepare(*, count: int, size: int) -> Path:
    """A repository with that many random blobs in one commit. Quick when that is done."""
    path = cache_folder() / f"git-{count}-{size}"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=cache_folder()) as folder:
            unfinished = Path(folder) / "repository"
            git("init", "--quiet", "--bare", "--initial-branch=main", str(unfinished))
            git("-C", str(unfinished), "fast-import", "--quiet", content=b"".join(_commands(count, size)))
            unfinished.rename(path)
    return path


def _commands(count: int, size: int) -> Iterator[bytes]:
    yield b"commit refs/heads/main\ncommitter bench <bench@example.org> 0 +0000\ndata 0\n"
    for number in range(count):
        blob = blake3(f"bobbin benchmark {number}".encode()).digest(size)
        yield b"M 100644 inline %02d/%08d\ndata %d\n%b\n" % (number % 100, number, size, blob)


def git(*arguments: str, content: bytes | None = None) -> bytes:
    """Run one command of Git; what it printed."""
    command = ["git", *arguments]
    return subprocess.run(command, env=ENVIRONMENT, input=content, check=True, stdout=subprocess.PIPE).stdout

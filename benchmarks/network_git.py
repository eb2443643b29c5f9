"""Git between two processes: `git fetch` from `git daemon` over loopback, a blob in one commit for each record.

The clock runs while `git fetch` does, into a new and empty repository. Git hashes what it gets; nothing is signed, and
nothing is asked about what is in it.
"""

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.material import FOLDER_RECORDS, RECORD_BYTES, VERSION, bundle, cache_folder
from benchmarks.network_processes import (
    HOST,
    START_SECONDS_MAX,
    PeerFailedError,
    free_port,
    is_listening,
    plain_environment,
    running,
    wait_until,
)
from benchmarks.peer_git import ENVIRONMENT, git
from benchmarks.rounds import rate_of


def prepare(count: int) -> Path:
    """A repository with the records as blobs in one commit. Quick when that is done."""
    path = cache_folder() / f"git-records-{count}-v{VERSION}"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=cache_folder()) as folder:
            unfinished = Path(folder) / "repository"
            git("init", "--quiet", "--bare", "--initial-branch=main", str(unfinished))
            git("-C", str(unfinished), "fast-import", "--quiet", content=b"".join(_commands(count)))
            unfinished.rename(path)
    return path


def blobs_per_second(count: int) -> float:
    """Fetch everything into a new repository."""
    source = prepare(count)
    port = free_port()
    where = [f"--listen={HOST}", f"--port={port}", f"--base-path={source.parent}", str(source)]
    command = ["git", "daemon", "--reuseaddr", "--export-all", *where]
    environment = plain_environment() | {
        name: ENVIRONMENT[name] for name in ("GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_GLOBAL")
    }
    with (
        tempfile.TemporaryDirectory(prefix="bobbin-bench-") as folder,
        running(command, environment=environment, quiet=True) as daemon,
    ):
        wait_until(
            lambda: daemon.poll() is not None or is_listening(port),
            what="git daemon listens",
            seconds_max=START_SECONDS_MAX,
        )
        git("init", "--quiet", "--bare", folder)
        fetch = ["fetch", "--quiet", f"git://{HOST}:{port}/{source.name}", "refs/heads/main:refs/heads/main"]
        try:
            rate = rate_of(lambda: git("-C", folder, *fetch), count)
        except subprocess.CalledProcessError as error:
            raise PeerFailedError(f"git fetch failed: {error}") from error
        ours, theirs = (git("-C", str(each), "ls-tree", "-r", "main") for each in (source, folder))
    if ours != theirs or ours.count(b"\n") != count:
        raise PeerFailedError(f"git fetched something else than {count} blobs")
    return rate


def _commands(count: int) -> Iterator[bytes]:
    yield b"commit refs/heads/main\ncommitter bench <bench@example.org> 0 +0000\ndata 0\n"
    with bundle(count).open("rb") as file:
        for number in range(count):
            name = b"folder-%06d/record-%08d" % (number // FOLDER_RECORDS, number)
            yield b"M 100644 inline %b\ndata %d\n%b\n" % (name, RECORD_BYTES, file.read(RECORD_BYTES))

"""Hypercore and PouchDB between two processes of Node.js each, on disk at both ends, over loopback.

Each has a script ``network.mjs`` in its folder of ``peers``, which says what it does and what its clock counts. What
is served is filled from the records once and kept; what is fetched into is new in each run.
"""

import tempfile
from pathlib import Path
from typing import Final, Literal

from benchmarks import peer_packages
from benchmarks.material import RECORD_BYTES, VERSION, bundle, cache_folder
from benchmarks.network_processes import PeerFailedError, answer_of, next_answer, running

Name = Literal["hypercore", "pouchdb"]

_UNIT: Final[dict[Name, str]] = {"hypercore": "blocks", "pouchdb": "documents"}


def prepare(peer: Name, count: int) -> Path:
    """The packages, and a folder filled with the records. Quick when that is done."""
    home = peer_packages.install(peer)
    path = cache_folder() / f"{home.name}-filled-{count}-v{VERSION}"
    if not path.exists():
        with tempfile.TemporaryDirectory(dir=cache_folder()) as folder:
            unfinished = Path(folder) / "filled"
            unfinished.mkdir()
            command = _command(peer, "fill", str(unfinished), str(bundle(count)), str(RECORD_BYTES))
            answer_of(command, cwd=home)
            unfinished.rename(path)
    return path


def items_per_second(peer: Name, count: int) -> float:
    """Everything into a new and empty database."""
    source = prepare(peer, count)
    home = peer_packages.install(peer)
    with (
        tempfile.TemporaryDirectory(prefix="bobbin-bench-") as folder,
        running(_command(peer, "serve", str(source)), cwd=home) as server,
    ):
        where = next_answer(server)
        place = [str(where[name]) for name in ("port", "key") if name in where]
        command = _command(peer, "fetch", folder, *place, str(bundle(count)), str(RECORD_BYTES))
        answer = answer_of(command, cwd=home)
    if answer[_UNIT[peer]] != count:
        raise PeerFailedError(f"{peer} brought {answer[_UNIT[peer]]} of {count}")
    return count / float(answer["seconds"])


def _command(peer: Name, *arguments: str) -> list[str]:
    return ["node", str(peer_packages.RECIPES / peer / "network.mjs"), *arguments]

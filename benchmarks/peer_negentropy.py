"""The negentropy of nostr-tools, installed by npm from the lock in ``peers/negentropy``, in a process of its own."""

import json
import subprocess
from typing import Final

from msgspec import Struct

from benchmarks import peer_packages

VERSION: Final[str] = peer_packages.version_of("negentropy", "nostr-tools")


class Reconciled(Struct, frozen=True, kw_only=True):
    """What it took."""

    bytes: int
    messages: int
    found: int
    """Ids that only one side has."""
    seconds: tuple[float, float]
    """Of the processor, for each side, the initiator first."""


def reconcile(count: int, differences: int, kind: str) -> Reconciled:
    """Two sets of ``count`` ids, of which ``differences`` in all are only in one."""
    home = peer_packages.install("negentropy")
    script = peer_packages.RECIPES / "negentropy" / "reconcile.mjs"
    command = ["node", "--max-old-space-size=8192", str(script), str(count), str(differences), kind]
    answer = json.loads(subprocess.run(command, cwd=home, check=True, stdout=subprocess.PIPE).stdout)
    if answer["found"] != differences:
        raise AssertionError(f"negentropy found {answer['found']} of {differences} differences")
    return Reconciled(
        bytes=answer["bytes"], messages=answer["messages"], found=answer["found"], seconds=tuple(answer["seconds"])
    )

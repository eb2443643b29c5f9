"""The reference: two processes of Node.js with a peer of the published packages each, over loopback."""

import json
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks import peer_packages
from benchmarks.network_processes import WORK_SECONDS_MAX, Answer, PeerFailedError, answer_of, next_answer, running
from benchmarks.tangles_material import READER, WRITER, write_lines
from bobbin.tangles.keys import Keypair
from bobbin.tangles.message import Message, MessageId

VERSION: Final = peer_packages.version_of("pzp", "pzp-sync")


def fill(folder: Path, messages: Sequence[Message]) -> None:
    """A new database with these messages."""
    folder.mkdir()
    lines = folder / "messages"
    write_lines(lines, messages)
    answer = answer_of(_command("fill", str(folder), str(lines)), cwd=peer_packages.install("pzp"))
    lines.unlink()
    if answer["messages"] != len(messages):
        raise PeerFailedError(f"the reference's database has {answer['messages']} of {len(messages)} messages")


def synchronise(writer: Path, reader: Path, feed: MessageId) -> Answer:
    """One session between copies of two databases: the seconds that it took, and how many messages it brought."""
    home = peer_packages.install("pzp")
    with tempfile.TemporaryDirectory(prefix="bobbin-bench-") as folder:
        sides = [str(shutil.copytree(one, Path(folder) / one.name)) for one in (writer, reader)]
        with running(_command("serve", sides[0], _keypair(WRITER), feed), cwd=home) as server:
            where = str(next_answer(server, seconds_max=WORK_SECONDS_MAX)["address"])
            return answer_of(_command("fetch", sides[1], _keypair(READER), feed, where), cwd=home)


def _keypair(key: Keypair) -> str:
    return json.dumps({"curve": "ed25519", "public": key.public, "private": key.private})


def _command(*arguments: str) -> list[str]:
    return ["node", str(peer_packages.RECIPES / "pzp" / "network.cjs"), *arguments]

"""The recorded sessions, to be had once more with a live peer on one side."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bobbin.tangles.keys import Keypair
from bobbin.tangles.memory import MemoryStore
from bobbin.tangles.message import Message, from_json
from tests.interop.pzp.node_peer import NodePeer, NodeProcess
from tests.support.tangle_keeper import MemoryKeeper, tangle_of
from tests.vectors.load import HERE as VECTORS


class Recording:
    """A recorded session, and one side of it."""

    def __init__(self, name: str) -> None:
        values = json.loads((VECTORS / "pzp" / "sessions" / f"{name}.json").read_text(encoding="utf-8"))
        self.peers: dict[str, Any] = values["peers"]
        self.dialler: str = values["dialer"]
        self.listener: str = values["listener"]
        self._messages: dict[str, Any] = values["messages"]
        self._transcript: list[dict[str, Any]] = values["transcript"]

    def key(self, side: str) -> Keypair:
        return Keypair.from_private(self.peers[side]["keypair"]["private"])

    def messages(self, side: str) -> list[Message]:
        """What a side has before, in the order in which it came."""
        found = []
        for id, state in self.peers[side]["records_before"]:
            message = from_json(self._messages[id])
            found.append(message.erased() if state == "dataless" and message.has_data else message)
        return found

    def after(self, side: str) -> list[tuple[str, str]]:
        return sorted((id, state) for id, state in self.peers[side]["records_after"])

    def spans(self, side: str) -> dict[str, int]:
        return {name.partition(".")[0]: span for name, span in self.peers[side]["config"].items()}

    @asynccontextmanager
    async def node_peer(self, side: str, process: NodeProcess, folder: Path) -> AsyncIterator[NodePeer]:
        """A peer of Node that is as this side was before."""
        values = self.peers[side]
        async with process.peer(folder, self.key(side), spans=self.spans(side), ghosts=values["ghosts_before"]) as peer:
            pairs = [(message, tangle_of(message, self._goal_of(message, side))) for message in self.messages(side)]
            await peer.add(pairs)
            for tangle, goal in values["goals"]:
                await peer.do("goal", tangle=tangle, goal=goal)
            yield peer

    def keeper(self, side: str) -> MemoryKeeper:
        """A keeper of ours that is as this side was before."""
        spans = set(self.spans(side).values())
        keeper = MemoryKeeper(MemoryStore(span=spans.pop()) if spans else None)
        keeper.store.load(self.messages(side))
        for tangle, goal in self.peers[side]["goals"]:
            keeper.goal(tangle, goal)
        for tangle, entries in self.peers[side]["ghosts_before"].items():
            for id, depth in entries:
                keeper.store.save_ghost(tangle, id, depth)
        return keeper

    def goals(self, side: str) -> tuple[str, ...]:
        return tuple(tangle for tangle, _ in self.peers[side]["goals"])

    def bytes_by_phase(self, side: str) -> dict[str, tuple[int, int]]:
        """How many bytes of JSON came to a side and went out from it, in each phase."""
        counted: dict[str, tuple[int, int]] = {}
        for entry in self._transcript:
            size = len(json.dumps(entry["data"], separators=(",", ":"), ensure_ascii=False).encode())
            name = f"phase {entry['data']['phase']}"
            came, went = counted.get(name, (0, 0))
            counted[name] = (came + size, went) if entry["to"] == side else (came, went + size)
        return counted

    def _goal_of(self, message: Message, side: str) -> str | None:
        return next((tangle for tangle in self.goals(side) if tangle in message.places), None)

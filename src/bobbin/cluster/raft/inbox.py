"""Messages that wait while this node's term or vote is not durable yet.

Whatever a node says in a term rests on that term being on its disk. Rather than deciding message by message, a node
hears nothing in the meantime. The room is bounded, in messages and in bytes, and the oldest gives way: every message of
raft may be lost.
"""

from collections import deque
from typing import Final

from bobbin.cluster.names import NodeId
from bobbin.cluster.raft.messages import AppendEntries, RaftMessage, SnapshotChunk
from bobbin.cluster.settings import MB

INBOX_MAX: Final = 64
INBOX_BYTES_MAX: Final = 32 * MB
"""Of commands and of bytes of snapshots; everything else is small."""


class Inbox:
    """A bounded queue that prefers what came last."""

    __slots__ = ("_bytes", "_waiting", "dropped")

    def __init__(self) -> None:
        self._waiting: deque[tuple[NodeId, RaftMessage]] = deque()
        self._bytes = 0
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, sender: NodeId, message: RaftMessage) -> None:
        """Keep a message, whatever its size; others may have to go for it."""
        self._waiting.append((sender, message))
        self._bytes += _size(message)
        while len(self._waiting) > 1 and (len(self._waiting) > INBOX_MAX or self._bytes > INBOX_BYTES_MAX):
            self.take()
            self.dropped += 1

    def take(self) -> tuple[NodeId, RaftMessage]:
        """The oldest that is left."""
        found = self._waiting.popleft()
        self._bytes -= _size(found[1])
        return found


def _size(message: RaftMessage) -> int:
    if isinstance(message, AppendEntries):
        return sum(len(entry.payload) for entry in message.entries if isinstance(entry.payload, bytes))
    return len(message.data) if isinstance(message, SnapshotChunk) else 0

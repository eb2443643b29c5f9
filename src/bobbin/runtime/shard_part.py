"""The state of a shard as one of the machines of a node.

Whoever leads hears of every command that was applied, with its outcome; both are at hand here, so nothing is turned
into bytes and back for it. A command that this node has proposed itself, or has judged, is not even read again.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from bobbin.cluster.chain.block import genesis
from bobbin.cluster.chain.encoding import header_hash
from bobbin.cluster.composite import Placed
from bobbin.cluster.names import Index
from bobbin.cluster.shard.commands import TAGS, Append, Command, Kind, Outcome
from bobbin.cluster.shard.machine import Shard
from bobbin.cluster.state_machine import Capture
from bobbin.errors import PeerError, ResourceError
from bobbin.wire.cluster.shard_commands import decode_command

EXPECTED_MAX: Final = 256
"""Commands that are not read again when they come. More are under way seldom, and are read then."""


class ShardPart:
    """Keeps what was applied until it is taken, while somebody wants it. The answers to commands are empty."""

    applied: Final = None

    def __init__(self, shard: Shard) -> None:
        self.shard: Final = shard
        self.is_heard = False
        """Whether what is applied is kept for somebody."""
        self._done: list[tuple[Index, Command, Outcome]] = []
        self._expected: Final[dict[bytes, Command]] = {}

    def expect(self, raw: bytes, command: Command) -> None:
        """These bytes are this command's, and will perhaps come, or come back, as an entry of the log."""
        expected = self._expected
        while len(expected) >= EXPECTED_MAX:
            del expected[next(iter(expected))]
        expected[raw] = command

    def take(self) -> list[tuple[Index, Command, Outcome]]:
        """What was applied since the last time."""
        done, self._done = self._done, []
        return done

    def forget(self) -> None:
        """Nobody wants to hear any more."""
        self.is_heard = False
        self._done = []
        self._expected.clear()

    def apply_many(self, commands: Sequence[Placed]) -> list[bytes]:
        shard, expected = self.shard, self._expected
        for index, _, raw in commands:
            command = expected.pop(raw, None)
            if command is None:
                try:
                    command = decode_command(raw)
                except PeerError:
                    continue  # no command, on any node
            outcome = shard.do(index, command)
            if outcome.kind is Kind.STALE_BLOCK:
                _check_dimension(shard, command)
            if self.is_heard:
                self._done.append((index, command, outcome))
        return [b""] * len(commands)

    @property
    def root(self) -> bytes:
        return self.shard.root

    def settle(self, index: Index) -> None:
        """Nothing is kept outside of the log."""

    def snapshot(self) -> Capture:
        return self.shard.snapshot()

    def adopt(self) -> None:
        """Nothing was in anybody's way."""

    def close(self) -> None:
        self.forget()


def _check_dimension(shard: Shard, command: Command) -> None:
    """Raise ``ResourceError`` for the first block of a chain whose vectors have another dimension than this node's.

    Whoever went on would refuse every block, and hold nothing where the others hold everything.
    """
    if not isinstance(command, Append) or shard.ledger.height or command.block.header.height != 1:
        return
    header, own = command.block.header, shard.config.embedding_dimension
    dimension = header.delta_embedding.dimension
    if dimension != own and header.prev_hash == header_hash(genesis(dimension).header):
        raise ResourceError(
            f"the chain of shard {shard.shard} has vectors of {dimension} dimensions, and this node is set for {own}: "
            f"write embedding_dimension = {dimension} under [chain] in its cluster.toml, as the other nodes have it, "
            "and start it again",
            retry=False,
        )


class ShardSource:
    """Where the state of a shard comes from."""

    tags: Final = TAGS

    def __init__(self, make: Callable[[], Shard]) -> None:
        self._make: Final = make

    def open(self) -> ShardPart:
        return ShardPart(self._make())

    def build(self, entries: Iterable[bytes], index: Index) -> ShardPart:  # noqa: ARG002 -- it stands in the chain
        shard = self._make()
        shard.restore(entries)
        return ShardPart(shard)

"""The whole chain and store as entries, to be written down and read back.

First a head, then the codebook, all blocks by height, and all keys with the versions that are still kept, ascending.
Genesis is not among the blocks: it is pinned, and the head only says which one it was.

What the head says of height and tip is a hint. When they disagree with the blocks, the blocks are right, provided that
they follow one another from genesis on and that the keys make the state root of the last one; else nothing is restored.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol, TypeAlias

from msgspec import Struct

from bobbin.cluster.chain.block import Block
from bobbin.cluster.chain.draft import Refusals
from bobbin.cluster.chain.encoding import header_hash, why_header_invalid
from bobbin.cluster.chain.versions import Version
from bobbin.errors import IntegrityError, PeerError

SNAPSHOT_FORMAT: Final = 1


class ChainHead(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=40):
    """The first entry."""

    format: int
    genesis: bytes
    """Its hash."""
    height: int
    tip: bytes
    floor: int
    keys: int
    """How many keys there are."""


class BlockEntry(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=41):
    """A block, and what the state refused of it."""

    block: Block
    refusals: Refusals


class KeyEntry(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=42):
    """A storage key, with what it holds and what it held."""

    key: bytes
    versions: tuple[Version, ...]


class CodebookEntry(Struct, frozen=True, array_like=True, forbid_unknown_fields=True, tag=43):
    """The codebook in force."""

    version: int
    content: bytes


SnapshotEntry: TypeAlias = ChainHead | BlockEntry | KeyEntry | CodebookEntry


class Codec(Protocol):
    """The bytes of snapshot entries. What cannot be read raises ``PeerError``."""

    def entry(self, entry: SnapshotEntry) -> bytes: ...
    def read_entry(self, raw: bytes) -> SnapshotEntry: ...


class Stored(Protocol):
    """A block as a ledger holds it. It never changes."""

    @property
    def block(self) -> Block: ...
    @property
    def refusals(self) -> Refusals: ...


class ChainCapture:
    """A ledger as it was. Iterating writes; it touches nothing that the ledger still changes.

    Making one holds up everybody else, and iterating does not. So the entries are made one by one as they are written.
    """

    def __init__(
        self,
        codec: Codec,
        head: ChainHead,
        codebook: CodebookEntry,
        blocks: Sequence[Stored],
        present: Mapping[bytes, Version],
        older: Mapping[bytes, tuple[Version, ...]],
    ) -> None:
        """``present`` has the newest version of each key, and ``older`` those before it, where there are any."""
        self._codec = codec
        self._head = head
        self._codebook = codebook
        self._blocks = blocks
        self._present = present
        self._older = older

    def __len__(self) -> int:
        return 2 + len(self._blocks) + len(self._present)

    def __iter__(self) -> Iterator[bytes]:
        entry = self._codec.entry
        yield entry(self._head)
        yield entry(self._codebook)
        for stored in self._blocks:
            yield entry(BlockEntry(stored.block, stored.refusals))
        present, older = self._present, self._older
        for key in sorted(present):
            yield entry(KeyEntry(key, (*older.get(key, ()), present[key])))


class Found:
    """What a snapshot holds, as far as it was read. Raises ``IntegrityError`` for what cannot have been written."""

    def __init__(self, genesis: Block, dimension: int) -> None:
        self.blocks: list[BlockEntry] = []
        self.hashes: list[bytes] = []
        self.keys: dict[bytes, tuple[Version, ...]] = {}
        self.codebook: CodebookEntry | None = None
        self.head: ChainHead | None = None
        self._genesis_hash = header_hash(genesis.header)
        self._dimension = dimension
        self._last_key = b""

    @staticmethod
    def read(codec: Codec, entries: Iterable[bytes], genesis: Block, dimension: int) -> "Found":
        """Read all entries."""
        found = Found(genesis, dimension)
        try:
            for raw in entries:
                found.add(codec.read_entry(raw))
        except PeerError as error:
            raise IntegrityError(f"an entry of the snapshot cannot be read: {error}") from error
        return found

    def add(self, entry: SnapshotEntry) -> None:
        """Take in the next entry."""
        if isinstance(entry, ChainHead):
            self._add_head(entry)
        elif self.head is None:
            raise IntegrityError("the snapshot of a chain begins with its head")
        elif isinstance(entry, CodebookEntry):
            if self.codebook is not None or self.blocks or self.keys:
                raise IntegrityError("the snapshot of a chain has one codebook, before blocks and keys")
            self.codebook = entry
        elif isinstance(entry, BlockEntry):
            self._add_block(entry)
        else:
            if not self._last_key < entry.key:
                raise IntegrityError("the keys of a snapshot ascend")
            self._last_key = entry.key
            self.keys[entry.key] = entry.versions

    def _add_head(self, head: ChainHead) -> None:
        if self.head is not None:
            raise IntegrityError("the snapshot of a chain has one head")
        if head.format != SNAPSHOT_FORMAT:
            raise IntegrityError(f"the snapshot of a chain has format {head.format}; {SNAPSHOT_FORMAT} is known")
        if head.genesis != self._genesis_hash:
            raise IntegrityError(
                "the snapshot is of a chain with another genesis: embedding_dimension is another one there"
            )
        self.head = head

    def _add_block(self, entry: BlockEntry) -> None:
        header = entry.block.header
        if self.keys:
            raise IntegrityError("the blocks of a snapshot come before its keys")
        wrong = why_header_invalid(header, dimension=self._dimension)
        if wrong is not None:
            raise IntegrityError(f"block {len(self.blocks) + 1} of the snapshot: {wrong}")
        if header.height != len(self.blocks) + 1 or header.prev_hash != self.tip:
            raise IntegrityError(f"block {len(self.blocks) + 1} of the snapshot does not follow the one before")
        self.blocks.append(entry)
        self.hashes.append(header_hash(header))

    @property
    def tip(self) -> bytes:
        """The hash of the last block."""
        return self.hashes[-1] if self.hashes else self._genesis_hash

    def check(self) -> tuple[ChainHead, CodebookEntry]:
        """Whether it is complete."""
        if self.head is None or self.codebook is None:
            raise IntegrityError("the snapshot of a chain has a head and a codebook")
        if self.head.keys != len(self.keys):
            raise IntegrityError("the snapshot has another number of keys than its head says")
        if not 0 <= self.head.floor <= len(self.blocks):
            raise IntegrityError("the floor of a store lies between 0 and the height of its chain")
        return self.head, self.codebook

    @property
    def correction(self) -> str:
        """What the head says wrongly of the blocks; empty when it is right."""
        assert self.head is not None, "a snapshot that was checked has a head"
        if (self.head.height, self.head.tip) == (len(self.blocks), self.tip):
            return ""
        return f"the snapshot said height {self.head.height}; its blocks reach {len(self.blocks)}, which is right"

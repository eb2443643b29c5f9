"""A block that is not decided: what it would make of the store, noted beside the store.

A draft stands on the ledger or on another draft, so a leader can propose several blocks before the first of them is
decided, and a follower can judge them before it acknowledges them. Reading goes through the notes of the draft and of
those below it to the ledger. Nothing that is not decided touches the ledger; merging a decided draft costs what it
changed.

**Who may commit.** Against the state that it meets, which is the chain, the drafts below, and the transactions before
it in the same block:

1. every key that it has read has the version that it saw;
2. every key that it writes has not been written since it began, unless all writes since then and its own are declared
   commutative and of one kind.

Whoever comes first wins, blind writes included. No likeness of vectors makes an exception.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final, TypeAlias

from msgspec import Struct

from bobbin.cluster.chain.block import Block, BlockHeader
from bobbin.cluster.chain.holdings import Held, Holds, result_of, vector_of
from bobbin.cluster.chain.versions import Version, Versions, held_by, written
from bobbin.cluster.conflicts.of_operations import change_of
from bobbin.cluster.content_tree import ContentTree, TreeDraft
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.operations import LENGTH, Operation, Put, Transaction, commutative_tag, sized, storage_key

Refusals: TypeAlias = tuple[tuple[int, int, str], ...]
"""Operations that the state refused: place of the transaction, place of the operation in it, and why."""
_OVERTAKEN: Final = "somebody else has written a key since this one began"
_FIELDS: Final = {
    holds: (2).to_bytes(4, "big") + sized(b"holds") + sized(bytes((holds,))) + sized(b"value") for holds in Holds
}
"""What stands between a key and its value: how many fields, what the first holds, and the name of the other."""


class ClashKind(Enum):
    """Why a transaction may not commit."""

    MALFORMED = "malformed"
    AHEAD = "ahead"
    """It began, or has read, at a height that is not here yet: this node is behind."""
    TOO_OLD = "too-old"
    """It began before the floor: nobody knows any more what was written since."""
    STALE_READ = "stale-read"
    OVERTAKEN = "overtaken"
    """Somebody else has written a key of it since it began."""
    NO_ROOM = "no-room"
    """The block is full; it may be in the next one."""
    MEANING = "meaning"
    """A vector would move to where the codebook knows nothing."""


class Clash(Struct, frozen=True):
    """What stands in the way of a transaction."""

    kind: ClashKind
    reason: str
    key: bytes = b""

    @property
    def is_final(self) -> bool:
        """Whether trying the same again is of no use."""
        return self.kind in {ClashKind.MALFORMED, ClashKind.TOO_OLD, ClashKind.MEANING}


class Draft:
    """What a block would make of the store."""

    __slots__ = (
        "changes",
        "clashes",
        "delta",
        "hash",
        "header",
        "is_merged",
        "on",
        "refusals",
        "signed_bytes",
        "transactions",
        "tree",
    )

    def __init__(
        self,
        *,
        header: BlockHeader,
        hash: bytes,
        signed_bytes: bytes,
        transactions: tuple[Transaction, ...],
        overlay: "Overlay",
        tree: TreeDraft,
        delta: Embedding,
        clashes: tuple[tuple[int, Clash], ...] = (),
    ) -> None:
        self.header = header
        """Without a signature until it is sealed. One that is there was made here or has been checked."""
        self.hash: Final = hash
        self.signed_bytes: Final = signed_bytes
        self.transactions: Final = transactions
        """Those taken in."""
        self.refusals: Final[Refusals] = tuple(overlay.refusals)
        self.clashes: Final = clashes
        """Those left out: place among what was given, and why."""
        self.changes: Final = overlay.changes
        self.tree: Final = tree
        self.delta: Final = delta
        self.on = overlay.below
        """The draft below; None for one that stands on the ledger."""
        self.is_merged = False

    @property
    def height(self) -> int:
        return self.header.height

    @property
    def block(self) -> Block:
        return Block(self.header, self.transactions)

    def settle(self) -> None:
        """The ledger has it now: let go of what was below."""
        self.is_merged = True
        self.on = None


class Overlay:
    """Changes of a block in the making."""

    def __init__(self, versions: Versions, below: Draft | None, height: int, *, at: int | None = None) -> None:
        self.changes: dict[bytes, Version] = {}
        self.refusals: list[tuple[int, int, str]] = []
        self.below = below
        self.height = height
        """Of that block. Nothing that it stands on is as new."""
        self._versions = versions
        self._at = at
        """The height whose store it stands on; None for the newest."""

    def newest(self, key: bytes) -> Version | None:
        """The version that the next transaction meets."""
        version = self.changes.get(key)
        return self.before(key) if version is None else version

    def before(self, key: bytes) -> Version | None:
        """The version before the block."""
        draft = self.below
        while draft is not None:
            version = draft.changes.get(key)
            if version is not None:
                return version
            draft = draft.on
        return self._versions.newest(key) if self._at is None else self._versions.at(key, self._at)

    def vector_before(self, key: bytes) -> Embedding | None:
        """The vector at a storage key before the block."""
        return _vector(self.before(key))

    def vector(self, key: bytes) -> Embedding | None:
        """The vector at a storage key as it is now."""
        return _vector(self.newest(key))

    def clash(self, transaction: Transaction) -> Clash | None:
        """The first of its keys that somebody else came to before."""
        operations, since = transaction.operations, transaction.since
        if len(operations) == 1 and not transaction.reads and type(operations[0]) is Put:
            # Most are so: who wrote the key last tells everything, as below.
            key = operations[0].key
            version = self.changes.get(key)
            if version is None and since < self.height - 1:  # else there is nothing below that is newer
                version = self.before(key)
            if version is None or version.height <= since or since < self._versions.floor:
                return None
            return Clash(ClashKind.OVERTAKEN, _OVERTAKEN, key)
        for read in transaction.reads:
            version = self.newest(read.key)
            if version is None:
                stands = read.version == 0
            elif version.holds is Holds.NOTHING:
                # One that came and went since was not absent all the time: whoever is refused once stays refused.
                stands = read.version == 0 and version.height <= since
            else:
                stands = read.version == version.height
            if not stands:
                return Clash(ClashKind.STALE_READ, "a key has changed since it was read", read.key)
        if since < self._versions.floor:
            # What was written since then may be forgotten. The ledger lets such a one pass only if it was promised, and
            # the locks of a promised part have kept its keys as they were.
            return None
        for key, tag in kinds_of_writes(operations).items():
            version = self.newest(key)
            if version is None or version.height <= since:
                continue
            if tag == 0 or version.by != tag or version.base > since:
                return Clash(ClashKind.OVERTAKEN, _OVERTAKEN, key)
        return None

    def do(self, place: int, transaction: Transaction) -> None:
        """Do the operations of a transaction, each or its refusal."""
        changes, height = self.changes, self.height
        for number, operation in enumerate(transaction.operations):
            if type(operation) is Put:
                # Whatever the key held: as ``result_of`` and ``written`` have it, without a look at what is there.
                changes[operation.key] = Version(height, Holds.BYTES, operation.data, 0, height)
                continue
            key = storage_key(operation)
            present = self.newest(key)
            held = held_by(present)
            result = result_of(operation, held)
            if isinstance(result, str):
                self.refusals.append((place, number, result))
            elif result is not None or held is not None:
                changes[key] = written(present, height, result, commutative_tag(operation))

    def drafted(self, tree: ContentTree) -> TreeDraft:
        """The tree with these changes."""
        below = self.below
        draft = tree.draft(None if below is None or below.is_merged else below.tree)
        if {version.holds for version in self.changes.values()} <= {Holds.BYTES}:  # as in most blocks
            draft.update_values(_FIELDS[Holds.BYTES], [(key, version.value) for key, version in self.changes.items()])
        else:
            draft.update(
                (key, None if version.holds is Holds.NOTHING else content(key, version.holds, version.value))
                for key, version in self.changes.items()
            )
        return draft


def kinds_of_writes(operations: Sequence[Operation]) -> dict[bytes, int]:
    """The storage keys of operations, each with the kind of commutative operation that all on it are, or 0."""
    kinds: dict[bytes, int] = {}
    for operation in operations:
        key = storage_key(operation)
        tag = commutative_tag(operation)
        kinds[key] = tag if kinds.get(key, tag) == tag else 0
    return kinds


def content(key: bytes, holds: Holds, value: bytes) -> bytes:
    """What the state root covers of a key: the key, how many fields, and these in order, all with their lengths."""
    pack = LENGTH.pack
    return b"".join((pack(len(key)), key, _FIELDS[holds], pack(len(value)), value))


def content_of(key: bytes, held: Held) -> bytes:
    """The same of what a key holds."""
    return content(key, held.holds, held.value)


def block_delta(
    transactions: Sequence[Transaction], before: Callable[[bytes], Embedding | None], dimension: int
) -> Embedding:
    """The change that the operations of a block make, as its header has it."""
    operations = [operation for one in transactions for operation in one.operations]
    return change_of(operations, before, dimension)


def _vector(version: Version | None) -> Embedding | None:
    if version is None or version.holds is not Holds.VECTOR:
        return None
    return vector_of(version.value)

"""Ledgers to try things on: known signers, transactions by number, and blocks of them."""

from itertools import count

from msgspec import DecodeError, msgpack
from msgspec.structs import replace

from bobbin.cluster.chain.block import Block, BlockHeader
from bobbin.cluster.chain.draft import Draft
from bobbin.cluster.chain.encoding import header_bytes
from bobbin.cluster.chain.ledger import Appended, Ledger
from bobbin.cluster.chain.signing import signature_of
from bobbin.cluster.chain.snapshot import SnapshotEntry
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.identity import Identity
from bobbin.cluster.operations import Operation, ReadVersion, Transaction
from bobbin.cluster.settings import ChainConfig
from bobbin.errors import PeerError

DIMENSION = 8
ALICE = Identity(b"a" * 32)
BOB = Identity(b"b" * 32)
_NUMBERS = count(1)


class PlainCodec:
    """Snapshot entries in MessagePack, as they come."""

    def __init__(self) -> None:
        self._encoder = msgpack.Encoder()
        self._decoder: msgpack.Decoder[SnapshotEntry] = msgpack.Decoder(SnapshotEntry)

    def entry(self, entry: SnapshotEntry) -> bytes:
        return self._encoder.encode(entry)

    def read_entry(self, raw: bytes) -> SnapshotEntry:
        try:
            return self._decoder.decode(raw)
        except DecodeError as error:
            raise PeerError("malformed", str(error)) from error


def new_ledger(*, dimension: int = DIMENSION, max_transactions: int = 1_000) -> Ledger:
    return Ledger(config=ChainConfig(embedding_dimension=dimension, max_transactions=max_transactions))


def transaction(*operations: Operation, since: int = 0, reads: dict[bytes, int] | None = None) -> Transaction:
    """One with an id that no other has."""
    seen = tuple(ReadVersion(key, version) for key, version in sorted((reads or {}).items()))
    return Transaction(next(_NUMBERS).to_bytes(16, "big"), operations, seen, since)


def drafted(ledger: Ledger, *transactions: Transaction, on: Draft | None = None, at_ms: int = 1_000) -> Draft:
    """A draft of all of them, signed by Alice."""
    draft = ledger.draft(transactions, proposer=ALICE.node, timestamp_ms=at_ms, on=on)
    assert draft.clashes == ()
    ledger.seal(draft, ALICE)
    return draft


def made(ledger: Ledger, *transactions: Transaction, on: Draft | None = None, at_ms: int = 1_000) -> Block:
    """A block of all of them, signed by Alice and on no chain yet."""
    return drafted(ledger, *transactions, on=on, at_ms=at_ms).block


def put_on(ledger: Ledger, *operations: Operation, at_ms: int = 1_000) -> Appended:
    """Commit a transaction that has just begun."""
    appended = ledger.append(made(ledger, transaction(*operations, since=ledger.height), at_ms=at_ms))
    assert isinstance(appended, Appended)
    return appended


def unit(position: int, value: float = 1.0, dimension: int = DIMENSION) -> Embedding:
    return Embedding(dimension, (position,), (value,))


def forged(block: Block, *, signer: Identity = ALICE, **changes: object) -> Block:
    """A block with another header or other transactions, signed anew."""
    transactions = changes.pop("transactions", block.transactions)
    header = replace(block.header, **changes)
    return replace(block, header=signed(header, signer), transactions=transactions)


def signed(header: BlockHeader, signer: Identity = ALICE) -> BlockHeader:
    return replace(header, signature=signature_of(signer, header_bytes(header)))


def fingerprint(ledger: Ledger) -> tuple[object, ...]:
    """All of a ledger, to see that nothing was changed."""
    return ledger.root, ledger.height, ledger.tip, ledger.floor, list(ledger.snapshot(PlainCodec()))

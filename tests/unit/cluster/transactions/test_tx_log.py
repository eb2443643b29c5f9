"""Each entry says all that a new leader has to know (CL-092)."""

from typing import get_args

import msgspec
import pytest

from bobbin.cluster.geometry import Embedding
from bobbin.cluster.operations import CompareAndSwap, Put, ReadVersion, Transaction
from bobbin.cluster.transactions.messages import Conflict, No, Yes
from bobbin.cluster.transactions.phases import TxPhase
from bobbin.cluster.transactions.tx_log import (
    AbortIntent,
    AllLocksReleased,
    LockRelease,
    PhaseChange,
    TxBegin,
    TxComplete,
    TxWalEntry,
    Voted,
)
from tests.unit.cluster.transactions.driven import ONE, THREE, TWO, X, Y

PART = Transaction(
    X,
    (Put(b"key", b"value"), CompareAndSwap(b"other", b"", b"new")),
    (ReadVersion(b"key", 4),),
    since=9,
    born_ms=5,
    priority=2,
)
ENTRIES: list[TxWalEntry] = [
    TxBegin(X, ((ONE, PART), (THREE, PART)), 5_000, 1_700_000_000_000),
    Voted(X, ONE, Yes(2**63, Embedding.dense((0.5, 0.0, -1.0)), (b"key", b"other"))),
    Voted(X, ONE, No("a key is held", is_final=True)),
    Voted(X, ONE, Conflict(0.75, Y, "a version has moved")),
    Voted(X, ONE, Conflict(1.0, None)),
    *(PhaseChange(X, was, is_now) for was in TxPhase for is_now in TxPhase),
    TxComplete(X, commits=True),
    TxComplete(X, commits=False),
    LockRelease(X, TWO),
    AllLocksReleased(X),
    AbortIntent(X, "no votes", (ONE, THREE)),
]


def test_the_kinds_are_those_of_the_seed() -> None:
    assert {kind.__name__ for kind in get_args(TxWalEntry)} == {
        "TxBegin",
        "Voted",
        "PhaseChange",
        "TxComplete",
        "LockRelease",
        "AllLocksReleased",
        "AbortIntent",
    }
    assert {type(entry) for entry in ENTRIES} == set(get_args(TxWalEntry))


@pytest.mark.parametrize("entry", ENTRIES)
def test_every_entry_comes_back_as_it_was_written(entry: TxWalEntry) -> None:
    raw = msgspec.msgpack.encode(entry)
    again = msgspec.msgpack.decode(raw, type=TxWalEntry)
    assert again == entry
    assert type(again) is type(entry)


def test_the_fields_are_there() -> None:
    fields = {kind.__name__: kind.__struct_fields__ for kind in get_args(TxWalEntry)}
    assert fields == {
        "TxBegin": ("tx", "parts", "timeout_ms", "at_ms"),
        "Voted": ("tx", "shard", "vote"),
        "PhaseChange": ("tx", "was", "is_now"),
        "TxComplete": ("tx", "commits"),
        "LockRelease": ("tx", "shard"),
        "AllLocksReleased": ("tx",),
        "AbortIntent": ("tx", "reason", "shards"),
    }
    assert Yes.__struct_fields__ == ("handle", "delta", "keys")

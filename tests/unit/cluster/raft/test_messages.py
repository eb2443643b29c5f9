"""The fields of every message (CL-025)."""

from typing import get_args

import msgspec
import pytest

from bobbin.cluster.geometry import Embedding
from bobbin.cluster.names import Index, NodeId, Term
from bobbin.cluster.raft.entries import Configuration
from bobbin.cluster.raft.messages import (
    AppendAnswer,
    AppendEntries,
    PreVote,
    PreVoteAnswer,
    RaftMessage,
    RequestVote,
    SnapshotChunk,
    SnapshotOffer,
    SnapshotRequest,
    TimeoutNow,
    VoteAnswer,
)
from tests.support.raft_cluster import entries, entry, metadata_of, names

A = NodeId("a")
PLACE = Embedding.dense((0.5, 0.0, -1.0))
METADATA = metadata_of(b"state", index=4, term=2, configuration=Configuration(names("abc")))
ASKED = {"term": Term(3), "candidate": A, "last_index": Index(9), "last_term": Term(2), "request": 5}
ANSWERED = {"term": Term(3), "granted": True, "voter": A, "request": 5}

MESSAGES: list[RaftMessage] = [
    PreVote(**ASKED, embedding=PLACE),  # type: ignore[arg-type]
    RequestVote(**ASKED, embedding=PLACE, is_transfer=True),  # type: ignore[arg-type]
    PreVoteAnswer(**ANSWERED),  # type: ignore[arg-type]
    VoteAnswer(**ANSWERED),  # type: ignore[arg-type]
    TimeoutNow(term=Term(3), leader=A),
    AppendEntries(
        term=Term(3),
        leader=A,
        previous_index=Index(2),
        previous_term=Term(1),
        entries=(*entries(1, 3, first=3), entry(3, 5, None), entry(3, 6, Configuration(names("ab"), names("c")))),
        commit=Index(2),
        round=8,
    ),
    AppendAnswer(term=Term(3), success=True, follower=A, match_index=Index(4), round=8, used_fast_path=True),
    SnapshotOffer(term=Term(3), leader=A, metadata=METADATA, round=8),
    SnapshotRequest(term=Term(3), requester=A, sha256=METADATA.sha256, offset=5, size=6, round=8),
    SnapshotChunk(
        term=Term(3),
        leader=A,
        sha256=METADATA.sha256,
        last_index=Index(4),
        last_term=Term(2),
        offset=0,
        total=5,
        data=b"state",
        is_last=True,
    ),
]

FIELDS = {
    PreVote: {"term", "candidate", "last_index", "last_term", "request", "embedding"},
    RequestVote: {"term", "candidate", "last_index", "last_term", "request", "is_transfer", "embedding"},
    PreVoteAnswer: {"term", "granted", "voter", "request"},
    VoteAnswer: {"term", "granted", "voter", "request"},
    TimeoutNow: {"term", "leader"},
    AppendEntries: {"term", "leader", "previous_index", "previous_term", "entries", "commit", "round"},
    AppendAnswer: {"term", "success", "follower", "match_index", "round", "used_fast_path"},
    SnapshotOffer: {"term", "leader", "metadata", "round"},
    SnapshotRequest: {"term", "requester", "sha256", "offset", "size", "round"},
    SnapshotChunk: {
        "term",
        "leader",
        "sha256",
        "last_index",
        "last_term",
        "offset",
        "total",
        "data",
        "is_last",
    },
}


def test_every_kind_of_message_is_here() -> None:
    assert set(FIELDS) == set(get_args(RaftMessage)) == {type(message) for message in MESSAGES}


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_has_its_fields_and_keeps_them_over_a_round_trip(message: RaftMessage) -> None:
    assert set(message.__struct_fields__) == FIELDS[type(message)]
    raw = msgspec.msgpack.encode(message)
    assert msgspec.msgpack.decode(raw, type=type(message)) == message

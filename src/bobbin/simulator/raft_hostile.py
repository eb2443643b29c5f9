"""A member that lies, as far as lies of a member can be borne.

Raft bears crashes, not treason: a member that votes twice, or claims entries that it has lost, can break any promise,
and nobody could tell. What can be told, or does no harm, is what this one does: it claims what cannot be (a match
beyond the log, an answer to a message not yet sent), plays the leader without being one, speaks in terms far ahead or
long over, spoils the bytes of snapshots, says that it is nowhere near or very near, and repeats itself. Where somebody
judges entries it forges one now and then while it leads.
"""

from collections.abc import Iterable
from random import Random
from typing import Final

from msgspec import structs

from bobbin.cluster.geometry import Embedding
from bobbin.cluster.names import Index, NodeId, Term
from bobbin.cluster.raft.messages import (
    AppendAnswer,
    AppendEntries,
    PreVote,
    PreVoteAnswer,
    RaftMessage,
    RequestVote,
    SnapshotChunk,
    SnapshotRequest,
    TimeoutNow,
    VoteAnswer,
)
from bobbin.simulator.raft_judge import FORGED

FAR: Final = 1_000
KEPT: Final = 30


class Liar:
    """Twists what one node says, and says things of its own."""

    def __init__(self, node: NodeId, random: Random, *, is_judged: bool = False) -> None:
        """``is_judged``: the others can tell an entry that it has forged."""
        self.node: Final = node
        self.is_judged: Final = is_judged
        self.rate = 0.3
        self._random: Final = random
        self._said: Final[list[tuple[NodeId, RaftMessage]]] = []

    def twist(self, to: NodeId, message: RaftMessage) -> tuple[str, RaftMessage]:
        """What is sent instead, and what kind of lie it is; none at all is a kind too."""
        self._said.append((to, message))
        del self._said[:-KEPT]
        if self._random.random() >= self.rate:
            return "", message
        match message:
            case AppendAnswer(success=True):
                if self._random.random() < 0.5:
                    return "match beyond the log", structs.replace(message, match_index=message.match_index + FAR)
                return "answer to what was not sent", structs.replace(message, round=message.round + FAR)
            case AppendAnswer():
                return "nonsense of a refusal", structs.replace(
                    message, match_index=Index(self._random.choice((0, FAR)))
                )
            case PreVote() | RequestVote():
                return "another embedding", structs.replace(message, embedding=self._embedding())
            case PreVoteAnswer(granted=True):
                return "refusal with a term ahead", structs.replace(
                    message, granted=False, term=Term(message.term + self._random.randint(1, 5))
                )
            case VoteAnswer(granted=True):
                return "vote kept back", structs.replace(message, granted=False)
            case SnapshotChunk():
                return "spoilt chunk", self._spoil(message)
            case SnapshotRequest():
                return "request of nonsense", structs.replace(
                    message, offset=message.offset + self._random.randint(1, FAR)
                )
            case AppendEntries() if self.is_judged:
                return self._forge(message)
            case _:
                return "", message

    def act(
        self, term: Term, leader: NodeId | None, others: Iterable[NodeId]
    ) -> tuple[str, list[tuple[NodeId, RaftMessage]]]:
        """Something that nobody asked for."""
        random, targets = self._random, tuple(others)
        kind = random.choice(("play the leader", "hand over", "long over", "far ahead", "again"))
        match kind:
            case "play the leader" if leader is not None and leader != self.node:
                heartbeat = AppendEntries(
                    term=term,
                    leader=self.node,
                    previous_index=Index(0),
                    previous_term=Term(0),
                    entries=(),
                    commit=Index(0),
                    round=random.randrange(FAR),
                )
                return kind, [(to, heartbeat) for to in targets if to != leader]
            case "hand over":
                return kind, [(random.choice(targets), TimeoutNow(term=term, leader=self.node))]
            case "long over":
                answer = AppendAnswer(
                    term=Term(max(0, term - 1)), success=True, follower=self.node, match_index=Index(FAR), round=FAR
                )
                return kind, [(to, answer) for to in targets]
            case "far ahead":
                ask = RequestVote(
                    term=Term(term + random.randint(2, 20)),
                    candidate=self.node,
                    last_index=Index(0),
                    last_term=Term(0),
                    request=random.randrange(FAR),
                    is_transfer=random.random() < 0.5,
                    embedding=self._embedding(),
                )
                return kind, [(to, ask) for to in targets]
            case _:
                return "again", random.sample(self._said, min(len(self._said), 5))

    def _embedding(self) -> Embedding:
        random = self._random
        if random.random() < 0.3:
            return Embedding(1, (), ())
        return Embedding.dense(tuple(random.choice((-1e6, 1e-9, 1.0)) for _ in range(random.randint(1, 6))))

    def _forge(self, message: AppendEntries) -> tuple[str, RaftMessage]:
        """Another command in the place of one of its own term. Those of earlier terms are taken without a judgement."""
        entries = message.entries
        own = [at for at, one in enumerate(entries) if one.term == message.term and type(one.payload) is bytes]
        if not own:
            return "", message
        at = self._random.choice(own)
        forged = structs.replace(entries[at], payload=FORGED + self._random.randbytes(4))
        return "forged entry", structs.replace(message, entries=(*entries[:at], forged, *entries[at + 1 :]))

    def _spoil(self, chunk: SnapshotChunk) -> SnapshotChunk:
        random = self._random
        draw = random.random()
        if draw < 0.5 and chunk.data:
            data = bytearray(chunk.data)
            data[random.randrange(len(data))] ^= 1
            return structs.replace(chunk, data=bytes(data))
        if draw < 0.8:
            return structs.replace(chunk, offset=chunk.offset + 1)
        return structs.replace(chunk, is_last=not chunk.is_last)

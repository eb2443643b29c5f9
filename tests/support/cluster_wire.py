"""What the tests of the cluster's wire share: nodes with keys, one message of every type, and two ends of a link."""

from collections.abc import Callable

from bobbin.cluster.geometry import Embedding
from bobbin.cluster.identity import Identity
from bobbin.cluster.membership.messages import (
    Alive,
    BidirectionalAck,
    BidirectionalProbe,
    GossipNodeState,
    Health,
    Ping,
    PingAck,
    PingReq,
    Pong,
    Suspect,
    Sync,
)
from bobbin.cluster.names import Index, NodeId, Term
from bobbin.cluster.raft.entries import Configuration, Entry, SnapshotMetadata
from bobbin.cluster.raft.messages import (
    AppendAnswer,
    AppendEntries,
    PreVote,
    PreVoteAnswer,
    RequestVote,
    SnapshotChunk,
    SnapshotOffer,
    SnapshotRequest,
    TimeoutNow,
    VoteAnswer,
)
from bobbin.cluster.settings import GossipConfig, MessageValidationConfig
from bobbin.wire.cluster.codec import Hello, Message
from bobbin.wire.cluster.envelope import Envelope, Sealer, pack, signed_bytes
from bobbin.wire.cluster.faults import MessageRefused, Refusal
from bobbin.wire.cluster.gateway import Gateway
from bobbin.wire.cluster.registry import Registry
from bobbin.wire.cluster.replay import SequenceTracker
from bobbin.wire.cluster.validation import CheckCommand, OwnTerm

ALICE = Identity(b"alice".ljust(32, b"\0"))
BOB = Identity(b"bob".ljust(32, b"\0"))
CAROL = Identity(b"carol".ljust(32, b"\0"))
MALLORY = Identity(b"mallory".ljust(32, b"\0"))
CLUSTER = bytes(range(16))
NOW_MS = 1_700_000_000_000
ALICE_BOOT = 5
BOB_BOOT = 9

CONFIGURATION = Configuration(tuple(sorted((ALICE.node, BOB.node))), (CAROL.node,))
METADATA = SnapshotMetadata(
    last_index=Index(40),
    last_term=Term(2),
    sha256=bytes(range(32)),
    size=1_000,
    configuration=CONFIGURATION,
    created_s=1_700_000_000,
    epoch=3,
    codebook=b"codes",
)


def entry(index: int, term: int = 3, payload: bytes | Configuration | None = b"x") -> Entry:
    """One entry of a log."""
    return Entry(Term(term), Index(index), payload)


def append(
    *entries: Entry, term: int = 3, previous: tuple[int, int] = (10, 2), leader: NodeId = ALICE.node
) -> AppendEntries:
    """Entries of a leader; without any, a heartbeat."""
    return AppendEntries(
        term=Term(term),
        leader=leader,
        previous_index=Index(previous[0]),
        previous_term=Term(previous[1]),
        entries=entries,
        commit=Index(9),
        round=4,
    )


def request_vote(embedding: Embedding | None = None, *, term: int = 3) -> RequestVote:
    """A request of Alice for a vote."""
    return RequestVote(
        term=Term(term),
        candidate=ALICE.node,
        last_index=Index(10),
        last_term=Term(min(term, 2)),
        request=7,
        is_transfer=True,
        embedding=embedding,
    )


def messages(sender: NodeId = ALICE.node, receiver: NodeId = BOB.node) -> tuple[Message, ...]:
    """One message of every type, from one node to another, with every field set."""
    term, index = Term(3), Index(10)
    return (
        Hello(node=sender),
        PreVote(term=term, candidate=sender, last_index=index, last_term=Term(2), request=7, embedding=ALICE.embedding),
        PreVoteAnswer(term=term, granted=True, voter=sender, request=7),
        RequestVote(
            term=term,
            candidate=sender,
            last_index=index,
            last_term=Term(2),
            request=8,
            is_transfer=True,
            embedding=Embedding(4, (1, 3), (0.5, -2.0)),
        ),
        VoteAnswer(term=term, granted=False, voter=sender, request=8),
        TimeoutNow(term=term, leader=sender),
        append(entry(11, 2), entry(12, payload=None), entry(13, payload=CONFIGURATION), leader=sender),
        AppendAnswer(term=term, success=True, follower=sender, match_index=index, round=4, used_fast_path=True),
        SnapshotOffer(term=term, leader=sender, metadata=METADATA, round=5),
        SnapshotRequest(term=term, requester=sender, sha256=METADATA.sha256, offset=10, size=100, round=5),
        SnapshotChunk(
            term=term,
            leader=sender,
            sha256=METADATA.sha256,
            last_index=Index(40),
            last_term=Term(2),
            offset=990,
            total=1_000,
            data=bytes(10),
            is_last=True,
        ),
        Sync(
            sender=sender,
            states=tuple(GossipNodeState(CAROL.node, health, 6, 2, receiver) for health in Health),
            sender_time=11,
        ),
        Suspect(reporter=sender, suspect=CAROL.node, incarnation=3),
        Alive(node_id=sender, incarnation=4),
        Ping(origin=sender, sequence=12),
        Pong(responder=sender, sequence=12),
        PingReq(origin=sender, target=CAROL.node, sequence=13),
        PingAck(origin=receiver, target=CAROL.node, sequence=13, success=True),
        BidirectionalProbe(origin=sender, id=14, time_ms=NOW_MS),
        BidirectionalAck(origin=receiver, id=14, responder=sender),
    )


def sealer(identity: Identity = ALICE, *, boot_id: int = ALICE_BOOT, cluster: bytes = CLUSTER) -> Sealer:
    """A node that knows in which life Bob is."""
    sealer = Sealer(identity, cluster=cluster, boot_id=boot_id)
    sealer.learn(BOB.node, BOB_BOOT)
    return sealer


def registry(*identities: Identity) -> Registry:
    """A registry of these keys; of Alice, Bob and Carol when none is named."""
    registry = Registry()
    for identity in identities or (ALICE, BOB, CAROL):
        registry.register(identity.public)
    return registry


def gateway(
    *,
    cluster: bytes = CLUSTER,
    known: Registry | None = None,
    tracker: SequenceTracker | None = None,
    config: MessageValidationConfig | None = None,
    gossip: GossipConfig | None = None,
    boot_id: int = BOB_BOOT,
    check_command: CheckCommand | None = None,
    own_term: OwnTerm | None = None,
) -> Gateway:
    """The door of Bob."""
    return Gateway(
        cluster,
        BOB.node,
        registry() if known is None else known,
        SequenceTracker() if tracker is None else tracker,
        MessageValidationConfig() if config is None else config,
        boot_id=boot_id,
        gossip=gossip,
        check_command=check_command,
        own_term=own_term,
    )


def envelope(
    number: int,
    payload: bytes,
    *,
    identity: Identity = ALICE,
    sender: NodeId | None = None,
    sequence: int = 0,
    boot_id: int = ALICE_BOOT,
    time_ms: int = NOW_MS,
    destination_boot: int = BOB_BOOT,
) -> Envelope:
    """An envelope for Bob that is properly signed, whatever is in it."""
    bare = Envelope(
        sender=identity.node if sender is None else sender,
        destination=BOB.node,
        destination_boot=destination_boot,
        cluster=CLUSTER,
        type=number,
        boot_id=boot_id,
        sequence=sequence,
        time_ms=time_ms,
        payload=payload,
    )
    return altered(bare, public=identity.public, signature=identity.sign(signed_bytes(bare)))


def altered(envelope: Envelope, **changes: object) -> Envelope:
    """The same envelope with other fields, and the signature as it was."""
    fields: dict[str, object] = {name: getattr(envelope, name) for name in Envelope.__struct_fields__}
    return Envelope(**fields | changes)  # type: ignore[arg-type]


def unsigned(envelope: Envelope) -> bytes:
    """The bytes of an envelope without key and signature."""
    return pack(altered(envelope, public=b"", signature=b""))


def refusal_of(action: Callable[..., object], *arguments: object) -> Refusal | None:
    """Under which code something is refused; None where it is not."""
    try:
        action(*arguments)
    except MessageRefused as refused:
        return refused.refusal
    return None

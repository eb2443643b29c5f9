"""One of each: commands of a shard's log, their outcomes, entries of its snapshots, and messages between shards."""

from bobbin.cluster.chain.block import Block, BlockHeader
from bobbin.cluster.chain.holdings import Holds
from bobbin.cluster.chain.snapshot import BlockEntry, ChainHead, CodebookEntry, KeyEntry
from bobbin.cluster.chain.versions import Version
from bobbin.cluster.geometry import Embedding
from bobbin.cluster.names import NodeId
from bobbin.cluster.operations import (
    Average,
    CompareAndSwap,
    CounterAdd,
    Delete,
    EdgeCreate,
    Embed,
    NodeCreate,
    NodeDelete,
    Put,
    ReadVersion,
    SetAdd,
    TableDelete,
    TableInsert,
    TableUpdate,
    Transaction,
    Update,
    VectorAdd,
)
from bobbin.cluster.shard.commands import (
    Append,
    Command,
    Drop,
    Kind,
    Log,
    Outcome,
    Prepare,
    ReplaceCodebook,
    Resolve,
)
from bobbin.cluster.shard.machine import ShardHead, SnapshotEntry
from bobbin.cluster.transactions.messages import (
    Conflict,
    No,
    Recheck,
    Rechecked,
    ShardMessage,
    TxAbortMsg,
    TxAckMsg,
    TxCommitMsg,
    TxDecisionMsg,
    TxPrepareMsg,
    TxPrepareResponse,
    TxQueryMsg,
    VictimMsg,
    WaitEdge,
    WaitReport,
    Yes,
)
from bobbin.cluster.transactions.names import ShardId, TxId
from bobbin.cluster.transactions.participant import Heuristic, PartEnded, ParticipantHead, Promise
from bobbin.cluster.transactions.phases import TxPhase
from bobbin.cluster.transactions.recovery import TxSaved
from bobbin.cluster.transactions.tx_log import (
    AbortIntent,
    AllLocksReleased,
    LockRelease,
    PhaseChange,
    TxBegin,
    TxComplete,
    Voted,
)

TX, OTHER = TxId(bytes(range(16))), TxId(bytes(range(16, 32)))
VECTOR = Embedding(8, (1, 5), (0.5, -2.0))
HERE, THERE = ShardId(0), ShardId(3)
YES = Yes(7, VECTOR, (b"a", b"b"))
PART = Transaction(
    TX,
    (
        Put(b"a", b"1"),
        Delete(b"b"),
        Update(b"c", b"2"),
        CompareAndSwap(b"d", b"", b"3"),
        Embed(b"e", VECTOR),
        NodeCreate(b"f", "node"),
        NodeDelete(b"g"),
        EdgeCreate(b"h", b"i", "edge"),
        TableInsert(b"j", (b"x", b"y")),
        TableUpdate(b"j", b"row", (b"z",)),
        TableDelete(b"j", b"row"),
        CounterAdd(b"k", -4),
        SetAdd(b"l", b"m"),
        VectorAdd(b"n", VECTOR),
        Average(b"o", VECTOR),
    ),
    (ReadVersion(b"p", 0), ReadVersion(b"q", 9)),
    since=10,
    born_ms=11,
    priority=-1,
)
PREPARE = TxPrepareMsg(TX, HERE, THERE, PART, VECTOR, 5_000, (HERE, THERE))
BLOCK = Block(
    BlockHeader(
        11, bytes(32), bytes(32), bytes(32), bytes(32), VECTOR, (3,), 1, 1_700_000_000_000, NodeId("node"), bytes(96)
    ),
    (PART,),
)
COMMANDS: dict[str, Command] = {
    "append": Append(BLOCK),
    "prepare": Prepare(PREPARE),
    "drop": Drop(TX),
    "log": Log(
        (
            TxBegin(TX, ((HERE, PART),), 5_000, 12),
            Voted(TX, THERE, YES),
            Voted(TX, THERE, No("no", is_final=True)),
            Voted(TX, THERE, Conflict(0.5, OTHER, "conflict")),
            PhaseChange(TX, TxPhase.PREPARING, TxPhase.PREPARED),
            LockRelease(TX, THERE),
            TxComplete(TX, commits=True),
            AllLocksReleased(TX),
            AbortIntent(TX, "why", (HERE,)),
        )
    ),
    "proof": Log(()),
    "codebook": ReplaceCodebook(2, b"book"),
    "resolve": Resolve(TX, commits=True, operator="ann", reason="it burns"),
}
OUTCOMES: dict[str, Outcome] = {
    "appended": Outcome(Kind.APPENDED, 11, refusals=((0, 3, "another value"),)),
    "voted": Outcome(Kind.VOTED, 11, vote=YES),
    "refused": Outcome(Kind.STALE_BLOCK, 11, "behind"),
}
ENTRIES: dict[str, SnapshotEntry] = {
    "shard": ShardHead(1, THERE),
    "chain": ChainHead(1, bytes(32), 11, bytes(32), 2, 1),
    "block": BlockEntry(BLOCK, ((0, 3, "another value"),)),
    "key": KeyEntry(b"a", (Version(3, Holds.NOTHING, b""), Version(11, Holds.NUMBER, b"4", 12, 3))),
    "codebook": CodebookEntry(1, b"book"),
    "participant": ParticipantHead(1, 8, 2, 3, 1, 1),
    "promise": Promise(PREPARE, YES, Heuristic(commits=True, operator="ann", reason="it burns")),
    "ended": PartEnded(OTHER, commits=False, number=1, since=4),
    "saved": TxSaved(3, ((OTHER, True),), (TxBegin(TX, ((HERE, PART),), 5_000, 12),)),
}
MESSAGES: dict[str, ShardMessage] = {
    "prepare": PREPARE,
    "yes": TxPrepareResponse(TX, THERE, YES),
    "no": TxPrepareResponse(TX, THERE, No("no", is_final=True)),
    "conflict": TxPrepareResponse(TX, THERE, Conflict(-0.5, OTHER, "first")),
    "commit": TxCommitMsg(TX, HERE, THERE),
    "abort": TxAbortMsg(TX, HERE, THERE, "why"),
    "ack": TxAckMsg(TX, THERE, success=False, error="wrong"),
    "query": TxQueryMsg(TX, HERE, THERE, HERE),
    "decision": TxDecisionMsg(TX, HERE, None),
    "report": WaitReport(THERE, 4, 2, (WaitEdge(TX, OTHER, 100, 11, -1, 3, HERE),)),
    "recheck": Recheck(5, THERE, ((TX, OTHER),)),
    "rechecked": Rechecked(5, THERE, ((TX, OTHER),)),
    "victim": VictimMsg(TX, HERE, "deadlock"),
}

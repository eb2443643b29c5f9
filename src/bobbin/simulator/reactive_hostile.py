"""An observer that wants harm: it says what it must not, out of order, for others, and too often.

Whatever it says, the graph must change by nothing but its permitted writes; the world sees to that.
"""

from random import Random
from typing import Final

from msgspec import structs

from bobbin.reactive.handshake import Agreed, Capabilities, Codec, agree
from bobbin.reactive.messages import (
    CellSet,
    Delta,
    EdgeAdd,
    Message,
    Node,
    NodeAdd,
    NodeId,
    NodeRemove,
    NodeState,
    OutboxAck,
    PeerId,
    ResyncRequest,
    SlotValue,
    Snapshot,
)
from bobbin.reactive.outbox import ACKED_WRITES
from bobbin.reactive.permissions import OpKind, RemoteOp
from bobbin.simulator.reactive_channel import Parcel
from bobbin.simulator.reactive_ends import SourceEnd
from bobbin.simulator.reactive_model import TAG, as_bytes
from bobbin.wire.lazily import handshake, remote_op
from bobbin.wire.lazily.conversation import Conversation
from bobbin.wire.lazily.forms import Form

_VICES: Final = (
    "another's name",
    "another protocol",
    "a second handshake",
    "noise",
    "a snapshot",
    "more than writes",
    "writes",
    "writes out of order",
    "wishes",
    "requests without end",
    "acknowledgements",
    "nothing",
)


class HostileObserver:
    """One peer, authenticated like any other, and with grants like any other."""

    def __init__(self, peer: PeerId, random: Random, *, session: str) -> None:
        self.peer: Final = peer
        self._random: Final = random
        self._session: Final = session
        self._source: SourceEnd | None = None
        self._conversation: Conversation | None = None
        self._own = Capabilities(peer=peer, session=session)
        self._written = 0
        self._values = 10**6

    @property
    def is_linked(self) -> bool:
        return self._source is not None and not self._source.is_over

    def connect(self, source: SourceEnd, form: Form) -> None:
        codec = Codec.MESSAGE_PACK if form is Form.MESSAGE_PACK else Codec.JSON
        self._own = Capabilities(peer=self.peer, session=self._session, codec=codec, features=(ACKED_WRITES,))
        self._source = source
        self._written = 0
        self._conversation = Conversation(self._agreed(), form=form)
        source.channel.attach(1, self)
        draw = self._random.random()
        if draw < 0.85:
            claimed = PeerId(1) if draw < 0.15 else self.peer
            self._put("greeting", handshake.encode(structs.replace(self._own, peer=claimed)))

    def leave(self) -> None:
        if self._source is not None:
            self._source.channel.break_off()
        self._source = None

    def arrive(self, parcel: Parcel) -> None:
        """It does not listen."""

    def lose(self) -> None:
        self._source = None

    def act(self, nodes: list[NodeId]) -> str:
        """Do something that it should not; returns what."""
        vice = self._random.choice(_VICES)
        node = self._random.choice(nodes) if nodes else NodeId(0)
        match vice:
            case "another's name":
                self._put("greeting", handshake.encode(structs.replace(self._own, peer=PeerId(1))))
            case "another protocol":
                self._put("greeting", handshake.encode(structs.replace(self._own, major_version=2)))
            case "a second handshake":
                self._put("greeting", handshake.encode(self._own))
            case "noise":
                self._put(self._random.choice(("greeting", "frame", "wish")), self._random.randbytes(40))
            case "wishes":
                for kind in OpKind:
                    self._put("wish", remote_op.encode(RemoteOp(kind, node)))
            case "requests without end":
                for _ in range(10):
                    self._say(ResyncRequest(self._random.randrange(10)))
            case "writes out of order":
                self._say(Delta(self._written + 5, self._written + 6, (self._write(node),)))
            case "writes":
                for _ in range(2):
                    self._say(Delta(self._written, self._written + 1, (self._write(node), self._write(node))))
                self._written += 1
            case _:
                self._say(self._message(vice, node))
        return vice

    def _message(self, vice: str, node: NodeId) -> Message:
        if vice == "a snapshot":
            return Snapshot(10**9, (Node(node, TAG, NodeState.RESOLVED, as_bytes(1)),), (), (node,))
        if vice == "more than writes":
            operations = (
                NodeRemove(node),
                NodeAdd(NodeId(node + 1), TAG, as_bytes(1)),
                SlotValue(node, as_bytes(1)),
                EdgeAdd(node, node),
            )
            self._written += 1
            return Delta(self._written - 1, self._written, operations)
        return OutboxAck(self._random.choice((0, 2**64 - 1))) if vice == "acknowledgements" else Delta(0, 0, ())

    def _write(self, node: NodeId) -> CellSet:
        self._values += 1
        return CellSet(node, as_bytes(self._values))

    def _say(self, message: Message) -> None:
        assert self._conversation is not None
        for raw in self._conversation.write(message):
            self._put("frame", raw)

    def _put(self, kind: str, raw: bytes) -> None:
        if self._source is not None:
            self._source.channel.send(1, Parcel(kind, raw))

    def _agreed(self) -> Agreed:
        return agree(self._own, self._own)

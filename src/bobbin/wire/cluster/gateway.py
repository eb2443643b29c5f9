"""The one door through which messages of other nodes come in.

In this order, and the first refusal ends it:

1. the layout of the envelope, its cluster and its destination;
2. who says it: the form of the sender's id, a registered key, the link it came over, the signature;
3. whether it was meant for this life of this node, its time, and whether it has come before;
4. the payload, read under the limit of its type;
5. every field, nested ones included (``validation``).

Until the signature is proven the payload is not looked at, and nothing is remembered: what strangers send costs them
more than us. A refusal is counted under its code, and nothing else changes.

Gossip may come unsigned where ``require_signatures`` is off. It is then only as true as the link it came over, and as
nothing is proven it does not touch the memory of what has come before. Everything else is always signed.
"""

from collections import Counter
from typing import Final, get_args

from msgspec import Struct

from bobbin.cluster.membership.messages import GossipMessage
from bobbin.cluster.names import NodeId
from bobbin.cluster.settings import GossipConfig, MessageValidationConfig
from bobbin.errors import UsageError
from bobbin.wire.cluster import codec
from bobbin.wire.cluster.codec import KINDS, Hello, Message
from bobbin.wire.cluster.envelope import CLUSTER_SIZE, Envelope, unpack, verify
from bobbin.wire.cluster.faults import MessageRefused, Refusal
from bobbin.wire.cluster.registry import Registered, Registry
from bobbin.wire.cluster.replay import SequenceTracker
from bobbin.wire.cluster.validation import Bounds, CheckCommand, OwnTerm, validate

GOSSIP_TYPES: Final = frozenset(kind.number for kind in KINDS if kind.message in get_args(GossipMessage))
HELLO_TYPE: Final = next(kind.number for kind in KINDS if kind.message is Hello)


class Admitted(Struct, frozen=True):
    """A message whose sender is proven and whose fields are within their bounds."""

    sender: NodeId
    """The node, as the log knows it: its seat."""
    boot_id: int
    """In which life of its it has said this; for ``Sealer.learn``."""
    message: Message


class Gateway:
    """Admits messages, or refuses them with ``MessageRefused``."""

    def __init__(
        self,
        cluster: bytes,
        node: NodeId,
        registry: Registry,
        tracker: SequenceTracker,
        config: MessageValidationConfig,
        *,
        boot_id: int,
        gossip: GossipConfig | None = None,
        check_command: CheckCommand | None = None,
        own_term: OwnTerm | None = None,
    ) -> None:
        """``check_command`` looks into entries, ``own_term`` bounds how far a term may lie ahead; None for neither."""
        gossip = GossipConfig() if gossip is None else gossip
        if len(cluster) != CLUSTER_SIZE:
            raise UsageError(f"the id of a cluster is {CLUSTER_SIZE} bytes, not {len(cluster)}")
        if boot_id <= 0:
            raise UsageError(f"a boot id is above 0, not {boot_id}")
        if tracker.max_age_ms < max(config.max_message_age_ms, gossip.max_message_age_ms):
            raise UsageError("the tracker must remember for as long as messages are taken")
        self.refused: Final[Counter[Refusal]] = Counter()
        self.admitted = 0
        self._cluster: Final = cluster
        self._node: Final = node
        self._boot_id: Final = boot_id
        self._registry: Final = registry
        self._tracker: Final = tracker
        self._gossip: Final = gossip
        self._age_ms_max: Final = config.max_message_age_ms
        self._bounds: Final = Bounds(
            config, states_max=gossip.max_states_per_message, check_command=check_command, own_term=own_term
        )

    def admit(self, raw: bytes, *, now_ms: int, link: NodeId | None = None) -> Admitted:
        """Take an envelope. ``link`` is the id of the key that the other end of the link has proven to hold."""
        try:
            envelope = unpack(raw)
            self._check_address(envelope)
            known = self._authenticate(envelope, link)
            self._check_fresh(envelope, known, now_ms, is_direct=link is not None)
            message = codec.decode(envelope.type, envelope.payload)
            validate(message, sender=known.seat, receiver=self._node, bounds=self._bounds)
        except MessageRefused as refused:
            self.refused[refused.refusal] += 1
            raise
        self.admitted += 1
        return Admitted(known.seat, envelope.boot_id, message)

    def _check_address(self, envelope: Envelope) -> None:
        if envelope.cluster != self._cluster:
            raise MessageRefused(Refusal.WRONG_CLUSTER, "of another cluster", field="cluster")
        if envelope.destination != self._node:
            raise MessageRefused(Refusal.WRONG_DESTINATION, "for another node", field="destination")

    def _authenticate(self, envelope: Envelope, link: NodeId | None) -> Registered:
        self._bounds.node_id(envelope.sender, "sender")
        if not envelope.is_signed and (self._gossip.require_signatures or envelope.type not in GOSSIP_TYPES):
            raise MessageRefused(Refusal.UNSIGNED, "a message of this type must be signed", field="signature")
        known = self._registry.find(envelope.sender)
        if known is None:
            raise MessageRefused(Refusal.STRANGER, "no key of this sender is registered", field="sender")
        if known.seat == self._node:
            raise MessageRefused(Refusal.WRONG_SENDER, "this node says nothing to itself", field="sender")
        if link is not None and link != envelope.sender:
            raise MessageRefused(Refusal.WRONG_SENDER, "the sender is not at the other end of the link", field="sender")
        if envelope.is_signed:
            verify(envelope, known.identity)
        return known

    def _check_fresh(self, envelope: Envelope, known: Registered, now_ms: int, *, is_direct: bool) -> None:
        if envelope.destination_boot != self._boot_id and envelope.type != HELLO_TYPE:
            raise MessageRefused(Refusal.WRONG_DESTINATION, "for another life of this node", field="destination_boot")
        if not envelope.is_signed:
            return
        is_gossip = envelope.type in GOSSIP_TYPES
        self._tracker.check_and_record(
            known.seat,
            boot_id=envelope.boot_id,
            sequence=envelope.sequence,
            time_ms=envelope.time_ms,
            now_ms=now_ms,
            max_age_ms=self._gossip.max_message_age_ms if is_gossip else self._age_ms_max,
            # The first word on a link whose other end is the sender itself: nobody can have recorded that one.
            sets_clock=is_direct and envelope.type == HELLO_TYPE,
        )

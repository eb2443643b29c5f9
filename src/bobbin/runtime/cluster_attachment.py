"""What may run beside the raft machine of a node and its state: something that acts while the node leads.

A node tells its attachments what it applies, when it leads, and when it does not any more. All of it happens in the
event loop, in the order in which the raft machine has decided it.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Final, Protocol

from bobbin.cluster.monitoring import ClusterMetrics
from bobbin.cluster.names import Index, NodeId, Term
from bobbin.cluster.raft.effects import Role
from bobbin.cluster.raft.entries import Configuration, Entry
from bobbin.runtime.cluster_members import Directory
from bobbin.runtime.cluster_port import Port
from bobbin.runtime.cluster_requests import Requests
from bobbin.runtime.cluster_state import State
from bobbin.wire.cluster.client import Request

_ROOT: Final = b"bobbin-cluster-shown-root/v1"


class Host(Protocol):
    """A node, as far as what is attached to it needs it."""

    @property
    def node(self) -> NodeId: ...

    @property
    def state(self) -> State: ...

    @property
    def requests(self) -> Requests:
        """By which commands are proposed (``propose``) and reads confirmed (``confirm``)."""
        ...

    @property
    def role(self) -> Role: ...

    @property
    def leader(self) -> NodeId | None: ...

    @property
    def directory(self) -> Directory: ...

    @property
    def configuration(self) -> Configuration: ...

    @property
    def metrics(self) -> ClusterMetrics: ...

    def address_of(self, node: NodeId | None) -> str | None: ...

    def alarm(self, code: str, detail: str) -> None:
        """A person should know."""
        ...

    def halt(self, why: str) -> None:
        """The node cannot be trusted any more."""
        ...


class Attachment:
    """Does nothing. Whatever is attached to a node says what it wants to do otherwise."""

    def attach(self, host: Host) -> None:
        """The node that it belongs to; called once, before the node starts."""

    def applied(self, entries: Sequence[Entry], answers: Sequence[bytes]) -> None:
        """Committed entries have been applied to the state, with these answers."""

    def restored(self, index: Index) -> None:
        """A snapshot has taken the place of the state: the machines are others now. Also called at the start."""

    def lead(self, term: Term) -> None:
        """The node leads, and has applied an entry of this term: its state holds all that was committed before."""

    def follow(self) -> None:
        """The node does not lead any more. Called once after each ``lead``, also when the node stops or halts."""

    def take(self, port: Port, request: Request) -> bool:
        """A request of a client with an operator's rights that the node itself does not know; whether it is taken."""
        del port, request
        return False

    def take_all(self, port: Port, requests: Sequence[Request]) -> Sequence[Request]:
        """Those that came in one frame; what is not taken of them."""
        return [request for request in requests if not self.take(port, request)]

    def root(self, index: Index) -> bytes | None:
        """Of what it keeps by itself, outside the machines, at this place of the log; b"" where it keeps nothing.

        None: what it keeps is not of this place now. ``Attachments.root`` shows no root then.
        """
        del index
        return b""

    def sweep(self) -> None:
        """Called now and then, to give up on what has waited for too long."""

    def gauges(self) -> dict[str, float]:
        """Figures that rise and fall, for people."""
        return {}

    def counts(self) -> dict[str, int]:
        """What only rises, by name."""
        return {}

    async def close(self) -> None:
        """The node stops. Nothing is heard of it afterwards."""


class Attachments:
    """All that is attached to one node, and whether it has been told that the node leads.

    What always holds: it is told so once in a term. Whoever begins to lead goes by the state alone, and a second time
    in the same term there could be entries in the log that it has proposed itself and does not know of.
    """

    def __init__(self, host: Host, attached: Sequence[Attachment]) -> None:
        self._attached: Final = tuple(attached)
        self._leads = False
        self._led = Term(0)
        """The last term in which the node was said to lead."""
        for one in self._attached:
            one.attach(host)

    def applied(self, entries: Sequence[Entry], answers: Sequence[bytes], leading: Term | None) -> None:
        """``leading``: the term of the node, if it leads."""
        for one in self._attached:
            one.applied(entries, answers)
        if leading is not None and leading > self._led and entries[-1].term == leading:
            self._leads = True
            self._led = leading
            for one in self._attached:
                one.lead(leading)

    def follow(self) -> None:
        if self._leads:
            self._leads = False
            for one in self._attached:
                one.follow()

    def restored(self, index: Index) -> None:
        for one in self._attached:
            one.restored(index)

    def take_all(self, port: Port, requests: Sequence[Request]) -> Sequence[Request]:
        """What nobody has taken."""
        for one in self._attached:
            requests = one.take_all(port, requests)
            if not requests:
                break
        return requests

    def root(self, machines: bytes, index: Index) -> bytes:
        """Over the root of the machines and what is kept beside them, for people; b"" where that is not known now."""
        kept = [one.root(index) for one in self._attached]
        if None in kept:
            return b""
        roots = [one for one in kept if one]
        return sha256(_ROOT + machines + b"".join(roots)).digest() if roots else machines

    def sweep(self) -> None:
        for one in self._attached:
            one.sweep()

    def gauges(self) -> dict[str, float]:
        return {name: figure for one in self._attached for name, figure in one.gauges().items()}

    def counts(self) -> dict[str, int]:
        return {name: count for one in self._attached for name, count in one.counts().items()}

    async def close(self) -> None:
        self.follow()
        for one in self._attached:
            await one.close()

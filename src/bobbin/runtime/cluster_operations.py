"""What takes several entries of the log: taking nodes in, inviting and replacing them, changing keys; and tidying up.

A node is taken in by these steps, each of which may be done again: its certificate and address are written into the
table, so that every node knows it before it is named, and with that the invitation counts for this node alone; it
becomes a learner; the invitation is taken back; and when it has caught up it becomes a voter. A node that is no member
of the configuration any more loses its entry, and with it every channel. A node that was taken in to listen becomes a
voter when somebody says so: alone, or in the place of others by one joint change.

What always holds: a key that is somebody's already becomes nobody else's, and what stands in the table about a caller
is never written over with something else. For that a leader first has an entry of its own done, so that its table holds
everything that came before; then it looks, and writes in the same turn; and one key is in one hand at a time.

Everything a leader does here by itself follows from the configuration and the table, so a new leader goes on where the
old one stopped.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Final, Protocol

import msgspec

from bobbin.cluster.identity import node_id_of
from bobbin.cluster.names import NodeId
from bobbin.cluster.raft.effects import Role, Why
from bobbin.cluster.raft.entries import Configuration
from bobbin.cluster.raft.events import AddLearner, JointChange, PromoteLearner
from bobbin.errors import BobbinError, IntegrityError, UsageError
from bobbin.runtime import cluster_certificate
from bobbin.runtime.cluster_members import (
    RESERVED,
    Caller,
    Directory,
    KnownMembers,
    Member,
    Rights,
    caller_key,
    check_address,
    member_key,
)
from bobbin.runtime.cluster_port import Port
from bobbin.runtime.cluster_requests import HALF_SO, INVALID, NOT_ALLOWED, TOO_FEW, Gathered, NotDone, Requests
from bobbin.runtime.cluster_settings import ClientBounds
from bobbin.runtime.cluster_state import State, commands_of, delete_entry, put_entry
from bobbin.wire.cluster.client import (
    Add,
    AddListener,
    Answer,
    Done,
    Invite,
    Joined,
    Members,
    Operation,
    Rejected,
    Renew,
    Replace,
    Unknown,
)

_RETRY_SECONDS: Final = 0.05
"""Between attempts while something else is under way."""
_NOTHING: Final = RESERVED + b"nothing"
"""A key that is never set."""
_NOT_ITS_KEY: Final = "an operator renews its own key alone"


class Leading(Protocol):
    """A node, as far as it is looked at here."""

    @property
    def node(self) -> NodeId: ...

    @property
    def state(self) -> State: ...

    @property
    def role(self) -> Role: ...

    @property
    def leader(self) -> NodeId | None: ...

    @property
    def directory(self) -> Directory: ...

    @property
    def configuration(self) -> Configuration: ...

    @property
    def is_settled(self) -> bool:
        """Whether the configuration is committed, and an entry of this leader's own term is."""
        ...

    def lag_of(self, node: NodeId) -> int | None:
        """How many committed entries a node lacks; None where that is not known."""
        ...

    def address_of(self, node: NodeId | None) -> str | None: ...

    def settle_members(self) -> None:
        """This node leads, and whatever anybody else could know is committed here: others' word is not needed."""
        ...

    def tell_members(self, tell: Callable[[KnownMembers | BobbinError], None]) -> None:
        """Say who is known, when that would be known after a crash as well; or what is wrong with the disk."""
        ...


class Operations:
    """Does them at one node."""

    def __init__(
        self,
        node: Leading,
        requests: Requests,
        bounds: ClientBounds,
        *,
        lag_max: int,
        now_ms: Callable[[], int],
    ) -> None:
        self._node: Final = node
        self._requests: Final = requests
        self._bounds: Final = bounds
        self._lag_max: Final = lag_max
        self._now_ms: Final = now_ms
        self._tasks: Final[set[asyncio.Task[None]]] = set()
        self._adding: Final[set[NodeId]] = set()
        self._using: Final[set[bytes]] = set()
        """Keys of those who are being taken in or invited."""
        self._is_tidying = False
        self._seeding: Final = asyncio.Lock()

    def begin(self, port: Port, request: Operation) -> None:
        """Start on what a client asks for; it is answered when it is done."""
        if isinstance(request, Members):
            self._node.tell_members(partial(_tell_members, port, request.number))
            return
        self._run(self._operate(port, request))

    def known(self) -> KnownMembers:
        """Who is known at this node, and as of when."""
        return KnownMembers(directory=self._node.directory, index=self._node.state.index)

    async def close(self) -> None:
        """Give up on what is under way."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _run(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _operate(self, port: Port, request: Add | Invite | Renew | Replace) -> None:
        answer: Answer
        try:
            async with asyncio.timeout(self._bounds.answer_seconds_max):
                match request:
                    case Add():
                        answer = await self._add(port, request)
                    case Invite():
                        answer = await self._invite(request)
                    case Renew():
                        answer = await self._renew(port, request)
                    case Replace():
                        answer = await self._replace(request)
        except NotDone as error:
            answer = msgspec.structs.replace(error.answer, number=request.number)
        except TimeoutError:
            answer = Unknown(request.number, "no majority has confirmed it in time; ask again")
        except (UsageError, IntegrityError) as error:
            answer = Rejected(request.number, INVALID, str(error))
        except Exception:
            port.answer(Unknown(request.number, "this node has failed at it; ask again"))
            raise
        port.answer(answer)

    def settle(self) -> None:
        """Let nobody's word count any more who is known, where this node leads and knows better."""
        if self._node.role is Role.LEADER and self._node.is_settled:
            self._node.settle_members()

    # ---- joining ----------------------------------------------------------------------------------------------------

    async def _add(self, port: Port, request: Add) -> Answer:
        public = cluster_certificate.public_key(request.certificate)
        check_address(request.address)
        if request.operator:
            cluster_certificate.public_key(request.operator)
        node = self._node_of(port, request, public)
        present = self._table.members.get(node)
        if present == self._wanted(present, request, port.certificate) and node in self._node.configuration.members:
            return Joined(request.number, self.known().encode())
        if self._node.role is not Role.LEADER:
            return self._not_leading(request.number)
        used = {cluster_certificate.public_key(one) for one in (request.certificate, request.operator) if one}
        if (invitation := _invitation(port, self._table)) is not None:
            used.add(_key_of(invitation))
        if node in self._adding or used & self._using:
            return Rejected(request.number, Why.CHANGE_PENDING.value, "something else is under way with this key")
        self._adding.add(node)
        self._using.update(used)
        try:
            await self._catch_up()
            if (why := self._why_not(port, request, node)) is not None:
                return Rejected(request.number, NOT_ALLOWED, why)
            await self._do(self._member_commands(port, request, node))
            while node not in self._node.configuration.members:
                await self._change(AddLearner(self._requests.next_request(), node))
            if (invitation := _invitation(port, self._table)) is not None:
                await self._do([delete_entry(caller_key(invitation.certificate))])
        finally:
            self._adding.discard(node)
            self._using.difference_update(used)
        return Joined(request.number, self.known().encode())

    def _not_leading(self, number: int) -> Rejected:
        leader = self._node.leader
        text = "this node does not lead"
        return Rejected(number, Why.NOT_LEADER.value, text, leader, self._node.address_of(leader))

    @property
    def _table(self) -> Directory:
        """Who is known by what is written; nobody's word counts here."""
        return self._node.state.own_directory

    def _node_of(self, port: Port, request: Add, public: bytes) -> NodeId:
        """The node that is to be taken in, or is known and has something new to say."""
        directory = self._table
        asking = None if port.certificate is None else directory.member_of(port.certificate)
        return directory.member_of(request.certificate) or asking or node_id_of(public)

    def _why_not(self, port: Port, request: Add, node: NodeId) -> str | None:
        """What speaks against taking a node in, or against what it says of itself."""
        directory = self._table
        asking = None if port.certificate is None else directory.member_of(port.certificate)
        if asking is not None and asking != node:
            return "a node speaks for itself alone"
        if asking is None and port.rights is Rights.JOIN:
            invitation = _invitation(port, directory)
            if invitation is None or invitation.member not in (None, node):
                return "this invitation has been used"
            if node in directory.members and invitation.member is None:
                return "an invitation is for a new node"
        present = directory.members.get(node)
        is_next = present is not None and port.certificate is not None and port.certificate == present.next_certificate
        if present is not None and is_next and request.certificate not in present.certificates:
            # The node itself still speaks with the key before. If this one gave way, the folder would have no key left.
            return "the key that was announced last is not in use yet; start the node with it first"
        public = cluster_certificate.public_key(request.certificate)
        keys = {cluster_certificate.public_key(caller.certificate): caller for caller in directory.callers.values()}
        if directory.keys.get(public, node) != node or public in keys:
            return "the key of this certificate is another's"
        if not request.operator:
            return None
        operator = cluster_certificate.public_key(request.operator)
        if operator == public or operator in directory.keys:
            return "the operator's key is that of a node"
        if operator in keys and keys[operator] != _operator(request, node):
            return "the operator's key is known already"
        return None

    def _wanted(self, present: Member | None, request: Add, shown: bytes | None) -> Member:
        """What is to stand in the table about a node."""
        wants_vote = not isinstance(request, AddListener)
        if present is None:
            return Member(certificate=request.certificate, address=request.address, wants_vote=wants_vote)
        if request.operator and present.node not in self._node.configuration.voters:
            # Whoever names an operator joins, perhaps once more and otherwise than before. A node that only tells where
            # it is, or of another key, does not.
            present = msgspec.structs.replace(present, wants_vote=wants_vote)
        if request.certificate == present.certificate:
            # The key that is in use; one that was announced is still to come.
            return msgspec.structs.replace(present, address=request.address)
        if request.certificate == present.next_certificate and shown == present.next_certificate:
            # It speaks with the new key: the old one counts no more.
            return Member(
                certificate=request.certificate,
                address=request.address,
                seat=present.node,
                wants_vote=present.wants_vote,
            )
        return msgspec.structs.replace(present, address=request.address, next_certificate=request.certificate)

    def _member_commands(self, port: Port, request: Add, node: NodeId) -> list[bytes]:
        """What is written before a node is named; from then on its invitation is for no other one."""
        wanted = self._wanted(self._table.members.get(node), request, port.certificate)
        commands = [put_entry(member_key(node), msgspec.msgpack.encode(wanted))]
        if request.operator:
            commands.append(_put_caller(_operator(request, node)))
        if (invitation := _invitation(port, self._table)) is not None:
            commands.append(_put_caller(msgspec.structs.replace(invitation, member=node)))
        return commands

    async def _invite(self, request: Invite) -> Answer:
        public = cluster_certificate.public_key(request.certificate)
        if request.expires_ms <= self._now_ms():
            return Rejected(request.number, INVALID, "this invitation would be over before it began")
        if public in self._using:
            return Rejected(request.number, Why.CHANGE_PENDING.value, "something else is under way with this key")
        self._using.add(public)
        try:
            await self._catch_up()
            present = next((one for one in self._table.callers.values() if _key_of(one) == public), None)
            is_other = present is not None and (present.rights is not Rights.JOIN or present.member is not None)
            if is_other or public in self._table.keys:
                return Rejected(request.number, NOT_ALLOWED, "this key is known already, and not as one to be invited")
            caller = Caller(certificate=request.certificate, rights=Rights.JOIN, expires_ms=request.expires_ms)
            await self._do([_put_caller(caller)])
        finally:
            self._using.discard(public)
        return Done(request.number, self._node.state.index)

    async def _renew(self, port: Port, request: Renew) -> Answer:
        """The new key first, then without the old one: whatever is cut off in between is finished by asking again.

        By the operator whose key it is, under either of the two, or at the socket of the node that it belongs to.
        """
        new, old = (cluster_certificate.public_key(one) for one in (request.certificate, request.replaces))
        shown = None if port.certificate is None else cluster_certificate.public_key(port.certificate)
        if shown not in (None, new, old):
            return Rejected(request.number, NOT_ALLOWED, _NOT_ITS_KEY)
        if self._node.role is not Role.LEADER:
            return self._not_leading(request.number)
        if {new, old} & self._using:
            return Rejected(request.number, Why.CHANGE_PENDING.value, "something else is under way with this key")
        self._using.update((new, old))
        try:
            await self._catch_up()
            callers = {_key_of(caller): caller for caller in self._table.callers.values()}
            before, after = callers.get(old), callers.get(new)
            if any(one is not None and one.rights is not Rights.OPERATOR for one in (before, after)):
                return Rejected(request.number, NOT_ALLOWED, "a key that is not an operator's is not renewed")
            if before is None:
                if after is not None:
                    return Done(request.number, self._node.state.index)
                return Rejected(request.number, NOT_ALLOWED, "the key that is to be replaced is no operator's")
            if shown is None and before.member not in (None, self._node.node):
                return Rejected(request.number, NOT_ALLOWED, _NOT_ITS_KEY)
            if before.member is not None and before.member not in self._node.configuration.members:
                return Rejected(
                    request.number, NOT_ALLOWED, "the node of this operator is out, and its key goes with it"
                )
            wanted = msgspec.structs.replace(before, certificate=request.certificate)
            if new == old or new in self._table.keys or after not in (None, wanted):
                return Rejected(request.number, NOT_ALLOWED, "the new key is known already")
            await self._do([_put_caller(wanted), delete_entry(caller_key(before.certificate))])
        finally:
            self._using.difference_update((new, old))
        return Done(request.number, self._node.state.index)

    # ---- replacing --------------------------------------------------------------------------------------------------

    async def _replace(self, request: Replace) -> Answer:
        """Have some vote instead of others. Answered when the joint configuration is left again, or was not needed."""
        additions, removals = set(request.additions), set(request.removals)
        if not additions | removals or additions & removals:
            return Rejected(request.number, INVALID, "a change names nodes that come or go, and none of them twice")
        while True:
            await self._come_to_rest()
            configuration = self._node.configuration
            voters = set(configuration.voters)
            coming, going = additions - voters, removals & set(configuration.members)
            if not coming and not going and self._node.is_settled and not configuration.is_joint:
                return Done(request.number, self._node.state.index)
            if self._node.role is not Role.LEADER:
                return self._not_leading(request.number)
            if (coming, going) != (additions, removals):
                return Rejected(request.number, HALF_SO, _half_so(additions - coming, removals - going))
            if (why := self._why_not_replace(coming, going, voters)) is not None:
                return Rejected(request.number, why[0], why[1])
            event = JointChange(self._requests.next_request(), tuple(sorted(coming)), tuple(sorted(going)))
            await self._change(event)

    async def _come_to_rest(self) -> None:
        """Wait until no change of the members is under way; a leader brings each to its end by itself."""
        while self._node.role is Role.LEADER and (  # noqa: ASYNC110 -- soon, or never
            not self._node.is_settled or self._node.configuration.is_joint
        ):
            await asyncio.sleep(_RETRY_SECONDS)

    def _why_not_replace(self, coming: set[NodeId], going: set[NodeId], voters: set[NodeId]) -> tuple[str, str] | None:
        """What speaks against a change that would be begun: once begun, it can only go forward."""
        learners = set(self._node.configuration.learners)
        if strangers := coming - learners:
            return Why.UNKNOWN_NODE.value, f"there is no node {min(strangers)} in the configuration"
        if listening := going & learners:
            return INVALID, f"{min(listening)} only listens; remove it, which needs nobody in its place"
        late = [node for node in sorted(coming) if (lag := self._node.lag_of(node)) is None or lag > self._lag_max]
        if late:
            return Why.NOT_CAUGHT_UP.value, f"{late[0]} does not answer, or has not caught up"
        after = (voters | coming) - going
        there = [node for node in after if node == self._node.node or self._node.lag_of(node) is not None]
        if len(there) <= len(after) // 2:
            return TOO_FEW, f"of the {len(after)} that would vote then, {len(there)} answer"
        return None

    async def _catch_up(self) -> None:
        """Wait until the table holds whatever stands in the log now."""
        await self._propose([delete_entry(_NOTHING)])

    async def _propose(self, commands: list[bytes]) -> None:
        """Have commands done, after the first members stand in the table: they must not be written over by those."""
        async with self._seeding:
            while not self._node.is_settled and self._node.role is Role.LEADER:  # noqa: ASYNC110 -- soon, or never
                await asyncio.sleep(_RETRY_SECONDS)
            self.settle()
            if not self._node.state.is_complete:
                await self._do(commands_of(self._node.state.own_directory))
        if commands:
            await self._do(commands)

    async def _do(self, commands: list[bytes]) -> None:
        gathered = Gathered(len(commands))
        self._requests.propose(gathered, commands)
        await gathered.wait()

    async def _change(self, event: AddLearner | PromoteLearner | JointChange) -> None:
        """Change the configuration; wait where another change is under way."""
        gathered = Gathered(1)
        self._requests.change(gathered, 0, event)
        try:
            await gathered.wait()
        except NotDone as error:
            answer = error.answer
            if not isinstance(answer, Rejected) or answer.why not in (Why.CHANGE_PENDING.value, Why.IS_MEMBER.value):
                raise
            await asyncio.sleep(_RETRY_SECONDS)

    # ---- tidying ----------------------------------------------------------------------------------------------------

    def tidy(self) -> None:
        """Called now and then: a leader brings the table and the configuration in step."""
        if self._is_tidying or self._node.role is not Role.LEADER or not self._node.is_settled:
            return
        commands = self._tidying_commands()
        ready = self._ready_learner()
        if commands or ready is not None or not self._node.state.is_complete:
            self._is_tidying = True
            self._run(self._tidy(commands, ready))

    async def _tidy(self, commands: list[bytes], ready: NodeId | None) -> None:
        try:
            async with asyncio.timeout(self._bounds.answer_seconds_max):
                await self._propose(commands)
                if ready is not None:
                    await self._change(PromoteLearner(self._requests.next_request(), ready))
        except (BobbinError, TimeoutError):
            # Whoever leads next sees the same and goes on.
            return
        finally:
            self._is_tidying = False

    def _tidying_commands(self) -> list[bytes]:
        if not self._node.state.says_who_is_known:
            return []
        directory, members = self._node.directory, set(self._node.configuration.members)
        gone = [node for node in directory.members if node not in members and node not in self._adding]
        commands = [delete_entry(member_key(node)) for node in gone]
        now_ms = self._now_ms()
        for caller in directory.callers.values():
            is_over = caller.expires_ms is not None and caller.expires_ms <= now_ms
            if caller.rights is Rights.JOIN:
                # Whoever was cut off while it was taken in may try again, until it has been.
                is_over |= caller.member in members and caller.member not in self._adding
            elif caller.member is not None:
                # By the configuration, and not by who else goes now: a key that was renewed meanwhile goes as well.
                is_over |= caller.member not in members and caller.member not in self._adding
            if is_over:
                commands.append(delete_entry(caller_key(caller.certificate)))
        return commands

    def _ready_learner(self) -> NodeId | None:
        """A node that only listens, wants to vote, and has caught up."""
        directory = self._node.directory
        for node in self._node.configuration.learners:
            member = directory.members.get(node)
            lag = self._node.lag_of(node)
            if member is not None and member.wants_vote and lag is not None and lag <= self._lag_max:
                return node
        return None


def _tell_members(port: Port, number: int, known: KnownMembers | BobbinError) -> None:
    if isinstance(known, BobbinError):
        port.answer(Rejected(number, Why.STORAGE.value, f"who is known cannot be kept: {known}"))
    else:
        port.answer(Joined(number, known.encode()))


def _half_so(voting: set[NodeId], out: set[NodeId]) -> str:
    """A joint change is made as a whole, so somebody else has made this part; the rest would change how many vote."""
    parts = [*(f"{node} votes already" for node in sorted(voting)), *(f"{node} is out already" for node in sorted(out))]
    return f"{', '.join(parts)}, by another change; see what is left, and promote or remove it by itself"


def _operator(request: Add, node: NodeId) -> Caller:
    return Caller(certificate=request.operator, rights=Rights.OPERATOR, member=node)


def _invitation(port: Port, directory: Directory) -> Caller | None:
    """By which somebody asks, if it still stands."""
    caller = None if port.certificate is None else directory.callers.get(port.certificate)
    return caller if caller is not None and caller.rights is Rights.JOIN else None


def _key_of(caller: Caller) -> bytes:
    return cluster_certificate.public_key(caller.certificate)


def _put_caller(caller: Caller) -> bytes:
    return put_entry(caller_key(caller.certificate), msgspec.msgpack.encode(caller))

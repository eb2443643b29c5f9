"""Another key for the node of a folder, or for its operator: whom to ask, under which name, and what comes when.

Of a node: make the key, have it announced under the one that counts, wait until the others know it, write down the
seat, switch. Both keys count until the node is started with the new one and says so; then the old one is refused. That
it is committed is not enough: whoever has not heard so yet would refuse a node that comes back with its new key, and if
too few others were there then, nobody could ever tell it. So a majority of those who vote has to have said that it
knows the key, and whoever answers gets time to.

Of an operator: make the key, have it put in the place of the old one, switch. What was cut off is finished by doing it
again: every step looks first whether it is done, and the cluster is asked under whichever of the two keys it knows.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec import Struct

from bobbin.cluster.names import NodeId
from bobbin.config import rotation
from bobbin.config.cluster import read_folder
from bobbin.errors import ResourceError, UsageError
from bobbin.runtime.cluster_client import ClusterClient, NotAccepted

if TYPE_CHECKING:
    from bobbin.cluster.raft.entries import Configuration
    from bobbin.config.cluster import NodeFolder
    from bobbin.runtime.cluster_certificate import Credentials
    from bobbin.runtime.cluster_members import KnownMembers


_LOOK_SECONDS: Final = 2.0
"""For another node to answer."""
_PAUSE_SECONDS: Final = 0.05
"""Before the others are asked once more."""
T = TypeVar("T")


class NoMember(ResourceError):
    """The cluster does not know the node of a folder any more. Nothing was changed."""

    def __init__(self, node: NodeId) -> None:
        super().__init__(f"{node} is no node of its cluster any more, and needs no key", retry=False)


class Rotated(Struct, frozen=True):
    """A node with another key."""

    node: NodeId
    key: NodeId
    """The id of that key."""
    silent: tuple[NodeId, ...] = ()
    """Other nodes that do not answer, and so have perhaps not heard of it."""
    behind: tuple[NodeId, ...] = ()
    """Others that answer, and do not know it yet."""


def rotate_node(folder: Path, *, seconds: float) -> Rotated:
    """Give a node another key, and finish what was begun before.

    A key that was switched and is not in use yet stays the one that is to come.
    """
    deadline = time.monotonic() + seconds
    with rotation.changing_keys(folder):
        read = read_folder(folder)
        file = read.layout.node_key
        prepared = rotation.prepared_key(file)
        own, known = asyncio.run(_find(read, prepared, deadline))
        member = known.directory.members[read.node]
        if prepared is None and own.certificate == member.next_certificate:
            return Rotated(read.node, own.identity.node)
        if prepared is None or prepared.certificate not in member.certificates:
            prepared = rotation.prepare_key(file)
            # Never under the key that is announced: that would say that the node uses it, and put out the one it has.
            own, known = read.own, asyncio.run(_announce(read, prepared, member.address, deadline))
        silent, behind = asyncio.run(_spread(read, own, known, prepared.certificate, deadline))
        rotation.keep_seat(read.layout, read.node)
        rotation.switch_key(file)
        return Rotated(read.node, prepared.identity.node, silent, behind)


def rotate_operator(folder: Path, *, seconds: float) -> NodeId:
    """Give the operator of a folder another key, and finish what was begun before; returns the id of the key."""
    deadline = time.monotonic() + seconds
    with rotation.changing_keys(folder):
        read = read_folder(folder)
        if read.shard is not None:
            raise UsageError(
                "the operator's key of a set of shards is known to each of its shards, and cannot be changed so far"
            )
        file = read.layout.operator_key
        prepared = rotation.prepare_key(file)
        asyncio.run(_renew(read, prepared, deadline))
        rotation.switch_key(file)
        return prepared.identity.node


async def _find(
    read: "NodeFolder", prepared: "Credentials | None", deadline: float
) -> "tuple[Credentials, KnownMembers]":
    """Who is known, the node among them, and the key of the node under which that was asked."""

    async def ask(own: "Credentials", seconds: float) -> "tuple[Credentials, KnownMembers]":
        # By TLS, never by the node's socket: whoever comes there is its operator, and not the node itself.
        async with ClusterClient(read.known, own=own, seconds=seconds) as client:
            return own, await client.members()

    found = await _under_either(ask, (read.own, prepared), deadline)
    if read.node not in found[1].directory.members:
        raise NoMember(read.node)
    return found


async def _under_either(
    ask: "Callable[[Credentials, float], Awaitable[T]]", keys: "Iterable[Credentials | None]", deadline: float
) -> T:
    """What comes of asking under one key, or else under the next; each has its part of the time that is left."""
    candidates = [key for key in keys if key is not None]
    failures: list[ResourceError] = []
    for left in range(len(candidates), 0, -1):
        try:
            return await ask(candidates[-left], _seconds_until(deadline) / left)
        except NotAccepted:
            raise
        except ResourceError as error:
            failures.append(error)
    raise failures[0]


def _seconds_until(deadline: float) -> float:
    """What is left, and never quite nothing: what is asked gets an answer if there is one at once."""
    return max(0.1, deadline - time.monotonic())


async def _spread(
    read: "NodeFolder", own: "Credentials", known: "KnownMembers", certificate: bytes, deadline: float
) -> tuple[tuple[NodeId, ...], tuple[NodeId, ...]]:
    """Wait until every other node that answers has it on its disk that this key counts, or time is up.

    Returns those who do not answer, and those who do not know it. Raises where those who know it are no majority of
    those who vote: of both sets, where one is about to take the place of the other.
    """
    rotated = rotation.prepared_key(read.layout.operator_key)

    async def ask(operator: "Credentials", seconds: float) -> "Configuration":
        # It is the operator who asks: a node may not ask who votes.
        socket, here = read.layout.socket, read.node
        async with ClusterClient(known, own=operator, socket=socket, here=here, seconds=seconds) as client:
            return (await client.status()).configuration

    configuration = await _under_either(ask, (read.operator, rotated), deadline)
    others = sorted({*known.directory.members, *configuration.members} - {read.node})
    async with ClusterClient(known, own=own, seconds=_LOOK_SECONDS) as client:
        while True:
            answers = await asyncio.gather(*map(client.members, others), return_exceptions=True)
            told = dict(zip(others, answers, strict=True))
            silent = tuple(node for node, answer in told.items() if isinstance(answer, BaseException))
            knowing = {node for node in others if node not in silent and _knows(told[node], read.node, certificate)}
            behind = tuple(node for node in others if node not in silent and node not in knowing)
            knowing.add(read.node)
            is_enough = all(
                2 * len(knowing.intersection(voters)) > len(voters)
                for voters in (configuration.voters, configuration.outgoing)
                if voters
            )
            is_over = time.monotonic() >= deadline
            if is_enough and (is_over or not behind):
                return silent, behind
            if is_over:
                raise ResourceError(_too_few(silent, behind), retry=True)
            await asyncio.sleep(_PAUSE_SECONDS)


def _knows(answer: "KnownMembers | BaseException", node: NodeId, certificate: bytes) -> bool:
    assert not isinstance(answer, BaseException), "it answers"
    return answer.directory.member_of(certificate) == node


def _too_few(silent: Sequence[NodeId], behind: Sequence[NodeId]) -> str:
    whys = [f"{node} does not answer" for node in silent] + [f"{node} has not learnt of it" for node in behind]
    return (
        "the new key is announced, and too few nodes know it yet to go on with it "
        f"({', '.join(whys)}); do it again when more of them do"
    )


async def _announce(read: "NodeFolder", prepared: "Credentials", address: str, deadline: float) -> "KnownMembers":
    """Have the cluster commit that another key counts for the node as well; who is known then."""
    async with ClusterClient(read.known, own=read.own, seconds=_seconds_until(deadline)) as client:
        known = await client.add(prepared.certificate, address)
    if known.directory.member_of(prepared.certificate) != read.node:
        raise ResourceError("the cluster has not taken the new key; do it again", retry=True)
    return known


async def _renew(read: "NodeFolder", prepared: "Credentials", deadline: float) -> None:
    """Have the cluster put one operator's key in the place of another."""

    async def ask(own: "Credentials", seconds: float) -> None:
        socket, here = read.layout.socket, read.node
        async with ClusterClient(read.known, own=own, socket=socket, here=here, seconds=seconds) as client:
            await client.renew(prepared.certificate, replaces=read.operator.certificate)

    # Perhaps the old key is out already, and only this folder does not know it.
    await _under_either(ask, (read.operator, prepared), deadline)

"""Another key for the node of a folder, or for its operator: whom to ask, under which name, and what comes when.

Of a node: make the key, have it announced under the one that counts, wait until the others know it, write down the
seat, switch. Both keys count until the node is started with the new one and says so; then the old one is refused. That
it is committed is not enough: whoever has not heard so yet would refuse a node that comes back with its new key, and if
too few others were there then, nobody could ever tell it.

Of an operator: make the key, have it put in the place of the old one, switch. What was cut off is finished by doing it
again: every step looks first whether it is done, and the cluster is asked under whichever of the two keys it knows.
"""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from bobbin.cluster.names import NodeId
from bobbin.config import rotation
from bobbin.config.cluster import read_folder
from bobbin.errors import ResourceError, UsageError
from bobbin.runtime.cluster_client import ClusterClient, NotAccepted
from bobbin.transport.base import TransportError

if TYPE_CHECKING:
    from bobbin.config.cluster import NodeFolder
    from bobbin.runtime.cluster_certificate import Credentials
    from bobbin.runtime.cluster_members import Member


_LOOK_SECONDS: Final = 2.0
"""For another node to answer."""
_PAUSE_SECONDS: Final = 0.05
"""Before the others are asked once more."""


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
    """Other nodes that do not answer, and so have not heard of it."""


def rotate_node(folder: Path, *, seconds: float) -> Rotated:
    """Give a node another key, and finish what was begun before.

    A key that was switched and is not in use yet stays the one that is to come.
    """
    with rotation.changing_keys(folder):
        read = read_folder(folder)
        file = read.layout.node_key
        prepared = rotation.prepared_key(file)
        own, member = asyncio.run(_find(read, prepared, seconds))
        if prepared is None and own.certificate == member.next_certificate:
            return Rotated(read.node, own.identity.node)
        if prepared is None or prepared.certificate not in member.certificates:
            prepared = rotation.prepare_key(file)
            # Never under the key that is announced: that would say that the node uses it, and put out the one it has.
            asyncio.run(_announce(read, prepared, member.address, seconds))
        silent = asyncio.run(_spread(read, prepared.certificate, seconds))
        rotation.keep_seat(read.layout, read.node)
        rotation.switch_key(file)
        return Rotated(read.node, prepared.identity.node, silent)


def rotate_operator(folder: Path, *, seconds: float) -> NodeId:
    """Give the operator of a folder another key, and finish what was begun before; returns the id of the key."""
    with rotation.changing_keys(folder):
        read = read_folder(folder)
        if read.shard is not None:
            raise UsageError(
                "the operator's key of a set of shards is known to each of its shards, and cannot be changed so far"
            )
        file = read.layout.operator_key
        prepared = rotation.prepare_key(file)
        asyncio.run(_renew(read, prepared, seconds))
        rotation.switch_key(file)
        return prepared.identity.node


async def _find(read: "NodeFolder", prepared: "Credentials | None", seconds: float) -> "tuple[Credentials, Member]":
    """What the cluster knows of the node, and the key under which it was asked."""
    failures: list[TransportError] = []
    for own in (read.own,) if prepared is None else (read.own, prepared):
        try:
            # By TLS, never by the node's socket: whoever comes there is its operator, and not the node itself.
            async with ClusterClient(read.known, own=own, seconds=seconds) as client:
                member = (await client.members()).directory.members.get(read.node)
        except TransportError as error:
            failures.append(error)
            continue
        if member is None:
            raise NoMember(read.node)
        return own, member
    raise failures[0]


async def _spread(read: "NodeFolder", certificate: bytes, seconds: float) -> tuple[NodeId, ...]:
    """Wait until every other node that answers has it on its disk that this key counts; returns those who are silent.

    It is the operator who asks: a node may not ask who votes.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    operator, socket = read.operator, read.layout.socket
    async with ClusterClient(read.known, own=operator, socket=socket, here=read.node, seconds=_LOOK_SECONDS) as client:
        voters = set((await client.status()).configuration.voters)
        others = sorted(read.known.directory.members.keys() - {read.node})
        while True:
            answers = await asyncio.gather(*map(client.members, others), return_exceptions=True)
            silent = [node for node, answer in zip(others, answers, strict=True) if isinstance(answer, BaseException)]
            told = [answer for answer in answers if not isinstance(answer, BaseException)]
            is_known = all(one.directory.member_of(certificate) == read.node for one in told)
            if is_known and 2 * len(voters.difference(silent)) > len(voters):
                return tuple(silent)
            if loop.time() >= deadline:
                raise ResourceError(
                    "the new key is announced, and too few nodes know it yet to go on with it; do it again", retry=True
                )
            await asyncio.sleep(_PAUSE_SECONDS)


async def _announce(read: "NodeFolder", prepared: "Credentials", address: str, seconds: float) -> None:
    """Have the cluster commit that another key counts for the node as well."""
    async with ClusterClient(read.known, own=read.own, seconds=seconds) as client:
        known = await client.add(prepared.certificate, address)
    if known.directory.member_of(prepared.certificate) != read.node:
        raise ResourceError("the cluster has not taken the new key; do it again", retry=True)


async def _renew(read: "NodeFolder", prepared: "Credentials", seconds: float) -> None:
    """Have the cluster put one operator's key in the place of another."""
    failures: list[ResourceError] = []
    for own in (read.operator, prepared):
        client = ClusterClient(read.known, own=own, socket=read.layout.socket, here=read.node, seconds=seconds)
        try:
            async with client:
                await client.renew(prepared.certificate, replaces=read.operator.certificate)
        except NotAccepted:
            raise
        except ResourceError as error:
            # Perhaps the old key is out already, and only this folder does not know it.
            failures.append(error)
        else:
            return
    raise failures[0]

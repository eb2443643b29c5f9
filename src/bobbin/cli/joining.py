"""Joining a cluster with an invitation: what is asked, under which name, and what a refusal means."""

import time
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bobbin.config.undoing import undone_on_failure
from bobbin.errors import ResourceError
from bobbin.runtime.cluster_client import ClusterClient, NotAccepted
from bobbin.transport.base import EndedByPeer

if TYPE_CHECKING:
    from bobbin.cli.cluster_token import Invitation
    from bobbin.config.cluster import NewNode
    from bobbin.runtime.cluster_certificate import Credentials
    from bobbin.runtime.cluster_members import KnownMembers

_CLOSED_SECONDS: Final = 2.0
"""A node that closes every channel for so long does not know who asks."""


class TokenRefused(ResourceError):
    """The inviting node does not know the key of a token any more. Nothing was changed."""

    def __init__(self, invitation: "Invitation", now_ms: int) -> None:
        if invitation.expires_ms and now_ms >= invitation.expires_ms:
            until = datetime.fromtimestamp(invitation.expires_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
            why = f"it was good until {until}"
        else:
            why = "it was used already; each is good for one node"
        super().__init__(
            f"the node at {invitation.address} does not take this token: {why}. `bobbin cluster invite` makes another",
            retry=False,
        )


class Undecided(ResourceError):
    """Whether the cluster has taken the node in is not known."""

    def __init__(self, error: ResourceError) -> None:
        super().__init__(f"{error}; do it again with the same folder, which has the keys of the node", retry=True)


def prepared(folder: Path) -> AbstractContextManager[None]:
    """Make the folder of a node that joins, or nothing; its keys stay where the cluster may know them already."""
    return undone_on_failure([folder], but_for=(Undecided,))


async def join_cluster(
    node: "NewNode", invitation: "Invitation", seconds: float, *, via: str | None = None, wants_vote: bool = True
) -> "KnownMembers":
    """Have a node taken in by those that are known; returns who is known then. Without ``wants_vote`` it listens.

    Raises ``TokenRefused`` and ``NotAccepted``, and then nothing was done; else ``Undecided``, also where the cluster
    has put it off until time was up: it may be at an earlier attempt.
    """
    from bobbin.cluster.identity import Identity
    from bobbin.runtime import cluster_certificate

    invited = cluster_certificate.make(Identity(invitation.seed))
    failures: list[ResourceError] = []
    is_sent = False
    # Under its own name where an earlier attempt got through and its answer did not: the invitation is used up then.
    for own in (invited, node.own):
        try:
            # How a channel ends does not tell what became of a request. So the first one changes nothing: where that
            # gets no answer, the node has not been named to the cluster.
            await _greet(invitation.known(via), own, seconds)
            async with ClusterClient(invitation.known(via), own=own, seconds=seconds) as client:
                is_sent = True
                return await client.add(
                    node.own.certificate, node.address, node.operator.certificate, wants_vote=wants_vote
                )
        except ResourceError as error:
            failures.append(error)
    if not is_sent and all(map(_is_closed, failures)):
        raise TokenRefused(invitation, time.time_ns() // 1_000_000) from failures[0]
    if isinstance(failures[0], NotAccepted) and not failures[0].retry:
        raise failures[0]
    raise Undecided(failures[0]) from failures[0]


def _is_closed(error: ResourceError) -> bool:
    """Whether the other end has let go, of a channel or of one that was only coming up, where it has seen who asks."""
    return isinstance(error, EndedByPeer) or isinstance(error.__cause__, EndedByPeer)


async def _greet(known: "KnownMembers", own: "Credentials", seconds: float) -> None:
    """Ask for something that changes nothing. It ends soon where nobody knows who asks.

    Whoever is only starting closes channels as well, but not for long; one that is not reached may come up later.
    """
    from bobbin.wire.cluster.client import Joined, Members

    for allowed in (min(seconds, _CLOSED_SECONDS), seconds):
        try:
            async with ClusterClient(known, own=own, seconds=allowed) as client:
                await client.ask(Joined, Members, anywhere=True)
        except ResourceError as error:
            if allowed == seconds or _is_closed(error) or isinstance(error, NotAccepted):
                raise
        else:
            return

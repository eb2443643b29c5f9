"""What a node says of itself: the report behind ``bobbin cluster status``, and what is wrong, in words.

A report is the view of one node at one moment. It says what that node knows, also of nodes that are down, and never
waits for anybody.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from bobbin.cluster.membership.machine import MembershipMachine
from bobbin.cluster.membership.messages import Health
from bobbin.cluster.membership.partition import PartitionStatus
from bobbin.cluster.names import MILLISECOND_NS, NodeId
from bobbin.cluster.raft.effects import Role
from bobbin.cluster.raft.entries import Configuration
from bobbin.cluster.raft.machine import RaftMachine
from bobbin.runtime.cluster_links import PeerLink
from bobbin.runtime.cluster_members import Directory
from bobbin.wire.cluster.client import PeerReport, Report

REMOVED: Final = "this node is no member of the cluster any more: it was removed"
LAG_ENTRIES_MAX: Final = 10_000
"""A follower that lacks more than this is reported."""


def report(
    number: int,
    machine: RaftMachine,
    gossip: MembershipMachine,
    links: Mapping[NodeId, PeerLink],
    directory: Directory,
    *,
    root: bytes,
    now_ns: int,
    problems: Sequence[str],
    counters: Mapping[str, float],
) -> Report:
    """How a node sees itself and the cluster."""
    return Report(
        number=number,
        node=machine.node,
        role=role_text(machine),
        term=machine.term,
        leader=machine.leader,
        leader_address=_address(directory, machine.leader),
        commit_index=machine.commit_index,
        applied_index=machine.applied_index,
        first_index=machine.first_index,
        last_index=machine.last_index,
        snapshot_index=0 if machine.snapshot is None else machine.snapshot.last_index,
        configuration=machine.configuration,
        root=root,
        peers=tuple(
            _peer(node, machine, gossip, links.get(node), directory, now_ns)
            for node in sorted({*machine.configuration.members, *directory.members} - {machine.node})
        ),
        problems=tuple(problems),
        counters=dict(counters),
    )


def role_text(machine: RaftMachine) -> str:
    """The role, with what a follower may be besides."""
    configuration = machine.configuration
    if machine.role is Role.FOLLOWER:
        if machine.node in configuration.learners:
            return "learner"
        if machine.node not in (*configuration.voters, *configuration.outgoing):
            return "no member"
    return machine.role.value


def problems_of(machine: RaftMachine, gossip: MembershipMachine, links: Mapping[NodeId, PeerLink]) -> list[str]:
    """What is wrong, as this node sees it; nothing where all is well."""
    found: list[str] = []
    configuration = machine.configuration
    members = set(configuration.members)
    if is_out(machine):
        # What it thinks of the others is of no use to anybody: none of them talks to it.
        return [REMOVED]
    if machine.node not in members:
        found.append("this node is no member of the configuration that it knows: it has not caught up, or was removed")
    if machine.leader is None:
        found.append("no leader is known: nothing can be written")
    if len(configuration.voters) % 2 == 0 and configuration.voters:
        found.append(f"{len(configuration.voters)} voters tolerate no more failures than one fewer would")
    if configuration.is_joint:
        found.append("a change of several voters is under way")
    for node in sorted(members - {machine.node}):
        link = links.get(node)
        health = gossip.health(node) if node in gossip.embeddings else Health.UNKNOWN
        if health is Health.FAILED:
            found.append(f"{node[:8]} has failed")
        elif health is Health.DEGRADED:
            found.append(f"{node[:8]} is suspected of having failed")
        elif link is None:
            found.append(f"nobody knows where {node[:8]} is")
        if link is not None and link.why_down is not None:
            found.append(f"no channel to {node[:8]}: {link.why_down}")
        progress = machine.progress.get(node) if machine.role is Role.LEADER else None
        # What a node holds that has not answered this leader yet is not known: it may be everything.
        is_heard = progress is not None and progress.last_contact_ns >= 0
        if progress is not None and is_heard and machine.commit_index - progress.held_index > LAG_ENTRIES_MAX:
            found.append(f"{node[:8]} lacks {machine.commit_index - progress.held_index:,} committed entries")
    return found + _partitions(gossip, configuration)


def is_out(machine: RaftMachine) -> bool:
    """Whether this node knows that it was put out: it was a member, and what followed is committed without it.

    The log tells, until a snapshot takes its place. One that has started again has not heard what is committed.
    """
    index = machine.log.configuration_index
    if machine.node in machine.configuration.members or index > machine.commit_index:
        return False
    return machine.node in machine.log.configuration_at(index - 1)[1].members


def _partitions(gossip: MembershipMachine, configuration: Configuration) -> list[str]:
    """What gossip thinks of the majority; of each of the two while a change of several voters is under way."""
    found: list[str] = []
    for voters in filter(None, (configuration.voters, configuration.outgoing)):
        status = gossip.partition(voters)
        if status in (PartitionStatus.QUORUM_LOST, PartitionStatus.STALEMATE):
            there = len(gossip.reachable.intersection(voters))
            text = f"by gossip: {status.value}, {there} of {len(voters)} voters within reach"
            found += [text] if text not in found else []
    return found


def _peer(
    node: NodeId,
    machine: RaftMachine,
    gossip: MembershipMachine,
    link: PeerLink | None,
    directory: Directory,
    now_ns: int,
) -> PeerReport:
    progress = machine.progress.get(node) if machine.role is Role.LEADER else None
    contact = None
    if progress is not None and progress.last_contact_ns >= 0:
        contact = max(0, now_ns - progress.last_contact_ns) // MILLISECOND_NS
    return PeerReport(
        node=node,
        address=_address(directory, node) or "",
        health=(gossip.health(node) if node in gossip.embeddings else Health.UNKNOWN).name.lower(),
        is_linked=link is not None and link.is_up,
        match_index=0 if progress is None else progress.held_index,
        next_index=0 if progress is None else progress.next_index,
        contact_ms=contact,
        failures=0 if progress is None else progress.failures,
    )


def _address(directory: Directory, node: NodeId | None) -> str | None:
    member = None if node is None else directory.members.get(node)
    return None if member is None else member.address

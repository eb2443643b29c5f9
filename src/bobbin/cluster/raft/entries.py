"""What the log holds: commands, configurations, and the empty entry with which a leader begins its term."""

from typing import TypeAlias

from msgspec import Struct

from bobbin.cluster.names import Index, NodeId, Term


class Configuration(Struct, frozen=True, array_like=True):
    """Who votes and who only listens. In force from the moment its entry is appended (CL-037)."""

    voters: tuple[NodeId, ...]
    """Ascending, without repetition, like the fields below."""
    learners: tuple[NodeId, ...] = ()
    """Get entries, count for nothing."""
    outgoing: tuple[NodeId, ...] = ()
    """The voters before a joint change; while there are any, both majorities are needed."""

    @property
    def is_joint(self) -> bool:
        return bool(self.outgoing)

    @property
    def members(self) -> tuple[NodeId, ...]:
        """Everybody who gets entries, ascending."""
        return tuple(sorted({*self.voters, *self.outgoing, *self.learners}))


Payload: TypeAlias = bytes | Configuration | None
"""A command, a configuration, or nothing: the entry with which a leader begins."""


class Entry(Struct, frozen=True, array_like=True):
    """One place of the log."""

    term: Term
    index: Index
    payload: Payload


class SnapshotMetadata(Struct, frozen=True, kw_only=True):
    """What a snapshot of the state machine is, and what it stands in for."""

    last_index: Index
    last_term: Term
    sha256: bytes
    """Of the whole snapshot stream."""
    size: int
    """Bytes of the stream."""
    configuration: Configuration
    """In force at ``last_index``."""
    created_s: int
    """Seconds since 1970 by the clock of the node that took it; for people."""
    epoch: int
    """Rises with each compaction of the node that took it."""
    codebook: bytes | None = None

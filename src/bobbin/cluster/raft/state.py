"""What the parts of a raft machine share: the role and how it may change, the log, and what a step has gathered.

The parts (elections, replication, reads, …) read and change this state and never call one another's insides. What
follows from a change is drawn by the machine at the end of the step, so a part need not know who else cares.

Role changes are a table (CL-054); each arrival in a role is one method that asserts where it came from.
"""

from collections.abc import Mapping
from random import Random
from types import MappingProxyType
from typing import Final

from bobbin.cluster.names import MILLISECOND_NS, TERM_MAX, Index, NodeId, Term
from bobbin.cluster.raft.durability import Durability
from bobbin.cluster.raft.effects import (
    Alarm,
    ConfigurationChanged,
    Effect,
    LeaderChanged,
    Refused,
    Role,
    RoleChanged,
    Send,
    Why,
)
from bobbin.cluster.raft.entries import Configuration, Entry, SnapshotMetadata
from bobbin.cluster.raft.log import RaftLog
from bobbin.cluster.raft.messages import RaftMessage
from bobbin.cluster.raft.progress import Progress
from bobbin.cluster.raft.stats import RaftStats
from bobbin.cluster.raft.tiebreak import TieBreak
from bobbin.cluster.settings import RaftConfig

TRANSITIONS: Final[Mapping[Role, tuple[Role, ...]]] = MappingProxyType(
    {
        Role.FOLLOWER: (Role.FOLLOWER, Role.CANDIDATE),
        Role.CANDIDATE: (Role.CANDIDATE, Role.LEADER, Role.FOLLOWER),
        Role.LEADER: (Role.LEADER, Role.FOLLOWER),
    }
)
"""Which role may follow which; the first of each row is staying."""

LONG_AGO: Final = -(2**62)
DISK_PATIENCE: Final = 2
"""Longest election timeouts after which a disk that has not answered is taken to hang."""


class RaftState:
    """One node's view, and the effects of the step that is under way."""

    def __init__(
        self, config: RaftConfig, *, node: NodeId, log: RaftLog, durability: Durability, random: Random
    ) -> None:
        self.config: Final = config
        self.node: Final = node
        self.log: Final = log
        self.disk: Final = durability
        self.random: Final = random
        self.stats: Final = RaftStats()
        self.tiebreak: TieBreak = TieBreak(config, None, {})
        self.now_ns = 0
        self.role = Role.FOLLOWER
        self.is_leader = False
        """What the role says; asked for so often that it is kept."""
        self.leader: NodeId | None = None
        self.snapshot: SnapshotMetadata | None = None
        """The newest that is durable here."""
        self.lost: tuple[Term, Index] | None = None
        """Where a log ended that damage has taken, while the present one is not as up to date."""

        self.known_commit = 0
        """Committed by what a leader said of entries that were compared; they need not be durable here yet."""
        self.commit_index = Index(0)
        self.given_index = 0
        """Up to here committed entries were given out to be applied."""
        self.applied_index = Index(0)
        self.is_installing = False
        """The state machine is being replaced by a snapshot: nothing is given out to it in the meantime."""

        self.is_pre_candidate = False
        self.request = 0
        """The round of asking for votes that counts."""
        self.granted: set[NodeId] = set()
        """Who has granted in that round."""
        self.stood_ns: int | None = None
        """When this node began to ask for votes, for the first time since it last followed or led."""
        self.election_deadline_ns: int | None = None
        """None before the first step."""
        self.heard_leader_ns = LONG_AGO

        self.progress: dict[NodeId, Progress] = {}
        """Empty unless this node leads."""
        self.round = 0
        """Of the latest message to a follower; each has one of its own."""
        self.led_since_ns = 0
        self.led_from_index = Index(0)
        """The entry with which this leader's term began."""
        self.quorum_check_ns = 0
        self.quorum_since_ns = 0

        self.sends: list[Effect] = []
        self.notes: list[Effect] = []

    # ---- small readings -------------------------------------------------------------------------------------------

    @property
    def term(self) -> Term:
        return self.disk.term

    @property
    def voted_for(self) -> NodeId | None:
        return self.disk.voted_for

    @property
    def configuration(self) -> Configuration:
        return self.log.configuration

    @property
    def election_minimum_ns(self) -> int:
        return self.config.election_timeout[0] * MILLISECOND_NS

    @property
    def election_maximum_ns(self) -> int:
        return self.config.election_timeout[1] * MILLISECOND_NS

    @property
    def has_heard_leader(self) -> bool:
        """Whether there was a leader within the minimum election timeout; a leader knows one (CL-017, CL-022)."""
        return self.is_leader or self.now_ns - self.heard_leader_ns < self.election_minimum_ns

    @property
    def disk_deadline_ns(self) -> int | None:
        """When the disk will be taken to hang if it does not answer; None while nothing waits for it."""
        since_ns = self.disk.waits_since_ns
        return None if since_ns is None else since_ns + DISK_PATIENCE * self.election_maximum_ns

    @property
    def is_disk_hung(self) -> bool:
        """Whether the disk has neither done what it was asked for nor failed, for too long."""
        deadline_ns = self.disk_deadline_ns
        return deadline_ns is not None and self.now_ns >= deadline_ns

    @property
    def may_stand(self) -> bool:
        """Whether this node votes in the configuration in force, or did in the last one that is sure to stay.

        A removal that is not committed may be taken back, and the node that it removes may be the only one whose log
        can win. A node whose disk hangs, or that has no term left to stand in, does not.
        """
        if self.lost is not None or self.is_installing or self.is_disk_hung or self.term >= TERM_MAX:
            return False
        configuration = self.log.configuration
        if self.node in configuration.voters or self.node in configuration.outgoing:
            return True
        if self.log.configuration_index <= self.commit_index:
            return False
        certain = self.log.configuration_at(self.commit_index)[1]
        return self.node in certain.voters or self.node in certain.outgoing

    def is_up_to_date(self, last_term: Term, last_index: Index) -> bool:
        """Whether a log that ends so is not behind this one; the term is compared first (CL-012, CL-018)."""
        own = (self.log.last_term, self.log.last_index)
        return (last_term, last_index) >= (own if self.lost is None else max(own, self.lost))

    # ---- what a step gathers --------------------------------------------------------------------------------------

    def send(self, to: NodeId, message: RaftMessage) -> None:
        """Say something that rests on nothing that is not durable."""
        self.sends.append(Send(to, message))

    def send_when_durable(self, to: NodeId, message: RaftMessage, instead: RaftMessage | None = None) -> None:
        """Say something once everything so far is durable, or ``instead`` if it never is."""
        send = Send(to, message)
        if not self.disk.hold(send, None if instead is None else Send(to, instead)):
            self.sends.append(send)

    def refuse(self, request: int, why: Why) -> None:
        self.notes.append(Refused(request, why, self.leader))

    def alarm(self, code: str, detail: str) -> None:
        self.notes.append(Alarm(code, detail))

    # ---- roles ----------------------------------------------------------------------------------------------------

    def become_follower(self, term: Term, leader: NodeId | None = None) -> None:
        """From any role: a higher term, a leader of this one, a lost quorum, or a disk that failed."""
        assert term >= self.term, "a term never falls"
        before = self.role
        if term > self.term:
            self.disk.set_hard_state(term, None)
        self.is_pre_candidate = False
        self.granted.clear()
        self.stood_ns = None
        if before is Role.LEADER:
            self.stats.step_downs += 1
            self.progress = {}
            self.heard_leader_ns = LONG_AGO
            self.reset_election_timer()
        self._enter(Role.FOLLOWER, leader)
        self.follow(leader)

    def become_candidate(self) -> None:
        """From follower or candidate: a new term, with this node's own vote in it (CL-002)."""
        assert self.role is not Role.LEADER, "a leader does not stand against itself"
        assert self.term < TERM_MAX, "there is a term to stand in"
        self.is_pre_candidate = False
        self.granted.clear()
        self.request += 1
        self.stood_ns = self.now_ns if self.stood_ns is None else self.stood_ns
        self.stats.elections_started += 1
        self.disk.set_hard_state(Term(self.term + 1), self.node)
        self.reset_election_timer()
        self._enter(Role.CANDIDATE, None)
        self.follow(None)

    def become_leader(self) -> None:
        """From candidate, with the votes of a quorum; the term begins with an entry that says nothing."""
        assert self.role is Role.CANDIDATE, "only a candidate is elected"
        self.granted.clear()
        self.stats.elections_won += 1
        if self.stood_ns is not None:
            self.stats.election_times.add(self.now_ns - self.stood_ns)
            self.stood_ns = None
        self.led_since_ns = self.quorum_since_ns = self.now_ns
        self.quorum_check_ns = self.now_ns + self.election_maximum_ns
        self._enter(Role.LEADER, self.node)
        self.follow(self.node)
        self.led_from_index = Index(self.log.last_index + 1)
        self.follow_configuration()
        self.disk.append((Entry(self.term, self.led_from_index, None),))

    def follow(self, leader: NodeId | None) -> None:
        """Take a node for the leader, or none."""
        if leader != self.leader:
            self.leader = leader
            self.notes.append(LeaderChanged(leader, self.term))

    def reset_election_timer(self) -> None:
        """A new timeout is drawn here and nowhere else (CL-010)."""
        self.election_deadline_ns = self.now_ns + self.tiebreak.draw_ns(self.random)

    def _enter(self, role: Role, leader: NodeId | None) -> None:
        before = self.role
        assert role in TRANSITIONS[before], f"no way from {before} to {role}"
        self.role = role
        self.is_leader = role is Role.LEADER
        if role is not before:
            self.notes.append(RoleChanged(before, role, self.term, leader))

    # ---- configurations -------------------------------------------------------------------------------------------

    def follow_configuration(self) -> None:
        """A leader serves exactly those whom the configuration names, and those whose removal may be taken back."""
        if not self.is_leader:
            return
        wanted = set(self.log.configuration.members)
        if self.log.configuration_index > self.commit_index:
            wanted.update(self.log.configuration_at(self.commit_index)[1].members)
        wanted.discard(self.node)
        for node in [node for node in self.progress if node not in wanted]:
            del self.progress[node]
        for node in sorted(wanted - self.progress.keys()):
            self.progress[node] = Progress(Index(self.log.last_index + 1), self.now_ns)

    def note_configuration(self) -> None:
        """The configuration in force has changed."""
        configuration = self.log.configuration
        index = self.log.configuration_index
        self.notes.append(ConfigurationChanged(configuration, index, index <= self.commit_index))
        if len(configuration.voters) % 2 == 0 and not configuration.is_joint:
            self.alarm("even-voters", f"{len(configuration.voters)} voters bear no more failures than one fewer would")
        self.follow_configuration()

    # ---- what always holds ----------------------------------------------------------------------------------------

    def check(self) -> None:
        """Assert what always holds of one node (the relations between nodes are for the checkers of a simulation)."""
        snapshot_index = 0 if self.snapshot is None else self.snapshot.last_index
        assert snapshot_index <= self.applied_index <= self.commit_index <= self.log.last_index, "state ordering (R10)"
        assert self.commit_index <= self.disk.durable_index, "nothing counts as committed that a crash could take"
        assert self.applied_index <= self.given_index <= self.commit_index
        assert self.is_leader == (self.role is Role.LEADER)
        assert not (self.is_leader and self.disk.is_hard_pending), "a leader's term is durable"
        assert not (self.is_leader and self.is_pre_candidate)
        assert self.is_leader or not self.progress
        assert not self.is_pre_candidate or self.leader is None, "a pre-candidate has no leader (CL-020)"
        assert self.is_leader == (self.leader == self.node)
        assert self.log.first_index <= snapshot_index + 1, "what was cut is under a snapshot"
        self.disk.check()
        for progress in self.progress.values():
            progress.check()
            assert progress.match_index <= self.log.last_index

"""R1 to R14, asserted after every step of every machine, with memory over all lives, on the disk as well.

The checker works with what it has seen: ``Persist`` effects are applied to an image of the log in memory, and again to
an image of the disk when the sync has returned; a machine's own fields must agree with the first, what is found after a
crash with the second. So each step costs what it changed. Promises and their numbers are those of the dossier:

====  ==============================================================================================================
R1    a term has one leader, over all time
R2    two logs that hold the same (index, term) agree in everything before it
R3    what is committed at a place, its result and the state after it are the same everywhere and for ever
R4    whoever becomes leader holds everything that was committed in earlier terms
R5    one vote in a term, over all lives, durable before it is told; nothing is said of a term that is not durable
R6    a pre-vote changes nothing, and is over with any change of role or accepted entries
R7    what a leader counts as committed is on the disks of a quorum of the voters, of both sets in a joint change
R8    terms never fall, on the disk, in memory, or in what is said
R9    committed entries are never changed
R10   commit and applied never fall, and snapshot <= applied <= commit <= last
R11   a match never falls, and is never more than what follower and leader have in common, on the follower's disk
R12   a leader commits by counting only what is of its own term
R13   roles change only as they may
R14   a leader only appends, in its term; a follower appends, or cuts once where the logs differ, above commit
====  ==============================================================================================================
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NoReturn

from bobbin.cluster.names import NodeId, Term
from bobbin.cluster.raft.effects import (
    Append,
    ConfigurationChanged,
    Cut,
    DurableRecord,
    Effect,
    HardState,
    InstallSnapshot,
    Persist,
    Reset,
    Role,
    RoleChanged,
    Send,
    Truncate,
)
from bobbin.cluster.raft.entries import Configuration, Entry
from bobbin.cluster.raft.events import Event, PersistFailed, Received, Recovered, SnapshotInstalled
from bobbin.cluster.raft.machine import RaftMachine
from bobbin.cluster.raft.messages import (
    AppendAnswer,
    AppendEntries,
    PreVote,
    PreVoteAnswer,
    RaftMessage,
    RequestVote,
    SnapshotOffer,
    TimeoutNow,
    VoteAnswer,
)
from bobbin.cluster.raft.progress import Progress
from bobbin.simulator.raft_disk_checker import DiskChecker, NodeView
from bobbin.simulator.raft_image import link

_MOVES: Final = frozenset(
    {
        (Role.FOLLOWER, Role.CANDIDATE),
        (Role.CANDIDATE, Role.CANDIDATE),
        (Role.CANDIDATE, Role.LEADER),
        (Role.CANDIDATE, Role.FOLLOWER),
        (Role.LEADER, Role.FOLLOWER),
    }
)


class RaftChecker(DiskChecker):
    """Looks at every step of every node of one cluster."""

    def __init__(self, nodes: Iterable[tuple[NodeId, Configuration | None]], fail: Callable[[str], NoReturn]) -> None:
        super().__init__(nodes, fail)
        self.liars: Final[set[NodeId]] = set()
        """Who may say anything of its own log."""

    # ---- lives ----------------------------------------------------------------------------------------------------

    def crashed(self, node: NodeId) -> None:
        """Whatever was only in memory is gone."""
        self.views[node].is_up = False

    def restarted(self, machine: RaftMachine, recovered: Recovered, *, may_lack: bool = False) -> None:
        """A machine begins with what was found on the disk."""
        view = self.restart(machine.node, recovered, may_lack=may_lack)
        if machine.role is not Role.FOLLOWER or machine.is_pre_candidate:
            self._fail(f"R13: {view.node} begins as {machine.role}")
        if machine.commit_index != view.commit or machine.applied_index != view.applied:
            self._fail(f"R10: {view.node} begins at commit {machine.commit_index}, applied {machine.applied_index}")
        self._compare_fields(view, machine)
        self.compare_log(machine)

    # ---- steps ----------------------------------------------------------------------------------------------------

    def look(self, machine: RaftMachine, event: Event, effects: Sequence[Effect]) -> None:
        """One step has been made, and nothing of its effects was done yet."""
        view = self.views[machine.node]
        role, term = machine.role, machine.term
        view.last_before = (view.memory.last_index, view.memory.last_term)
        if isinstance(event, SnapshotInstalled):
            view.given = max(view.given, event.metadata.last_index)
        elif isinstance(event, PersistFailed):
            self._go_back(view)
        stays_leader = role is Role.LEADER and view.role is Role.LEADER and term == view.term
        before = view.role
        for effect in effects:
            self._look_at_effect(view, machine, effect, stays_leader=stays_leader)
        if view.role is not role:
            self._fail(f"R13: {view.node} is {role.value}, and nobody was told")
        if term != view.term:
            self._turn(view, machine, event)
        if role is Role.LEADER and not stays_leader:
            self._begin_to_lead(view, machine)
        self._compare_fields(view, machine)
        if machine.commit_index != view.commit:
            self._commit(view, machine)
        self._look_at_applied(view, machine)
        if machine.is_pre_candidate or view.is_pre_candidate:
            self._look_at_pre_vote(view, machine, before)
        if isinstance(event, Received):
            if role is Role.LEADER:
                self._match(view, machine)
            if event.sender == view.node:
                self._look_for_own_voice(view, before, effects)

    def _look_for_own_voice(self, view: NodeView, before: Role, effects: Sequence[Effect]) -> None:
        """A node's own message, come back to it, is nobody's: it changes no role and gets no answer."""
        answered = any(isinstance(effect, Send) and effect.to == view.node for effect in effects)
        if answered or view.role is not before:
            self._fail(f"{view.node} has listened to itself: {effects}")

    def _go_back(self, view: NodeView) -> None:
        """A write has failed: memory is what the disk holds."""
        view.memory = view.durable.copy()
        if view.reset_told is not None:
            # The state machine has gone on from a snapshot, and so has the log, whatever the disk says.
            view.memory.reset(view.reset_told, self.chain_committed(view.reset_told.last_index))
        view.hard = (view.durable_term, view.durable_vote)
        view.term = min(view.term, view.durable_term)

    def _look_at_effect(self, view: NodeView, machine: RaftMachine, effect: Effect, *, stays_leader: bool) -> None:
        match effect:
            case Persist():
                self._persist(view, machine, effect.records, stays_leader=stays_leader)
            case RoleChanged():
                self._move(view, effect)
            case InstallSnapshot(metadata) if metadata.last_index <= view.commit:
                self._fail(f"R9: {view.node} installs a snapshot of {metadata.last_index}, commit {view.commit}")
            case ConfigurationChanged() if machine.role is Role.LEADER:
                # Whoever was removed and comes back begins anew.
                view.matches = {peer: held for peer, held in view.matches.items() if peer in machine.progress}
            case _:
                pass

    def _move(self, view: NodeView, effect: RoleChanged) -> None:
        if (effect.before, effect.after) not in _MOVES or effect.before is not view.role:
            self._fail(f"R13: {view.node} goes from {view.role.value} by {effect.before.value} to {effect.after.value}")
        view.role = effect.after

    def _turn(self, view: NodeView, machine: RaftMachine, event: Event) -> None:
        """The term has changed."""
        term = machine.term
        if term < view.term or term < view.durable_term:
            self._fail(f"R8: the term of {view.node} falls from {view.term} to {term}")
        if term > self.ledger.highest_term and not (term == view.term + 1 and view.hard[1] == view.node):
            self._fail(f"R6: {view.node} has gone from term {view.term} to {term}, of which nobody spoke ({event})")
        view.term = term

    def _begin_to_lead(self, view: NodeView, machine: RaftMachine) -> None:
        term, ledger = machine.term, self.ledger
        ledger.lead(view.node, term)
        if (view.durable_term, view.durable_vote) != (term, view.node):
            self._fail(f"R5: {view.node} leads in term {term}, and its vote for itself is not durable")
        ledger.vote(view.node, term, view.node)
        self._count_votes(view, term)
        last = ledger.last_before(term)
        if last > view.memory.snapshot_index and view.memory.chain_at(last) != ledger.committed[last]:
            self._fail(f"R4: {view.node} leads in term {term} without entry {last}, which was committed")
        view.matches = {}

    def _count_votes(self, view: NodeView, term: Term) -> None:
        """R1, where it begins: whoever leads has the votes of a quorum, given in this term."""
        configuration = view.memory.configuration
        assert configuration is not None, f"{view.node} leads nobody"
        for voters in (configuration.voters, configuration.outgoing):
            given = sum(self.ledger.votes.get((voter, term)) == view.node for voter in voters)
            if voters and given < len(voters) // 2 + 1:
                self._fail(f"R1: {view.node} leads in term {term} with {given} votes of {len(voters)}")

    def _compare_fields(self, view: NodeView, machine: RaftMachine) -> None:
        memory = view.memory
        if machine.last_index != memory.last_index or machine.last_term != memory.last_term:
            self._fail(
                f"R14: the log of {view.node} ends at {machine.last_index} of term {machine.last_term}; the disk was "
                f"told of {memory.last_index} of term {memory.last_term}"
            )
        if (machine.term, machine.voted_for) != view.hard:
            self._fail(
                f"R5: {view.node} is at term {machine.term}, vote {machine.voted_for}; the disk was told {view.hard}"
            )
        configuration = memory.configuration
        if configuration is not None and machine.configuration != configuration:
            self._fail(f"{view.node} does not use the newest configuration in its log: {machine.configuration}")

    def _look_at_applied(self, view: NodeView, machine: RaftMachine) -> None:
        if machine.applied_index < view.applied:
            self._fail(f"R10: applied falls at {view.node}")
        view.applied = machine.applied_index
        last = view.memory.last_index
        if not view.memory.snapshot_index <= view.applied <= view.commit <= last:
            self._fail(
                f"R10: at {view.node} snapshot {view.memory.snapshot_index}, applied {view.applied}, "
                f"commit {view.commit}, last {last} are out of order"
            )

    # ---- the log --------------------------------------------------------------------------------------------------

    def _persist(
        self, view: NodeView, machine: RaftMachine, records: Sequence[DurableRecord], *, stays_leader: bool
    ) -> None:
        memory = view.memory
        for place, record in enumerate(records):
            match record:
                case HardState():
                    view.hard = (record.term, record.voted_for)
                    vote = record.voted_for
                    if vote not in {None, view.node} and (vote, record.term) not in self.ledger.asked:
                        self._fail(f"R5: {view.node} votes for {vote} in term {record.term}, which never asked")
                case Append():
                    self._append(view, machine, record.entries)
                case Truncate():
                    if stays_leader:
                        self._fail(f"R14: {view.node} leads and cuts its log at {record.from_index}")
                    follows = records[place + 1] if place + 1 < len(records) else None
                    self._truncate(view, record, follows)
                case Cut():
                    applied = machine.applied_index
                    if record.metadata.last_index > applied or record.first_index > record.metadata.last_index + 1:
                        self._fail(f"R9: {view.node} cuts before {record.first_index}, applied {applied}")
                    if record.metadata not in view.snapshots and record.metadata != memory.snapshot:
                        self._fail(f"R9: {view.node} cuts for a snapshot that is not durable")
                    memory.cut(record.first_index, record.metadata)
                case Reset():
                    if record.metadata.last_index < view.commit:
                        self._fail(f"R9: {view.node} drops entries up to {view.commit} for an older snapshot")
                    if record.metadata not in view.snapshots:
                        self._fail(f"R9: {view.node} drops its log for a snapshot that is not durable")
                    memory.reset(record.metadata, self.chain_committed(record.metadata.last_index))
                    view.reset_told = record.metadata

    def _append(self, view: NodeView, machine: RaftMachine, entries: Sequence[Entry]) -> None:
        memory, ledger = view.memory, self.ledger
        is_leader = machine.role is Role.LEADER
        for entry in entries:
            if entry.index != memory.last_index + 1:
                self._fail(f"R14: {view.node} puts entry {entry.index} after {memory.last_index}")
            if is_leader and entry.term != machine.term:
                self._fail(f"R14: {view.node} leads in term {machine.term} and appends an entry of term {entry.term}")
            if is_leader and isinstance(entry.payload, Configuration):
                self._change_members(view, machine)
            if entry.term < memory.last_term:
                self._fail(f"R14: terms fall in the log of {view.node} at {entry.index}")
            before = memory.last_chain
            if before is None:
                self._fail(f"R2: {view.node} appends {entry.index} to a snapshot that nobody has seen committed")
            memory.append(entry, ledger.enter(entry, before))

    def _change_members(self, view: NodeView, machine: RaftMachine) -> None:
        """One change at a time, and none before something of this term is committed."""
        commit = machine.commit_index
        if view.memory.configurations[-1][0] > commit:
            self._fail(f"{view.node} changes the members while another change is not committed")
        if view.memory.term_at(commit) != machine.term:
            self._fail(f"{view.node} changes the members before anything of its term is committed")

    def _truncate(self, view: NodeView, record: Truncate, follows: DurableRecord | None) -> None:
        at, memory = record.from_index, view.memory
        if at <= view.commit:
            self._fail(f"R9: {view.node} cuts at {at}, commit is {view.commit}")
        if at > memory.last_index:
            self._fail(f"R14: {view.node} cuts at {at}, behind its last entry {memory.last_index}")
        if not isinstance(follows, Append) or follows.entries[0].index != at:
            self._fail(f"R14: {view.node} cuts at {at} and puts nothing in its place")
        elif follows.entries[0].term == memory.term_at(at):
            self._fail(f"R14: {view.node} cuts at {at}, where the logs agree")
        memory.truncate(at)

    def _commit(self, view: NodeView, machine: RaftMachine) -> None:
        commit, ledger = machine.commit_index, self.ledger
        if commit < view.commit:
            self._fail(f"R10: commit falls at {view.node} from {view.commit} to {commit}")
        if commit > view.memory.last_index:
            self._fail(f"R10: {view.node} commits {commit}, and its log ends at {view.memory.last_index}")
        known = ledger.last
        if view.memory.base <= min(commit, known) and (
            view.memory.chain_at(min(commit, known)) != ledger.committed[min(commit, known)]
        ):
            self._fail(f"R3: {view.node} commits at {min(commit, known)} something else than was committed there")
        if commit > known:
            ledger.commit(view.node, machine.log.entries(known + 1, commit + 1), machine.term)
            self._look_for_leaders_without(commit)
        if machine.role is Role.LEADER:
            if view.memory.term_at(commit) != machine.term:
                self._fail(f"R12: {view.node} leads in term {machine.term} and commits {commit} of an earlier term")
            self._count_copies(view, commit)
        view.commit = commit

    def _look_for_leaders_without(self, index: int) -> None:
        """R4, when the leader of a later term is there before anybody knows that this is committed."""
        ledger = self.ledger
        for view in self.views.values():
            if view.is_up and view.role is Role.LEADER and view.term > ledger.committed_in[index]:
                lacks = view.memory.base <= index and view.memory.chain_at(index) != ledger.committed[index]
                if lacks:
                    self._fail(f"R4: {view.node} leads in term {view.term} without entry {index}, which is committed")

    def _count_copies(self, leader: NodeView, index: int) -> None:
        """R7: copies that are durable, of voters only."""
        configuration = leader.memory.configuration
        assert configuration is not None, f"{leader.node} leads nobody"
        chain = leader.memory.chain_at(index)
        for voters in (configuration.voters, configuration.outgoing):
            held = 0
            for voter in voters:
                copy = self.views[voter]
                held += copy.durable.chain_at(index) == chain or copy.snapshot_index >= index
            if voters and held < len(voters) // 2 + 1:
                self._fail(f"R7: {leader.node} commits {index}, durable at {held} of {len(voters)} voters")

    def _match(self, view: NodeView, machine: RaftMachine) -> None:
        matches = view.matches
        for peer, progress in machine.progress.items():
            match_index = progress.match_index
            if match_index == matches.get(peer, 0) or peer == view.node:
                continue
            if match_index < matches.get(peer, 0):
                self._fail(f"R11: {view.node} lets the match of {peer} fall to {match_index}")
            matches[peer] = match_index
            theirs, ours = self.views[peer], view.memory
            if match_index <= theirs.snapshot_index or match_index < ours.base:
                continue
            if theirs.durable_term > machine.term and max(self.ledger.leaders, default=Term(0)) > machine.term:
                # It said so before it went on to a later term, whose leader may have had it cut its log since.
                continue
            if theirs.durable.chain_at(match_index) != ours.chain_at(match_index):
                self._fail(f"R11: {view.node} takes {peer} to agree up to {match_index}")

    def _look_at_pre_vote(self, view: NodeView, machine: RaftMachine, before: Role) -> None:
        asks = machine.is_pre_candidate
        if asks and (machine.role is Role.LEADER or machine.leader is not None):
            self._fail(f"R6: {view.node} asks for pre-votes as {machine.role.value}, leader {machine.leader}")
        if asks and before is not machine.role:
            self._fail(f"R6: {view.node} still asks for pre-votes after a change of role")
        view.is_pre_candidate = asks

    def before_step(self, machine: RaftMachine, event: Event) -> tuple[object, ...] | None:
        """What a pre-vote, or an answer of an older term, must not change; None for any other event."""
        if not isinstance(event, Received):
            return None
        match event.message:
            case PreVote() | PreVoteAnswer():
                return (machine.term, machine.voted_for, machine.is_pre_candidate)
            case AppendAnswer(term=term) if term < machine.term and (found := machine.progress.get(event.sender)):
                return (found, found.match_index, found.next_index, found.last_contact_ns, found.acknowledged_round)
            case _:
                return None

    def after_step(self, machine: RaftMachine, event: Event, before: tuple[object, ...]) -> None:
        """Compare with what was before."""
        assert isinstance(event, Received)
        match event.message:
            case PreVote() | PreVoteAnswer():
                self._after_pre_vote(machine, event.message, before)
            case _:
                found = before[0]
                assert isinstance(found, Progress)
                after = (found.match_index, found.next_index, found.last_contact_ns, found.acknowledged_round)
                if after != before[1:]:
                    self._fail(f"R11: {machine.node} has counted an answer of term {event.message.term}")

    def _after_pre_vote(
        self, machine: RaftMachine, message: PreVote | PreVoteAnswer, before: tuple[object, ...]
    ) -> None:
        """R6, for an exchange of pre-votes."""
        term, vote, asked = before
        assert isinstance(term, int)
        if (machine.term, machine.voted_for) == (term, vote):
            return
        stands = asked and machine.term == term + 1 and machine.voted_for == machine.node
        if isinstance(message, PreVoteAnswer):
            if message.granted and stands:
                return
            if not message.granted and machine.term == message.term > term:
                return
        self._fail(f"R6: a pre-vote of {message.term} has moved {machine.node} from {term} to {machine.term}")

    # ---- what is said ---------------------------------------------------------------------------------------------

    def sent(self, machine: RaftMachine, to: NodeId, message: RaftMessage) -> None:
        """A message leaves a node."""
        view, term = self.views[machine.node], message.term
        if term > view.durable_term:
            self._fail(f"R5: {view.node} speaks in term {term}; on its disk is {view.durable_term} ({message})")
        if term < view.said:
            self._fail(f"R8: {view.node} has spoken in term {view.said}, and now in {term} ({message})")
        view.said = term
        self.ledger.highest_term = max(self.ledger.highest_term, term)
        match message:
            case VoteAnswer(granted=True):
                self._say_vote(view, term, to)
            case RequestVote():
                self.ledger.asked.add((view.node, term))
                self._say_vote(view, term, view.node)
                self._say_last(view, message)
            case PreVote():
                self._say_last(view, message)
            case AppendEntries():
                self._say_entries(view, message)
            case AppendAnswer(success=True):
                if message.match_index > max(view.durable.last_index, view.snapshot_index):
                    self._fail(f"R7: {view.node} acknowledges {message.match_index} before it is durable")
            case SnapshotOffer():
                self._lead_of(view, term)
            case TimeoutNow():
                self._lead_of(view, term)
                # One that leads no more, since it was removed, may ask anybody.
                progress = machine.progress.get(to)
                if machine.role is Role.LEADER and (progress is None or progress.match_index != machine.last_index):
                    self._fail(f"{view.node} hands over to {to}, which lacks entries")
            case _:
                pass

    def _say_vote(self, view: NodeView, term: Term, candidate: NodeId) -> None:
        self.ledger.vote(view.node, term, candidate)
        asks = self.views[candidate]
        if asks.is_up and asks.role is Role.CANDIDATE and asks.term == term and candidate not in self.liars:
            theirs = (asks.memory.last_term, asks.memory.last_index)
            if theirs < (view.durable.last_term, view.durable.last_index):
                self._fail(f"R4: {view.node} votes for {candidate}, whose log is behind: it ends at {theirs}")
        if (view.durable_term, view.durable_vote) != (term, candidate):
            self._fail(f"R5: {view.node} votes for {candidate} in term {term} before it is durable")

    def _say_last(self, view: NodeView, message: RequestVote | PreVote) -> None:
        # A message that was held back until the term was durable may leave together with what came meanwhile.
        now = (view.memory.last_index, view.memory.last_term)
        if (message.last_index, message.last_term) not in {now, view.last_before}:
            self._fail(f"{view.node} says that its log ends at {message.last_index} of term {message.last_term}")

    def _lead_of(self, view: NodeView, term: Term) -> None:
        if self.ledger.leaders.get(term) != view.node:
            self._fail(f"R1: {view.node} speaks as the leader of term {term}")

    def _say_entries(self, view: NodeView, message: AppendEntries) -> None:
        self._lead_of(view, message.term)
        if message.commit > view.commit:
            self._fail(f"{view.node} tells of commit {message.commit}, and knows of {view.commit}")
        index: int = message.previous_index
        known = view.memory.term_at(index)
        if known is not None and known != message.previous_term:
            self._fail(f"{view.node} says that entry {index} is of term {message.previous_term}, and not {known}")
        for entry in message.entries:
            index += 1
            if entry.index != index or view.memory.term_at(index) not in {entry.term, None}:
                self._fail(f"{view.node} sends entry {entry.index} of term {entry.term} in the place of {index}")

    # ---- what is applied ------------------------------------------------------------------------------------------

    def given(self, node: NodeId, entries: Sequence[Entry]) -> None:
        """Entries are given out to be applied."""
        view, ledger = self.views[node], self.ledger
        for entry in entries:
            index = entry.index
            if index != view.given + 1:
                self._fail(f"R3: {node} applies {index} after {view.given}")
            if index > view.commit:
                self._fail(f"R3: {node} applies {index}, committed is {view.commit}")
            if link(ledger.committed[index - 1], entry) != ledger.committed[index]:
                self._fail(f"R3: {node} applies something else at {index} than was committed")
            view.given = index

    # ---- the whole ------------------------------------------------------------------------------------------------

    def compare_log(self, machine: RaftMachine) -> None:
        """The whole log of a machine is what the disk was told of."""
        view = self.views[machine.node]
        memory = view.memory
        # A cut takes place in memory when the disk has it.
        if machine.first_index > memory.base + 1:
            self._fail(f"R14: the log of {view.node} begins at {machine.first_index}, and not at {memory.base + 1}")
        chain = memory.base_chain
        for entry in machine.log.entries(memory.base + 1, memory.last_index + 1):
            assert chain is not None
            chain = link(chain, entry)
            if chain != memory.chain_at(entry.index):
                self._fail(f"R14: the log of {view.node} has changed at {entry.index}, and the disk was not told")

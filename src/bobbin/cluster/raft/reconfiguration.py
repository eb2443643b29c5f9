"""Who belongs: one change at a time, in force as soon as it is in the log, and by an entry of its own (CL-037, CL-039).

A learner is added, and promoted once it has caught up. One voter more or less is a change of one step, because any two
majorities then overlap. Several at once go through a joint configuration, in which both sets of voters must agree; the
leader leaves it by a second entry as soon as the first is committed, also a leader that has inherited it. A leader that
is not among the new voters stays until that second entry is committed, without counting itself, and then hands over.
"""

from bobbin.cluster.names import Index, NodeId
from bobbin.cluster.raft.effects import Accepted, ConfigurationChanged, Why
from bobbin.cluster.raft.entries import Configuration, Entry
from bobbin.cluster.raft.events import AddLearner, JointChange, PromoteLearner, RemoveNode
from bobbin.cluster.raft.replication import Replication
from bobbin.cluster.raft.state import RaftState


class Reconfiguration:
    """The part of a machine that changes who belongs."""

    def __init__(self, state: RaftState, replication: Replication) -> None:
        self._state = state
        self._replication = replication
        self._noted: tuple[Index, Configuration] = state.log.configuration_at(state.log.last_index)
        self._committed = min(state.log.configuration_index, state.commit_index)

    def ask(self, event: AddLearner | PromoteLearner | RemoveNode | JointChange, *, is_transferring: bool) -> None:
        """An operator wants a change."""
        state = self._state
        why = self._refusal(is_transferring=is_transferring)
        after: Configuration | Why | None = None
        if why is None:
            match event:
                case AddLearner():
                    after = self._with_learner(event.node)
                case PromoteLearner():
                    after = self._with_voter(event.node)
                case RemoveNode():
                    after = self._without(event.node)
                case JointChange():
                    after = self._jointly(event.additions, event.removals)
            if isinstance(after, Why):
                why = after
        if why is not None:
            state.refuse(event.request, why)
            return
        assert isinstance(after, Configuration)
        index = self._append(after)
        state.notes.append(Accepted(event.request, index, 1, state.term))

    def note_changes(self) -> None:
        """Tell of a configuration that came into force, or of one that came back when a newer one was cut."""
        log = self._state.log
        present = (log.configuration_index, log.configuration)
        if present != self._noted:
            self._noted = present
            index = log.configuration_index
            self._committed = index if index <= self._state.commit_index else Index(index - 1)
            self._state.note_configuration()

    def note_commit(self) -> None:
        """Tell of a configuration that cannot be taken back any more, and draw what follows from it."""
        state = self._state
        index = state.log.configuration_index
        if self._committed >= index or index > state.commit_index:
            return
        self._committed = index
        configuration = state.log.configuration
        state.notes.append(ConfigurationChanged(configuration, index, is_committed=True))
        if not state.is_leader:
            return
        members = configuration.members
        self._replication.farewell([node for node in state.progress if node not in members])
        state.follow_configuration()

    def lead_on(self) -> None:
        """A leader leaves a joint configuration that is committed, and its office once it does not vote any more."""
        state = self._state
        configuration = state.configuration
        if state.log.configuration_index > state.commit_index or state.commit_index < state.led_from_index:
            return
        if configuration.is_joint:
            self._append(Configuration(configuration.voters, configuration.learners))
            self.note_changes()
        elif state.node not in configuration.voters:
            self._replication.hand_over()
            state.become_follower(state.term)

    # ---- what a change would make ---------------------------------------------------------------------------------

    def _refusal(self, *, is_transferring: bool) -> Why | None:
        state = self._state
        if not state.is_leader:
            return Why.NOT_LEADER
        if is_transferring:
            return Why.TRANSFERRING
        if not self._replication.is_in_contact():
            return Why.NO_QUORUM
        is_open = state.log.configuration_index > state.commit_index or state.configuration.is_joint
        return Why.CHANGE_PENDING if is_open or state.commit_index < state.led_from_index else None

    def _with_learner(self, node: NodeId) -> Configuration | Why:
        configuration = self._state.configuration
        if node in configuration.members:
            return Why.IS_MEMBER
        return Configuration(configuration.voters, _ascending(*configuration.learners, node))

    def _with_voter(self, node: NodeId) -> Configuration | Why:
        configuration = self._state.configuration
        why = self._promotion_refusal(node)
        if why is not None:
            return why
        learners = tuple(learner for learner in configuration.learners if learner != node)
        return Configuration(_ascending(*configuration.voters, node), learners)

    def _without(self, node: NodeId) -> Configuration | Why:
        configuration = self._state.configuration
        if node == self._state.node:
            return Why.IS_LEADER
        if node not in configuration.members:
            return Why.UNKNOWN_NODE
        return Configuration(
            tuple(voter for voter in configuration.voters if voter != node),
            tuple(learner for learner in configuration.learners if learner != node),
        )

    def _jointly(self, additions: tuple[NodeId, ...], removals: tuple[NodeId, ...]) -> Configuration | Why:
        configuration = self._state.configuration
        for node in additions:
            why = self._promotion_refusal(node)
            if why is not None:
                return why
        if any(node not in configuration.voters for node in removals):
            return Why.UNKNOWN_NODE
        voters = _ascending(*({*configuration.voters, *additions} - set(removals)))
        if not voters or voters == configuration.voters:
            return Why.UNKNOWN_NODE
        learners = tuple(learner for learner in configuration.learners if learner not in additions)
        return Configuration(voters, learners, configuration.voters)

    def _promotion_refusal(self, node: NodeId) -> Why | None:
        state = self._state
        if node in state.configuration.voters:
            return Why.IS_MEMBER
        if node not in state.configuration.learners:
            return Why.UNKNOWN_NODE
        lag = state.commit_index - state.progress[node].held_index
        return Why.NOT_CAUGHT_UP if lag > state.config.learner_lag_max else None

    def _append(self, configuration: Configuration) -> Index:
        state = self._state
        index = Index(state.log.last_index + 1)
        state.disk.append((Entry(state.term, index, configuration),))
        return index


def _ascending(*nodes: NodeId) -> tuple[NodeId, ...]:
    return tuple(sorted(set(nodes)))

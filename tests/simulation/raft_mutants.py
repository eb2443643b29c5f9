"""Clusters with one fault each: what the simulated worlds must find.

Most are the mutations of the conformance page; B and L are the bugs of the dossier. A few have been bugs of ours.
"""

from collections.abc import Mapping
from typing import Final

from bobbin.cluster.key_value import KeyValue
from bobbin.cluster.raft import quorum
from bobbin.cluster.raft.durability import Durability
from bobbin.cluster.raft.election import Elections
from bobbin.cluster.raft.following import Following
from bobbin.cluster.raft.judging import Judging
from bobbin.cluster.raft.log import RaftLog
from bobbin.cluster.raft.machine import RaftMachine
from bobbin.cluster.raft.progress import Progress
from bobbin.cluster.raft.reads import Reads
from bobbin.cluster.raft.reconfiguration import Reconfiguration
from bobbin.cluster.raft.replication import Replication
from bobbin.cluster.raft.snapshot_transfer import SnapshotReceiver
from bobbin.cluster.raft.snapshots import Snapshots
from bobbin.cluster.raft.state import RaftState
from bobbin.cluster.raft.tiebreak import TieBreak
from bobbin.cluster.raft.transfer import Transfers
from bobbin.simulator.batch import run_block
from bobbin.simulator.raft_node import RaftNode
from bobbin.store.raft_storage import RaftStorage
from tests.simulation.raft_planting import Edit, planted

SEEDS_MAX: Final = 400


_PRE: Final = "state.is_pre_candidate = True\n"

MUTANTS: Final[Mapping[str, tuple[Edit, ...]]] = {
    # ---- elections
    "begins as a candidate (CL-001)": (
        Edit(
            RaftMachine,
            "__init__",
            "self._inbox: Final = Inbox()",
            "self._inbox: Final = Inbox(); self._state.role = Role.CANDIDATE",
        ),
    ),
    "stands without a new term (CL-002)": (
        Edit(RaftState, "become_candidate", "Term(self.term + 1)", "Term(max(self.term, 1))"),
    ),
    "stands without its own vote (CL-002)": (
        Edit(
            RaftState,
            "become_candidate",
            "self.disk.set_hard_state(Term(self.term + 1), self.node)",
            "self.disk.set_hard_state(Term(self.term + 1), None)",
        ),
    ),
    "keeps its vote under a new term (CL-004)": (
        Edit(
            RaftState,
            "become_follower",
            "self.disk.set_hard_state(term, None)",
            "self.disk.set_hard_state(term, self.voted_for)",
        ),
    ),
    "answers before the vote is durable (CL-004, CL-046)": (
        Edit(Elections, "_answer", "state.send_when_durable(sender, answer, refusal)", "state.send(sender, answer)"),
    ),
    "asks for votes before its own is durable (CL-002)": (
        Edit(Elections, "_stand", "state.send_when_durable(voter, message)", "state.send(voter, message)"),
    ),
    "counts answers instead of voters (CL-005)": (
        Edit(
            Elections,
            "_count",
            "state.granted.add(voter)",
            "state.granted.add(voter if voter not in state.granted else next("
            "(other for other in state.configuration.voters if other not in state.granted), voter))",
        ),
    ),
    "takes one vote too few (CL-005, CL-011)": (Edit(quorum, "quorum_size", "voters // 2 + 1", "voters // 2"),),
    "takes half for a majority (CL-007, CL-364)": (
        Edit(quorum, "quorum_size", "voters // 2 + 1", "(voters + 1) // 2"),
    ),
    "keeps grants of the last round (CL-007)": (
        Edit(
            RaftState, "become_candidate", "self.granted.clear()", "self.granted.update(self.configuration.voters[:1])"
        ),
    ),
    "draws one and the same timeout (CL-010)": (
        Edit(TieBreak, "draw_ns", "return chance.randint(least, most)", "return least"),
    ),
    "votes without comparing logs (CL-045)": (
        Edit(RaftState, "is_up_to_date", "return (last_term, last_index) >= ", "return True or "),
    ),
    "votes for everybody (CL-012)": (
        Edit(
            Elections,
            "hear_request",
            "granted = state.voted_for in {None, message.candidate} and state.is_up_to_date(",
            "state.disk.set_hard_state(message.term, message.candidate)\n    granted = state.is_up_to_date(",
        ),
    ),
    "grants what could not be written (CL-013)": (
        Edit(Durability, "fail", "instead = self._held.pop()[2]", "instead = self._held.pop()[1]"),
    ),
    "asks pre-votes in the next term (CL-014)": (
        Edit(Elections, "_ask_first", "term=state.term,", "term=Term(state.term + 1),"),
    ),
    "raises its term before the pre-votes (CL-014)": (
        Edit(Elections, "_ask_first", _PRE, _PRE + "    state.disk.set_hard_state(Term(state.term + 1), None)\n"),
    ),
    "learns terms from pre-votes (CL-047)": (
        Edit(
            Elections,
            "hear_pre_vote",
            "granted = (",
            "state.become_follower(max(state.term, message.term))\n    granted = (",
        ),
    ),
    "keeps its leader while it asks (CL-020)": (Edit(Elections, "_ask_first", "state.follow(None)", ""),),
    "B3: asks for pre-votes after a step down (CL-060)": (
        Edit(RaftState, "become_follower", "self.is_pre_candidate = False", ""),
    ),
    "L4: builds vote requests and discards them (CL-067)": (
        Edit(Elections, "_stand", "state.send_when_durable(voter, message)", "pass"),
    ),
    "leads at once when told to stand (CL-054)": (
        Edit(
            Elections,
            "hear_timeout_now",
            "self._stand(is_transfer=True)",
            "self._stand(is_transfer=True); state.become_leader()",
        ),
    ),
    # ---- the log
    "keeps what contradicts the leader (CL-015)": (
        Edit(
            Following,
            "_take",
            "if index <= log.last_index:\n        state.disk.truncate(index)",
            "if index <= log.last_index:\n        return True",
        ),
    ),
    "cuts where the logs agree (CL-055)": (
        Edit(
            Following,
            "_first_difference",
            "if entry.index >= held_from and log.term_at(entry.index) != entry.term:",
            "if entry.index >= held_from:",
        ),
    ),
    "accepts without the previous entry (CL-029)": (
        Edit(
            Following,
            "hear_append",
            "if held != message.previous_term and (held is not None or previous > state.commit_index):",
            "if False:",
        ),
    ),
    "does not compare the previous term (CL-043)": (
        Edit(
            Following,
            "hear_append",
            "if held != message.previous_term and (held is not None or previous > state.commit_index):",
            "if previous > state.log.last_index:",
        ),
    ),
    "acknowledges before it is durable (CL-048)": (
        Edit(Following, "_accept", "state.send_when_durable(sender, answer)", "state.send(sender, answer)"),
    ),
    "learns of commits from entries only (CL-028)": (
        Edit(
            Following,
            "hear_append",
            "state.known_commit = max(",
            "state.known_commit = state.known_commit if not message.entries else max(",
        ),
    ),
    "gives out an entry twice (CL-028)": (
        Edit(
            RaftMachine,
            "_advance",
            "state.given_index = state.commit_index",
            "state.given_index = state.commit_index - (state.commit_index % 3 == 0)",
        ),
    ),
    "applies what is not committed (CL-044)": (
        Edit(RaftMachine, "_advance", "index = min(state.known_commit, durable)", "index = durable"),
    ),
    "takes an older commit index (CL-051)": (
        Edit(
            Following,
            "hear_append",
            "state.known_commit = max(state.known_commit, min(message.commit, match_index))",
            "state.known_commit = state.commit_index = Index(min(message.commit, match_index))",
        ),
    ),
    "B1: answers with the length of its log (CL-058)": (
        Edit(
            Following,
            "hear_append",
            "match_index = Index(previous + len(message.entries))",
            "match_index = Index(max(previous + len(message.entries), state.disk.durable_index))",
        ),
    ),
    "B2: lets a match fall (CL-059)": (
        Edit(Progress, "_matched", "if match_index <= self.match_index:", "if match_index == self.match_index:"),
    ),
    "B4: listens to itself (CL-061)": (
        Edit(RaftMachine, "_receive", "if sender == self._state.node:", "if False:"),
        Edit(Following, "hear_leader", "if state.is_leader or (", "if ("),
    ),
    "B5: an empty heartbeat cuts the log (CL-062, CL-050)": (
        Edit(
            Following,
            "_take",
            "if not entries:\n        return True",
            "if not entries:\n        if message.previous_index < log.last_index:\n"
            "            state.disk.truncate(message.previous_index + 1)\n        return True",
        ),
    ),
    "B6: an older message cuts newer entries (CL-063)": (
        Edit(
            Following,
            "_take",
            "if new is None:\n        return True",
            "if new is None:\n        if entries[-1].index < log.last_index:\n"
            "            state.disk.truncate(entries[-1].index + 1)\n        return True",
        ),
    ),
    "L1: names no previous entry when it is cut (CL-064)": (
        Edit(
            Replication,
            "_send_entries",
            "if previous_term is None:",
            "previous_term = previous_term or 0\n    if False:",
        ),
        Edit(
            Replication,
            "_send_entries",
            "previous_index=Index(first - 1),",
            "previous_index=Index(first - 1 if previous_term else 0),",
        ),
        Edit(
            Replication,
            "_send_entries",
            "first = progress.next_index",
            "first = max(progress.next_index, log.first_index)",
        ),
    ),
    "L2: commits up to the end of its own log (CL-065)": (
        Edit(Following, "hear_append", "min(message.commit, match_index)", "min(message.commit, state.log.last_index)"),
    ),
    "L9: an empty log ends in term 0 (CL-086)": (
        Edit(RaftLog, "last_term", "if self._entries else self._snapshot[1]", "if self._entries else Term(0)"),
    ),
    "L13: goes on after a write that failed (CL-097)": (Edit(RaftMachine, "_lose", "if not failed:", "if True:"),),
    "appends under an older term (CL-026)": (
        Edit(
            RaftMachine,
            "_propose",
            "state.disk.append_commands(state.term, commands)",
            "state.disk.append_commands(Term(max(0, state.term - 1)), commands)",
        ),
    ),
    "commits what is of an earlier term (CL-053)": (
        Edit(Replication, "advance_commit", " or state.log.term_at(index) != state.term", ""),
    ),
    "counts its own entries before they are durable (CL-048)": (
        Edit(Replication, "_match_of", "return self._state.disk.durable_index", "return self._state.log.last_index"),
        Edit(
            Replication,
            "advance_commit",
            "min(reached(state.configuration, self._match_of, state.config.quorum_size), state.disk.durable_index)",
            "reached(state.configuration, self._match_of, state.config.quorum_size)",
        ),
        Edit(RaftMachine, "_advance", "index = min(state.known_commit, durable)", "index = state.known_commit"),
    ),
    "never goes back after a refusal (CL-056)": (
        Edit(
            Progress,
            "refused",
            "self.next_index = Index(max(backwards, 1 if is_damaged else self.match_index + 1))",
            "",
        ),
    ),
    "goes back before the first entry (CL-029)": (
        Edit(
            Progress,
            "refused",
            "backwards = min(max(self.next_index - step, first_index), agrees_at_most + 1)",
            "backwards = min(self.next_index - step, agrees_at_most)",
        ),
        Edit(
            Progress,
            "refused",
            "self.next_index = Index(max(backwards, 1 if is_damaged else self.match_index + 1))",
            "self.next_index = Index(backwards)",
        ),
    ),
    "takes a heartbeat's answer for that of lost entries": (
        Edit(
            Progress,
            "_matched",
            "while flights and flights[0].last_index <= match_index:",
            "while flights and flights[0].round <= self.acknowledged_round:",
        ),
    ),
    # ---- reads, requests, transfers
    "reads without asking anybody (CL-033)": (
        Edit(Reads, "confirm", "while self._open and self._open[0].round <= confirmed:", "while self._open:"),
    ),
    "reads before anything of its term is committed (CL-033)": (
        Edit(Reads, "open_round", " and state.commit_index >= state.led_from_index", ""),
    ),
    "answers clients at append time (CL-027)": (
        Edit(
            RaftNode,
            "_accepted",
            "self._waiting[effect.first_index + place] =",
            "reply(Answer.DONE, b'\\x92\\x01\\x01', self.node); self._waiting[effect.first_index + place] =",
        ),
    ),
    "calls a request refused that is in the log (CL-057)": (
        Edit(
            RaftMachine,
            "_settle",
            "self._reads.abandon()",
            "self._reads.abandon()\n"
            "        for request in self.__dict__.pop('open', ()):\n            state.refuse(request, Why.NOT_LEADER)",
        ),
        Edit(
            RaftMachine,
            "_propose",
            "state.stats.commands_accepted += len(commands)",
            "self.__dict__.setdefault('open', []).append(request)",
        ),
    ),
    "hands over to one that lags (CL-035)": (
        Edit(
            Transfers, "advance", "progress is None or progress.held_index != state.log.last_index", "progress is None"
        ),
    ),
    "does a repeated request again (CL-057)": (Edit(KeyValue, "apply", "if known is not None:", "if False:"),),
    "L14: raises from apply (CL-069)": (Edit(KeyValue, "apply", "return self._refuse(Kind.NO_COMMAND)", "raise"),),
    # ---- members
    "changes the quorum at commit (CL-037)": (
        Edit(
            RaftState,
            "configuration",
            "return self.log.configuration",
            "return self.log.configuration_at(self.commit_index)[1]",
        ),
    ),
    "keeps a configuration that was cut (CL-037)": (Edit(RaftLog, "truncate", "self._configurations.pop()", "break"),),
    "counts learners (CL-038)": (
        Edit(
            Replication,
            "advance_commit",
            "reached(state.configuration,",
            "reached(type(state.configuration)((*state.configuration.voters, *state.configuration.learners)),",
        ),
    ),
    "leaves learners out (CL-026)": (
        Edit(
            RaftState,
            "follow_configuration",
            "wanted = set(self.log.configuration.members)",
            "wanted = set(self.log.configuration.voters + self.log.configuration.outgoing)",
        ),
    ),
    "changes members twice at once (CL-039)": (
        Edit(
            Reconfiguration,
            "_refusal",
            "is_open = state.log.configuration_index > state.commit_index or state.configuration.is_joint",
            "is_open = state.configuration.is_joint",
        ),
    ),
    "changes members straight after its election (CL-039)": (
        Edit(Reconfiguration, "_refusal", "is_open or state.commit_index < state.led_from_index", "is_open"),
    ),
    "leaves a joint configuration only if it began it (CL-056)": (
        Edit(
            Reconfiguration,
            "lead_on",
            "if configuration.is_joint:",
            "if configuration.is_joint and state.log.term_at(state.log.configuration_index) == state.term:",
        ),
    ),
    # ---- lives and snapshots
    "forgets its vote with a restart (CL-042, CL-293)": (
        Edit(RaftMachine, "__init__", "recovered.term, recovered.voted_for", "recovered.term, None"),
    ),
    "keeps term and vote in memory only (CL-305)": (
        Edit(
            RaftStorage,
            "append",
            "self._log.append(records)",
            "self._log.append([one for one in records if not hasattr(one, 'voted_for')])",
        ),
    ),
    "takes its term from the snapshot (CL-049)": (
        Edit(
            RaftMachine,
            "__init__",
            "recovered.term, recovered.voted_for",
            "recovered.snapshot.last_term if recovered.snapshot else recovered.term, recovered.voted_for",
        ),
    ),
    "replays from the first entry on a snapshot (CL-294)": (
        Edit(
            RaftMachine,
            "__init__",
            "self._state.known_commit = self._state.given_index = index",
            "self._state.known_commit = index; self._state.given_index = log.first_index - 1",
        ),
    ),
    "cuts before the snapshot is durable (CL-074)": (
        Edit(
            Snapshots,
            "_capture",
            "state.notes.append(TakeSnapshot(",
            "self._cut(SnapshotMetadata(last_index=index, last_term=term, sha256=b'', size=0, created_s=0, epoch=0,"
            " configuration=configuration))\n    state.notes.append(TakeSnapshot(",
        ),
    ),
    "installs what is older (CL-082)": (
        Edit(Snapshots, "hear_offer", "if metadata.last_index <= state.commit_index:", "if False:"),
        Edit(
            Snapshots,
            "hear_chunk",
            "if self.receiver.metadata is not None and self.receiver.metadata.last_index <= state.commit_index:",
            "if False:",
        ),
    ),
    "mixes two snapshots (CL-083)": (
        Edit(SnapshotReceiver, "offer", 'effects = self._drop("another snapshot is offered")', "effects = []"),
        Edit(
            SnapshotReceiver,
            "_judge",
            "if named != (metadata.sha256, metadata.last_index, metadata.last_term):",
            "if False:",
        ),
        Edit(SnapshotReceiver, "_judge", "if chunk.total != metadata.size:", "if False:"),
    ),
    "L7: guesses the term of a snapshot (CL-084)": (
        Edit(
            Snapshots,
            "hear_offer",
            "metadata = message.metadata",
            "metadata = __import__('msgspec').structs.replace(message.metadata, last_term=Term(1))",
        ),
    ),
    "L8: a second snapshot has only what is new (CL-085)": (
        Edit(
            KeyValue,
            "snapshot",
            "return KeyValueCapture(self._codec, self.horizon, list(self._order), self._items.copy(), sessions)",
            "before, self.__dict__['seen'] = self.__dict__.get('seen', {}), self._items.copy()\n"
            "    new = {key: item for key, item in self._items.items() if before.get(key) is not item}\n"
            "    return KeyValueCapture(self._codec, self.horizon, sorted(new), new, sessions)",
        ),
    ),
    # ---- judges
    "entries of earlier terms wait for what is applied": (
        Edit(Judging, "passing", "elif judgement.is_lag and entry.term < term:", "elif False:"),
    ),
    "takes what was not judged (CL-243)": (
        Edit(Following, "_judged", "entries=message.entries[: held + count]", "entries=message.entries"),
    ),
    "never tells a judge to begin anew": (Edit(Judging, "_begin_anew", "self._judge.forget()", "pass"),),
    "leaves a judge with what it could not see into": (
        Edit(Judging, "_catch_up", "        self._begin_anew()", "        pass"),
    ),
    "shows a judge nothing of the log after a start": (
        Edit(Judging, "__init__", "self._index = Index(0)", "self._index = state.log.last_index"),
        Edit(Judging, "__init__", "self._term = Term(0)", "self._term = state.log.last_term"),
    ),
}


def seeds_to_find(name: str, seeds: range = range(SEEDS_MAX)) -> int | None:
    """The first seed whose world finds a fault; None if none of them does."""
    with planted(MUTANTS[name]):
        for seed in seeds:
            failures = run_block(range(seed, seed + 1), world="raft").failures
            if failures:
                assert "NameError" not in failures[seed], "the fault itself is written wrong"
                return seed
    return None

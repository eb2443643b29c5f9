"""Shards with one fault each: what the worlds of transactions must find.

L are the bugs of the dossier, U the ideas of its critique as they were first written; the others are mutations of the
conformance page. Some need two edits, for the state refuses what a leader must not write: that is a second fence, and
both have to be down.
"""

from collections.abc import Mapping
from typing import Final

from bobbin.cluster.chain import holdings
from bobbin.cluster.chain.draft import Overlay
from bobbin.cluster.chain.judging import Judgement
from bobbin.cluster.chain.ledger import Ledger
from bobbin.cluster.shard import committing
from bobbin.cluster.shard.asking import Asking
from bobbin.cluster.shard.committing import Committing
from bobbin.cluster.shard.leader import ShardLeader
from bobbin.cluster.shard.machine import Shard
from bobbin.cluster.shard.preparing import Preparing
from bobbin.cluster.transactions import recovery
from bobbin.cluster.transactions.conduct import Conduct
from bobbin.cluster.transactions.coordinator import Coordinator
from bobbin.cluster.transactions.ongoing import Ongoing
from bobbin.cluster.transactions.participant import Participant
from bobbin.cluster.transactions.recovery import _Draft
from bobbin.simulator.batch import run_block
from tests.simulation.raft_planting import Edit, planted

SEEDS_MAX: Final = 1_000

_UNFENCED_END: Final = Edit(recovery, "_after", "if commits and record.owed:", "if False:")
_UNFENCED_YES: Final = Edit(recovery, "_moved", "if is_now is TxPhase.PREPARED and not record.may_commit:", "if False:")

MUTANTS: Final[Mapping[str, tuple[Edit, ...]]] = {
    # ---- the coordinator
    "L15: calls it complete before anybody was told (CL-173)": (
        Edit(
            Ongoing,
            "missing",
            "if self.delivery is not None and (self.delivery.is_over or self.is_overdue):",
            "if self.delivery is not None:",
        ),
        Edit(
            Ongoing,
            "missing",
            "        if self.delivery.is_over:\n",
            "        if self.delivery.is_over or self.delivery.commits:\n",
        ),
        _UNFENCED_END,
    ),
    "L16: knows only one participant again (CL-301)": (
        Edit(
            _Draft,
            "_begin",
            "self.changed[entry.tx] = TxRecord(entry)",
            "self.changed[entry.tx] = TxRecord(replace(entry, parts=entry.parts[:1]))",
        ),
    ),
    "L18: the sweep aborts what is committing (CL-175, CL-170, CL-300)": (
        Edit(
            Conduct,
            "look",
            "now_ms, delivery = self.now_ms, one.delivery",
            "now_ms, delivery = self.now_ms, one.delivery\n"
            "    if one.phase is TxPhase.COMMITTING and delivery is not None and now_ms >= one.deadline_ms:\n"
            "        one.phase = TxPhase.ABORTING\n"
            "        self._say(one, tuple(delivery.waiting))\n"
            "        return",
        ),
    ),
    "U3: forgets a commit when time is up (CL-144)": (
        Edit(Conduct, "_become_overdue", "one.is_overdue = True", "one.is_overdue = one.delivery.is_given_up = True"),
        _UNFENCED_END,
    ),
    "U5: presumes commit of what nobody knows (CL-146)": (
        Edit(Coordinator, "written", "commits = self._log.outcome(tx) or False", "commits = True"),
    ),
    "U5: denies what is not known without writing it (CL-159)": (
        Edit(
            Coordinator,
            "_deny",
            "denial = self._denials.get(tx)",
            "if asker is not None:\n"
            "        self._conduct.tell(asker, tx, commits=False)\n"
            "        return\n"
            "    denial = self._denials.get(tx)",
        ),
    ),
    "says commit before it is written (CL-141, CL-168)": (
        Edit(
            Coordinator,
            "_count_vote",
            "one.move(TxPhase.PREPARED)",
            "one.move(TxPhase.PREPARED)\n"
            "            one.phase = TxPhase.COMMITTING\n"
            "            self._conduct._say(one, one.shards)\n"
            "            one.phase = TxPhase.PREPARED",
        ),
    ),
    "says abort of what it has committed (CL-142, CL-168)": (
        Edit(
            Coordinator,
            "abort",
            "if not one.is_decided:\n",
            "if one.phase is TxPhase.COMMITTING:\n"
            "            one.phase = TxPhase.ABORTING\n"
            "            self._conduct._say(one, one.shards)\n"
            "        elif not one.is_decided:\n",
        ),
    ),
    "says abort while a commit is being written (CL-142, CL-170)": (
        Edit(Conduct, "abort", "if one.durable is None or one.is_deciding:", "if one.durable is None:"),
        Edit(
            Conduct,
            "look",
            "if one.phase is TxPhase.PREPARING and one.wish is None:",
            "if one.phase in (TxPhase.PREPARING, TxPhase.PREPARED) and one.wish is None:",
        ),
    ),
    "answers a question by abort while it is prepared (CL-159)": (
        Edit(
            Coordinator,
            "query",
            "commits=one.phase is TxPhase.COMMITTING if one.may_say else None",
            "commits=one.phase is TxPhase.COMMITTING",
        ),
    ),
    "U28: commits on the votes that it knows (CL-373, CL-137)": (
        Edit(Coordinator, "_count_vote", "elif not one.unvoted:", "elif len(one.unvoted) <= 1:"),
        Edit(Ongoing, "missing", "for shard in self.shards if durable", "for shard in self.votes if durable"),
        _UNFENCED_YES,
    ),
    "lets a late yes bring back what was refused (CL-138)": (
        Edit(Coordinator, "_count_vote", "if isinstance(vote, No):", "if isinstance(vote, No) and one.unvoted:"),
        Edit(
            Coordinator,
            "_count_vote",
            "elif isinstance(vote, Conflict):",
            "elif isinstance(vote, Conflict) and one.unvoted:",
        ),
        Edit(Coordinator, "_count_vote", "twice = overlap(", "twice = None and overlap("),
        _UNFENCED_YES,
    ),
    "counts acknowledgements instead of shards (CL-143)": (
        Edit(
            Coordinator,
            "ack",
            "elif message.shard not in one.delivery.waiting:",
            "elif one.delivery.waiting and message.shard not in one.delivery.waiting:\n"
            "        one.delivery.acknowledge(one.delivery.waiting[0])\n"
            "        self._conduct.advance(one)\n"
            "    elif message.shard not in one.delivery.waiting:",
        ),
    ),
    "counts acknowledgements that say no (CL-143)": (
        Edit(Coordinator, "ack", "elif not message.success:", "elif False:"),
        Edit(
            Preparing,
            "commit",
            "self._commits.setdefault(tx, set()).add(message.coordinator)\n",
            (
                "self._commits.setdefault(tx, set()).add(message.coordinator)\n"
                "        leading.send(message.coordinator, TxAckMsg(tx, leading.own, success=False, error='wait'))\n"
            ),
        ),
    ),
    "begins again what has ended (T5)": (
        Edit(Coordinator, "_why_not", "known = self._remembered(tx)", "known = None"),
        Edit(_Draft, "_begin", "wrong = self._state.why_not_new(entry.tx)", "wrong = None"),
        Edit(
            Preparing,
            "prepare",
            "if tx in self._aborted or shard.participant.ended(tx) is not None or shard.committed_at(tx) is not None:",
            "if False:",
        ),
        Edit(Participant, "prepare", "if self.ended(tx) is not None:", "if False:"),
    ),
    # ---- participants
    "L17: says yes, then writes (CL-153)": (
        Edit(
            Preparing,
            "_propose",
            "self._proposed[message.tx] = message",
            "self._proposed[message.tx] = message\n"
            "    self._vote(message, Yes(1, message.delta, lock_names(message.part)))",
        ),
    ),
    "L17: keeps promises in memory only (CL-174, CL-169)": (Edit(Shard, "restore", "participant.restore(", "list("),),
    "U4: gives up a promise when time is up (CL-156, CL-166, CL-169, CL-302)": (
        Edit(
            Asking,
            "tick",
            "for shard in self._whom(promise, rounds):",
            "self._preparing.drop(tx, promise.message.coordinator)\n"
            "            for shard in self._whom(promise, rounds):",
        ),
    ),
    "U25: promises lock nothing (CL-171)": (
        Edit(Participant, "prepare", "lock_names(message.part), 0)", "(), 0)"),
        Edit(Preparing, "prepare", "self._lock(message, lock_names(message.part))", "self._lock(message, ())"),
    ),
    "U25: locks of promises expire in the state (CL-171, CL-180)": (
        Edit(Shard, "locked_by", "holder = locks.owner(name)", "holder = None"),
        Edit(Committing, "_is_free", "if waiting.is_part or not len(leading.locks):", "if True:"),
    ),
    "leaves the locks of what it refuses (CL-167, CL-303)": (
        Edit(Participant, "prepare", "self.locks.release(tx)\n", "pass\n"),
    ),
    "leaves the locks of what it drops (CL-167)": (Edit(Preparing, "dropped", "self._release(tx)\n", "pass\n"),),
    "acknowledges before it has done (CL-157)": (
        Edit(
            Preparing,
            "commit",
            "self._committing.commit_part(promise.message.part)\n",
            "self._committing.commit_part(promise.message.part)\n"
            "        leading.send(message.coordinator, TxAckMsg(tx, leading.own, success=True))\n",
        ),
    ),
    "does not acknowledge a commit that is repeated (CL-154)": (
        Edit(
            Preparing,
            "commit",
            "leading.send(message.coordinator, TxAckMsg(tx, leading.own, success=True))",
            "pass",
        ),
    ),
    "does a part that it was told to drop (CL-155)": (
        Edit(
            Preparing,
            "abort",
            "self._remember_aborted(tx)",
            "self._remember_aborted(tx)\n"
            "    if tx in leading.shard.participant.promises:\n"
            "        self.commit(TxCommitMsg(tx, message.coordinator, leading.own))\n"
            "        return",
        ),
    ),
    "promises again what it has dropped (T4)": (
        Edit(
            Preparing,
            "prepare",
            "if tx in self._aborted or shard.participant.ended(tx) is not None or shard.committed_at(tx) is not None:",
            "if False:",
        ),
        Edit(Participant, "prepare", "if self.ended(tx) is not None:", "if False:"),
    ),
    "guesses what it has not seen decided (CL-156)": (
        Edit(
            Asking,
            "query",
            "commits = leading.shard.participant.decision(message.tx)",
            "commits = leading.shard.participant.decision(message.tx) or False",
        ),
    ),
    "L19: an abort writes what was there at the prepare (CL-176)": (
        Edit(
            Shard,
            "do",
            "vote = self.participant.prepare(message, self._check_part)",
            "keys = [storage_key(operation) for operation in message.part.operations]\n"
            "            undo = {key: self.ledger._versions.newest(key) for key in keys}\n"
            "            self.__dict__.setdefault('undo', {}).setdefault(message.tx, undo)\n"
            "            vote = self.participant.prepare(message, self._check_part)",
        ),
        Edit(
            Shard,
            "do",
            "is_dropped = self.participant.drop(tx)",
            "undo = self.__dict__.get('undo', {}).get(tx, {})\n"
            "            self.ledger._versions._present.update({k: v for k, v in undo.items() if v is not None})\n"
            "            is_dropped = self.participant.drop(tx)",
        ),
    ),
    "L20: does at the prepare, and undoes under another key (CL-177)": (
        Edit(
            Shard,
            "do",
            "vote = self.participant.prepare(message, self._check_part)",
            "vote = self.participant.prepare(message, self._check_part)\n"
            "            from bobbin.cluster.chain.versions import Version\n"
            "            for operation in message.part.operations:\n"
            "                if message.tx in self.participant.promises:\n"
            "                    self.ledger._versions._present.setdefault(\n"
            "                        storage_key(operation), Version(0, Holds.BYTES, b'', 0, 0))",
        ),
        Edit(
            Shard,
            "do",
            "is_dropped = self.participant.drop(tx)",
            "from bobbin.cluster.operations import affected_key\n"
            "            promise = self.participant.promises.get(tx)\n"
            "            for operation in () if promise is None else promise.message.part.operations:\n"
            "                if self.ledger.version(affected_key(operation)) == 0:\n"
            "                    self.ledger._versions._present.pop(affected_key(operation), None)\n"
            "            is_dropped = self.participant.drop(tx)",
        ),
    ),
    "L21: a wait stays in the graph when the prepare is refused (CL-197, CL-167)": (
        Edit(Preparing, "_release_wait", "self._leading.locks.waits.stop_waiting(tx)", "pass"),
    ),
    "L28: goes by the clock on the wall": (
        Edit(ShardLeader, "step", "leading.now_ms = max(now_ms, leading.now_ms)", "leading.now_ms = wall_ms"),
    ),
    # ---- versions
    "L27: looks at no versions of what it writes (CL-220, CL-207)": (
        Edit(Overlay, "clash", "if tag == 0 or version.by != tag or version.base > since:", "if False:"),
    ),
    "validates write sets only (CL-172)": (Edit(Overlay, "clash", "if not stands:", "if False:"),),
    "U7: a blind write meets nobody (CL-207)": (
        Edit(Overlay, "clash", "if tag == 0 or version.by != tag", "if tag and version.by != tag"),
    ),
    "commits beside a promise that has locked it (CL-171)": (
        Edit(Committing, "_is_free", "if waiting.is_part or not len(leading.locks):", "if True:"),
        Edit(Shard, "locked_by", "holder = locks.owner(name)", "holder = None"),
    ),
    "does a transaction again that was asked for again (CL-154)": (
        Edit(Committing, "_take", "elif height is not None:", "elif False:"),
        Edit(Shard, "why_not_local", "if self.committed_at(tx) is not None:", "if False:"),
    ),
    "a look does not mind what is locked (T7)": (
        Edit(
            ShardLeader,
            "_validate",
            "if shard.locked_by(Transaction(NO_TX, (), event.reads)) is not None:",
            "if False:",
        ),
    ),
    "a look does not mind what has changed (T7)": (
        Edit(ShardLeader, "_validate", "if shard.ledger.version(read.key) != read.version:", "if False:"),
    ),
    "says that it is done before it is (T1)": (
        Edit(
            Committing,
            "_make_block",
            "self._flights[leading.propose(Append(block))] = Flight(draft, aboard)",
            "self._flights[leading.propose(Append(block))] = Flight(draft, aboard)\n"
            "    for waiting in aboard:\n"
            "        for request in waiting.requests:\n"
            "            leading.effects.append(Answer(request, Ended.COMMITTED, waiting.tx))\n"
            "        waiting.requests.clear()",
        ),
    ),
    # ---- many commits at once, and what is spared for most of them
    "proposes what the codebook forbids": (
        Edit(Ledger, "draft", "is_plain = are_valid and not self.codebook.centroids", "is_plain = are_valid"),
    ),
    "takes those who come together for strangers (CL-207)": (
        Edit(committing, "_are_apart", "return len(keys) == count", "return True"),
        Edit(
            Overlay,
            "clash",
            "version = self.changes.get(key)\n        if version is None and",
            "version = None\n        if version is None and",
        ),
    ),
    "looks at nothing below a block for a single write (CL-207)": (
        Edit(Overlay, "clash", "since < self.height - 1", "since < 0"),
    ),
    # ---- blocks and what they do
    "U2: an operation that makes no sense stops a node (CL-211)": (
        Edit(holdings, "_counted", "if present.holds is not Holds.NUMBER:", "if False:"),
    ),
    "U8: one of two that look alike stands for both (CL-209)": (
        Edit(committing, "may_deduplicate", "if _digests(one) != _digests(other):", "if False:"),
        Edit(
            committing,
            "may_deduplicate",
            "if one.reads or other.reads or any(isinstance(operation, _NOT_REPEATABLE) for",
            "if any(False for",
        ),
    ),
    "U9: halves two changes (CL-211)": (
        Edit(
            holdings,
            "_counted",
            "total = int(present.value) + amount",
            "total = (2 * int(present.value) + amount) // 2",
        ),
    ),
    "U24: takes a block without a signature": (
        Edit(
            Judgement, "_signature", "return why_header_unsigned(self.block.header, self._signed_bytes)", "return None"
        ),
    ),
    "takes a block with another state root": (
        Edit(
            Judgement,
            "_state_root",
            "return None if self._tree.top == self.block.header.state_root else",
            "return None if True else",
        ),
    ),
    "takes a block with other operations": (
        Edit(
            Judgement,
            "_transaction_root",
            "if self.block.header.tx_root != self._ground.hashing.tx_root(self.block.transactions):",
            "if False:",
        ),
        Edit(
            Judgement,
            "_transaction_root",
            "if self.block.header.envelope_hash != envelope_hash(self.block.transactions):",
            "if False:",
        ),
    ),
    "U1: believes the embedding of a block": (
        Edit(
            Judgement,
            "_delta_fault",
            "if encode_embedding(self._delta) != encode_embedding(self.block.header.delta_embedding):",
            "if False:",
        ),
    ),
}


def seeds_to_find(name: str, seeds: range = range(SEEDS_MAX)) -> int | None:
    """The first seed whose world finds a fault; None if none of them does."""
    with planted(MUTANTS[name]):
        for seed in seeds:
            failures = run_block(range(seed, seed + 1), world="transactions").failures
            if failures:
                assert "NameError" not in failures[seed], "the fault itself is written wrong"
                return seed
    return None

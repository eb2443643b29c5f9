"""Stories of one node: its files, its disk, its judge and what it may say, each with what must come of it."""

from random import Random
from typing import NoReturn

from bobbin.cluster.names import MILLISECOND_NS, Index, NodeId, Term
from bobbin.cluster.raft.effects import Persist, ReadReady, Send
from bobbin.cluster.raft.entries import Entry
from bobbin.cluster.raft.events import Event, Persisted, Read, Received, Recovered, Tick
from bobbin.cluster.raft.messages import AppendAnswer, AppendEntries, RequestVote, VoteAnswer
from bobbin.errors import IntegrityError
from bobbin.simulator.raft_judge import RaftJudge
from bobbin.simulator.raft_shape import JudgeShape
from bobbin.store.wal.reading import read_log
from bobbin.store.wal.record import HEAD
from bobbin.store.wal.segment import segment_name, segment_numbers
from tests.simulation.raft_scenarios import Alone, B, C
from tests.support.crashing_files import CrashingFiles
from tests.support.log_records import CLUSTER, HISTORY, NODE, expected, vote
from tests.support.logs import opened, write

LATER = (vote(9, NODE),)


def _found(files: CrashingFiles) -> Recovered:
    return read_log(files, node=NODE, cluster=CLUSTER).image.recovered()


def a_torn_tail_is_left_behind() -> None:
    """Wherever the last write was torn, what comes after the next open is found by the one after that."""
    whole = CrashingFiles()
    write(opened(whole), HISTORY)
    name = segment_name(segment_numbers(whole.names())[-1])
    length = len(whole.inodes[name].content)
    for torn in range(1, 40):
        files = whole.after_power_cut()
        for held in (files.inodes[name].content, files.inodes[name].durable):
            del held[length - torn :]
        try:
            log = opened(files)
            before = _found(files)
            write(log, [LATER])
            found = _found(files)
        except IntegrityError as error:
            raise AssertionError(f"{torn} bytes short: what was written behind the tear spoils the log") from error
        assert (found.term, found.voted_for) == (9, NODE), f"{torn} bytes short: the later vote is lost"
        assert found.entries == before.entries


def rotation_keeps_term_and_vote() -> None:
    """With files of a few bytes each, term and vote are what was written last, whatever file they stand in."""
    for count in range(1, len(HISTORY) + 1):
        files = CrashingFiles()
        write(opened(files, rotate_bytes=16), HISTORY[:count])
        try:
            found = _found(files.after_power_cut())
        except IntegrityError as error:
            raise AssertionError("a file says something else than those before it") from error
        assert found == expected(HISTORY[:count])


def a_checksum_of_zero_is_a_checksum() -> None:
    """A record whose checksum was overwritten by zeros counts for nothing, like any other that was spoilt."""
    whole = CrashingFiles()
    write(opened(whole), HISTORY)
    name = segment_name(segment_numbers(whole.names())[-1])
    content = whole.inodes[name].content
    start = 0
    while start + HEAD.size + HEAD.unpack_from(content, start)[0] < len(content):
        start += HEAD.size + HEAD.unpack_from(content, start)[0]
    length, _ = HEAD.unpack_from(content, start)
    for place in range(start + HEAD.size, len(content)):
        files = whole.after_power_cut()
        for held in (files.inodes[name].content, files.inodes[name].durable):
            held[place] ^= 0x01
            HEAD.pack_into(held, start, length, 0)
        try:
            found = _found(files)
        except IntegrityError:
            continue
        assert found == expected(HISTORY[:-1]), "a spoilt record was read"


def a_node_that_lost_its_log_neither_votes_against_it_nor_stands() -> None:
    """What it had acknowledged stands in nobody's way only if the candidate has it."""
    for last_index, granted in ((4, False), (5, True)):
        alone = Alone(Recovered(term=Term(3), lost=(Term(3), Index(5))))
        request = RequestVote(term=Term(9), candidate=B, last_index=Index(last_index), last_term=Term(3), request=1)
        (answer,) = [one.message for one in alone.step(Received(B, request))]
        assert isinstance(answer, VoteAnswer)
        assert answer.granted is granted, f"a log up to {last_index}"
    alone = Alone(Recovered(term=Term(3), lost=(Term(3), Index(5))))
    assert not [one for one in alone.wait() if isinstance(one.message, RequestVote)], "it stands without its log"


class _Reading(Alone):
    """Remembers which reads were confirmed."""

    def __init__(self) -> None:
        super().__init__(Recovered(term=Term(1), entries=(Entry(Term(1), Index(1), None),)))
        self.ready: list[int] = []

    def hear(self, event: Event) -> list[Send]:
        """What is sent."""
        effects = self.machine.step(event, now_ns=self.now_ns)
        self.ready += [effect.request for effect in effects if isinstance(effect, ReadReady)]
        for effect in effects:
            if isinstance(effect, Persist):
                self.hear(Persisted(effect.token))
        return [effect for effect in effects if isinstance(effect, Send) and isinstance(effect.message, AppendEntries)]

    def lead(self) -> list[Send]:
        """Be elected in term 2; what is sent then."""
        (request, *_) = [one.message for one in self.wait() if isinstance(one.message, RequestVote)]
        return self.hear(Received(B, VoteAnswer(term=Term(2), granted=True, voter=B, request=request.request)))

    def answer(self, sent: list[Send]) -> list[Send]:
        """Whoever got something says yes; what is sent in turn."""
        more = []
        for one in sent:
            to, message = one.to, one.message
            assert isinstance(message, AppendEntries)
            match_index = Index(message.previous_index + len(message.entries))
            said = AppendAnswer(term=Term(2), success=True, follower=to, match_index=match_index, round=message.round)
            more += self.hear(Received(to, said))
        return more


def a_read_is_confirmed_by_what_was_sent_after_it() -> None:
    """Answers that were under way when the read came do not show that this node still led then."""
    alone = _Reading()
    alone.answer(alone.answer(alone.lead()))
    alone.now_ns += 50 * MILLISECOND_NS
    heartbeats = alone.hear(Tick())
    assert heartbeats, "a heartbeat is due"
    asked = alone.hear(Read(7))
    asked += alone.answer(heartbeats)
    assert alone.ready == [], "confirmed by an answer to what was sent before"
    alone.now_ns += 50 * MILLISECOND_NS
    alone.answer([*asked, *alone.hear(Tick())])
    assert alone.ready == [7]


def answers_of_an_older_term_count_for_nothing() -> None:
    """Whoever answered a leader of term 1 may have lost since then what it held."""
    for term, match_index, commit in ((1, 0, 0), (2, 2, 2)):
        alone = _Reading()
        assert alone.lead(), "it tells the others of its first entry"
        answer = AppendAnswer(term=Term(term), success=True, follower=B, match_index=Index(2), round=1)
        alone.hear(Received(B, answer))
        machine = alone.machine
        assert (machine.progress[B].match_index, machine.commit_index) == (match_index, commit), f"of term {term}"


class _Judged(Alone):
    """Has a judge, which looks after every step at how it was led."""

    def __init__(self) -> None:
        self.judge = RaftJudge(JudgeShape(), random=Random(1), machine=lambda: self.machine, fail=self._fail)
        super().__init__(judge=self.judge)

    def _fail(self, message: str) -> NoReturn:
        raise AssertionError(message)

    def take(self, leader: NodeId, term: int, previous: tuple[int, int], payload: bytes | None) -> None:
        """An entry of a leader's own term, after a place that is (index, term)."""
        entry = Entry(Term(term), Index(previous[0] + 1), payload)
        message = AppendEntries(
            term=Term(term),
            leader=leader,
            previous_index=Index(previous[0]),
            previous_term=Term(previous[1]),
            entries=(entry,),
            commit=Index(0),
            round=1,
        )
        self._look(Received(leader, message))
        assert self.machine.log.term_at(entry.index) == term, "it is taken"

    def _look(self, event: Event) -> None:
        effects = self.machine.step(event, now_ns=self.now_ns)
        self.judge.look(effects)
        for effect in effects:
            if isinstance(effect, Persist):
                self._look(Persisted(effect.token))


def a_judge_does_not_rest_on_what_was_cut() -> None:
    """What took its place is nothing to judge, so nobody looked when the log was cut."""
    alone = _Judged()
    alone.take(B, 1, (0, 0), b"no 3")
    alone.take(C, 2, (0, 0), None)
    alone.take(C, 2, (1, 2), b"no 3")
    assert alone.judge.tally["judges: shown of a leader"] == 2

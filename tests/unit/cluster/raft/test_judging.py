"""A follower judges what a leader sends before it takes it."""

from bobbin.cluster.names import MILLISECOND_NS, Index, NodeId, Term
from bobbin.cluster.raft.effects import Alarm, Apply, Role, Send
from bobbin.cluster.raft.entries import Entry
from bobbin.cluster.raft.judging import AHEAD_MAX, Judgement
from bobbin.cluster.raft.messages import AppendAnswer
from tests.support.raft_cluster import RaftCluster
from tests.support.raft_messages import append

A, B = NodeId("a"), NodeId("b")


class Numbers:
    """Judges entries that are numbers, each of which must be one more than the one before it; others are fine."""

    def __init__(self, start: int = 0) -> None:
        self.start = start
        """What is applied."""
        self.last = start
        self.seen: list[tuple[int, NodeId | None]] = []
        self.lag = False
        self.forgot = 0

    def wants(self, entry: Entry) -> bool:
        return isinstance(entry.payload, bytes) and entry.payload.isdigit()

    def judge(self, entry: Entry, *, leader: NodeId | None, term: Term) -> Judgement:
        assert leader is None or term >= entry.term
        self.seen.append((entry.index, leader))
        payload = entry.payload
        assert isinstance(payload, bytes)
        if int(payload) != self.last + 1:
            return Judgement(fault=f"{payload.decode()} after {self.last}", is_lag=self.lag)
        self.last += 1
        return Judgement(used_fast_path=self.last % 2 == 0)

    def forget(self) -> None:
        self.forgot += 1
        self.last = self.start


def numbered(first: int, *numbers: int, term: int = 1) -> tuple[Entry, ...]:
    return tuple(Entry(Term(term), Index(first + at), b"%d" % number) for at, number in enumerate(numbers))


def follower(judge: Numbers, *held: Entry, term: int = 1) -> RaftCluster:
    cluster = RaftCluster(judge=judge)
    disk = cluster.members[B].disk
    disk.entries = list(held)
    disk.term = Term(term)
    cluster.start("b")
    return cluster


def answers(cluster: RaftCluster) -> list[tuple[bool, int, bool]]:
    said = cluster.said("b", AppendAnswer)
    return [(one.success, one.match_index, one.used_fast_path) for one in said if isinstance(one, AppendAnswer)]


def alarms(cluster: RaftCluster) -> list[str]:
    return [one.code for one in cluster.members[B].all(Alarm) if isinstance(one, Alarm)]


def test_what_passes_is_taken_and_says_whether_it_had_it_easy() -> None:
    judge = Numbers()
    cluster = follower(judge)
    cluster.hear("b", "a", append("a", 1, (0, 0), numbered(1, 1)))
    cluster.hear("b", "a", append("a", 1, (1, 1), numbered(2, 2, 3)))
    cluster.hear("b", "a", append("a", 1, (1, 3)))
    assert answers(cluster) == [(True, 1, False), (True, 3, True), (True, 3, False)]
    assert judge.seen == [(1, A), (2, A), (3, A)]
    assert cluster.machine("b").stats.entries_refused == 0


def test_a_wrong_entry_is_not_acknowledged_and_nothing_after_it_is_taken() -> None:
    """CL-243: judged before it is acknowledged, so no quorum can come to be for it."""
    judge = Numbers()
    cluster = follower(judge)
    machine = cluster.machine("b")
    cluster.hear("b", "a", append("a", 1, (0, 0), numbered(1, 1, 3, 2), commit=3))
    judge.start = 1
    assert answers(cluster) == [(True, 1, False)]
    assert (machine.last_index, machine.commit_index, machine.role) == (1, 1, Role.FOLLOWER)
    assert alarms(cluster) == ["entry-refused"]
    cluster.hear("b", "a", append("a", 1, (1, 1), numbered(2, 3)))
    assert answers(cluster)[1:] == [(True, 1, False)]
    assert (machine.last_index, machine.stats.entries_refused) == (1, 2)
    cluster.hear("b", "a", append("a", 1, (1, 1), numbered(2, 2)))
    assert machine.last_index == 2
    assert [one.entries for one in cluster.members[B].all(Apply) if isinstance(one, Apply)] == [numbered(1, 1)]


def test_one_that_comes_too_early_is_nobodys_fault() -> None:
    judge = Numbers()
    judge.lag = True
    cluster = follower(judge)
    cluster.hear("b", "a", append("a", 1, (0, 0), numbered(1, 5)))
    assert (answers(cluster), alarms(cluster)) == ([(True, 0, False)], [])


def test_a_wrong_entry_does_not_cut_the_log() -> None:
    judge = Numbers()
    cluster = follower(judge, *numbered(1, 1, 2, 3))
    machine = cluster.machine("b")
    cluster.hear("b", "a", append("a", 2, (1, 1), numbered(2, 9, term=2)))
    assert (machine.last_index, machine.last_term) == (3, 1)
    cluster.hear("b", "a", append("a", 2, (1, 1), numbered(2, 2, term=2)))
    assert (machine.last_index, machine.last_term) == (2, 2)


def test_what_was_taken_back_is_forgotten_and_what_is_left_is_shown_again() -> None:
    judge = Numbers()
    cluster = follower(judge)
    cluster.hear("b", "a", append("a", 1, (0, 0), numbered(1, 1, 2, 3)))
    cluster.hear("b", "c", append("c", 2, (1, 1), numbered(2, 2, 3, term=2)))
    assert judge.forgot == 1
    assert judge.seen[3:] == [(1, None), (2, NodeId("c")), (3, NodeId("c"))]
    assert (cluster.machine("b").last_index, judge.last) == (3, 3)


def test_after_a_start_the_log_is_shown_before_anything_new() -> None:
    judge = Numbers()
    cluster = follower(judge, *numbered(1, 1, 2))
    cluster.hear("b", "a", append("a", 1, (1, 2), numbered(3, 3)))
    assert judge.seen == [(1, None), (2, None), (3, A)]
    assert cluster.machine("b").last_index == 3


def test_what_is_applied_is_not_shown_again() -> None:
    judge = Numbers()
    cluster = follower(judge)
    cluster.hear("b", "a", append("a", 1, (0, 0), numbered(1, 1, 2), commit=2))
    judge.start = 2
    cluster.machine("b").forget_judged()
    cluster.hear("b", "a", append("a", 1, (1, 2), numbered(3, 3)))
    assert judge.seen[2:] == [(3, A)]
    assert cluster.machine("b").last_index == 3


def test_a_leaders_own_entries_are_shown_once_it_follows() -> None:
    judge = Numbers()
    cluster = RaftCluster("b", learners="c", judge=judge)
    cluster.elect("b")
    judge.seen.clear()  # of the learner, which has the same judge here
    cluster.isolate("c")
    cluster.propose("b", b"1")
    assert judge.seen == []
    machine = cluster.machine("b")
    last, term = machine.last_index, machine.term
    new = append("c", term + 1, (term, last), numbered(last + 1, 2, term=term + 1))
    cluster.hear("b", "c", new)
    assert judge.seen[-2:] == [(last, None), (last + 1, NodeId("c"))]
    assert (judge.last, machine.last_index) == (2, last + 1)


def test_a_write_that_failed_is_forgotten_as_well() -> None:
    judge = Numbers()
    cluster = follower(judge)
    cluster.hear("b", "a", append("a", 1, (0, 0), numbered(1, 1)))
    cluster.members[B].disk.is_slow = True
    cluster.hear("b", "a", append("a", 1, (1, 1), numbered(2, 2, 3)))
    cluster.fail_disk("b")
    cluster.members[B].disk.is_slow = False
    cluster.hear("b", "a", append("a", 1, (1, 1), numbered(2, 2)))
    assert (judge.forgot, judge.last, cluster.machine("b").last_index) == (1, 2, 2)


def test_entries_that_nobody_wants_pass_without_a_look_at_what_comes_before() -> None:
    """After a start of all nodes nothing is known to be committed, until the first entry of a new leader is."""
    judge = Numbers()
    count = AHEAD_MAX + 10
    cluster = follower(judge, *numbered(1, *range(1, count + 1)))
    cluster.hear("b", "a", append("a", 2, (1, count), (Entry(Term(2), Index(count + 1), None),)))
    assert (judge.seen, answers(cluster)) == ([], [(True, count + 1, False)])


def test_so_many_may_be_ahead_of_what_is_applied() -> None:
    judge = Numbers()
    cluster = follower(judge)
    machine = cluster.machine("b")
    cluster.hear("b", "a", append("a", 1, (0, 0), numbered(1, *range(1, AHEAD_MAX + 6))))
    assert (machine.last_index, alarms(cluster)) == (AHEAD_MAX, [])
    rest = numbered(AHEAD_MAX + 1, AHEAD_MAX + 1)
    cluster.hear("b", "a", append("a", 1, (1, AHEAD_MAX), rest, commit=3))
    assert (machine.last_index, machine.applied_index) == (AHEAD_MAX, 3)
    cluster.hear("b", "a", append("a", 1, (1, AHEAD_MAX), rest))
    assert machine.last_index == AHEAD_MAX + 1


def test_what_came_too_early_is_answered_again_when_more_is_applied() -> None:
    cluster = follower(Numbers())
    cluster.hear("b", "a", append("a", 1, (0, 0), numbered(1, *range(1, AHEAD_MAX + 1))))
    rest = numbered(AHEAD_MAX + 1, AHEAD_MAX + 1)
    cluster.hear("b", "a", append("a", 1, (1, AHEAD_MAX), rest))
    assert answers(cluster)[1:] == [(True, AHEAD_MAX, False)], "so far they agree, which the leader may not know"
    cluster.hear("b", "a", append("a", 1, (1, AHEAD_MAX), commit=1))
    assert answers(cluster)[2:] == [(True, AHEAD_MAX, False), (True, 1, False)], "and to what came too early"
    cluster.hear("b", "a", append("a", 1, (1, AHEAD_MAX), commit=2))
    assert len(answers(cluster)) == 5, "once"


def test_the_answer_is_not_given_to_another_leader() -> None:
    cluster = follower(Numbers())
    cluster.hear("b", "a", append("a", 1, (0, 0), numbered(1, *range(1, AHEAD_MAX + 1))))
    cluster.hear("b", "a", append("a", 1, (1, AHEAD_MAX), numbered(AHEAD_MAX + 1, AHEAD_MAX + 1)))
    cluster.hear("b", "c", append("c", 2, (1, AHEAD_MAX), commit=1))
    assert [send.to for send in cluster.members[B].all(Send) if isinstance(send, Send)] == ["a", "a", "c"]


def test_the_second_answer_vouches_for_nothing_that_may_have_changed() -> None:
    """The disk fails, and what the message stood on is gone: older entries of another term are in its place."""
    judge = Numbers()
    cluster = follower(judge, *numbered(1, 1, 2, 3, 4, 5))
    disk = cluster.members[B].disk
    cluster.hear("b", "a", append("a", 2, (1, 2)))
    disk.is_slow = True
    cluster.hear("b", "a", append("a", 2, (1, 2), numbered(3, 3, 4, 5, term=2)))
    judge.lag = True
    cluster.hear("b", "a", append("a", 2, (2, 5), numbered(6, 9, term=2)))
    cluster.fail_disk("b")
    disk.is_slow = False
    cluster.hear("b", "a", append("a", 2, (1, 2), commit=2))
    assert (cluster.machine("b").last_index, cluster.machine("b").last_term) == (5, 1)
    assert max(match for _, match, _ in answers(cluster)) == 2


def test_a_leader_learns_from_what_came_too_early_how_far_they_agree() -> None:
    """Or nothing would ever be applied: the leader waits for the follower to have it, and the follower for a commit.

    World 19631: the answer to an entry was lost, and the next one came too early until that one was committed.
    """
    judge = Numbers()
    judge.lag = True
    cluster = RaftCluster("bc", judge=judge)
    leader = cluster.elect("c")
    cluster.lost = lambda mail: isinstance(mail[2], AppendAnswer)
    cluster.propose("c", b"1")
    cluster.deliver()
    cluster.lost = lambda _: False
    assert cluster.machine("b").last_index == leader.last_index > leader.commit_index
    judge.last = 5
    cluster.propose("c", b"2")
    cluster.deliver()
    assert leader.commit_index == leader.last_index - 1


def test_a_follower_far_behind_catches_up_as_fast_as_answers_travel() -> None:
    """No timer is waited for, although each message brings more than may be ahead of what is applied."""

    class Lenient(Numbers):
        def judge(self, *_: object, **__: object) -> Judgement:
            return Judgement()

    cluster = RaftCluster("c", learners="b", judge=Lenient())
    cluster.isolate("b")
    leader = cluster.elect("c")
    for number in range(1, 5 * AHEAD_MAX):
        cluster.propose("c", b"%d" % number)
        cluster.deliver()
    cluster.heal()
    cluster.now_ns += cluster.config.election_timeout[1] * MILLISECOND_NS
    cluster.beat()
    assert cluster.machine("b").last_index == leader.commit_index == 5 * AHEAD_MAX
    assert cluster.machine("b").stats.entries_refused > 2


def test_what_is_not_applied_of_a_long_log_is_waited_for() -> None:
    judge = Numbers()
    count = AHEAD_MAX + 10
    cluster = follower(judge, *numbered(1, *range(1, count + 1)))
    machine = cluster.machine("b")
    new = numbered(count + 1, count + 1)
    cluster.hear("b", "a", append("a", 1, (1, count), new, commit=count - 5))
    assert (machine.last_index, machine.applied_index) == (count, count - 5)
    judge.start = count - 5
    cluster.hear("b", "a", append("a", 1, (1, count), new, commit=count))
    assert (machine.last_index, judge.last) == (count + 1, count + 1)
    assert alarms(cluster) == []


def test_without_a_judge_everything_well_formed_is_taken() -> None:
    cluster = RaftCluster()
    cluster.hear("b", "a", append("a", 1, (0, 0), numbered(1, 7, 3)))
    cluster.machine("b").forget_judged()
    assert answers(cluster) == [(True, 2, False)]
    assert cluster.machine("b").last_index == 2


def test_an_entry_of_an_earlier_term_does_not_wait_for_what_only_it_can_bring() -> None:
    """All nodes have started again, nothing is known to be committed, and the leader has one entry more than this one.

    What stands in the log is committed by the leader's first entry, which comes after that one.
    """
    judge = Numbers()
    count = AHEAD_MAX + 10
    cluster = follower(judge, *numbered(1, *range(1, count + 1)))
    machine = cluster.machine("b")
    first = Entry(Term(2), Index(count + 2), None)
    own = numbered(count + 3, count + 2, term=2)
    cluster.hear("b", "a", append("a", 2, (1, count), (*numbered(count + 1, count + 1), first, *own)))
    assert machine.last_index == count + 2, "the entry of the leader's own term waits"
    assert alarms(cluster) == []
    cluster.hear("b", "a", append("a", 2, (2, count + 2), own, commit=count + 2))
    assert machine.applied_index == count + 2
    judge.start = count + 1
    cluster.hear("b", "a", append("a", 2, (2, count + 2), own))
    assert (machine.last_index, judge.last) == (count + 3, count + 2)


def test_an_entry_of_an_earlier_term_that_is_too_early_is_taken_and_one_that_is_wrong_is_not() -> None:
    judge = Numbers()
    judge.lag = True
    cluster = follower(judge)
    machine = cluster.machine("b")
    cluster.hear("b", "a", append("a", 2, (0, 0), numbered(1, 1, 5, 2)))
    assert (machine.last_index, judge.seen) == (3, [(1, A), (2, A)]), "nothing is judged that rests on what was not"
    judge.lag = False
    cluster.hear("b", "a", append("a", 2, (1, 3), numbered(4, 9)))
    assert (machine.last_index, alarms(cluster)) == (3, ["entry-refused"])


def test_more_entries_of_an_earlier_term_than_may_be_ahead_are_taken() -> None:
    judge = Numbers()
    count = AHEAD_MAX + 10
    cluster = follower(judge)
    cluster.hear("b", "a", append("a", 2, (0, 0), numbered(1, *range(1, count + 1))))
    assert cluster.machine("b").last_index == count
    assert len(judge.seen) == AHEAD_MAX


def test_the_judge_begins_anew_when_all_that_it_has_seen_is_applied() -> None:
    """Or what it could not see into once would be in the way for ever."""
    judge = Numbers()
    cluster = follower(judge, *numbered(1, 7))
    machine = cluster.machine("b")
    cluster.hear("b", "a", append("a", 1, (1, 1), numbered(2, 1), commit=1))
    assert (judge.forgot, machine.last_index, machine.applied_index) == (0, 2, 1)
    cluster.hear("b", "a", append("a", 1, (1, 2), numbered(3, 2), commit=2))
    assert judge.forgot == 0, "what is judged and not applied rests on it"
    judge.start = 1
    cluster.hear("b", "a", append("a", 1, (1, 3), commit=3))
    judge.start = 2
    cluster.hear("b", "a", append("a", 1, (1, 3), numbered(4, 3)))
    assert (judge.forgot, judge.last, machine.last_index) == (1, 3, 4)

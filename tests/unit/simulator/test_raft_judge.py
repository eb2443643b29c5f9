"""A judge of worlds: what it wants and says, and that it notices when it is led wrongly."""

from collections import Counter
from random import Random
from typing import NoReturn

import pytest

from bobbin.cluster.names import Index, NodeId, Term
from bobbin.cluster.raft.effects import Alarm, Apply, Effect, Persist
from bobbin.cluster.raft.entries import Configuration, Entry, Payload
from bobbin.cluster.raft.events import Applied, Event, Persisted, Received, Recovered, Tick
from bobbin.cluster.raft.machine import RaftMachine
from bobbin.cluster.raft.messages import AppendEntries
from bobbin.cluster.settings import RaftConfig
from bobbin.simulator.raft_judge import FORGED, LAGS_MAX, RaftJudge
from bobbin.simulator.raft_shape import JudgeShape
from bobbin.simulator.world import Broken
from tests.support.raft_messages import append

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
WANTED, UNWANTED = b"no 3", b"no 5"


def fail(message: str) -> NoReturn:
    raise Broken(message)


def entries(first: int, *payloads: Payload, term: int = 1) -> tuple[Entry, ...]:
    return tuple(Entry(Term(term), Index(first + at), payload) for at, payload in enumerate(payloads))


class Follower:
    """A machine whose disk and state answer at once, with a judge; ``is_asked`` is whether the machine knows of it."""

    def __init__(self, *held: Entry, shape: JudgeShape | None = None, is_asked: bool = True) -> None:
        self.shape = shape or JudgeShape()
        self.judge = RaftJudge(self.shape, random=Random(1), machine=lambda: self.machine, fail=fail)
        self.machine = RaftMachine(
            RaftConfig(),
            node=B,
            recovered=Recovered(term=Term(1), entries=held),
            bootstrap=Configuration((A, B, C)),
            random=Random(1),
            checking=True,
            judge=self.judge if is_asked else None,
            judged_ahead_max=self.shape.ahead_max,
        )
        self.alarms: list[str] = []
        self.step(Tick())

    def step(self, event: Event) -> None:
        effects: list[Effect] = self.machine.step(event, now_ns=0)
        self.judge.look(effects)
        for effect in effects:
            if isinstance(effect, Persist):
                self.step(Persisted(effect.token))
            elif isinstance(effect, Apply):
                self.step(Applied(effect.entries[-1].index))
            elif isinstance(effect, Alarm):
                self.alarms.append(effect.code)

    def hear(self, message: AppendEntries) -> None:
        self.step(Received(message.leader, message))

    def counted(self, what: str) -> int:
        return self.judge.tally[f"judges: {what}"]


def test_it_wants_some_commands_wherever_they_stand_and_nothing_else() -> None:
    judge = Follower().judge
    payloads = [b"%d" % number for number in range(400)]
    wanted = [judge.wants(*entries(1, payload)) for payload in payloads]
    assert wanted == [judge.wants(*entries(7, payload, term=3)) for payload in payloads]
    assert 250 < sum(wanted) < 350
    assert not any(judge.wants(entry) for entry in entries(1, None, Configuration((A,)), UNWANTED))
    assert all(judge.wants(*entries(1, FORGED + bytes((number,)))) for number in range(20))


def test_one_that_is_led_rightly_breaks_nothing() -> None:
    node = Follower(*entries(1, WANTED, UNWANTED, WANTED), shape=JudgeShape(ahead_max=4))
    node.hear(append("a", 1, (1, 3), entries(4, WANTED, None, WANTED)))
    assert (node.counted("shown of the log"), node.counted("shown of a leader")) == (2, 2)
    node.hear(append("c", 2, (1, 3), entries(4, None, WANTED, term=2), commit=4))
    assert node.counted("began anew") == 1
    node.hear(append("c", 2, (2, 5), entries(6, WANTED, WANTED, WANTED, WANTED, term=2), commit=5))
    assert (node.machine.applied_index, node.machine.last_index) == (5, 8), "one of its own, and three"


def test_what_is_not_shown_is_missed_once_the_step_is_over() -> None:
    node = Follower(*entries(1, WANTED, UNWANTED, WANTED), is_asked=False)
    node.judge.judge(*entries(3, WANTED), leader=None, term=Term(1))
    with pytest.raises(Broken, match=r"the judge of b: entry 3 was judged on top of \(\); in the log stand \(\(1, 1\)"):
        node.judge.look([])


def test_what_was_taken_back_is_not_rested_on() -> None:
    node = Follower(*entries(1, WANTED, WANTED), is_asked=False)
    node.judge.judge(*entries(1, WANTED), leader=None, term=Term(1))
    node.judge.look([])
    node.hear(append("a", 2, (0, 0), entries(1, None, UNWANTED, term=2)))
    new = entries(3, WANTED, term=2)
    node.judge.judge(*new, leader=A, term=Term(2))
    node.machine.step(Received(A, append("a", 2, (2, 2), new)), now_ns=0)
    with pytest.raises(Broken, match=r"entry 3 was judged on top of \(\(1, 1\),\); in the log stand \(\)"):
        node.judge.look([])


def test_what_passes_is_in_the_log_then() -> None:
    node = Follower(is_asked=False)
    node.hear(append("a", 1, (0, 0)))
    node.judge.judge(*entries(1, WANTED), leader=A, term=Term(1))
    with pytest.raises(Broken, match=r"entry 1 passed, .* the log ends at 0"):
        node.judge.look([])


def test_nothing_of_a_leaders_own_term_is_taken_without_a_yes() -> None:
    node = Follower(is_asked=False)
    node.hear(append("a", 2, (0, 0), entries(1, WANTED)))
    node.hear(append("a", 2, (1, 1), entries(2, None, UNWANTED, term=2)))
    with pytest.raises(Broken, match="entry 4 of the leader's own term 2 was taken unjudged"):
        node.hear(append("a", 2, (2, 3), entries(4, WANTED, term=2)))


@pytest.mark.parametrize(
    ("entry", "leader", "term", "message"),
    [
        (entries(2, UNWANTED)[0], None, 1, "which nobody wants"),
        (entries(1, WANTED)[0], None, 1, r"was shown after \[\(1, 1\)\]"),
        (entries(2, WANTED, term=2)[0], None, 2, "as one of the log, which it is not"),
        (entries(2, WANTED)[0], None, 2, "as one of the log, which it is not"),
        (entries(2, WANTED)[0], C, 1, "as one of c in term 1; a leads 1"),
        (entries(2, WANTED)[0], A, 2, "as one of a in term 2; a leads 1"),
        (entries(2, FORGED)[0], None, 1, "entry 2 is forged, and in the log"),
    ],
)
def test_what_should_not_be_shown_is_noticed_at_once(
    entry: Entry, leader: NodeId | None, term: int, message: str
) -> None:
    node = Follower(*entries(1, WANTED, WANTED), is_asked=False)
    node.hear(append("a", 1, (0, 0)))
    node.judge.judge(*entries(1, WANTED), leader=None, term=Term(1))
    with pytest.raises(Broken, match=message):
        node.judge.judge(entry, leader=leader, term=Term(term))


def test_what_is_applied_is_not_shown_and_no_more_than_may_be_ahead_are() -> None:
    node = Follower(*entries(1, WANTED, WANTED, WANTED, WANTED), shape=JudgeShape(ahead_max=2), is_asked=False)
    node.hear(append("a", 1, (1, 1), commit=1))
    assert node.machine.applied_index == 1
    with pytest.raises(Broken, match="entry 1 of term 1 was shown after"):
        node.judge.judge(*entries(1, WANTED), leader=None, term=Term(1))
    for index in (2, 3):
        node.judge.judge(*entries(index, WANTED), leader=None, term=Term(1))
    with pytest.raises(Broken, match="with 2 ahead of what is applied"):
        node.judge.judge(*entries(4, WANTED), leader=None, term=Term(1))


def test_it_lags_a_few_times_in_a_row_and_never_for_ever() -> None:
    node = Follower(shape=JudgeShape(lag=1.0))
    message = append("a", 1, (0, 0), entries(1, WANTED))
    for _ in range(LAGS_MAX):
        node.hear(message)
        assert node.machine.last_index == 0
    node.hear(message)
    assert (node.machine.last_index, node.counted("lagged"), node.alarms) == (1, LAGS_MAX, [])


def test_what_it_could_not_see_into_is_in_its_way_until_it_begins_anew() -> None:
    node = Follower(*entries(1, WANTED), shape=JudgeShape(blindness=1.0))
    message = append("a", 1, (1, 1), entries(2, WANTED), commit=0)
    for _ in range(10):
        node.hear(message)
    assert (node.machine.last_index, node.counted("could not see")) == (1, 10)
    node.hear(append("a", 1, (1, 1), commit=1))
    node.hear(message)
    assert (node.machine.last_index, node.counted("began anew"), node.alarms) == (2, 1, [])


def test_it_knows_what_is_forged_whatever_else_it_says() -> None:
    node = Follower(shape=JudgeShape(lag=1.0))
    node.hear(append("a", 1, (0, 0), entries(1, None, FORGED + b"x", None)))
    assert (node.machine.last_index, node.alarms) == (1, ["entry-refused"])
    assert node.counted("found a forged entry") == 1


def test_what_judges_do_is_counted_over_their_lives() -> None:
    tally: Counter[str] = Counter()
    for _ in range(2):
        RaftJudge(JudgeShape(), random=Random(1), machine=lambda: None, fail=fail, tally=tally).forget()
    assert tally == {"judges: began anew": 2}

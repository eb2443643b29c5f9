"""Effects that the leader fires: at most once in a whole cluster, whoever leads."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from bobbin.cluster.names import Term
from bobbin.errors import UsageError
from bobbin.reactive.authority import Outcome
from bobbin.runtime.cluster_client import OutcomeUnknown
from bobbin.runtime.coming import Coming
from bobbin.runtime.replicated_commands import Answer, Answered, RaiseFence, SetEffect
from bobbin.runtime.replicated_effects import LeaderEffects, NotTheLeader
from bobbin.runtime.replicated_keeper import LaceKeeper
from bobbin.runtime.single_effects import Fate, OnceRecords
from bobbin.store.sqlite import open_store
from tests.support.replicated import LocalLog


class Cluster:
    """One log, and as many nodes as fire."""

    def __init__(self, path: Path) -> None:
        open_store(path, create=True, now=lambda: 0).close()
        self.keeper = LaceKeeper(path, now=lambda: 0)
        self.log = LocalLog(path, self.keeper)

    def node(self) -> LeaderEffects:
        return LeaderEffects(self.log, lambda: self.keeper.effects().result())

    def leader(self, term: int) -> LeaderEffects:
        node = self.node()
        self.log.term = max(self.log.term, Term(term))
        node.lead(Term(term))
        assert node.appoint(Term(term))
        return node


def fence(node: LeaderEffects) -> int | None:
    return node.fence


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path / "a.db")
    yield made
    made.keeper.close()


def test_an_effect_happens_once_whoever_leads(cluster: Cluster) -> None:
    happened: list[str] = []
    first = cluster.leader(1)
    assert first.once("mail 7", lambda: happened.append("first")) is Fate.DONE
    assert first.once("mail 7", lambda: happened.append("again")) is Fate.OVER
    second = cluster.leader(2)
    assert second.once("mail 7", lambda: happened.append("second")) is Fate.OVER
    assert second.once("mail 8", lambda: happened.append("second")) is Fate.DONE
    assert happened == ["first", "second"]
    assert second.in_doubt == ()


def test_a_graph_may_use_it_for_what_it_triggers(cluster: Cluster) -> None:
    records: OnceRecords = cluster.leader(1)
    assert records.once("a", lambda: None) is Fate.DONE


def test_whoever_does_not_lead_fires_nothing(cluster: Cluster) -> None:
    node = cluster.node()
    with pytest.raises(NotTheLeader):
        node.once("a", lambda: pytest.fail("it must not happen"))
    node.lead(Term(1))
    with pytest.raises(NotTheLeader):
        node.once("a", lambda: pytest.fail("it has not taken up the right yet"))
    assert node.appoint(Term(1))
    assert fence(node) == 1
    node.dismiss()
    assert fence(node) is None
    with pytest.raises(NotTheLeader):
        node.once("a", lambda: pytest.fail("it must not happen"))


def test_an_old_leader_that_does_not_know_it_is_stopped_by_the_fence(cluster: Cluster) -> None:
    old, new = cluster.leader(1), cluster.leader(2)
    with pytest.raises(NotTheLeader, match="another node"):
        old.once("a", lambda: pytest.fail("it must not happen"))
    assert old.fence is None
    assert new.once("a", lambda: None) is Fate.DONE
    late = cluster.node()
    late.lead(Term(1))
    assert not late.appoint(Term(1))


def test_what_was_begun_and_not_ended_is_in_doubt_everywhere(cluster: Cluster) -> None:
    def fail() -> None:
        raise OSError("the line went dead")

    first = cluster.leader(1)
    with pytest.raises(OSError, match="went dead"):
        first.once("a", fail)
    assert first.once("a", fail) is Fate.IN_DOUBT
    second = cluster.leader(2)
    assert list(second.in_doubt) == ["a"]
    assert second.once("a", lambda: pytest.fail("perhaps it happened")) is Fate.IN_DOUBT
    with pytest.raises(UsageError, match="not in doubt"):
        second.settle("b", Outcome.APPLIED)
    second.settle("a", Outcome.APPLIED)
    assert list(second.in_doubt) == []
    assert cluster.leader(3).once("a", lambda: pytest.fail("it is over")) is Fate.OVER


def test_it_is_in_the_log_before_it_happens(cluster: Cluster) -> None:
    node = cluster.leader(1)
    seen: list[str | None] = []
    node.once("a", lambda: seen.extend(row.outcome for row in cluster.keeper.effects().result()))
    assert seen == [None]
    assert [row.outcome for row in cluster.keeper.effects().result()] == ["applied"]
    assert node.once("b", lambda: Outcome.REJECTED) is Fate.DONE
    assert {row.id: row.outcome for row in cluster.keeper.effects().result()} == {"a": "applied", "b": "rejected"}


def test_wrong_ids_and_nesting_are_refused(cluster: Cluster) -> None:
    node = cluster.leader(1)
    with pytest.raises(UsageError, match="id of 1 to"):
        node.once("", lambda: None)
    with pytest.raises(UsageError, match="cannot ask"):
        node.once("a", lambda: node.once("b", lambda: None))


def test_a_leader_that_lost_its_office_meanwhile_is_not_appointed(cluster: Cluster) -> None:
    node = cluster.node()
    node.lead(Term(1))
    node.dismiss()
    assert not node.appoint(Term(1))
    assert node.fence is None


# ---- answers that come too late -------------------------------------------------------------------------------------


class LateLog:
    """Commits what is proposed, and lets the word of one command come too late."""

    def __init__(self, log: LocalLog) -> None:
        self._log = log
        self.late: type[Answered] | None = None

    def begin(self, commands: Sequence[Answered]) -> Coming[list[Answer]]:
        answers = self._log.begin(commands)
        if self.late is not None and isinstance(commands[0], self.late):
            self.late = None
            return Coming(self._time_is_up)
        return answers

    @staticmethod
    def _time_is_up() -> list[Answer]:
        raise OutcomeUnknown("time is up")

    def settle(self) -> None:
        self._log.settle()


@pytest.fixture
def late(cluster: Cluster) -> tuple[LateLog, LeaderEffects]:
    log = LateLog(cluster.log)
    node = LeaderEffects(log, lambda: cluster.keeper.effects().result())
    node.lead(Term(1))
    assert node.appoint(Term(1))
    return log, node


def test_a_beginning_that_is_heard_of_too_late_is_in_doubt_and_others_go_on(
    late: tuple[LateLog, LeaderEffects], cluster: Cluster
) -> None:
    log, node = late
    happened: list[str] = []
    log.late = SetEffect
    with pytest.raises(OutcomeUnknown):
        node.once("a", lambda: happened.append("a"))
    assert node.once("a", lambda: happened.append("a again")) is Fate.IN_DOUBT
    assert node.once("a", lambda: happened.append("a again")) is Fate.IN_DOUBT
    assert node.once("b", lambda: happened.append("b")) is Fate.DONE
    assert node.in_doubt == ("a",)
    node.settle("a", Outcome.REJECTED)
    assert happened == ["b"]
    assert cluster.leader(2).once("a", lambda: pytest.fail("it is over")) is Fate.OVER


def test_an_end_that_is_heard_of_too_late_is_in_doubt_until_it_is_looked_up(
    late: tuple[LateLog, LeaderEffects],
) -> None:
    log, node = late
    happened: list[str] = []

    def fire() -> None:
        happened.append("a")
        log.late = SetEffect

    with pytest.raises(OutcomeUnknown):
        node.once("a", fire)
    assert node.once("a", fire) is Fate.IN_DOUBT
    with pytest.raises(UsageError, match="written down before"):
        node.settle("a", Outcome.REJECTED)
    assert node.in_doubt == ()
    assert node.once("a", fire) is Fate.OVER
    assert happened == ["a"]
    assert node.once("b", lambda: None) is Fate.DONE


def test_an_appointment_that_is_heard_of_too_late_can_be_repeated(cluster: Cluster) -> None:
    log = LateLog(cluster.log)
    node = LeaderEffects(log, lambda: cluster.keeper.effects().result())
    node.lead(Term(1))
    log.late = RaiseFence
    with pytest.raises(OutcomeUnknown):
        node.appoint(Term(1))
    assert fence(node) is None
    assert node.appoint(Term(1))
    assert node.once("a", lambda: None) is Fate.DONE

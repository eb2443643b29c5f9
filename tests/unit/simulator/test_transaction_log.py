"""The replicated log of a shard keeps what is committed, and some of what is not."""

from random import Random

from bobbin.cluster.names import Term
from bobbin.cluster.shard.commands import Drop
from bobbin.cluster.transactions.names import TxId
from bobbin.simulator.transaction_log import ReplicatedLog

COMMANDS = [Drop(TxId(bytes([number]) * 16)) for number in range(5)]


def log_with_open_proposals() -> ReplicatedLog:
    log = ReplicatedLog()
    for number, command in enumerate(COMMANDS):
        assert log.propose(Term(1), number, command)
    return log


def test_proposals_are_committed_in_their_order() -> None:
    log = log_with_open_proposals()
    first, second = log.commit(Term(1)), log.commit(Term(1))
    assert first is not None
    assert second is not None
    assert [(entry.index, entry.proposal, entry.command) for entry in (first, second)] == [
        (1, 0, COMMANDS[0]),
        (2, 1, COMMANDS[1]),
    ]
    assert (log.last, log.open_count) == (2, 3)


def test_at_a_change_of_leader_any_first_part_survives_and_the_rest_is_lost() -> None:
    survivors = set()
    for seed in range(60):
        log = log_with_open_proposals()
        log.commit(Term(1))
        survived = log.change_leader(Random(seed))
        survivors.add(len(survived))
        assert [entry.command for entry in log.entries] == COMMANDS[: 1 + len(survived)]
        assert {entry.term for entry in survived} <= {1}
        assert log.open_count == 0
    assert survivors == {0, 1, 2, 3, 4}


def test_one_that_was_deposed_proposes_and_commits_nothing() -> None:
    log = log_with_open_proposals()
    log.change_leader(Random(1))
    last = log.last
    assert not log.propose(Term(1), 9, COMMANDS[0])
    assert log.propose(Term(2), 0, COMMANDS[0])
    assert log.commit(Term(1)) is None
    assert log.last == last
    assert log.commit(Term(2)) is not None
    assert log.commit(Term(2)) is None

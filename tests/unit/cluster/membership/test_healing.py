"""How far a failed node has come back: answers in a row, each to its own probe, each in time."""

from bobbin.cluster.membership.healing import HealProgress


def test_an_answer_counts_once_and_for_its_own_probe() -> None:
    progress = HealProgress(away_since_ns=0)
    progress.ask(7, due_ns=100)
    assert not progress.answer(6, 50)
    assert progress.answer(7, 100)
    assert not progress.answer(7, 100)
    assert progress.successes == 1


def test_a_late_answer_is_none_and_sets_the_count_to_nothing() -> None:
    progress = HealProgress(away_since_ns=0)
    progress.succeed()
    progress.ask(7, due_ns=100)
    progress.expire(100)
    assert progress.successes == 1, "it may still come"
    assert not progress.answer(7, 101)
    progress.expire(101)
    assert (progress.successes, progress.probe_id) == (0, None)

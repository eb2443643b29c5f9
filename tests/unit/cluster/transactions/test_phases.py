"""The two diagrams of the seed, as tables (CL-147, 377)."""

from bobbin.cluster.transactions.phases import COORDINATOR, PARTICIPANT, Ended, Standing, TxPhase


def test_the_coordinator_has_the_ways_of_the_seed() -> None:
    assert [(None if was is None else was.value, is_now.value) for was, is_now in COORDINATOR] == [
        (None, "preparing"),
        ("preparing", "prepared"),
        ("preparing", "aborting"),
        ("prepared", "committing"),
        ("prepared", "aborting"),
        ("committing", "committed"),
        ("aborting", "aborted"),
    ]


def test_nothing_leaves_a_terminal_phase_and_everything_else_leads_on() -> None:
    left = {was for was, _ in COORDINATOR}
    for phase in TxPhase:
        assert phase.is_terminal == (phase not in left)
        assert phase.is_terminal == (phase in (TxPhase.COMMITTED, TxPhase.ABORTED))
    assert (TxPhase.COMMITTING, TxPhase.ABORTING) not in COORDINATOR


def test_a_participant_that_has_promised_waits_for_the_decision_alone() -> None:
    assert {after for was, after in PARTICIPANT if was is Standing.VOTE_YES} == {Standing.WAITING_DECISION}
    assert {after for was, after in PARTICIPANT if was is Standing.WAITING_DECISION} == {
        Standing.COMMITTED,
        Standing.ABORTED,
    }
    reached = {after for _, after in PARTICIPANT} | {Standing.IDLE}
    assert reached == set(Standing)


def test_ends_have_their_own_words() -> None:
    assert len({ended.value for ended in Ended}) == len(Ended)

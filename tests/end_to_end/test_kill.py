"""A sample of the kill campaign; ``evidence/kill.py`` runs it in full and says what each trial asks."""

import pytest

from evidence import kill


@pytest.mark.slow
def test_a_killed_import_loses_nothing_and_can_be_repeated() -> None:
    # Three commits' worth of records, so that a kill can fall before, between and after them.
    trials = kill.campaign(records=9_000, kills=3, seed=1)
    assert len(trials) == 3
    for trial in trials:
        assert trial.lost == 0, trial
        assert trial.found >= trial.acknowledged, trial
        assert trial.is_in_order, trial
        assert trial.is_completed, trial
        assert trial.is_exact, trial

"""A sample of the kill campaign between two processes; ``evidence/network_kill.py`` runs it in full."""

import pytest

from evidence import network_kill


@pytest.mark.slow
def test_an_exchange_that_is_killed_loses_nothing_and_can_be_repeated() -> None:
    trials = network_kill.campaign(records=1_500, kills=4, seed=1)
    assert [trial.victim for trial in trials] == ["client", "node", "client", "node"]
    for trial in trials:
        assert trial.lost == 0, trial
        assert trial.is_in_order, trial
        assert trial.is_completed, trial
        assert trial.repeated == 0, trial

"""A sample of the kill campaign; ``evidence/spark_kill.py`` runs it in full and says what each trial asks."""

import random
from contextlib import suppress
from pathlib import Path

import pytest

from bobbin.store.lake import commit
from bobbin.store.lake.lake import Lake, Run
from evidence import spark_kill
from evidence.spark_kill import DRIVER, JAVA, WORKER, Material
from tests.support.lakes import some_records, store

pytestmark = pytest.mark.slow


class Killed(BaseException):
    """Stands for SIGKILL."""


@pytest.mark.parametrize("is_decided", [True, False])
def test_a_kill_between_the_moment_of_a_commit_and_its_carrying_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_decided: bool
) -> None:
    """What was decided counts as committed; what was not does not."""
    lake = Lake.create(tmp_path / "lake")
    store(lake, some_records(3, 1))

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patched, suppress(Killed):
        # As after SIGKILL: nobody cleans up.
        patched.setattr(Run, "abandon", lambda _: None)
        patched.setattr(commit, "_carry_out" if is_decided else "decide", die)
        store(lake, some_records(2, 2))
    assert lake.manifest("records").number == 1
    assert spark_kill.was_decided(tmp_path / "lake", 1) is is_decided
    assert len(spark_kill._names(tmp_path / "lake")) == (5 if is_decided else 3)


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    return spark_kill.prepare(tmp_path_factory.mktemp("spark-kill"), 6_000)


@pytest.mark.parametrize(("victim", "seed"), [(DRIVER, 1), (JAVA, 3), (WORKER, 4)])
def test_a_killed_ingest_leaves_the_lake_as_it_was_and_can_be_repeated(
    material: Material, tmp_path: Path, victim: str, seed: int
) -> None:
    trial = spark_kill.trial(material, tmp_path / "trial", victim, random.Random(seed))
    assert trial.victim == victim
    assert trial.is_as_before, trial
    assert trial.is_explained, trial
    assert trial.is_completed, trial
    assert trial.is_exact, trial
    assert trial.is_in_order, trial

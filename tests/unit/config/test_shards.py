"""The folder of a machine that serves one node of each shard."""

from pathlib import Path

import pytest

from bobbin.cluster.settings import VictimSelectionPolicy
from bobbin.config.cluster import read_folder
from bobbin.config.findings import InvalidConfiguration
from bobbin.config.shards import create_set, is_set, read_set
from bobbin.errors import UsageError
from bobbin.runtime.cluster_members import Rights


def _places(nodes: int, shards: int) -> list[list[str]]:
    return [[f"tls:127.0.0.1:{7_000 + shard * nodes + at}" for at in range(nodes)] for shard in range(shards)]


def _make(path: Path, nodes: int = 3, shards: int = 2) -> list[Path]:
    folders = [path / f"n{number}" for number in range(1, nodes + 1)]
    create_set(folders, _places(nodes, shards))
    return folders


def test_each_shard_is_a_cluster_of_its_own_and_every_operator_may_ask_every_one(tmp_path: Path) -> None:
    folders = _make(tmp_path)
    read = [read_set(folder) for folder in folders]
    assert [[one.shard.shard for one in some if one.shard is not None] for some in read] == [[0, 1]] * 3
    assert len({one.settings.cluster for some in read for one in some}) == 2
    assert len({one.node for some in read for one in some}) == 6
    operators = {some[0].operator.certificate for some in read}
    assert len(operators) == 3
    for some in read:
        assert len({one.operator.certificate for one in some}) == 1
        for one in some:
            callers = one.known.directory.callers
            assert {
                certificate for certificate, caller in callers.items() if caller.rights is Rights.OPERATOR
            } == operators
    assert is_set(folders[0])
    assert oct((folders[0] / "operator.key").stat().st_mode & 0o777) == "0o600"


def test_nothing_complete_is_written_over_and_what_was_cut_off_is_done_again(tmp_path: Path) -> None:
    folders = _make(tmp_path)
    before = read_set(folders[0])[0]
    with pytest.raises(UsageError, match="already"):
        _make(tmp_path)
    for folder in folders:
        (folder / "shards.toml").unlink()
    (folders[1] / "s1" / "cluster.toml").unlink()
    _make(tmp_path)
    after = read_set(folders[0])[0]
    assert (after.node, after.operator.certificate) == (before.node, before.operator.certificate)
    assert {read_set(folder)[1].settings.cluster for folder in folders} == {read_set(folders[0])[1].settings.cluster}
    for folder in folders:
        (folder / "shards.toml").unlink()
    after.begin()
    with pytest.raises(UsageError, match="already a node"):
        _make(tmp_path)


@pytest.mark.parametrize("shards", [0, 65])
def test_a_set_has_a_bounded_number_of_shards(tmp_path: Path, shards: int) -> None:
    with pytest.raises(UsageError, match="shards"):
        create_set([tmp_path / "n1"], _places(1, shards))
    assert not (tmp_path / "n1").exists()


def test_a_folder_that_is_none_or_has_another_number_of_shards_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no set"):
        read_set(tmp_path)
    (folder,) = _make(tmp_path, nodes=1)
    with pytest.raises(UsageError, match="name one of them"):
        read_folder(folder)
    file = folder / "shards.toml"
    for text, match in (
        ("format = 1\nshards = 1\n", "is not that of shard"),
        ("format = 2\nshards = 2\n", "knows format 1"),
    ):
        file.write_text(text, "utf-8")
        with pytest.raises(UsageError, match=match):
            read_set(folder)
    for text in ("format = 1\n", "format = 1\nshards = 0\n", "format = 1\nshards = 2\nshard = 3\n", "="):
        file.write_text(text, "utf-8")
        with pytest.raises(InvalidConfiguration):
            read_set(folder)


def test_the_settings_of_transactions_deadlocks_and_the_chain_are_tables(tmp_path: Path) -> None:
    (folder,) = _make(tmp_path, nodes=1, shards=1)
    file = folder / "s0" / "cluster.toml"
    plain = file.read_text("utf-8")
    file.write_text(
        plain + "[transactions]\nlock_wait = true\nmax_concurrent = 7\n"
        '[deadlock]\nvictim_policy = "most-locks"\ndetection_interval_ms = 50\n'
        "[chain]\nembedding_dimension = 16\n[chain.auto_merge]\nenabled = false\n",
        "utf-8",
    )
    (read,) = read_set(folder)
    shard = read.shard
    assert shard is not None
    assert (shard.transactions.lock_wait, shard.transactions.max_concurrent) == (True, 7)
    assert (shard.deadlock.victim_policy, shard.deadlock.detection_interval_ms) == (
        VictimSelectionPolicy.MOST_LOCKS,
        50,
    )
    assert (shard.chain.embedding_dimension, shard.chain.auto_merge.enabled) == (16, False)
    for wrong in (
        "[transactions]\nlock_timeout_ms = 10\n",
        "[transactions]\nwound_wait = true\n",
        "[deadlock]\nvictim_policy = 'nobody'\n",
        "[chain]\nmax_transactions = 1001\n",
        "[chain]\nno_such = 1\n",
    ):
        file.write_text(plain + wrong, "utf-8")
        with pytest.raises(UsageError):
            read_set(folder)
    file.write_text(plain.replace("shards = 1", ""), "utf-8")
    with pytest.raises(UsageError, match="given together"):
        read_set(folder)

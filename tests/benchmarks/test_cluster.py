"""The cluster benchmark: our side really commits, peers are pinned, an absent one fails it, bars are as promised."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks import cluster, cluster_bobbin, cluster_etcd, peer_environments
from benchmarks.cluster import ETCD, OURS, PYSYNCOBJ, Counts
from benchmarks.cluster_bobbin import Asked, bobbin
from benchmarks.network_processes import PeerFailedError
from bobbin.runtime.cluster_client import ClusterClient

pytestmark = pytest.mark.slow  # real processes


def test_our_side_commits_what_it_is_asked_to(tmp_path: Path) -> None:
    with bobbin(tmp_path) as asked:
        assert asked.rate(300, 100) > 0
        assert asked.latency(5) > 0


def test_two_writes_at_one_place_are_no_figure() -> None:
    class _Idle(ClusterClient):
        def __init__(self) -> None:
            pass

        async def put(self, key: bytes, value: bytes) -> int:
            del key, value
            return 7

    with pytest.raises(PeerFailedError, match="2 writes have 1 places"):
        asyncio.run(cluster_bobbin.rate(_Idle(), 2, 1))


class _Fake:
    def __init__(self, rate: float, seconds: float) -> None:
        self.asked: list[tuple[int, int]] = []
        self._rate = rate
        self._seconds = seconds

    def rate(self, count: int, in_flight: int) -> float:
        self.asked.append((count, in_flight))
        return self._rate

    def latency(self, count: int) -> float:
        self.asked.append((count, 1))
        return self._seconds


def test_each_turn_has_a_cluster_of_its_own_that_is_warm() -> None:
    made: list[tuple[str, _Fake]] = []

    def side(name: str, rate: float, seconds: float) -> "object":
        @contextmanager
        def up(folder: Path) -> Iterator[_Fake]:
            assert folder.is_dir()
            made.append((name, _Fake(rate, seconds)))
            yield made[-1][1]

        return up

    sides = {"a": side("a", 10, 0.1), "b": side("b", 20, 0.2)}
    rates, seconds = cluster.measure(sides, {"a": Counts(5_000, 3), "b": Counts(50, 4)}, 2)  # type: ignore[arg-type]
    assert (rates, seconds) == ({"a": [10, 10], "b": [20, 20]}, {"a": [0.1, 0.1], "b": [0.2, 0.2]})
    assert [name for name, _ in made] == ["a", "b", "b", "a"]
    assert made[0][1].asked == [(2_000, 1_000), (3, 1), (5_000, 1_000)]
    assert made[1][1].asked == [(50, 1_000), (4, 1), (50, 1_000)]


def test_the_bars_are_those_that_were_promised() -> None:
    rates = {OURS: [10.0], PYSYNCOBJ: [10.0], ETCD: [50.0]}
    seconds = {OURS: [0.002], PYSYNCOBJ: [0.01], ETCD: [0.001]}
    ratios = cluster.speed_ratios(rates, seconds)
    assert [(ratio.value, ratio.bar, ratio.comparison) for ratio in ratios] == [
        (1.0, 1, ">="),
        (0.2, 0.2, ">="),
        (0.2, 0.2, "<="),
        (2.0, 2, "<="),
    ]
    assert not any(ratio.missed for ratio in ratios)
    worse = cluster.speed_ratios({**rates, OURS: [9.9]}, {**seconds, OURS: [0.0021]})
    assert all(ratio.missed for ratio in worse)
    rows = cluster.speed_rows(rates, seconds)
    assert [(row.value, row.unit) for row in rows[2:4]] == [(50, "writes/s"), (2.0, "ms")]


def test_a_few_members_show_what_many_do() -> None:
    rows, ratios = cluster.members(20, count=8)
    assert rows[0].value == 8
    assert [(ratio.bar, ratio.missed) for ratio in ratios] == [(0, False), (1, False)]
    assert "160 node-rounds" in ratios[0].name


# ---- peers ----------------------------------------------------------------------------------------------------------


def test_the_peer_from_pypi_is_pinned_by_hash() -> None:
    text = (peer_environments.LOCKS / "cluster" / f"{PYSYNCOBJ}.lock").read_text(encoding="utf-8")
    assert re.search(rf"^{PYSYNCOBJ}=={re.escape(peer_environments.version_of(PYSYNCOBJ))} ", text, re.MULTILINE)
    assert re.search(r"--hash=sha256:[0-9a-f]{64}", text)


def test_an_absent_peer_fails_the_benchmark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PeerFailedError, match="not installed: etcd"):
        cluster.run()


def test_a_program_that_is_not_etcd_is_found_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "etcd"
    program.write_text("#!/bin/sh\necho etcd Version: 3.4.5\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert cluster_etcd.version() == "3.4.5"
    program.write_text("#!/bin/sh\necho nothing\n", encoding="utf-8")
    with pytest.raises(PeerFailedError, match="which version"):
        cluster_etcd.version()


def test_nodes_of_pysyncobj_none_of_which_leads_are_an_error(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho '{\"leads\": 0.0}'\ncat\n", encoding="utf-8")
    python.chmod(0o755)
    with pytest.raises(PeerFailedError, match="leads"), cluster.pysyncobj(python, tmp_path):
        pass


def test_the_leader_of_pysyncobj_is_asked(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(
        '#!/bin/sh\necho \'{"leads": 1.0}\'\nread question\necho \'{"rate": 5, "seconds": 3}\'\ncat\n', encoding="utf-8"
    )
    python.chmod(0o755)
    with cluster.pysyncobj(python, tmp_path) as asked:
        assert isinstance(asked, Asked)
        assert asked.rate(1, 1) == 5.0

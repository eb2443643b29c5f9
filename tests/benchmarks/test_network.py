"""Benchmarks between processes: what they start is ended, what is absent or wrong is an error, ours really exchange."""

import sys
import xml.etree.ElementTree as ET
from contextlib import ExitStack
from pathlib import Path

import pytest

from benchmarks import network, network_git, network_lace, network_links, network_syncthing
from benchmarks.material import RECORD_BYTES, Shape, make_shard
from benchmarks.network_node import node_key, peer_key
from benchmarks.network_processes import (
    PeerFailedError,
    answer_of,
    free_port,
    is_listening,
    next_answer,
    plain_environment,
    read_answer,
    running,
    wait_until,
)
from benchmarks.peer_git import git

pytestmark = pytest.mark.slow  # real processes

_FEW = 30


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is prepared here is not what the benchmarks keep."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def _python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


# ---- processes ------------------------------------------------------------------------------------------------------


def test_a_process_and_its_children_end_with_the_block() -> None:
    code = (
        "import json, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(json.dumps({'child': child.pid}), flush=True)\n"
        "time.sleep(600)\n"
    )
    with ExitStack() as stack:
        process = stack.enter_context(running(_python(code)))
        child = int(next_answer(process)["child"])
        assert _is_running(child)
        with pytest.raises(ZeroDivisionError), stack:
            _ = 1 / 0
    assert process.returncode is not None
    wait_until(lambda: not _is_running(child), what="the child ends", seconds_max=30)


def _is_running(pid: int) -> bool:
    """A zombie that nobody has waited for is not running."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_a_process_that_does_not_hear_is_ended_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.network_processes._END_SECONDS_MAX", 0.5)
    code = (
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('{}', flush=True)\ntime.sleep(600)\n"
    )
    with running(_python(code)) as process:
        next_answer(process)
    assert process.returncode == -9


def test_a_program_that_is_absent_is_named() -> None:
    with pytest.raises(PeerFailedError, match="not installed: no-such-program-here"), running(["no-such-program-here"]):
        pass


def test_a_program_that_fails_or_says_nothing_or_nonsense_is_an_error() -> None:
    with pytest.raises(PeerFailedError, match="exit code 3"):
        answer_of(_python("raise SystemExit(3)"))
    with pytest.raises(PeerFailedError, match="not an answer"):
        answer_of(_python("print('hello')"))
    with pytest.raises(PeerFailedError, match="not an answer"):
        read_answer("[1]")
    with pytest.raises(PeerFailedError, match="not done within"):
        answer_of(_python("import time; time.sleep(600)"), seconds_max=0.2)
    silent = running(_python("import time; time.sleep(600)"))
    with silent as process, pytest.raises(PeerFailedError, match="said nothing for"):
        next_answer(process, seconds_max=0.2)
    with pytest.raises(PeerFailedError, match="in vain: the moon"):
        wait_until(lambda: False, what="the moon", seconds_max=0.05, every_seconds=0.01)


def test_the_last_line_is_the_answer_and_lines_come_one_by_one() -> None:
    assert answer_of(_python("print('noise'); print('{\"seconds\": 2}')")) == {"seconds": 2}
    with running(_python('print(\'{"a": 1}\\n{"a": 2}\', flush=True); input()')) as process:
        assert [next_answer(process), next_answer(process)] == [{"a": 1}, {"a": 2}]


def test_loopback_goes_through_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://example.org")
    monkeypatch.setenv("all_proxy", "socks://example.org")
    environment = plain_environment(HOME="elsewhere")
    assert environment["HOME"] == "elsewhere"
    assert not any(name.lower().endswith("_proxy") for name in environment)


def test_a_free_port_is_free() -> None:
    assert not is_listening(free_port())


# ---- peers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("peer", ["syncthing", "node"])
def test_a_named_peer_that_is_absent_fails_the_benchmark(
    peer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOBBIN_BENCH_NETWORK_RECORDS", "4")
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("git", "node", "syncthing"):
        if name == peer:
            continue
        (tools / name).write_text("#!/bin/sh\necho 'v0 v0'\n", encoding="utf-8")
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tools))
    # What is prepared before the peer is needed has tests of its own.
    for module in (network_lace, network_git):
        monkeypatch.setattr(module, "prepare", lambda _: tmp_path)
    monkeypatch.setattr("benchmarks.peer_packages.install", lambda _: tmp_path)
    with pytest.raises(PeerFailedError, match=f"{peer} is not installed|not installed: {peer}"):
        network.run()


def test_the_settings_of_syncthing_are_on_loopback_and_keep_to_themselves(tmp_path: Path) -> None:
    sides = [
        network_syncthing.Side(
            home=tmp_path, files=tmp_path / "a & b", device=name, port=number, gui_port=number + 1, api_key="key"
        )
        for name, number in (("RECEIVER", 1), ("SENDER", 3))
    ]
    sides[0].files.mkdir()
    network_syncthing._configure(sides[0], sides[1], kind="receiveonly", dial=True)
    options = ET.parse(tmp_path / "config.xml").getroot()
    assert {one.get("path") for one in options.findall("folder")} == {str(tmp_path / "a & b")}
    assert options.findtext("gui/address") == "127.0.0.1:2"
    assert options.findtext("options/listenAddress") == "tcp://127.0.0.1:1"
    assert [one.findtext("address") for one in options.findall("device")] == ["dynamic", "tcp://127.0.0.1:3"]
    assert [one.findtext("paused") for one in options.findall("device")] == [None, "true"]
    for name in ("globalAnnounceEnabled", "localAnnounceEnabled", "relaysEnabled", "natEnabled"):
        assert options.findtext(f"options/{name}") == "false"
    assert options.findtext("options/urAccepted") == "-1"


def test_syncthing_is_done_only_when_it_has_everything_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    side = network_syncthing.Side(home=Path(), files=Path(), device="d", port=1, gui_port=2, api_key="key")
    status: dict[str, object] = {"globalFiles": 5, "localFiles": 5, "needFiles": 0, "needDirectories": 0}

    def answer(*_: object) -> dict[str, object]:
        return status

    monkeypatch.setattr(network_syncthing.Side, "ask", answer)
    status["state"] = "syncing"
    assert not side.has(5)
    status["state"] = "idle"
    assert side.has(5)
    assert not side.has(6)
    status["needFiles"] = 1
    assert not side.has(5)
    status["errors"] = 1
    with pytest.raises(PeerFailedError, match="errors"):
        side.has(5)


def test_git_fetches_the_records_as_they_are() -> None:
    assert network_git.blobs_per_second(_FEW) > 0
    shown = git("-C", str(network_git.prepare(_FEW)), "show", "main:folder-000000/record-00000007")
    assert shown == make_shard(7, 8, Shape.SEAL)
    assert len(shown) == RECORD_BYTES


# ---- our own side ---------------------------------------------------------------------------------------------------


def test_a_node_and_its_peer_exchange_everything_between_two_processes() -> None:
    assert network_lace.records_per_second(_FEW) > 0


def test_a_peer_that_was_to_get_more_says_so(tmp_path: Path) -> None:
    with network_lace.serving(_FEW) as served:
        command = [sys.executable, "-m", "benchmarks.network_peers", "fetch", str(tmp_path), str(served.port)]
        with pytest.raises(PeerFailedError, match="exit code 1"):
            answer_of([*command, str(_FEW + 1)])


def test_peers_whose_links_fail_end_at_once_though_their_input_is_open() -> None:
    with (
        network_lace.serving(_FEW, peers=2) as served,
        network_lace.following(served, records=_FEW - 1, links=2) as process,
    ):
        assert process.wait(60) == 1


def test_every_peer_has_a_key_of_its_own() -> None:
    keys = {peer_key(number).verifier for number in range(20)} | {node_key().verifier}
    assert len(keys) == 21


def test_a_new_record_reaches_every_link(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("LINKS_FEW", 1), ("LINKS", 6), ("LINK_RECORDS", _FEW), ("LINK_ROUNDS", 2)):
        monkeypatch.setenv(f"BOBBIN_BENCH_NETWORK_{name}", str(value))
    monkeypatch.setattr(network_links, "_REST_SECONDS", 0)
    result = network_links.run()
    assert [ratio.comparison for ratio in result.ratios] == ["<=", "<=", "<="]
    assert [ratio.bar for ratio in result.ratios] == [1, 12, 12]
    assert all(isinstance(row.value, float) for row in result.rows)
    assert all(row.value > 0 for row in result.rows if "new record" in row.name and isinstance(row.value, float))

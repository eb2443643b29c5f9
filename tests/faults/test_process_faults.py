"""Real processes on both sides: killed in each phase, disks that are full, clocks that are set, wrong certificates."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from bobbin.cli.exit_codes import ExitCode
from bobbin.interlace.config import Open
from bobbin.transport import certificate
from tests.end_to_end.command import COMMAND, bobbin, environment
from tests.faults.clients import Talking, converse, serves_carol
from tests.faults.proxy import Act, Fault, Proxy, Way
from tests.faults.served import (
    BOB,
    CAROL,
    NODE,
    PATIENCE_SECONDS,
    Served,
    count,
    fsck,
    make_lace,
    peer_table,
    until,
)
from tests.policy_worlds import EVERYTHING
from tests.support.exchanges import record, records

_PHASES: Final = {
    "introduction": b"KnotProof(",
    "setup": b"ExchangeOperand(",
    "hello": b"HelloExchangePlan(",
    "advertise": b"\nAdvertisementPartition(",
    "request": b"MayRequest(",
    "transfer": "🖧: P.".encode(),
}
_RECORDS: Final = 400
"""On either side: more than one block of a transfer, and more than are advertised without asking."""


@contextmanager
def _process(*arguments: str | Path, file_bytes_max: int | None = None) -> Iterator["subprocess.Popen[bytes]"]:
    """A command that runs on; killed afterwards if nobody has ended it."""
    command = [*COMMAND, *map(str, arguments)]
    if file_bytes_max is not None:
        command = ["bash", "-c", f'ulimit -f {file_bytes_max // 1024}; exec "$@"', "limited", *command]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as process:
        try:
            yield process
        finally:
            process.kill()


def _bob(folder: Path, some: int = 0) -> Path:
    """Bob's lace, who knows the node by its key."""
    made = make_lace(folder, BOB, records(some, first=10_000))
    (made / "everything.policy").write_text(EVERYTHING)
    return made


def _sync_arguments(lace: Path, address: str) -> tuple[str | Path, ...]:
    known = ("--policy", lace / "everything.policy", "--verifier", NODE.verifier)
    # By partitions, so that each phase has words by which it can be told from the others.
    return ("sync", lace, address, *known, "--strategy", "partitions", "--json")


def _completes(lace: Path, served: Served, total: int) -> None:
    """A sync without any fault ends well, and both sides have everything."""
    done = bobbin(*_sync_arguments(lace, served.addresses["tcp"]))
    assert done.code == ExitCode.OK, done
    assert count(lace) == total
    until(lambda: served.status().records == total)


@pytest.fixture
def node_folder(tmp_path: Path) -> Path:
    return make_lace(tmp_path / "node", NODE, records(_RECORDS))


@pytest.mark.slow
@pytest.mark.parametrize("phase", _PHASES)
def test_a_client_that_is_killed_in_each_phase(tmp_path: Path, node_folder: Path, phase: str) -> None:
    """The node calls the link lost, keeps what was whole, serves others, and the next sync completes the work."""
    lace = _bob(tmp_path / "bob.lace", _RECORDS)
    processes: list[subprocess.Popen[bytes]] = []

    def kill() -> None:
        processes[0].kill()

    with Served(node_folder) as served:
        after = 50_000 if phase == "transfer" else 3
        with Proxy(served.port, Fault(act=Act.CALL, mark=_PHASES[phase], after=after, call=kill)) as proxy:
            with _process(*_sync_arguments(lace, f"tcp:127.0.0.1:{proxy.port}")) as process:
                processes.append(process)
                said = process.communicate(timeout=PATIENCE_SECONDS)
                assert process.returncode == -signal.SIGKILL, said
            if phase == "introduction":
                # Its proof may have been on its way as a whole.
                until(lambda: served.refusals("closed-before-proof") or served.over("bob", 0))
            else:
                assert served.ends("bob", 0).end.reason == "link-lost"
        fsck(lace)
        serves_carol(served, tmp_path / "carol.lace", served.status().records)
        _completes(lace, served, 2 * _RECORDS)
    fsck(node_folder)


@pytest.mark.slow
@pytest.mark.parametrize("phase", _PHASES)
def test_a_node_that_is_killed_in_each_phase(tmp_path: Path, node_folder: Path, phase: str) -> None:
    """The client says that the link is lost and keeps what was whole; the node starts again and the work completes."""
    lace = _bob(tmp_path / "bob.lace", _RECORDS)
    served = Served(node_folder)
    served.start()
    try:
        after = 50_000 if phase == "transfer" else 3
        fault = Fault(act=Act.CALL, way=Way.TO_CLIENT, mark=_PHASES[phase], after=after, call=served.kill)
        with Proxy(served.port, fault) as proxy:
            done = bobbin(*_sync_arguments(lace, f"tcp:127.0.0.1:{proxy.port}"))
            assert proxy.struck.is_set()
        assert done.code in (ExitCode.NOT_ALL, ExitCode.TRY_AGAIN, ExitCode.PEER), done
        said = done.err + done.text
        assert "link-lost" in said or "closed the link" in said, done
        fsck(lace)
        fsck(node_folder)
    finally:
        served.stop()
    with Served(node_folder) as again:
        _completes(lace, again, 2 * _RECORDS)


def test_a_follower_comes_back_by_itself(tmp_path: Path) -> None:
    """``bobbin follow`` dials again when its link is cut, and goes on where it was."""
    folder = make_lace(tmp_path / "node", NODE, [record(1)])
    lace = _bob(tmp_path / "bob.lace")
    with Served(folder) as served, Proxy(served.port, Fault(act=Act.RESET, mark=b"MayRequest(", after=1)) as proxy:
        address = f"tcp:127.0.0.1:{proxy.port}"
        policy = lace / "everything.policy"
        with _process(
            "follow", lace, address, "--policy", policy, "--verifier", NODE.verifier, "-n", "2", "--json"
        ) as following:
            assert proxy.struck.wait(PATIENCE_SECONDS)
            proxy.fault = None
            until(lambda: any(link.peer == "bob" and link.rounds for link in served.status().links))
            assert converse(tmp_path / "carol", served.addresses["tcp"], CAROL, records=[record(2)]).fixed_point
            out, err = following.communicate(timeout=PATIENCE_SECONDS)
            assert following.returncode == ExitCode.OK, err
        assert record(1).hash.encode() in out
        assert record(2).hash.encode() in out
        reasons = [past.end.reason for past in served.status().past if past.peer == "bob"]
        assert reasons[-1] == "link-lost"
    fsck(lace)


def test_disk_full_on_the_node(tmp_path: Path) -> None:
    """The link ends as a failure of the store, what was stored stays, readers are served, and room mends it."""
    folder = make_lace(tmp_path / "node", NODE, records(5))
    much = records(400, first=1_000, size=20_000)
    with Served(folder, file_bytes_max=3_000_000) as served:
        converse(tmp_path / "bob", served.addresses["tcp"], records=much)
        past = served.ends("bob", 0)
        assert past.end.reason == "store-failure"
        assert "full" in past.end.detail or "full" in served.status().health, served.status()
        assert served.status().health.startswith("the store failed")
        stored = served.status().records
        assert 5 <= stored < 405
        serves_carol(served, tmp_path / "carol", stored)
        shown = json.loads(bobbin("links", folder, "--json").text)
        assert shown["ended"]["store-failure"] == 1
    fsck(folder)
    assert count(folder) == stored
    with Served(folder) as served:
        assert converse(tmp_path / "bob", served.addresses["tcp"]).fixed_point
        until(lambda: served.status().records == 405)
    fsck(folder)


def test_disk_full_on_the_client(tmp_path: Path) -> None:
    """``bobbin sync`` says that the store failed, keeps what it had stored, and completes when there is room."""
    folder = make_lace(tmp_path / "node", NODE, records(400, size=20_000))
    lace = _bob(tmp_path / "bob.lace")
    with Served(folder) as served:
        with _process(*_sync_arguments(lace, served.addresses["tcp"]), file_bytes_max=3_000_000) as process:
            out, err = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode not in (ExitCode.OK, ExitCode.BUG), err
        assert b"store-failure" in out + err or b"full" in out + err
        fsck(lace)
        serves_carol(served, tmp_path / "carol", 400)
        _completes(lace, served, 400)


_MOVABLE_CLOCK: Final = """
import os, time
_real = time.time_ns
def _moved():
    try:
        with open(os.environ["MOVED_SECONDS"]) as file:
            return _real() + int(float(file.read() or 0) * 1e9)
    except (OSError, ValueError):
        return _real()
time.time_ns = _moved
"""


def test_the_clock_of_the_node_jumps(tmp_path: Path) -> None:
    """A wall clock that is set breaks no link that is up; new ones are refused while it is wrong, and only then."""
    (tmp_path / "clock").mkdir()
    (tmp_path / "clock" / "sitecustomize.py").write_text(_MOVABLE_CLOCK)
    moved = tmp_path / "moved"
    moved.write_text("0")
    surroundings = {"PYTHONPATH": str(tmp_path / "clock"), "MOVED_SECONDS": str(moved)}
    folder = make_lace(tmp_path / "node", NODE, records(5))
    with Served(folder, extra_environment=surroundings) as served, Proxy(served.port) as proxy:
        address = f"tcp:127.0.0.1:{proxy.port}"
        staying = Talking(tmp_path / "bob", address, lifecycle=Open(), records=[record(100)])
        until(lambda: any(link.peer == "bob" and link.state == "idle" for link in served.status().links))
        since = served.status().at
        for seconds in (86_400, -86_400):
            moved.write_text(str(seconds))
            assert served.status().at != since
            result = converse(tmp_path / f"carol{seconds}", served.addresses["tcp"], CAROL)
            assert not result.fixed_point
            assert served.ends("carol", served.newest("carol") - 1).end.reason == "clock-skew-too-large"
            (link,) = [link for link in served.status().links if link.peer == "bob"]
            assert link.state == "idle"
            assert link.age_seconds < 86_400, "ages are by a clock that only goes forward"
        moved.write_text("0")
        serves_carol(served, tmp_path / "carol", 6)
        extra = converse(tmp_path / "giver", served.addresses["tcp"], CAROL, records=[record(200)])
        assert extra.fixed_point
        until(lambda: [link.records_out for link in served.status().links if link.peer == "bob"] == [6])
    staying.join()
    fsck(folder)


def test_certificate_mismatch(tmp_path: Path) -> None:
    """A server with another certificate than the pinned one hears nothing of us, by command and by node alike."""
    folder = make_lace(tmp_path / "node", NODE, records(3))
    lace = _bob(tmp_path / "bob.lace", 1)
    policy = lace / "everything.policy"
    with Served(folder, listen=("tls:127.0.0.1:0",)) as served:
        address = served.addresses["tls"]
        wrong = bobbin("sync", lace, address, "--policy", policy, "--verifier", NODE.verifier, "--pin", "00" * 32)
        assert wrong.code == ExitCode.RESOURCE, wrong
        assert "does not match the pin" in wrong.err
        unknown = bobbin("sync", lace, address, "--policy", policy)
        assert unknown.code not in (ExitCode.OK, ExitCode.BUG), unknown
        another = bobbin("sync", lace, address, "--policy", policy, "--verifier", CAROL.verifier)
        assert another.code in (ExitCode.INTEGRITY, ExitCode.PEER), another
        assert count(lace) == 1
        pinned = peer_table("hub", NODE.verifier, address=address, certificate="00" * 32, follow=True)
        hub = make_lace(tmp_path / "follower", CAROL)
        with Served(hub, listen=(), peers=[pinned]) as follower:
            until(lambda: follower.status().links[0].last_end is not None)
            (link,) = follower.status().links
            assert link.last_end is not None
            assert link.last_end.reason == "connect-failed"
            assert "does not match the pin" in link.last_end.detail
            health = "1 of 1 followed peers without a link (connect-failed 1)"
            assert (follower.status().condition, follower.status().health) == ("degraded", health)
        assert served.status().records == 3
        right = certificate.fingerprint(folder / "tls" / "certificate.pem").hex()
        done = bobbin("sync", lace, address, "--policy", policy, "--verifier", NODE.verifier, "--pin", right)
        assert done.code == ExitCode.OK, done
        assert count(lace) == 4

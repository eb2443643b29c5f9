"""A lace on three processes is followed by a fourth, which goes on at another node when its own is killed."""

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest

from bobbin.cli.node_client import ask_links
from bobbin.lace import Lace
from bobbin.records.record import Record
from bobbin.runtime.status import LinkStatus
from tests.conformance.samples import plex
from tests.end_to_end.cluster_processes import PATIENCE_SECONDS
from tests.end_to_end.command import COMMAND, bobbin, environment
from tests.end_to_end.replicated_processes import Lace as Nodes

FIRST = 400
MORE = 12
_POLICY = "SelectHave(P) :- Have(P).\nSelectAdvertised(P,S) :- Advertised(P,S).\n"

T = TypeVar("T")


def _until(look: Callable[[], T | None], what: str) -> T:
    """What is there to be seen, as soon as it is."""
    end = time.monotonic() + PATIENCE_SECONDS
    while (seen := look()) is None:
        assert time.monotonic() < end, f"it never was so: {what}"
        time.sleep(0.05)
    return seen


class _Follower:
    """``bobbin follow`` in a process: the records that it shows, and what it says of its links."""

    def __init__(self, lace: Path, peer: str, folder: Path) -> None:
        self._files: Final = folder / "follow.out", folder / "follow.err"
        with self._files[0].open("wb") as out, self._files[1].open("wb") as err:
            self.process: Final = subprocess.Popen(
                [*COMMAND, "follow", str(lace), peer, "--json"], stdout=out, stderr=err, env=environment()
            )

    def _rows(self, file: Path) -> list[Any]:
        # A line that is not whole yet is left for the next look.
        return [json.loads(line) for line in file.read_bytes().split(b"\n")[:-1]]

    @property
    def shown(self) -> list[str]:
        return [row["hash"] for row in self._rows(self._files[0])]

    @property
    def linked(self) -> list[str]:
        """The addresses to which there was a link, in that order."""
        return [row["address"] for row in self._rows(self._files[1]) if row.get("event") == "linked"]

    def until_shown(self, records: Sequence[Record]) -> None:
        _until(lambda: set(self.shown) >= {one.hash for one in records} or None, f"{len(records)} records were shown")


@contextmanager
def _following(lace: Path, peer: str, folder: Path) -> Iterator[_Follower]:
    follower = _Follower(lace, peer, folder)
    try:
        yield follower
    finally:
        follower.process.kill()
        follower.process.wait()


@contextmanager
def _hall(folder: Path, doctor: str, policy: Path) -> Iterator[Nodes]:
    """Three nodes that know one peer, and show a certificate each."""
    nodes = Nodes(folder, 3, threshold=1_000, listen="tls:127.0.0.1:0")
    for one in nodes.folders:
        assert bobbin("peers", "add", one, "doctor", "--verifier", doctor, "--policy", policy).code == 0
    try:
        nodes.start(*nodes.folders)
        yield nodes
    finally:
        nodes.kill(*list(nodes.running))


def _store(node: Path, records: Sequence[Record]) -> None:
    """Whoever leads may just have been killed; then the import waits for the next one."""
    done = bobbin("import", node, "-", "--workers", "0", stdin=b"".join(record.raw for record in records))
    assert done.code == 0, done.err


def _link(node: Path, count: int) -> LinkStatus:
    """The link of the follower at a node, once it is at rest and has brought so many records."""

    def look() -> LinkStatus | None:
        found = [one for one in ask_links(node).links if one.peer == "doctor" and one.fixed_point is not None]
        return next((one for one in found if one.records_out >= count), None)

    return _until(look, f"{node.name} has a link at rest that brought {count} records")


def _account(lace: Path, peer: str) -> Any:  # noqa: ANN401 -- JSON
    """Of one more exchange."""
    done = bobbin("sync", lace, peer, "--json")
    assert done.code == 0, done.err
    return json.loads(done.text)


@pytest.mark.slow
def test_a_follower_goes_on_at_another_node_when_its_own_is_killed(tmp_path: Path) -> None:
    policy, doctor = tmp_path / "all.policy", tmp_path / "doctor.lace"
    policy.write_text(_POLICY)
    with Lace.create(doctor) as made:
        key = made.new_key()
    records = [plex(number) for number in range(FIRST + 3 * MORE)]
    with _hall(tmp_path / "hall", str(key.verifier), policy) as nodes:
        one, two, three = nodes.folders
        _store(one, records[:FIRST])
        ways = [
            part
            for folder in nodes.folders
            for part in ("--address", nodes.addresses[folder], "--certificate", nodes.started[folder]["certificate"])
        ]
        hall = bobbin("key", "show", one).text.strip()
        assert bobbin("peers", "add", doctor, "hall", "--verifier", hall, *ways, "--policy", policy).code == 0
        with _following(doctor, "hall", tmp_path) as follower:
            follower.until_shown(records[:FIRST])
            assert follower.linked == [nodes.addresses[one]]
            assert _link(one, FIRST).records_out == FIRST
            _store(two, records[FIRST : FIRST + MORE])
            follower.until_shown(records[: FIRST + MORE])
            nodes.kill(one)
            _store(three, records[FIRST + MORE : FIRST + 2 * MORE])
            follower.until_shown(records[: FIRST + 2 * MORE])
            assert follower.linked == [nodes.addresses[folder] for folder in (one, two)]
            assert _link(two, MORE).records_out == MORE, "only what is new since the link was lost"
            assert _account(doctor, nodes.addresses[three])["strategies"] == ["known"], (
                "by the cursor, which is there too"
            )
            nodes.start(one)
            nodes.settled()
            nodes.kill(two)
            _store(one, records[FIRST + 2 * MORE :])
            follower.until_shown(records)
            assert follower.linked == [nodes.addresses[folder] for folder in (one, two, three)]
            follower.process.send_signal(signal.SIGINT)
            assert follower.process.wait(PATIENCE_SECONDS) == 130
            assert sorted(follower.shown) == sorted(record.hash for record in records), "each once"
        account = _account(doctor, "hall")
        assert (account["received"], account["peer"]) == ([], nodes.addresses[one])
    with Lace.open(doctor, read_only=True) as opened:
        assert {stored.hash for stored in opened.store.scan()} == {record.hash for record in records}

"""An exchange of which one side is killed at a random moment: nothing is lost, and the next one goes on from there.

Each trial starts ``bobbin serve`` over one lace and ``bobbin sync`` over another, each with half of the records, over
TCP on loopback. When the link is up, one of the two processes is killed with SIGKILL after a random time; they take
turns. Then it is asked:

1. is each lace in order, with every stored byte and signature verified again?
2. is everything there that was committed when the kill came? What a reader in another process saw right before counts
   as acknowledged: a record that is seen is durable;
3. does the next ``bobbin sync`` reach the fixed point, after which both laces have everything, and nothing else?
4. did it carry exactly the records that were missing? Then nothing that was stored has gone over the link again, and
   what goes twice is only what was on its way and not stored when the kill came.

The moments come from a seed; what the processes are doing then differs from run to run, the answers must not.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final

from msgspec import Struct

from benchmarks.material import RECORD_BYTES, bundle
from bobbin.lace import Lace
from measurement.result import Ratio, Result, Row

QUESTION: Final = (
    "When either side of an exchange between two processes is killed with SIGKILL at a random moment, are both laces "
    "in order, is everything there that was committed, and does the next exchange bring exactly what is missing?"
)
RECORDS: Final = 20_000
KILLS: Final = int(os.environ.get("BOBBIN_EVIDENCE_NETWORK_KILLS", "100"))
SEED: Final = 20_260_105
POLICY: Final = "SelectAdvertised(P,S) :- Advertised(P,S).\nSelectHave(P) :- Have(P).\n"
VICTIMS: Final = ("client", "node")

_TRIES_MAX: Final = 20
_PATIENCE_SECONDS: Final = 300.0
_BOBBIN: Final = (sys.executable, "-m", "bobbin")


class Trial(Struct, frozen=True, kw_only=True):
    """What was found after one kill."""

    victim: str
    seconds: float
    """From the moment that the link was up to the kill."""
    moved: int
    """Records that had come, on both sides together, when the kill came."""
    lost: int
    """Records that a reader had seen before the kill, and that were not there after it."""
    is_in_order: bool
    """Whether every byte of both laces was right after the kill, and again at the end."""
    is_completed: bool
    """Whether the next exchange reached the fixed point, and both laces then had all records."""
    repeated: int
    """Records of the next exchange that were stored on the receiving side before it."""
    in_flight: int | None
    """Records that the node had sent and the killed client had not stored; None where the node was killed."""


class Pair(Struct, frozen=True, kw_only=True):
    """The two laces of a trial."""

    client: Path
    node: Path
    total: int
    """Records on both sides together; each has half of them at first."""

    @property
    def report(self) -> Path:
        """What ``bobbin sync`` has said."""
        return self.client.with_suffix(".json")

    def counts(self) -> tuple[int, int]:
        """What a reader sees on each side now."""
        return _count(self.client), _count(self.node)

    def copied(self, folder: Path) -> "Pair":
        for lace in (self.client, self.node):
            shutil.copytree(lace, folder / lace.name)
        return Pair(client=folder / self.client.name, node=folder / self.node.name, total=self.total)


def run(out: Path) -> Result:  # noqa: ARG001 - every module of this folder is called with the folder of the reports
    """Kill a hundred times."""
    trials = campaign(records=RECORDS, kills=KILLS, seed=SEED)
    moved = [trial.moved for trial in trials]
    flying = [trial.in_flight for trial in trials if trial.in_flight is not None]
    spread = f"median; {min(moved):,} to {max(moved):,}"
    return Result(
        question=QUESTION,
        rows=[
            Row(name="kills", value=len(trials), note=f"exchanges of {RECORDS:,} signed records; seed {SEED}"),
            Row(name="kills of the node", value=sum(trial.victim == "node" for trial in trials)),
            Row(name="records that had moved at the kill", value=median(moved), note=spread),
            Row(
                name="sent and not stored at the kill",
                value=max(flying, default=0),
                unit="records",
                note="at most, over all kills of the client; only these go twice",
            ),
        ],
        ratios=[
            _never("committed records lost", sum(trial.lost for trial in trials)),
            _never("kills after which a lace was not in order", sum(not trial.is_in_order for trial in trials)),
            _never("next exchanges that did not complete", sum(not trial.is_completed for trial in trials)),
            _never("stored records transferred again", sum(trial.repeated for trial in trials)),
        ],
    )


def campaign(*, records: int, kills: int, seed: int) -> list[Trial]:
    """As many trials as kills, with the moments that the seed gives."""
    moments = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="bobbin-network-kill-") as folder:
        pair = _make_pair(Path(folder), records)
        with tempfile.TemporaryDirectory(dir=folder) as place:
            usual_seconds = _time_of_exchange(pair.copied(Path(place)))
        victims = (VICTIMS[number % 2] for number in range(kills))
        return [_try(pair, Path(folder), victim, usual_seconds, moments) for victim in victims]


# ---- one trial ------------------------------------------------------------------------------------------------------


def _try(pair: Pair, folder: Path, victim: str, usual_seconds: float, moments: random.Random) -> Trial:
    for _ in range(_TRIES_MAX):
        seconds = moments.uniform(0.0, 1.0) * usual_seconds
        with tempfile.TemporaryDirectory(dir=folder) as place:
            trial = _exchange_and_kill(pair.copied(Path(place)), victim, seconds)
            if trial is not None:
                return trial
    raise AssertionError(f"the exchange was always over before the kill, in less than {usual_seconds:.1f} s")


def _exchange_and_kill(pair: Pair, victim: str, seconds: float) -> Trial | None:
    """One trial; None if the exchange was over before the kill."""
    half = pair.total // 2
    sent_by_node: int | None = None
    with _node(pair.node) as node, _sync(pair, node.address) as syncing:
        node.wait_for("link-up")
        time.sleep(seconds)
        seen = pair.counts()
        if syncing.poll() is not None:
            return None
        doomed = syncing if victim == "client" else node.process
        doomed.send_signal(signal.SIGKILL)
        doomed.wait()
        # The other side notices, stores what was whole, and lets go.
        if victim == "client":
            if syncing.returncode != -signal.SIGKILL:
                return None
            sent_by_node = int(str(node.wait_for("link-ended")["records_out"]))
        else:
            syncing.wait(_PATIENCE_SECONDS)
    found = pair.counts()
    is_in_order = _is_in_order(pair)
    with _node(pair.node) as node, _sync(pair, node.address) as syncing:
        syncing.wait(_PATIENCE_SECONDS)
    report = json.loads(pair.report.read_text() or "{}")
    missing = 2 * pair.total - sum(found)
    return Trial(
        victim=victim,
        seconds=seconds,
        moved=sum(seen) - pair.total,
        lost=sum(max(before - after, 0) for before, after in zip(seen, found, strict=True)),
        is_in_order=is_in_order and _is_in_order(pair),
        is_completed=syncing.returncode == 0 and pair.counts() == (pair.total, pair.total),
        repeated=len(report.get("received", ())) + len(report.get("sent", ())) - missing,
        in_flight=None if sent_by_node is None else sent_by_node - (found[0] - half),
    )


def _is_in_order(pair: Pair) -> bool:
    findings = []
    for folder in (pair.client, pair.node):
        with Lace.open(folder, read_only=True) as lace:
            findings += list(lace.check())
    return not findings


def _count(folder: Path) -> int:
    with Lace.open(folder, read_only=True) as lace:
        return sum(lace.stat().records.values())


# ---- processes ------------------------------------------------------------------------------------------------------


class _Node:
    """A node in a process of its own, and its log."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process: Final = process
        self.address = ""
        self._entries: Final[list[dict[str, object]]] = []
        self._news: Final = threading.Condition()
        self._reader: Final = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        listening = self.wait_for("node-started")["listening"]
        assert isinstance(listening, list)
        self.address = str(listening[0])

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._news:
                self._entries.append(json.loads(line) if line.startswith("{") else {"event": line})
                self._news.notify_all()

    def wait_for(self, event: str) -> dict[str, object]:
        """The first entry of its kind in the log."""
        with self._news:
            assert self._news.wait_for(lambda: self._find(event) is not None, _PATIENCE_SECONDS), self._entries[-5:]
            found = self._find(event)
        assert found is not None
        return found

    def _find(self, event: str) -> dict[str, object] | None:
        return next((entry for entry in self._entries if entry.get("event") == event), None)

    def close(self) -> None:
        self.process.wait(_PATIENCE_SECONDS)
        self._reader.join(_PATIENCE_SECONDS)


@contextmanager
def _node(lace: Path) -> Iterator[_Node]:
    command = [*_BOBBIN, "serve", str(lace), "--listen", "tcp:127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            node = _Node(process)
            yield node
            process.send_signal(signal.SIGTERM)
            node.close()
        finally:
            process.kill()


@contextmanager
def _sync(pair: Pair, address: str) -> Iterator["subprocess.Popen[bytes]"]:
    policy = str(pair.client / "all.policy")
    command = [*_BOBBIN, "sync", str(pair.client), address, "--policy", policy, "--json"]
    # A pipe that nobody reads would hold the process up at its end.
    with pair.report.open("w") as out, subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


# ---- material -------------------------------------------------------------------------------------------------------


def _make_pair(folder: Path, records: int) -> Pair:
    """Two laces that know each other, each with half of a bundle."""
    raw = bundle(records).read_bytes()
    middle = records // 2 * RECORD_BYTES
    pair = Pair(client=folder / "client.lace", node=folder / "node.lace", total=records)
    for lace, part in ((pair.client, raw[:middle]), (pair.node, raw[middle:])):
        half = folder / "half.bundle"
        half.write_bytes(part)
        _bobbin("init", lace)
        _bobbin("import", lace, half)
        (lace / "all.policy").write_text(POLICY)
    with Lace.open(pair.client) as client, Lace.open(pair.node) as node:
        known = client.new_key().verifier
        node.new_key()
    (pair.node / "peers.toml").write_text(f'[[peer]]\nname = "client"\nverifier = "{known}"\npolicy = "all.policy"\n')
    return pair


def _time_of_exchange(pair: Pair) -> float:
    """How long the link of an exchange is up that nobody kills."""
    with _node(pair.node) as node, _sync(pair, node.address) as syncing:
        node.wait_for("link-up")
        start = time.monotonic()
        syncing.wait(_PATIENCE_SECONDS)
        taken = time.monotonic() - start
    assert syncing.returncode == 0
    assert pair.counts() == (pair.total, pair.total)
    return taken


def _bobbin(*arguments: object) -> None:
    subprocess.run([*_BOBBIN, *map(str, arguments)], check=True, capture_output=True)


def _never(name: str, count: int) -> Ratio:
    return Ratio(name=name, value=count, bar=0, comparison="<=")

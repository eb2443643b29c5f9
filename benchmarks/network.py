"""Records between two processes over loopback TCP: against an exchange in one process, and against four peers."""

import json
import subprocess
import sys
from typing import Final

from benchmarks import network_git, network_javascript, network_lace, network_syncthing, peer_git, peer_packages
from benchmarks.material import RECORD_BYTES, bundle
from benchmarks.network_processes import ended_on_signal
from benchmarks.rounds import Rates, rate_row, ratio_row, setting, take_turns
from measurement.result import Ratio, Result, Row

QUESTION: Final = (
    f"How fast do signed records of {RECORD_BYTES} bytes get from a node to a peer that has none, two processes over "
    "TCP on loopback, all rules evaluated and every record validated and durable? Against the same exchange inside one "
    "process, and against Syncthing, Hypercore, PouchDB and Git with the same bytes?"
)
SYNCTHING_BAR: Final = 10
PEER_BAR: Final = 1.2
IN_PROCESS_BAR: Final = 0.7


def run() -> Result:
    """Measure. A peer that is not there is an error, not a gap."""
    count = setting("NETWORK_RECORDS", 100_000)
    rounds = setting("NETWORK_ROUNDS", 3)
    with ended_on_signal():
        # Everything that is made once is made before the clock starts, and says at once what is not installed.
        version = network_syncthing.version()
        network_lace.prepare(count)
        network_git.prepare(count)
        network_javascript.prepare("hypercore", count)
        network_javascript.prepare("pouchdb", count)
        network_syncthing.prepare(count)
        rates = take_turns(
            {
                "process": lambda: _in_process(count),
                "network": lambda: network_lace.records_per_second(count),
                "one core": lambda: network_lace.records_per_second(count, one_core=True),
                "hypercore": lambda: network_javascript.items_per_second("hypercore", count),
                "pouchdb": lambda: network_javascript.items_per_second("pouchdb", count),
                "git": lambda: network_git.blobs_per_second(count),
                "syncthing": lambda: network_syncthing.files_per_second(count),
            },
            rounds=rounds,
        )
    return Result(question=QUESTION, rows=_rows(rates, count), ratios=_ratios(rates), notes=_notes(version))


def _in_process(count: int) -> float:
    command = [sys.executable, "-m", "benchmarks.exchange_once", str(bundle(count))]
    answer = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return float(answer["exchange_per_second"])


def _rows(rates: Rates, count: int) -> list[Row]:
    return [
        rate_row("exchange in one process, one core", rates, "process", unit="records/s", note=f"{count:,} records"),
        rate_row("exchange between two processes", rates, "network", unit="records/s"),
        rate_row("exchange between two processes, both on one core", rates, "one core", unit="records/s"),
        rate_row("Hypercore, replicate on disk", rates, "hypercore", unit="blocks/s"),
        rate_row("PouchDB, replicate on LevelDB", rates, "pouchdb", unit="documents/s"),
        rate_row("git fetch", rates, "git", unit="blobs/s"),
        rate_row("Syncthing", rates, "syncthing", unit="files/s"),
    ]


def _ratios(rates: Rates) -> list[Ratio]:
    return [
        ratio_row("two processes / one process", rates, "network", "process", bar=IN_PROCESS_BAR),
        ratio_row("two processes on one core / one process on one core", rates, "one core", "process"),
        ratio_row("two processes / Syncthing", rates, "network", "syncthing", bar=SYNCTHING_BAR),
        ratio_row("two processes / Hypercore", rates, "network", "hypercore", bar=PEER_BAR),
        ratio_row("two processes / PouchDB", rates, "network", "pouchdb", bar=PEER_BAR),
        ratio_row("two processes / git fetch", rates, "network", "git"),
    ]


def _notes(syncthing: str) -> list[str]:
    own = (
        "Two processes: a node serves a store over TCP on loopback to one known peer, which dials it, proves its key, "
        "and runs one bounded exchange into a new store; one worker process checks signatures for it, as by default. "
        "The clock runs from before the dialling until the exchange has ended at a fixed point. Nothing of an earlier "
        "run is kept: the node works on a fresh copy of its store. "
        "The exchange in one process is the one of the benchmark `exchange`, held on one core; two processes may use "
        "two, and are shown on one core too."
    )
    syncthing_note = (
        f"Syncthing ({syncthing}, as Debian packages it): two instances over TLS on loopback, discovery, relays, "
        "watching, reports and upgrades off. The sender has scanned its files. The clock runs from the moment when the "
        "empty receiver says that it is connected until it says that it has every file and is idle. All bytes are "
        "compared afterwards."
    )
    hypercore = (
        f"Hypercore {peer_packages.version_of('hypercore', 'hypercore')}: two processes of Node.js, a core on disk at "
        "both ends, one signature for each 1,000 blocks; from before the connecting until every block is verified and "
        "stored."
    )
    pouchdb = (
        f"PouchDB {peer_packages.version_of('pouchdb', 'pouchdb')}: two processes of Node.js, on LevelDB at both ends; "
        f"express-pouchdb {peer_packages.version_of('pouchdb', 'express-pouchdb')} serves over HTTP, the other one "
        "replicates from it, 1,000 documents at a time, each with a record's bytes as base64 in one field; from before "
        "the replication starts until it is complete."
    )
    git = (
        f"Git ({peer_git.version()}): `git fetch` from `git daemon`, a blob for each record in one commit, into a new "
        "repository; the whole command. Hashed, not signed."
    )
    return [own, syncthing_note, hypercore, pouchdb, git]

"""How the tables of a run change, all or none of them, whenever the process dies.

A commit has one moment: when its *intent*, a file with the new manifests and the report, is durable. Before it nothing
has happened. After it the rest is carried out by whoever holds the lake's lock next: the run itself, or, if that was
killed, the next run that begins or commits. Every step can be repeated: a history entry is written once, a manifest is
put in place unless that number or a later one is there already, the report is written once.

The lake's lock keeps commits apart. Where a lock is a lease and its holder was away for longer, two may be at work: the
entry in the history, which only one can create, decides between them, and it is made for all tables of the intent
before any table changes. Who comes second has a ``Conflict``, and its intent is void.

Whoever takes the lake's lock to write calls ``recover`` first, so a manifest never moves while an intent is open, and
an intent always finds the tables as they were when it was written.
"""

import calendar
import re
import time
from contextlib import suppress
from typing import Final

import msgspec
from msgspec import Struct

from bobbin.records import tai
from bobbin.store.lake import manifest as manifests
from bobbin.store.lake import report as reports
from bobbin.store.lake import tables
from bobbin.store.lake.errors import Conflict, DamagedLake, translated
from bobbin.store.lake.files import TEMPORARY, Files, read_or_none
from bobbin.store.lake.keys import KEY
from bobbin.store.lake.manifest import Manifest
from bobbin.store.lake.report import Report

RUNS: Final = "runs"
_INTENT: Final = ".commit"
_RUNNING: Final = ".running"
_REPORT: Final = ".json"
_ENTRY: Final = re.compile(r"([0-9]{8,})\.json", re.ASCII)
_RUN: Final = re.compile(reports.RUN_PATTERN, re.ASCII)


class Intent(Struct, frozen=True, forbid_unknown_fields=True):
    """Everything that a commit is going to write."""

    manifests: tuple[Manifest, ...]
    report: Report


# ---- names -----------------------------------------------------------------------------------------------------------


def manifest_path(table: str) -> str:
    """Where a table's current manifest is."""
    return f"{table}/manifest.json"


def history_path(table: str, number: int) -> str:
    """Where a manifest stays after the next one has come."""
    return f"{table}/history/{number:08d}.json"


def staging_path(table: str, run: str) -> str:
    """Where a run writes the files of a table."""
    return f"{table}/data/{run}"


def running_path(run: str) -> str:
    """The file that a run holds for as long as it goes on."""
    return f"{RUNS}/{run}{_RUNNING}"


def report_path(run: str) -> str:
    """Where the report of a run is."""
    return f"{RUNS}/{run}{_REPORT}"


def intent_path(run: str) -> str:
    """Where a commit is written down before it is carried out."""
    return f"{RUNS}/{run}{_INTENT}"


def _runs_with(files: Files, ending: str) -> list[str]:
    found = [name.removesuffix(ending) for name in files.list(RUNS) if name.endswith(ending)]
    return [run for run in found if _RUN.fullmatch(run)]


def reported(files: Files) -> list[str]:
    """Runs that were committed, the oldest first."""
    return _runs_with(files, _REPORT)


def running(files: Files) -> list[str]:
    """Runs that have begun and not ended; some may be dead."""
    return _runs_with(files, _RUNNING)


def intended(files: Files) -> list[str]:
    """Runs whose commit was decided and is not yet carried out to its end."""
    return _runs_with(files, _INTENT)


def table_names(files: Files) -> list[str]:
    """Every folder of a table, whether it has a manifest or not."""
    found: list[str] = []
    for kind in tables.TABLES:
        if kind.keyed:
            inner = [name.rstrip("/") for name in files.list(kind.name) if name.endswith("/")]
            found += [f"{kind.name}/{key}" for key in inner if KEY.fullmatch(key)]
        elif files.exists(kind.name):
            found.append(kind.name)
    return found


# ---- reading ---------------------------------------------------------------------------------------------------------


def read_manifest(files: Files, table: str) -> Manifest:
    """The current manifest of a table; the empty one if there is none."""
    path = manifest_path(table)
    raw = read_or_none(files, path)
    return manifests.empty(table) if raw is None else manifests.decode(raw, where=_where(files, path), table=table)


def numbers(files: Files, table: str) -> list[int]:
    """The numbers of the manifests in a table's history, the oldest first."""
    return sorted(int(match[1]) for name in files.list(f"{table}/history") if (match := _ENTRY.fullmatch(name)))


def read_history(files: Files, table: str, number: int) -> Manifest:
    """One manifest of a table's history, which must be there."""
    found = find_history(files, table, number)
    if found is None:
        raise DamagedLake(f"{history_path(table, number)} of the lake {files!r} is gone")
    return found


def find_history(files: Files, table: str, number: int) -> Manifest | None:
    """One manifest of a table's history; None if there is none. ``clean`` removes what is old and not referred to."""
    path = history_path(table, number)
    raw = read_or_none(files, path)
    if raw is None:
        return None
    found = manifests.decode(raw, where=_where(files, path), table=table)
    if found.number != number:
        raise DamagedLake(f"{path} of the lake {files!r} holds the manifest {found.number}")
    return found


def _where(files: Files, path: str) -> str:
    return f"{path} of the lake {files!r}"


# ---- committing, under the lake's lock -------------------------------------------------------------------------------


def decide(files: Files, intent: Intent) -> None:
    """The moment of a commit. Then everything it says.

    Raises ``Conflict`` if another run has made one of the manifests meanwhile; nothing was committed then. After any
    other failure the commit stands if ``is_decided``, and the next run completes it.
    """
    with translated(f"committing the run {intent.report.run} to the lake {files!r} failed"):
        files.write_new(intent_path(intent.report.run), msgspec.json.encode(intent))
        _carry_out(files, intent)


def recover(files: Files) -> list[str]:
    """Carry out what dead runs had decided; their names."""
    done = []
    for run in intended(files):
        raw = read_or_none(files, intent_path(run))
        if raw is None:
            continue
        try:
            intent = msgspec.json.decode(raw, type=Intent, strict=True)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise DamagedLake(f"{intent_path(run)} of the lake {files!r} cannot be read ({error})") from error
        for found in intent.manifests:
            manifests.decode(manifests.encode(found), where=intent_path(run), table=found.table)
        with translated(f"completing the commit of the run {run} to the lake {files!r} failed"):
            try:
                _carry_out(files, intent)
            except Conflict:
                # It came second, and died before it could say so. Its files go as those of every dead run.
                continue
        done.append(run)
    return done


def is_decided(files: Files, intent: Intent) -> bool:
    """Whether a commit has happened, be it carried out or not."""
    run = intent.report.run
    return (
        files.exists(intent_path(run))
        or files.exists(report_path(run))
        or any(_maker(files, made) == run for made in intent.manifests)
    )


def _carry_out(files: Files, intent: Intent) -> None:
    for found in intent.manifests:
        _enter(files, found, intent)
    for found in intent.manifests:
        if read_manifest(files, found.table).number < found.number:
            files.replace(manifest_path(found.table), manifests.encode(found))
    _write_once(files, report_path(intent.report.run), reports.encode(intent.report))
    files.delete(intent_path(intent.report.run))
    files.delete(running_path(intent.report.run))


def _enter(files: Files, made: Manifest, intent: Intent) -> None:
    """Put a manifest into the history. The place may be taken: by this run, which was stopped then, or by another."""
    with suppress(FileExistsError):
        if _maker(files, made) is None:
            files.write_new(history_path(made.table, made.number), manifests.encode(made))
    if (maker := _maker(files, made)) == made.run:
        return
    for other in intent.manifests:
        if _maker(files, other) == other.run and read_manifest(files, other.table).number < other.number:
            files.delete(history_path(other.table, other.number))
    files.delete(intent_path(made.run))
    raise Conflict(
        f"the run {maker} has made the manifest {made.number} of the table {made.table} while the run {made.run} was "
        "committing the same. Nothing of this run was committed; run the job again"
    )


def _maker(files: Files, made: Manifest) -> str | None:
    """The run that has made the manifest of this number, or has gone beyond it; None if nobody has."""
    path = history_path(made.table, made.number)
    raw = read_or_none(files, path)
    if raw is not None:
        return manifests.decode(raw, where=path, table=made.table).run
    current = read_manifest(files, made.table)
    return current.run if current.number >= made.number else None


def _write_once(files: Files, path: str, content: bytes) -> None:
    if not files.exists(path):
        files.write_new(path, content)


def sweep(files: Files) -> list[str]:
    """Remove what dead runs have left: folders of files that no manifest names, and their marks. Names what went.

    ``recover`` has been called. A run that lives, or that was committed, or that any manifest names keeps its files.
    """
    live = {run for run in running(files) if files.is_claimed(running_path(run))}
    committed = set(reported(files))
    # The marks first: a run that was only slow finds its mark gone, and knows that its files may be, too.
    gone = [running_path(run) for run in running(files) if run not in live]
    for table in table_names(files):
        found = [name.rstrip("/") for name in files.list(f"{table}/data") if name.endswith("/")]
        dead = [run for run in found if _RUN.fullmatch(run) and run not in live and run not in committed]
        named = runs_named(files, table) if dead else set()
        gone += [staging_path(table, run) for run in dead if run not in named]
        gone += [f"{folder}/{name}" for folder in (table, f"{table}/history") for name in _temporary(files, folder)]
    gone += [f"{RUNS}/{name}" for name in _temporary(files, RUNS)]
    for path in gone:
        with translated(f"removing {path}, left by a run that died, failed"):
            files.delete(path)
    return gone


def began_ns(run: str) -> int:
    """When a run began, as nanoseconds of TAI. Its name says it, so nothing has to be read."""
    moment, micro, _ = run.split("-")
    seconds = calendar.timegm(time.strptime(moment, "%Y%m%dT%H%M%SZ"))
    return tai.from_utc(seconds * tai.NANOSECONDS + int(micro) * 1000)


def runs_named(files: Files, table: str) -> set[str]:
    """The runs whose files the current manifest of a table, or one of its history, names."""
    found = [read_manifest(files, table), *(find_history(files, table, number) for number in numbers(files, table))]
    return {manifests.run_of(file.path) for manifest in found if manifest is not None for file in manifest.files}


def _temporary(files: Files, folder: str) -> list[str]:
    return [name for name in files.list(folder) if name.startswith(".") and name.endswith(TEMPORARY)]

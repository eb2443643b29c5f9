"""A lake: a folder of tables, each the files that its manifest names, changed by runs and by nothing else.

A reader asks for a manifest and reads the files it names; they never change, and stay after later commits until
``clean`` removes what no current manifest names and nobody can still be reading. A writer begins a run, writes
files below the run's own name, and commits: all tables of the run change together or none does, also when the process
is killed in between. Two runs that change the same table do not both succeed: the later one gets a ``Conflict``.

A run that is not committed leaves nothing that counts. If it ends in order, it removes its files itself; if it was
killed, the next run that begins does.
"""

import os
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec
from msgspec import Struct

from bobbin.errors import BobbinError, UsageError
from bobbin.records import tai
from bobbin.store.lake import commit as commits
from bobbin.store.lake import report as reports
from bobbin.store.lake import staging, tables
from bobbin.store.lake.errors import Conflict, DamagedLake, LakeError, NoLake, OtherVersion, translated
from bobbin.store.lake.files import LOCK, Claim, Files, local_files, read_or_none
from bobbin.store.lake.manifest import CONTENT, FORMAT, ORDER, DataFile, Manifest, content_of, is_extended
from bobbin.store.lake.report import Report

VERSION: Final = 1
_NAME: Final = "bobbin-lake"


class _Mark(Struct, frozen=True):
    """The content of ``lake.json``."""

    format: str
    version: int
    created: str = ""


def tai_now() -> str:
    """This instant, as TAI text."""
    return tai.render(tai.from_utc(time.time_ns()))


class Lake:
    """A lake that is there. Opening costs one small file; nothing is held open."""

    def __init__(self, files: Files, location: str) -> None:
        self.files = files
        self.location = location

    @classmethod
    def create(cls, location: str | Path, *, files: Files | None = None) -> Self:
        """A new lake in a folder that is empty or not there."""
        files = files if files is not None else local_files(location)
        with translated(f"making a lake at {location} failed"):
            if files.exists(LOCK):
                raise UsageError(f"there is a lake at {location} already")
            _require_empty(files, location)
            mark = _Mark(_NAME, VERSION, tai_now())
            files.write_new(LOCK, msgspec.json.format(msgspec.json.encode(mark), indent=1) + b"\n")
        return cls(files, str(location))

    @classmethod
    def open(cls, location: str | Path, *, files: Files | None = None) -> Self:
        """The lake at a location. Raises ``NoLake``, ``OtherVersion`` or ``DamagedLake``."""
        files = files if files is not None else local_files(location)
        raw = read_or_none(files, LOCK)
        if raw is None:
            raise NoLake(f"there is no lake at {location}")
        try:
            mark = msgspec.json.decode(raw, type=_Mark, strict=True)
        except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
            raise DamagedLake(f"{location}/{LOCK} does not say that this is a lake ({error})") from error
        if mark.format != _NAME:
            raise NoLake(f"there is no lake at {location}: {LOCK} says {mark.format!r}")
        if mark.version != VERSION:
            raise OtherVersion(f"the lake {location} is of version {mark.version}; this Bobbin reads {VERSION}")
        return cls(files, str(location))

    @classmethod
    def open_or_create(cls, location: str | Path, *, files: Files | None = None) -> Self:
        """The lake at a location, made if the folder is empty or not there."""
        try:
            return cls.open(location, files=files)
        except NoLake:
            return cls.create(location, files=files)

    @classmethod
    def check_place(cls, location: str | Path, *, files: Files | None = None) -> None:
        """Raise what ``open_or_create`` would, without making anything."""
        files = files if files is not None else local_files(location)
        try:
            cls.open(location, files=files)
        except NoLake:
            with translated(f"looking at {location} failed"):
                _require_empty(files, location)

    def tables(self) -> tuple[str, ...]:
        """The names of the tables that have been written."""
        return tuple(name for name in commits.table_names(self.files) if self.manifest(name).number)

    def manifest(self, table: str) -> Manifest:
        """The current manifest of a table; number 0 without files for one that was never written."""
        tables.check_name(table)
        return commits.read_manifest(self.files, table)

    def history(self, table: str) -> Iterator[Manifest]:
        """The manifests that were current, the newest first, as far back as ``clean`` has left them."""
        tables.check_name(table)
        current = self.manifest(table).number
        for number in reversed(commits.numbers(self.files, table)):
            # One may go while this is read.
            if number <= current and (found := commits.find_history(self.files, table, number)) is not None:
                yield found

    def is_current(self, table: str, number: int) -> bool:
        """Whether a manifest of a table holds the rows that the table has now, be it in other files."""
        current = self.manifest(table)
        if number == current.number:
            return True
        if not 0 < number < current.number or CONTENT not in current.properties:
            return False
        earlier = commits.find_history(self.files, table, number)
        return earlier is not None and content_of(earlier) == content_of(current)

    def uri(self, file: DataFile | str) -> str:
        """The name by which Spark opens a file. ``files.open`` opens one for pyarrow."""
        return self.files.uri(file if isinstance(file, str) else file.path)

    def report(self, run: str) -> Report | None:
        """The report of one run; None if there is none, or that is no name of a run."""
        path = commits.report_path(run)
        raw = read_or_none(self.files, path) if reports.is_run(run) else None
        return None if raw is None else reports.decode(raw, where=f"{path} of the lake {self.location}")

    def reports(self) -> Iterator[Report]:
        """The reports of all runs that were committed, the newest first."""
        for run in self.runs():
            found = self.report(run)
            if found is None:
                raise DamagedLake(f"{commits.report_path(run)} of the lake {self.location} is gone")
            yield found

    def runs(self) -> list[str]:
        """The names of all runs that were committed, the newest first."""
        return commits.reported(self.files)[::-1]

    def begin(self, job: str, *, plan: str | None = None) -> "Run":
        """Begin a run, after completing or removing what dead ones have left."""
        run = _new_name()
        content = msgspec.json.encode({"job": job, "started": tai_now(), "process": os.getpid()})
        with translated(f"beginning a run in the lake {self.location} failed"), self.files.lock():
            commits.recover(self.files)
            commits.sweep(self.files)
            claim = self.files.claim(commits.running_path(run), content)
        return Run(self, run, job=job, plan=plan, claim=claim, mark=content)


def _require_empty(files: Files, location: str | Path) -> None:
    if files.list(""):
        raise UsageError(f"{location} is not empty; a lake begins in a folder of its own")


def _new_name() -> str:
    """A name that no other run has, and that sorts after those of earlier runs."""
    seconds, rest = divmod(time.time_ns(), tai.NANOSECONDS)
    return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(seconds))}-{rest // 1000:06d}-{secrets.token_hex(2)}"


class _Change(Struct, frozen=True):
    """What is to become of one table."""

    keeps_base: bool
    properties: dict[str, str]
    is_rewrite: bool = False


class Run:
    """One job's work on a lake. Use it in a ``with``: without a commit inside, everything it wrote is removed."""

    def __init__(self, lake: Lake, run: str, *, job: str, plan: str | None, claim: Claim, mark: bytes) -> None:
        self.id = run
        self.lake = lake
        self.job = job
        self.plan = plan
        self._claim = claim
        self._mark = mark
        self._started = tai_now()
        self._began = time.monotonic()
        self._bases: dict[str, Manifest] = {}
        self._changes: dict[str, _Change] = {}
        self._folders: set[str] = set()
        self._is_over = False
        self._intent: commits.Intent | None = None
        """What the run was about to commit when it came to that. From then on its files may be those of a table."""

    def base(self, table: str) -> Manifest:
        """The manifest of a table as this run first read it.

        A commit that changes the table is a ``Conflict`` if another manifest is current by then. A table that the run
        only reads may move on.
        """
        self._require_going()
        if table not in self._bases:
            self._bases[table] = self.lake.manifest(table)
        return self._bases[table]

    def folder(self, table: str) -> str:
        """The URI of the folder in which the run writes Parquet files of a table."""
        return self.lake.files.uri(self.path(table))

    def path(self, table: str) -> str:
        """The same folder, relative to the lake."""
        self._require_going()
        tables.check_name(table)
        path = commits.staging_path(table, self.id)
        if table not in self._folders:
            with translated(f"making the folder {path} failed"):
                self.lake.files.make_folder(path)
            self._folders.add(table)
        return path

    def append(self, table: str, *, properties: Mapping[str, str] | None = None) -> None:
        """At the commit, the table becomes what it was and what is in the folder. Properties are added to its own."""
        self._change(table, properties, keeps_base=True)

    def replace(self, table: str, *, properties: Mapping[str, str] | None = None) -> None:
        """At the commit, the table becomes what is in the folder, with these properties."""
        self._change(table, properties, keeps_base=False)

    def rewrite(self, table: str) -> None:
        """At the commit, the table becomes what is in the folder: the same rows as before, in other files.

        Tables that were made from the rows stay current (``Lake.is_current``), and so do the properties. Rows that
        other runs have added meanwhile stay where they are, after these.
        """
        self._change(table, None, keeps_base=False, is_rewrite=True)

    def _change(
        self, table: str, properties: Mapping[str, str] | None, *, keeps_base: bool, is_rewrite: bool = False
    ) -> None:
        self.base(table)
        if table in self._changes:
            raise UsageError(f"the run {self.id} changes the table {table} twice")
        self._changes[table] = _Change(keeps_base, dict(properties or {}), is_rewrite)

    def commit(
        self,
        *,
        inputs: Mapping[str, int] | None = None,
        outputs: Mapping[str, int] | None = None,
        counts: Mapping[str, int] | None = None,
        notes: Sequence[str] = (),
        rows: Mapping[str, int] | None = None,
    ) -> Report:
        """Make the files durable, look at each, and change all tables at one moment. The run is over then.

        ``rows`` says of tables how many rows the run has written for them, where the job knows: other numbers in the
        files are an error. Raises ``Conflict`` if one of the tables has moved since ``base``, ``LakeError`` for files
        that the table does not take. Then nothing was changed, and leaving the ``with`` removes what was written. Where
        the file system fails after the moment of the commit, the error is raised, the files stay, and the next run
        completes what was decided.
        """
        self._require_going()
        staged = {
            table: staging.describe_all(self.lake.files, tables.table(table), commits.staging_path(table, self.id))
            for table in self._changes
        }
        self._check_rows(staged, rows or {})
        with translated(f"committing the run {self.id} failed"), self.lake.files.lock():
            self._require_mark()
            commits.recover(self.lake.files)
            made = tuple(self._next(table, staged[table]) for table in self._changes)
            report = Report(
                run=self.id,
                job=self.job,
                plan=self.plan,
                started=self._started,
                seconds=round(time.monotonic() - self._began, 3),
                inputs=dict(inputs or {}),
                outputs=dict(outputs or {}),
                counts=dict(counts or {}),
                tables={manifest.table: manifest.number for manifest in made},
                notes=tuple(notes),
            )
            self._intent = commits.Intent(made, report)
            commits.decide(self.lake.files, self._intent)
        self._is_over = True
        self._claim.release()
        with suppress(OSError):
            # The commit has happened. What is left here belongs to nothing, and ``clean`` removes it.
            self._remove_folders(self._folders - set(self._changes))
        return report

    def _check_rows(self, staged: Mapping[str, tuple[DataFile, ...]], expected: Mapping[str, int]) -> None:
        for table, rows in expected.items():
            found = sum(file.rows for file in staged.get(table, ()))
            if found != rows:
                raise LakeError(
                    f"the run {self.id} has written {rows} rows of the table {table}; its files have {found}. Nothing "
                    "was committed",
                    retry=True,
                )

    def _require_mark(self) -> None:
        """Under the lake's lock: a run whose mark is gone was taken for dead, and its files may have been removed."""
        if read_or_none(self.lake.files, commits.running_path(self.id)) != self._mark:
            raise LakeError(
                f"the run {self.id} gave no sign of life for so long that another run has removed what it had "
                "written. Nothing was committed; run the job again",
                retry=True,
            )

    def _next(self, table: str, staged: tuple[DataFile, ...]) -> Manifest:
        base, change = self.base(table), self._changes[table]
        current = self.lake.manifest(table)
        added: tuple[DataFile, ...] = ()
        if change.is_rewrite and is_extended(current, base):
            base, added = current, current.files[len(base.files) :]
        if current != base:
            raise Conflict(
                f"the table {table} of the lake {self.lake.location} is at manifest {current.number} by the run "
                f"{current.run}; this run began from {base.number}. Nothing was committed; run the job again"
            )
        files = (*(base.files if change.keeps_base else ()), *staged, *added)
        number = base.number + 1
        properties = dict(change.properties)
        if change.keeps_base or change.is_rewrite:
            properties = {**base.properties, **properties}
            properties.pop(CONTENT, None)
        if change.is_rewrite or (change.keeps_base and base.number and not staged):
            # The same rows: what was made from them stays current.
            properties[CONTENT] = str(content_of(base))
        if not change.keeps_base and base.files:
            properties[ORDER] = str(number)
        rows = sum(file.rows for file in files)
        version = tables.table(table).version
        return Manifest(FORMAT, table, version, number, self.id, tai_now(), rows, files, properties)

    def abandon(self) -> None:
        """Give up: remove what the run wrote. Nothing happens after a commit, be it one that is not carried out yet."""
        if self._is_over:
            return
        self._is_over = True
        try:
            if self._intent is not None and commits.is_decided(self.lake.files, self._intent):
                return
            self._remove_folders(self._folders)
            self.lake.files.delete(commits.running_path(self.id))
        except (OSError, BobbinError):
            # Not worth hiding the reason for giving up: the next run removes the rest.
            pass
        finally:
            self._claim.release()

    def _remove_folders(self, names: set[str]) -> None:
        for table in names:
            self.lake.files.delete(commits.staging_path(table, self.id))

    def _require_going(self) -> None:
        if self._is_over:
            raise UsageError(f"the run {self.id} is over")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abandon()


__all__ = ["Lake", "Report", "Run"]

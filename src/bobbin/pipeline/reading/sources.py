"""The sources of an ingest: what each is, how large, and whether it is still what it was when the job began.

A source is named by its real path, so the same file is one source by whatever name it is given, and so is the place of
rejected bytes in the quarantine. Folders are walked here, once; workers only open what they are told to.
"""

import os
import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.fs as arrow_files
import pyarrow.parquet as pq
from msgspec import Struct
from msgspec.structs import replace

from bobbin.config.layout import RECORDS_FILE, Layout, lace_around
from bobbin.errors import ResourceError, UsageError
from bobbin.lace import Lace
from bobbin.runtime.transfer import detect_form
from bobbin.store.lake.files import is_address, local_path

RAW_COLUMN: Final = "raw"
"""The column of a Parquet file that holds records, where no other is named."""

_LAKE_FILE: Final = "lake.json"
_PARQUET_MAGIC: Final = b"PAR1"
_PARQUET_SUFFIX: Final = ".parquet"
_JSONL_SUFFIXES: Final = (".jsonl", ".ndjson")
_LEFT_BY_WRITERS: Final = re.compile(
    r"_SUCCESS|_metadata|_common_metadata|_(?:committed|started)_.*|[._].*\.(?:crc|parquet)"
)
"""Files that writers of Parquet have beside theirs."""

_NAMED_MAX: Final = 3
"""So many files are named in an error."""


class Form(StrEnum):
    """How records stand in a source."""

    BUNDLE = "bundle"
    JSONL = "jsonl"
    PARQUET = "parquet"
    LACE = "lace"


class Format(StrEnum):
    """What a user says that sources are."""

    AUTO = "auto"
    BUNDLE = "bundle"
    JSONL = "jsonl"
    PARQUET = "parquet"
    FILES = "files"
    LACE = "lace"


class Source(Struct, frozen=True, kw_only=True):
    """One file, or one lace."""

    name: str
    """Its real path, or its address."""
    form: Form
    size: int
    """In bytes; 0 for an address that only Spark can look at."""
    stamp: int
    """When it was changed last, in nanoseconds; 0 where nobody can say."""
    positions: int = 0
    """The last ``StoreRecordId`` of a lace."""
    row_bytes: int = 0
    """How large a row of a Parquet file is, on average in the part of it where they are largest."""


class MissingSource(ResourceError):
    """A source is not there. Nothing was done."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retry=False)


class ChangedSource(ResourceError):
    """A source is no longer what it was when the job began. Nothing was taken from it, nor from the others."""

    def __init__(self, name: str, what: str) -> None:
        super().__init__(f"the source {name} {what} while it was read; nothing was taken in", retry=True)


def find_sources(
    names: Sequence[str], form: Format = Format.AUTO, *, lake: str | None = None, column: str = RAW_COLUMN
) -> list[Source]:
    """The sources that some names lead to, each once, in the order of the names; those of a folder by name.

    ``lake`` is where the records are going: what is inside it is no source.
    """
    found: dict[str, Source] = {}
    for name in names:
        for source in _sources_of(name, form, lake, column):
            found.setdefault(source.name, source)
    return list(found.values())


def check_unchanged(source: Source) -> None:
    """Refuse a source that is not what it was. A lace may grow: what is behind the last position is not read."""
    if source.form is Form.LACE:
        if not (Path(source.name) / RECORDS_FILE).exists():
            raise ChangedSource(source.name, "vanished")
        return
    if not source.stamp:
        return
    size, stamp = _look(source.name)
    check_size(source, size, stamp)


def check_size(source: Source, size: int, stamp: int) -> None:
    """The same, for whoever has looked already."""
    if (size, stamp) != (source.size, source.stamp):
        raise ChangedSource(source.name, "has changed")


def name_of(uri: str) -> str:
    """The name of a source, from the address by which Spark says where a row comes from."""
    address = urlsplit(uri)
    return unquote(address.path) if address.scheme == "file" else uri


def check_own_store(path: Path) -> None:
    """Refuse a lace over a lake: it has no records of its own, and those of a lake are taken from the lake."""
    with Lace.open(path, read_only=True) as lace:
        lake = lace.settings.lake
    if lake is not None:
        raise UsageError(
            f"the lace {path} has its records in the lake {os.path.normpath(path / lake)}; take them from there with "
            "`bobbin pipeline load`"
        )


def check_parquet_name(path: str) -> None:
    """Refuse a Parquet file that Spark could not open: Hadoop, by which it does, stumbles over a colon in its name."""
    if ":" in Path(path).name:
        raise UsageError(f"{path} has a colon in its name, and Spark cannot open such a Parquet file; rename it")


def open_source(name: str) -> Any:  # noqa: ANN401 -- a file of pyarrow, which has no types
    """A source's bytes, for reading at any place."""
    try:
        if not is_address(name):
            return pa.OSFile(name, "rb")
        system, path = arrow_files.FileSystem.from_uri(name)
        return system.open_input_file(path)
    except FileNotFoundError as error:
        raise ChangedSource(name, "vanished") from error
    except (OSError, pa.ArrowException) as error:
        raise ResourceError(f"cannot read {name}: {error}", retry=True) from error


# ---- what a name leads to --------------------------------------------------------------------------------------------


def _sources_of(name: str, form: Format, lake: str | None, column: str) -> Iterator[Source]:
    if name == "-":
        raise UsageError("a job reads its sources in several processes, each a part; stdin (-) cannot be read so")
    local = local_path(name)
    if local is None:
        yield _at_address(name, form)
        return
    path = Path(os.path.realpath(local))
    if not path.exists():
        raise MissingSource(f"there is no source {name}")
    _check_outside(name, path, lake)
    if path.is_dir():
        yield from _in_folder(name, path, form, column)
    elif form is Format.FILES:
        yield _file(path, Form.BUNDLE)
    elif form is Format.LACE:
        raise UsageError(f"{name} is a file; a lace is a folder")
    else:
        yield _checked(_file(path, _form_of(path) if form is Format.AUTO else Form(form)), column)


def _check_outside(name: str, path: Path, lake: str | None) -> None:
    folder = None if lake is None else local_path(lake)
    if folder is not None and path.is_relative_to(os.path.realpath(folder)):
        raise UsageError(f"{name} is inside the lake {lake}, into which the records are to go")
    owner = lace_around(path)
    if owner is not None:
        raise UsageError(f"{name} is inside the lace {owner}; name the lace itself")


def _in_folder(name: str, path: Path, form: Format, column: str) -> Iterator[Source]:
    if (path / _LAKE_FILE).exists():
        raise UsageError(f"{name} is a lake; its records are taken with `bobbin pipeline load`")
    is_lace = Layout(path).is_lace()
    if is_lace or form is Format.LACE:
        if not is_lace:
            raise UsageError(f"there is no lace in {name}")
        if form not in {Format.AUTO, Format.LACE}:
            raise UsageError(f"{name} is a lace, and cannot be read as {form.value}")
        yield _lace(path)
        return
    if form in {Format.BUNDLE, Format.JSONL}:
        raise UsageError(f"{name} is a folder, not a {form.value}; --form files reads the files in it")
    files = list(_walk(path))
    if form is not Format.FILES and any(_is_table(file, path) for file in files):
        files = [file for file in files if not _is_left_by_writer(file, path)]
    if form is Format.PARQUET:
        _require_tables(name, path, files)
    for file in files:
        yield _checked(_file(file, Form.BUNDLE if form is Format.FILES else _form_by_name(file)), column)


def _require_tables(name: str, folder: Path, files: Sequence[Path]) -> None:
    """Refuse a folder that has something else than Parquet files: nothing is passed over without a word."""
    others = [str(file) for file in files if not _is_table(file, folder)]
    if len(others) == len(files):
        raise UsageError(f"there is no Parquet file in {name}")
    if others:
        more = f" and {len(others) - _NAMED_MAX} more" if len(others) > _NAMED_MAX else ""
        raise UsageError(
            f"in {name} not everything is a Parquet file: {', '.join(others[:_NAMED_MAX])}{more}; --form auto takes "
            "each file as what its name says"
        )


def _form_by_name(file: Path) -> Form:
    """What a file of a folder is. Looking into each would take as long as reading it, where they are many and small."""
    if file.suffix == _PARQUET_SUFFIX:
        return Form.PARQUET
    return Form.JSONL if file.suffix in _JSONL_SUFFIXES else Form.BUNDLE


def _is_table(file: Path, folder: Path) -> bool:
    return file.suffix == _PARQUET_SUFFIX and not _is_left_by_writer(file, folder)


def _is_left_by_writer(file: Path, folder: Path) -> bool:
    """Whether a file below a folder is what a writer of Parquet has beside its files, or has not finished."""
    *folders, last = file.relative_to(folder).parts if file.is_relative_to(folder) else (file.name,)
    return any(name.startswith(("_", ".")) for name in folders) or _LEFT_BY_WRITERS.fullmatch(last) is not None


def _walk(folder: Path) -> Iterator[Path]:
    """The files below a folder, by name. Links to folders are not followed, so the walk ends."""
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise ResourceError(f"cannot read the folder {folder}: {error.strerror or error}", retry=False) from error
    for entry in entries:
        if entry.is_dir() and not entry.is_symlink():
            if Layout(entry).is_lace() or (entry / _LAKE_FILE).exists():
                raise UsageError(f"{entry} is a lace or a lake inside the folder; name it as a source of its own")
            yield from _walk(entry)
        elif entry.is_file():
            yield Path(os.path.realpath(entry))


def _form_of(path: Path) -> Form:
    """What a file is by its first bytes, as ``bobbin import`` takes it."""
    try:
        with path.open("rb") as stream:
            magic = stream.read(len(_PARQUET_MAGIC))
            stream.seek(0)
            return Form.PARQUET if magic == _PARQUET_MAGIC else Form(detect_form(stream)[0])
    except OSError as error:
        raise ResourceError(f"cannot read {path}: {error.strerror or error}", retry=False) from error


def _file(path: Path, form: Form) -> Source:
    if not _is_text(str(path)):
        raise UsageError(f"the name of {str(path)!r} is no UTF-8 text, and could not be written down; rename it")
    if not path.is_file():
        raise UsageError(f"{path} is no regular file; a job reads its sources in parts")
    size, stamp = _look(str(path))
    return Source(name=str(path), form=form, size=size, stamp=stamp)


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _look(name: str) -> tuple[int, int]:
    """Size and time of the last change."""
    try:
        if is_address(name):
            system, path = arrow_files.FileSystem.from_uri(name)
            info = system.get_file_info(path)
            if info.type != arrow_files.FileType.File:
                raise FileNotFoundError(name)
            return info.size, info.mtime_ns or 0
        status = os.stat(name)  # noqa: PTH116 -- a name may be of another file system's form
    except FileNotFoundError as error:
        raise ChangedSource(name, "vanished") from error
    except (OSError, pa.ArrowException) as error:
        raise ResourceError(f"cannot read {name}: {error}", retry=True) from error
    return status.st_size, status.st_mtime_ns


def _lace(path: Path) -> Source:
    check_own_store(path)
    with Lace.open(path, read_only=True) as lace:
        positions = lace.store.high_water()
    size = (path / RECORDS_FILE).stat().st_size
    return Source(name=str(path), form=Form.LACE, size=size, stamp=0, positions=positions)


def _at_address(name: str, form: Format) -> Source:
    """A source elsewhere: its name says what it is, or the user does."""
    suffixes = {_PARQUET_SUFFIX: Form.PARQUET, ".bundle": Form.BUNDLE, **dict.fromkeys(_JSONL_SUFFIXES, Form.JSONL)}
    if form in {Format.FILES, Format.LACE}:
        raise UsageError(f"{name}: {form.value} are read from folders of this machine")
    found = suffixes.get(Path(urlsplit(name).path).suffix) if form is Format.AUTO else Form(form)
    if found is None:
        raise UsageError(f"what {name} is cannot be told by its name; say it with --form")
    if found is Form.PARQUET:
        return Source(name=name, form=found, size=0, stamp=0)
    try:
        size, stamp = _look(name)
    except ChangedSource as error:
        raise MissingSource(f"there is no source {name}") from error
    return Source(name=name, form=found, size=size, stamp=stamp)


def _checked(source: Source, column: str) -> Source:
    """Refuse a Parquet file that is none, or has no such column: Spark would read nothing for it, without a word."""
    if source.form is not Form.PARQUET:
        return source
    check_parquet_name(source.name)
    try:
        metadata = pq.read_metadata(source.name)
    except (OSError, pa.ArrowException) as error:
        raise UsageError(f"{source.name} is no Parquet file, or a damaged one ({error})") from error
    schema = metadata.schema.to_arrow_schema()
    if column not in schema.names:
        raise UsageError(f"{source.name} has no column {column!r}; it has {', '.join(schema.names) or 'none'}")
    kind = schema.field(column).type
    if not (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        raise UsageError(f"the column {column!r} of {source.name} holds {kind}, not bytes")
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    largest = max((group.total_byte_size // max(1, group.num_rows) for group in groups), default=0)
    return replace(source, row_bytes=largest)

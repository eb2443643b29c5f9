"""The files of a lake, wherever they are: what a lake needs of a file system, and the local one.

Paths are relative to the lake, with forward slashes, and never begin with one. What ``write_new`` and ``replace`` have
returned from is durable and whole: a reader sees the old content or the new one, never a part, and so does whoever
looks after a power cut. Other file systems keep these promises as far as they can and say where they cannot.

Two kinds of lock: the lake's own, held for the moments of a commit, and one claim for each run, held for as long as the
run goes on. Both end with the process that holds them, however it ends: a claim that nobody holds is a dead run's.
"""

import errno
import fcntl
import os
import re
import secrets
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol
from urllib.parse import unquote, urlsplit

from bobbin.errors import UsageError
from bobbin.store.lake.errors import LakeError, translated

LOCK: Final = "lake.json"
"""The file whose lock is the lake's. It is never replaced, so everybody locks the same one."""

LOCK_WAIT_SECONDS_MAX: Final = 60.0
_LOCK_PAUSE_SECONDS: Final = 0.02

_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://|file:/")

TEMPORARY: Final = ".tmp"
"""How the name of a file ends that is still being written. It also begins with a dot."""


class Claim(Protocol):
    """A hold on a file, as a sign that its owner is alive."""

    def release(self) -> None:
        """Let go. The file stays."""
        ...


class Files(Protocol):
    """What a lake needs of a file system."""

    def read(self, path: str) -> bytes:
        """The whole of a small file. ``FileNotFoundError`` if there is none."""
        ...

    def write_new(self, path: str, content: bytes) -> None:
        """A file that is not there yet, with the folders above it. ``FileExistsError`` if it is."""
        ...

    def replace(self, path: str, content: bytes) -> None:
        """The same, in place of what is there if anything is, at one moment."""
        ...

    def list(self, folder: str) -> list[str]:
        """The names in a folder, sorted, those of folders with a slash at the end; nothing for no folder."""
        ...

    def delete(self, path: str) -> None:
        """A file, or a folder with everything in it. Nothing happens if there is none."""
        ...

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder."""
        ...

    def size(self, path: str) -> int:
        """Of a file, in bytes. ``FileNotFoundError`` if there is none."""
        ...

    def age_seconds(self, path: str) -> float:
        """How long ago a file was written last, by the file system's clock."""
        ...

    def make_folder(self, folder: str) -> None:
        """A folder and those above it, durably. Nothing happens if it is there."""
        ...

    def sync(self, paths: Iterable[str]) -> None:
        """Make files that somebody else wrote durable, with the folders that name them."""
        ...

    def open(self, path: str) -> Any:  # noqa: ANN401 -- what pyarrow takes as a file
        """A file for random reading by pyarrow. ``FileNotFoundError`` if there is none."""
        ...

    def create(self, path: str) -> Any:  # noqa: ANN401 -- what pyarrow takes as a file
        """A new file for pyarrow to write, in a folder that is there. It is not durable before ``sync``."""
        ...

    def uri(self, path: str) -> str:
        """The name by which Spark, in any process of a cluster, opens a file or folder."""
        ...

    def lock(self) -> AbstractContextManager[None]:
        """The lake's one lock, waited for; ``LakeError`` with ``retry`` if it does not come."""
        ...

    def claim(self, path: str, content: bytes) -> Claim:
        """Create a file and hold it."""
        ...

    def is_claimed(self, path: str) -> bool:
        """Whether a process holds this file. Where that cannot be known: True."""
        ...


class _LocalClaim:
    """A lock on a file descriptor: it goes with the process."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        """Let go. The file stays."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class LocalFiles:
    """A lake in a folder of this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()

    def __repr__(self) -> str:
        return str(self._folder)

    def read(self, path: str) -> bytes:
        """The whole of a small file."""
        return self._at(path).read_bytes()

    def write_new(self, path: str, content: bytes) -> None:
        """A file that is not there yet, whole and durable."""
        target = self._at(path)
        self.make_folder(_above(path))
        temporary = self._written(target, content)
        try:
            os.link(temporary, target)
        except OSError as error:
            if error.errno not in {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}:
                raise
            # No hard links here: the check and the renaming are two steps, under the lake's lock.
            if target.exists():
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from None
            temporary.rename(target)
        finally:
            temporary.unlink(missing_ok=True)
        _sync_folder(target.parent)

    def replace(self, path: str, content: bytes) -> None:
        """A file in place of what is there, at one moment."""
        target = self._at(path)
        self.make_folder(_above(path))
        temporary = self._written(target, content)
        try:
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        _sync_folder(target.parent)

    def list(self, folder: str) -> list[str]:
        """The names in a folder, sorted."""
        try:
            with os.scandir(self._at(folder)) as entries:
                return sorted(f"{entry.name}/" if entry.is_dir() else entry.name for entry in entries)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def delete(self, path: str) -> None:
        """A file, or a folder with everything in it."""
        target = self._at(path)
        if target.is_dir() and not target.is_symlink():
            for name in self.list(path):
                self.delete(f"{path}/{name.rstrip('/')}")
            target.rmdir()
        else:
            target.unlink(missing_ok=True)

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder."""
        return self._at(path).exists()

    def size(self, path: str) -> int:
        """Of a file, in bytes."""
        return self._at(path).stat().st_size

    def age_seconds(self, path: str) -> float:
        """How long ago a file was written last."""
        return time.time() - self._at(path).stat().st_mtime

    def make_folder(self, folder: str) -> None:
        """A folder and those above it. Each new name is made durable in the folder that lists it."""
        target = self._at(folder)
        missing = [part for part in (target, *target.parents) if not part.exists()]
        for part in reversed(missing):
            part.mkdir(exist_ok=True)
            _sync_folder(part.parent)

    def sync(self, paths: Iterable[str]) -> None:
        """Make files that somebody else wrote durable, with the folders that name them."""
        folders: set[Path] = set()
        for path in paths:
            target = self._at(path)
            _sync(target, os.O_RDONLY)
            folders.update(parent for parent in target.parents if parent.is_relative_to(self._folder))
        for folder in sorted(folders, reverse=True):
            _sync_folder(folder)

    def open(self, path: str) -> Any:  # noqa: ANN401 -- what pyarrow takes as a file
        """A file for random reading by pyarrow."""
        import pyarrow as pa  # noqa: PLC0415 -- not needed for anything else here

        return pa.OSFile(str(self._at(path)), "rb")

    def create(self, path: str) -> Any:  # noqa: ANN401 -- what pyarrow takes as a file
        """A new file for pyarrow to write."""
        import pyarrow as pa  # noqa: PLC0415 -- not needed for anything else here

        return pa.OSFile(str(self._at(path)), "wb")

    def uri(self, path: str) -> str:
        """The absolute path as Hadoop reads it: nothing in it is escaped."""
        return f"file://{self._at(path)}"

    @contextmanager
    def lock(self) -> Iterator[None]:
        """The lake's one lock."""
        descriptor = os.open(self._at(LOCK), os.O_RDWR | os.O_CLOEXEC)
        try:
            _wait(descriptor, f"another run has been committing to the lake {self} for too long")
            yield
        finally:
            os.close(descriptor)

    def claim(self, path: str, content: bytes) -> Claim:
        """Create a file and hold it. Whoever looks for dead runs does so under the lake's lock, and so must this."""
        target = self._at(path)
        self.make_folder(_above(path))
        descriptor = os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o666)
        try:
            # Whoever looks whether it is held holds it for that moment.
            _wait(descriptor, f"{target} is held by another process")
            os.write(descriptor, content)
            os.fsync(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        return _LocalClaim(descriptor)

    def is_claimed(self, path: str) -> bool:
        """Whether a process holds this file."""
        try:
            descriptor = os.open(self._at(path), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return False
        try:
            return not _locked(descriptor, fcntl.LOCK_SH)
        finally:
            os.close(descriptor)

    def _at(self, path: str) -> Path:
        assert not path.startswith("/"), path
        return self._folder / path

    def _written(self, target: Path, content: bytes) -> Path:
        """A durable file under a name that nobody looks at."""
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}{TEMPORARY}")
        stream: BinaryIO
        try:
            with temporary.open("xb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        return temporary


def is_address(name: str) -> bool:
    """Whether a name is an address (``hdfs://…``) and no path: a folder may well be called ``lake:prod``."""
    return _ADDRESS.match(name) is not None


def local_path(name: str) -> str | None:
    """The path that a name means on this machine, where it means one; else it is an address elsewhere."""
    if not is_address(name):
        return name
    address = urlsplit(name)
    if address.scheme != "file":
        return None
    if address.netloc not in {"", "localhost"} or address.query or address.fragment:
        raise UsageError(
            f"{name} is no file or folder of this machine; file:///PATH is one, with %XX for what is special there"
        )
    return unquote(address.path)


def is_elsewhere(location: str | Path) -> bool:
    """Whether a lake is at an address that takes a session of Spark to reach."""
    return isinstance(location, str) and local_path(location) is None


def local_files(location: str | Path) -> LocalFiles:
    """The files of a lake in a folder, named by a path or a ``file:`` address."""
    path = location if isinstance(location, Path) else local_path(location)
    if path is None:
        raise UsageError(
            f"{location} is no folder of this machine; a lake elsewhere needs a session of Spark to reach it"
        )
    return LocalFiles(Path(path))


def read_or_none(files: Files, path: str) -> bytes | None:
    """The content of a small file, or None if there is none."""
    try:
        with translated(f"reading {path} of the lake {files!r} failed"):
            return files.read(path)
    except LakeError as error:
        if isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
            return None
        raise


def _above(path: str) -> str:
    return path.rpartition("/")[0]


def _wait(descriptor: int, sentence: str) -> None:
    """Get a lock, or say why not."""
    deadline = time.monotonic() + LOCK_WAIT_SECONDS_MAX
    while not _locked(descriptor):
        if time.monotonic() > deadline:
            raise LakeError(sentence, retry=True)
        time.sleep(_LOCK_PAUSE_SECONDS)


def _locked(descriptor: int, kind: int = fcntl.LOCK_EX) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sync_folder(folder: Path) -> None:
    _sync(folder, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""The files of a lake on any file system that Hadoop knows, through the Java of the Spark session.

What a lake asks of its files holds here as far as the file system goes. On HDFS a rename replaces a file at one moment,
and what was written is on its way to the disks of several machines when writing returns; ``sync`` of files that others
have written can add nothing to that. On stores of objects a rename is a copy: there only one writer at a time is safe.

Such file systems know no locks that end with a process. A lock and the claim of a run are files whose owner renews
their time of change every few seconds; one that has not been renewed for ``LEASE_SECONDS`` is a dead owner's. All times
are those of the file system, which a file written for that purpose tells, so the clocks of machines need not agree.

An owner that was only stopped for so long does not know that it has lost its lock. So a lease keeps runs apart as long
as all goes well, and does not decide between them: that is done by files which only one can create (``lake.commit``),
and by the mark of a run, without which it does not commit.
"""

import errno
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from bobbin.errors import UsageError
from bobbin.store.lake.errors import LakeError
from bobbin.store.lake.files import LOCK_WAIT_SECONDS_MAX, TEMPORARY, Claim, Files, is_elsewhere, local_files

LEASE_SECONDS: Final = 120.0
RENEW_SECONDS: Final = 15.0
_LOCK_PAUSE_SECONDS: Final = 0.2
_CLOCK_SECONDS_MAX: Final = 5.0
"""How long a look at the clock of the file system is good for."""
_CLOCK_DRIFT_SECONDS_MAX: Final = 0.5
"""By how much the two clocks of this machine may differ before that: by more if one was set, or the machine slept."""
_LOCK_FILE: Final = ".lake.lock"

# What calls to Java, which has no names for arguments, mean by true and false.
_NEW: Final = False
_OVERWRITING: Final = True
_ALONE: Final = False
_WITH_CONTENT: Final = True

_ERRORS: Final = {
    "java.io.FileNotFoundException": errno.ENOENT,
    "java.nio.file.NoSuchFileException": errno.ENOENT,
    "org.apache.hadoop.fs.FileAlreadyExistsException": errno.EEXIST,
    "java.nio.file.FileAlreadyExistsException": errno.EEXIST,
    "org.apache.hadoop.fs.ParentNotDirectoryException": errno.ENOTDIR,
    "org.apache.hadoop.fs.PathIsNotEmptyDirectoryException": errno.ENOTEMPTY,
    "org.apache.hadoop.security.AccessControlException": errno.EACCES,
    "java.nio.file.AccessDeniedException": errno.EACCES,
}


def files_of(session: SparkSession, location: str | Path) -> Files:
    """The files of a lake wherever it is: this machine's own where they are here, else through Hadoop."""
    return HadoopFiles(session, str(location)) if is_elsewhere(location) else local_files(location)


class HadoopFiles:
    """A lake at an address of Hadoop's, as in ``hdfs://namenode/lakes/notes``."""

    def __init__(self, session: SparkSession, location: str) -> None:
        self._location = location.rstrip("/")
        context: Any = _context(session)
        self._java: Any = context._jvm  # noqa: SLF001
        self._gateway: Any = context._gateway  # noqa: SLF001
        settings = context._jsc.hadoopConfiguration()  # noqa: SLF001
        try:
            found = self._path("").getFileSystem(settings)
            # The local one would keep a file of checksums beside each, which others know nothing of.
            self._is_local = found.getScheme() == "file"
            self._system = found.getRaw() if self._is_local else found
            self._context = self._java.org.apache.hadoop.fs.FileContext.getFileContext(found.getUri(), settings)
        except (Py4JJavaError, PySparkException) as error:
            raise UsageError(f"{location} is no place that Hadoop can reach: {_words(error)}") from error
        self._clock: _Clock | None = None

    def __repr__(self) -> str:
        return self._location

    def read(self, path: str) -> bytes:
        """The whole of a small file."""
        with self._failing(path):
            stream = self._system.open(self._path(path))
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()

    def write_new(self, path: str, content: bytes) -> None:
        """A file that is not there yet. It gets its name when it is whole."""
        with self._failing(path):
            if self._system.exists(self._path(path)):
                raise FileExistsError(errno.EEXIST, "File exists", self.uri(path))
            self._renamed(path, content, overwrite=False)

    def replace(self, path: str, content: bytes) -> None:
        """A file in place of what is there, at one moment where the file system can."""
        with self._failing(path):
            self._renamed(path, content, overwrite=True)

    def list(self, folder: str) -> list[str]:
        """The names in a folder, sorted."""
        try:
            with self._failing(folder):
                place = self._path(folder)
                if not self._system.getFileStatus(place).isDirectory():
                    return []
                found = self._system.listStatus(place)
                return sorted(one.getPath().getName() + ("/" if one.isDirectory() else "") for one in found)
        except FileNotFoundError:
            return []

    def delete(self, path: str) -> None:
        """A file, or a folder with everything in it."""
        with self._failing(path):
            self._system.delete(self._path(path), _WITH_CONTENT)

    def exists(self, path: str) -> bool:
        """Whether there is a file or folder."""
        with self._failing(path):
            return bool(self._system.exists(self._path(path)))

    def size(self, path: str) -> int:
        """Of a file, in bytes."""
        with self._failing(path):
            return int(self._system.getFileStatus(self._path(path)).getLen())

    def age_seconds(self, path: str) -> float:
        """How long ago a file was written or renewed last."""
        with self._failing(path):
            changed = int(self._system.getFileStatus(self._path(path)).getModificationTime())
            return max(0.0, (self._now_ms() - changed) / 1000)

    def make_folder(self, folder: str) -> None:
        """A folder and those above it."""
        with self._failing(folder):
            self._system.mkdirs(self._path(folder))

    def sync(self, paths: Iterable[str]) -> None:
        """Nothing can be added to what the file system did when the files were closed; they must be there, though."""
        for path in paths:
            self.size(path)

    def open(self, path: str) -> Any:  # noqa: ANN401 -- what pyarrow takes as a file
        """A file for random reading by pyarrow."""
        with self._failing(path):
            size = self.size(path)
            return pa.PythonFile(_Reader(self._system.open(self._path(path)), size, self.uri(path)), mode="r")

    def create(self, path: str) -> Any:  # noqa: ANN401 -- what pyarrow takes as a file
        """A new file for pyarrow to write."""
        with self._failing(path):
            return pa.PythonFile(_Writer(self._system.create(self._path(path), _OVERWRITING), self.uri(path)), mode="w")

    def uri(self, path: str) -> str:
        """The address by which Spark opens a file or folder."""
        return f"{self._location}/{path}" if path else self._location

    @contextmanager
    def lock(self) -> Iterator[None]:
        """The lake's one lock: a file that only one can create."""
        deadline = time.monotonic() + LOCK_WAIT_SECONDS_MAX + LEASE_SECONDS
        content = secrets.token_hex(8).encode()
        while (claim := self._try_claim(_LOCK_FILE, content)) is None:
            self._break_if_dead(_LOCK_FILE)
            if time.monotonic() > deadline:
                raise LakeError(f"another run has been committing to the lake {self} for too long", retry=True)
            time.sleep(_LOCK_PAUSE_SECONDS)
        try:
            yield
        finally:
            claim.release()
            with suppress(OSError):
                # What was done under the lock is done. A lock that cannot be removed now ends with its lease.
                if self.read(_LOCK_FILE) == content:
                    self.delete(_LOCK_FILE)

    def claim(self, path: str, content: bytes) -> Claim:
        """Create a file and renew it until it is let go."""
        found = self._try_claim(path, content)
        if found is None:
            raise LakeError(f"{self.uri(path)} is held by another process", retry=True)
        return found

    def is_claimed(self, path: str) -> bool:
        """Whether the owner of a file has renewed it of late."""
        try:
            return self.age_seconds(path) < LEASE_SECONDS
        except FileNotFoundError:
            return False

    def renew(self, path: str) -> None:
        """Set the time of change of a file to now. ``FileNotFoundError`` if somebody took it away."""
        with self._failing(path):
            self._system.setTimes(self._path(path), self._now_ms(), -1)

    def _try_claim(self, path: str, content: bytes) -> "_Renewed | None":
        try:
            with self._failing(path):
                # Creating a new file is the one step that Hadoop's file systems let only one process win.
                stream = self._system.create(self._path(path), _NEW)
                stream.write(content)
                stream.close()
        except FileExistsError:
            return None
        return _Renewed(lambda: self.renew(path))

    def _break_if_dead(self, path: str) -> None:
        """Take away a lock that nobody renews.

        Between the look and the deed, another may have done the same and made a lock of its own. So the lock is renamed
        first, which only one can do to one lock, and looked at again under its new name: a living one is put back.
        """
        with suppress(FileNotFoundError):
            if self.is_claimed(path):
                return
            content = self.read(path)
            aside = f"{path}.{secrets.token_hex(8)}{TEMPORARY}"
            if not self._moved(path, aside):
                return
            if self.read(aside) == content and not self.is_claimed(aside):
                self.delete(aside)
            elif not self._moved(aside, path):
                # Somebody has a lock by now. The owner of this one notices: its mark or its number is taken.
                self.delete(aside)

    def _moved(self, path: str, other: str) -> bool:
        """Rename a file to a name that is not in use. False if it is gone, or the name is taken."""
        with self._failing(path):
            if self._system.exists(self._path(other)):
                return False
            return bool(self._system.rename(self._path(path), self._path(other)))

    def _renamed(self, path: str, content: bytes, *, overwrite: bool) -> None:
        """Write under a name that nobody looks at, and rename."""
        above, _, name = path.rpartition("/")
        self._system.mkdirs(self._path(above))
        temporary = self._path(f"{above}/.{name}.{secrets.token_hex(6)}{TEMPORARY}".lstrip("/"))
        try:
            self._write(temporary, content)
            if self._is_local:
                # Renaming replaces a file here; the general way would delete it first.
                if not self._system.rename(temporary, self._path(path)):
                    raise OSError(errno.EIO, "cannot be renamed to", self.uri(path))
            else:
                self._context.rename(temporary, self._path(path), self._rename_options(overwrite=overwrite))
        except BaseException:
            with suppress(Py4JError, PySparkException, OSError):
                self._system.delete(temporary, _ALONE)
            raise

    def _write(self, place: Any, content: bytes) -> None:  # noqa: ANN401 -- a path in Java
        stream = self._system.create(place, _NEW)
        try:
            stream.write(content)
            stream.hsync()
        finally:
            stream.close()

    def _rename_options(self, *, overwrite: bool) -> Any:  # noqa: ANN401 -- an array in Java
        rename = getattr(self._java.org.apache.hadoop.fs, "Options$Rename")
        options = self._gateway.new_array(rename, 1)
        options[0] = rename.OVERWRITE if overwrite else rename.NONE
        return options

    def _now_ms(self) -> int:
        """The time by the clock of the file system."""
        clock = self._clock
        if clock is None or not clock.is_good(time.time(), time.monotonic()):
            wall, steady = time.time(), time.monotonic()
            clock = self._clock = _Clock(self._there_ms() - int(wall * 1000), wall, steady)
        return int(time.time() * 1000) + clock.skew_ms

    def _there_ms(self) -> int:
        """What a new file says."""
        probe = self._path(f".clock.{secrets.token_hex(6)}{TEMPORARY}")
        try:
            self._system.create(probe, _NEW).close()
            return int(self._system.getFileStatus(probe).getModificationTime())
        finally:
            self._system.delete(probe, _ALONE)

    def _path(self, path: str) -> Any:  # noqa: ANN401 -- a path in Java
        assert not path.startswith("/"), path
        return self._java.org.apache.hadoop.fs.Path(self.uri(path))

    @contextmanager
    def _failing(self, path: str) -> Iterator[None]:
        with _as_os_error(self.uri(path)):
            yield


class _Clock(NamedTuple):
    """How far the clock of the file system is from this machine's, and when that was found."""

    skew_ms: int
    wall: float
    steady: float

    def is_good(self, wall: float, steady: float) -> bool:
        """Whether it can still be relied on."""
        passed = steady - self.steady
        return passed < _CLOCK_SECONDS_MAX and abs(wall - self.wall - passed) < _CLOCK_DRIFT_SECONDS_MAX


class _Renewed:
    """A file that is renewed from a thread of its own until it is let go."""

    def __init__(self, renew: Callable[[], None]) -> None:
        self._renew = renew
        self._ended = threading.Event()
        self.is_lost = False
        """Whether somebody has taken the file away, because it looked dead."""
        self._thread = threading.Thread(target=self._run, name="bobbin-lease", daemon=True)
        self._thread.start()

    def release(self) -> None:
        """Let go. The file stays."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(RENEW_SECONDS):
            try:
                self._renew()
            except FileNotFoundError:
                self.is_lost = True
                return
            except OSError:
                continue  # the file system may come back before the lease ends


class _Reader:
    """A stream of Java's that pyarrow reads."""

    def __init__(self, stream: Any, size: int, name: str) -> None:  # noqa: ANN401 -- a stream in Java
        self._stream = stream
        self._size = size
        self._name = name
        self._at = 0
        self.closed = False

    def read(self, size: int | None = -1) -> bytes:
        """The next bytes."""
        left = self._size - self._at
        wanted = left if size is None or size < 0 else min(size, left)
        if wanted <= 0:
            return b""
        with _as_os_error(self._name):
            found = bytes(self._stream.readNBytes(wanted))
        self._at += len(found)
        return found

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a place."""
        self._at = offset + (0, self._at, self._size)[whence]
        with _as_os_error(self._name):
            self._stream.seek(self._at)
        return self._at

    def tell(self) -> int:
        return self._at

    def size(self) -> int:
        return self._size

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            with _as_os_error(self._name):
                self._stream.close()


class _Writer:
    """A stream of Java's that pyarrow writes."""

    def __init__(self, stream: Any, name: str) -> None:  # noqa: ANN401 -- a stream in Java
        self._stream = stream
        self._name = name
        self._at = 0
        self.closed = False

    def write(self, data: bytes) -> int:
        """Bytes at the end."""
        content = bytes(data)
        with _as_os_error(self._name):
            self._stream.write(content)
        self._at += len(content)
        return len(content)

    def flush(self) -> None:
        with _as_os_error(self._name):
            self._stream.hflush()

    def tell(self) -> int:
        return self._at

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            with _as_os_error(self._name):
                self._stream.close()


def _context(session: SparkSession) -> SparkContext:
    try:
        return session.sparkContext
    except PySparkException as error:
        raise UsageError("a lake that is not on this machine needs a session of its own, not Spark Connect") from error


@contextmanager
def _as_os_error(name: str) -> Iterator[None]:
    """What Java raises as Python's own error, with the file it is about."""
    try:
        yield
    except Py4JJavaError as error:
        kind = error.java_exception.getClass().getName()
        code = _ERRORS.get(kind, errno.EIO)
        words = f"{kind.rpartition('.')[2]}: {_words(error)}" if code == errno.EIO else os.strerror(code)
        raise OSError(code, words, name) from error
    except (Py4JError, PySparkException) as error:
        raise OSError(errno.EIO, _words(error), name) from error


def _words(error: Exception) -> str:
    exception = getattr(error, "java_exception", None)
    text = str(error) if exception is None else exception.getMessage() or exception.getClass().getName()
    return " ".join(str(text).split())[:300]

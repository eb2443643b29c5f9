"""A log in files: read at open, written in groups, cut by beginning anew.

``append`` judges records and keeps them; ``sync`` writes all that were kept since the last one as one record, by one
call, and makes it durable. So a group is durable as a whole or not at all, and one sync serves everybody who waited.

**Files.** No file is changed in place. A new one is written under a temporary name, synced, renamed, and the folder is
synced; it has a header with everything that held at that moment, and the name of the file it goes on from with how much
of that file counts. A new file is begun

* at each open, with the last group of the file before in it once more. Until then that group is only known to be in the
  memory of the system: the process may have died between its write and its sync, or the sync may have failed;
* when the present one is large enough;
* after a write or sync that failed. What the present file holds behind the last good sync is unknown then, and trying
  the sync again would prove nothing: the system may have dropped the pages and call them clean. The new header says
  that they do not count;
* when entries are cut off: such a file holds all entries that stay, needs no file before it, and makes those needless.

The file with the highest number is where reading begins, so once a new file may have got its name, the old one is never
written again, whatever failed afterwards.

**Failures** are a ``ResourceError``. Everything since the last sync is dropped then, ``image`` is what is durable, and
the log can be used: a new file is begun, at once if the disk allows it, else by the next group. Until it is, the group
that failed may still be found at an open; it was never acknowledged, and nothing that was is missing.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from bobbin.cluster.names import Index, NodeId
from bobbin.cluster.raft.effects import Append, Cut, DurableRecord, Reset
from bobbin.errors import ResourceError, UsageError
from bobbin.store.wal.faults import free_for, translated
from bobbin.store.wal.files import Appender, Files
from bobbin.store.wal.image import Held, LogImage, Outline
from bobbin.store.wal.reading import Reading
from bobbin.store.wal.replacing import remove_quietly, written_whole
from bobbin.store.wal.segment import (
    BODY_BYTES_MAX,
    SALT_BYTES,
    framed_size,
    placed,
    segment_name,
    segment_numbers,
    segment_start,
)
from bobbin.wire.cluster.durable import (
    GROUP_HEAD_BYTES_MAX,
    VERSION,
    Header,
    SealedFile,
    encode_record,
    entry_records,
    group,
)

MB: Final = 1_048_576
ROTATE_BYTES: Final = 1_024 * MB
KEEP: Final = 3
FREE_BYTES_MIN: Final = 100 * MB

_RECORD_BYTES_MAX: Final = BODY_BYTES_MAX - GROUP_HEAD_BYTES_MAX
_ENTRIES_BYTES: Final = 4 * MB
"""Of entries in one record, where records are split or written anew."""
_CHAIN_MAX: Final = 8
"""Files that have to be read; from there on an open writes what they hold into one, if that is little."""
_GATHERED_BYTES_MAX: Final = 64 * MB


class LogLimits:
    """Sizes that a log keeps to."""

    __slots__ = ("free_bytes_min", "keep", "rotate_bytes")

    def __init__(
        self, *, rotate_bytes: int = ROTATE_BYTES, keep: int = KEEP, free_bytes_min: int = FREE_BYTES_MIN
    ) -> None:
        if rotate_bytes <= 0 or keep <= 0 or free_bytes_min < 0:
            raise UsageError("rotate_bytes and keep must be above 0, free_bytes_min must not be negative")
        self.rotate_bytes = rotate_bytes
        """A file that would grow over it is followed by another."""
        self.keep = keep
        """Files that stay when newer ones have made them needless."""
        self.free_bytes_min = free_bytes_min
        """Nothing is written that would leave less than this free."""


class Log:
    """An open log. Calls come from one thread at a time."""

    def __init__(
        self,
        files: Files,
        reading: Reading,
        *,
        node: NodeId,
        cluster: bytes,
        limits: LogLimits,
        entropy: Callable[[int], bytes],
        is_changed: bool = False,
    ) -> None:
        """Go on from what was read, or from what its image was changed to; the first thing written says so."""
        self.image = reading.image
        """What is durable. Not to be changed by others."""
        self.boot: Final = reading.boot
        self._files: Final = files
        self._node: Final = node
        self._cluster: Final = cluster
        self._limits: Final = limits
        self._entropy: Final = entropy
        self._appender: Appender | None = None
        """Of the present file; None when the next group must begin another one."""
        self._size = 0
        self._sealed = reading.sealed
        """The present file, or the last one that was, up to the end of what is durable."""
        self._next_number = reading.next_number
        self._chain = reading.chain
        """The files that hold the log."""
        self._records: list[DurableRecord] = []
        self._parts: list[bytes] = []
        self._outline = Outline(self.image)
        self._is_closed = False
        is_little = reading.size <= _GATHERED_BYTES_MAX
        with translated("writing the first file of an opened log"):
            if is_changed or not reading.chain or (len(reading.chain) >= _CHAIN_MAX and is_little):
                self._begin_whole(self.image, self._gathered(self.image))
            else:
                self._begin(reading.before_tail, reading.tail, reading.sealed)
        for number in self._strays():
            remove_quietly(files, segment_name(number))

    def append(self, records: Sequence[DurableRecord]) -> None:
        """Keep records for the next sync, all or none. ``UsageError`` for any that cannot follow."""
        self._check_open()
        outline = self._outline.copy()
        parts: list[bytes] = []
        for record in records:
            outline.take(record)
            parts += _encoded(record)
        self._outline = outline
        self._records += records
        self._parts += parts

    def sync(self) -> None:
        """Make everything that waits durable, or drop it and raise ``ResourceError``."""
        self._check_open()
        if not self._records:
            return
        records, parts = self._records, self._parts
        self._records, self._parts = [], []
        try:
            with translated("writing the log"):
                self._write(records, parts)
        except BaseException as error:
            self._outline = Outline(self.image)
            if isinstance(error, ResourceError) and self._appender is None:
                self._seal()
            raise

    def close(self) -> None:
        """Give the file back. What waits is dropped."""
        self._is_closed = True
        self._abandon()

    def _write(self, records: list[DurableRecord], parts: list[bytes]) -> None:
        free = self._files.free_bytes()
        least = self._limits.free_bytes_min
        if any(isinstance(record, Cut | Reset) for record in records):
            after = self.image.copy()
            for record in records:
                after.replay(record)
            bodies = self._gathered(after)
            size = sum(map(framed_size, bodies))
            if size <= max(_GATHERED_BYTES_MAX, self._limits.rotate_bytes) and free - size >= least:
                self._begin_whole(after, bodies)
                return
            # Too much to be written anew: the cut is a record like any other, and the files stay as they are.
        bodies = _bodies(parts)
        size = sum(map(framed_size, bodies))
        free_for(free, size, least)
        if self._appender is None or len(bodies) > 1 or self._size + size > self._limits.rotate_bytes:
            self._begin(self.image.held(), bodies, self._sealed)
        else:
            self._extend(self._appender, bodies[0])
        for record in records:
            self.image.replay(record)

    def _extend(self, appender: Appender, body: bytes) -> None:
        """Write a group behind the last one. If that fails, nobody writes to this file again."""
        data = placed(self._salt, self._size, body)
        try:
            appender.write(data)
            appender.sync()
        except BaseException:
            self._abandon()
            raise
        self._set_size(self._size + len(data))

    def _seal(self) -> None:
        """Say in a new file that what failed does not count. If that fails as well, the next group will say so."""
        with suppress(OSError):
            self._begin(self.image.held(), [], self._sealed)

    def _begin_whole(self, image: LogImage, bodies: list[bytes]) -> None:
        """A file that holds all of a log, which is the log from then on. Older ones are needless."""
        held = image.held()
        self._begin(
            Held(
                term=held.term,
                voted_for=held.voted_for,
                snapshot=held.snapshot,
                first_index=held.first_index,
                last_index=Index(held.first_index - 1),
                lost=held.lost,
            ),
            bodies,
            None,
        )
        self.image = image
        self._outline = Outline(image)
        with suppress(OSError):
            self._remove_needless()

    def _begin(self, held: Held, bodies: list[bytes], previous: SealedFile | None) -> None:
        """A new file, with these groups in it from the start."""
        self._abandon()
        number = self._next_number
        self._next_number += 1
        header = Header(
            version=VERSION,
            node=self._node,
            cluster=self._cluster,
            number=number,
            boot=self.boot,
            previous=previous,
            filled=sum(map(framed_size, bodies)),
            term=held.term,
            voted_for=held.voted_for,
            snapshot=held.snapshot,
            first_index=held.first_index,
            last_index=held.last_index,
            lost=held.lost,
        )
        salt = self._entropy(SALT_BYTES)
        pieces = segment_start(salt, header, bodies)
        self._appender = written_whole(self._files, segment_name(number), pieces)
        self._salt = salt
        self._number = number
        self._chain = [number] if previous is None else [*self._chain, number]
        self._set_size(sum(map(len, pieces)))

    def _set_size(self, size: int) -> None:
        self._size = size
        self._sealed = SealedFile(self._number, size)

    def _abandon(self) -> None:
        if self._appender is not None:
            appender, self._appender = self._appender, None
            with suppress(OSError):
                appender.close()

    def _gathered(self, image: LogImage) -> list[bytes]:
        """All entries of an image, as groups."""
        return [group([record]) for record in entry_records(image.entries, bytes_max=_ENTRIES_BYTES)]

    def _remove_needless(self) -> None:
        """Files that the log does not need go, the oldest first, until so many are left as are to be kept."""
        assert self._chain == [self._number]
        for number in segment_numbers(self._files.names())[: -self._limits.keep]:
            remove_quietly(self._files, segment_name(number))

    def _strays(self) -> list[int]:
        """Files that were begun and never became part of the log, because the attempt failed later."""
        with translated("listing the files of the log"):
            numbers = segment_numbers(self._files.names())
        return [number for number in numbers if number > self._chain[0] and number not in self._chain]

    def _check_open(self) -> None:
        if self._is_closed:
            raise UsageError("the log is closed")


def _encoded(record: DurableRecord) -> list[bytes]:
    """A record as one part of a group, or as several where one would be too large."""
    part = encode_record(record)
    if len(part) <= _RECORD_BYTES_MAX:
        return [part]
    parts = entry_records(record.entries, bytes_max=_ENTRIES_BYTES) if isinstance(record, Append) else [part]
    if any(len(each) > _RECORD_BYTES_MAX for each in parts):
        raise UsageError(f"an entry or a configuration is larger than {_RECORD_BYTES_MAX:,} bytes")
    return parts


def _bodies(parts: list[bytes]) -> list[bytes]:
    """Parts in groups, as few as the largest size of a record allows."""
    bodies: list[bytes] = []
    waiting: list[bytes] = []
    size = 0
    for part in parts:
        if waiting and size + len(part) > _RECORD_BYTES_MAX:
            bodies.append(group(waiting))
            waiting, size = [], 0
        waiting.append(part)
        size += len(part)
    bodies.append(group(waiting))
    return bodies

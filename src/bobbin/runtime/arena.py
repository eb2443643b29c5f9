"""Blobs in shared memory: one process writes them, others on the same machine read them by the arena's name.

A message then carries a ``BlobRef`` of some dozen bytes in place of a value of megabytes (see ``spilling``). How a blob
lies in the arena is said in ``wire.lazily.arena_header``. Behind the blobs there is a word of the writer on which of
them can still be read, five numbers of eight bytes each:

==========  =======================================================================================
magic       that this is an arena
capacity    bytes for blobs
epoch       of the arena; an arena that goes to another one gives up all its blobs
oldest      the lowest generation that can be read; what is about to be written over is below it
newest      the highest one
==========  =======================================================================================

A header alone would not do: it is overwritten by blobs whose bytes may be anybody's, and they could look like a header.

A reader checks descriptor, writer's word and header each time, and the checksum once per descriptor; a blob that was
read once costs the same at any length. It maps the memory read-only, so it cannot write. What it gives out:

* ``read`` copies. The bytes were in the arena, all at one time, or an error says that they were given up meanwhile.
* ``view`` does not. The bytes stay as they are until the writer comes round to them, which ``is_live`` tells.

An arena has one writer, in one thread. Whoever can open it sees every blob, so an arena belongs to one peer: what is
written to it has passed that peer's permissions.
"""

import _posixshmem  # type: ignore[import-not-found] # what SharedMemory itself stands on; it has no stubs
import mmap
import os
from collections import deque
from collections.abc import Callable
from itertools import pairwise
from multiprocessing.shared_memory import SharedMemory
from types import TracebackType
from typing import Final, Self, TypeAlias

from bobbin.errors import IntegrityError, ResourceError, UsageError
from bobbin.native.library import LibraryAbsent, library
from bobbin.reactive.messages import U64_MAX, Backend, BlobRef
from bobbin.wire.lazily import arena_header, checksum
from bobbin.wire.lazily.arena_header import HEADER_BYTES, ChecksumMismatch, Header, HeaderMismatch

Buffer: TypeAlias = bytes | bytearray | memoryview

VERIFIED_MAX: Final = 4096
"""Descriptors whose checksum a reader remembers to have checked."""

_MAGIC: Final = int.from_bytes(b"LZARENA1", "big")
_MAGIC_AT, _CAPACITY_AT, _EPOCH_AT, _OLDEST_AT, _NEWEST_AT = range(5)
_WORD_BYTES: Final = 5 * 8


class NotAnArena(IntegrityError):
    """The shared memory of that name holds something else. Nothing was read."""


class _Region:
    """Shared memory that is an arena, and reading from it."""

    def __init__(self, memory: memoryview) -> None:
        """Take a whole region, whose word is already written."""
        self._word: Final = memory[-_WORD_BYTES:].cast("Q")
        self._blobs: Final = memory.toreadonly()[: self._word[_CAPACITY_AT]]
        self._checksum: Final = _quickest_checksum()
        self._verified: Final[dict[BlobRef, None]] = {}
        self._is_open = True

    @property
    def capacity(self) -> int:
        """Bytes for blobs and their headers."""
        self._require_open()
        return len(self._blobs)

    @property
    def epoch(self) -> int:
        self._require_open()
        return self._word[_EPOCH_AT]

    def is_live(self, blob: BlobRef) -> bool:
        """Whether the writer has not given up a blob. It takes the descriptor's word for the rest."""
        self._require_open()
        return blob.epoch == self._word[_EPOCH_AT] and (
            self._word[_OLDEST_AT] <= blob.generation <= self._word[_NEWEST_AT]
        )

    def view(self, blob: BlobRef) -> memoryview:
        """A blob where it lies. It must be released before the arena is closed."""
        data = self._find(blob)
        if blob not in self._verified:
            try:
                self._verify(blob, data)
            except IntegrityError:
                # Whoever keeps the error keeps what it passed through, and a view would keep the arena open.
                data.release()
                raise
        return data

    def read(self, blob: BlobRef) -> bytes:
        """A copy of a blob."""
        data = bytes(self._find(blob))
        if blob in self._verified:
            self._require_live(blob)
        else:
            self._verify(blob, data)
        return data

    def _find(self, blob: BlobRef) -> memoryview:
        self._require_open()
        if blob.backend is not Backend.SHM:
            raise UsageError(f"a blob of the backend {blob.backend} is not in shared memory")
        arena_header.check_bounds(blob, len(self._blobs))
        self._require_live(blob)
        start = blob.offset + HEADER_BYTES
        arena_header.check(bytes(self._blobs[blob.offset : start]), blob)
        return self._blobs[start : start + blob.length]

    def _verify(self, blob: BlobRef, data: Buffer) -> None:
        found = self._checksum(data)
        # Bytes that were written over meanwhile are not damaged, they are gone.
        self._require_live(blob)
        if found != blob.checksum:
            raise ChecksumMismatch(f"the blob of generation {blob.generation} has another checksum than its descriptor")
        self._remember(blob)

    def _remember(self, blob: BlobRef) -> None:
        if len(self._verified) >= VERIFIED_MAX:
            del self._verified[next(iter(self._verified))]
        self._verified[blob] = None

    def _require_live(self, blob: BlobRef) -> None:
        if not self.is_live(blob):
            field = "generation" if blob.epoch == self._word[_EPOCH_AT] else "epoch"
            raise HeaderMismatch(field, f"the blob of generation {blob.generation}, epoch {blob.epoch} was given up")

    def _require_open(self) -> None:
        if not self._is_open:
            raise UsageError("the arena is closed")

    def _release(self) -> None:
        self._is_open = False
        self._word.release()
        self._blobs.release()


class ArenaReader(_Region):
    """An arena that another process, or this one, writes."""

    def __init__(self, name: str) -> None:
        """Open the arena of a name. Raises ``ResourceError`` where there is none, ``NotAnArena`` for anything else."""
        self._map: Final = _map_read_only(name)
        memory = memoryview(self._map)
        try:
            _check_word(memory)
            super().__init__(memory)
        except NotAnArena:
            memory.release()
            self._map.close()
            raise
        memory.release()

    def close(self) -> None:
        """Let go of the memory. Views must be released before; else ``UsageError``, and the call can be repeated."""
        self._release()
        try:
            self._map.close()
        except BufferError:
            raise UsageError("a view of the arena is still in use") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Arena(_Region):
    """An arena that this process writes. It is gone, for those who did not open it yet, once it is closed."""

    def __init__(self, capacity: int, *, epoch: int = 0) -> None:
        """Make an arena. Raises ``CapacityTooSmall``, or ``ResourceError`` where there is no memory for it."""
        arena_header.check_capacity(capacity)
        _check_epoch(epoch)
        try:
            self._shared: Final = SharedMemory(create=True, size=-(-capacity // 8) * 8 + _WORD_BYTES)
        except OSError as error:
            raise ResourceError(f"no shared memory of {capacity} bytes: {error.strerror}", retry=False) from None
        memory = self._shared.buf
        assert memory is not None
        with memory[-_WORD_BYTES:].cast("Q") as word:
            word[_CAPACITY_AT], word[_EPOCH_AT], word[_OLDEST_AT] = capacity, epoch, 1
            word[_MAGIC_AT] = _MAGIC
        super().__init__(memory)
        self._memory: Final = memory[:capacity]
        self._cursor = 0
        self._generation = 0
        self._live: Final[deque[tuple[int, int, int]]] = deque()
        """Generation, offset and end of what can be read, oldest first: by rising offsets from the cursor to the end of
        the arena, then from its start."""

    @property
    def name(self) -> str:
        """By which a reader opens it."""
        return self._shared.name

    def write(self, data: Buffer) -> BlobRef:
        """Write a blob over what is oldest. Raises ``BlobTooLarge`` or ``GenerationOverflow`` and writes nothing."""
        self._require_open()
        flat = memoryview(data).cast("B")
        where = arena_header.place(self._cursor, len(flat), self.capacity)
        generation = arena_header.next_generation(self._generation)
        self._give_up(where.offset, where.end)
        # Readers stop trusting what lies here before a byte of it changes, and trust the new blob once it is whole.
        self._word[_OLDEST_AT] = self._live[0][0] if self._live else generation
        start = where.offset + HEADER_BYTES
        self._memory[start : where.end] = flat
        epoch = self._word[_EPOCH_AT]
        header = Header(generation, epoch, len(flat), self._checksum(self._blobs[start : where.end]))
        self._memory[where.offset : start] = arena_header.pack(header)
        self._word[_NEWEST_AT] = generation
        self._live.append((generation, where.offset, where.end))
        self._cursor, self._generation = where.cursor, generation
        blob = BlobRef(where.offset, header.length, generation, epoch, header.checksum)
        self._remember(blob)
        return blob

    def lost_by(self, length: int) -> int:
        """The highest generation that writing a blob of some length would give up; 0 for none."""
        self._require_open()
        where = arena_header.place(self._cursor, length, self.capacity)
        return next((generation for generation, *_ in reversed(self._doomed(where.offset, where.end))), 0)

    def advance(self, epoch: int) -> None:
        """Go to a later epoch. Every blob written before is given up."""
        self._require_open()
        _check_epoch(epoch)
        if epoch <= self._word[_EPOCH_AT]:
            raise UsageError(f"epoch {epoch} does not come after {self._word[_EPOCH_AT]}")
        self._live.clear()
        self._word[_OLDEST_AT] = min(self._generation + 1, U64_MAX)
        self._word[_EPOCH_AT] = epoch

    def close(self) -> None:
        """End the arena. Views must be released before; else ``UsageError``, and the call can be repeated."""
        if self._is_open:
            self._release()
            self._memory.release()
            self._shared.unlink()
        try:
            self._shared.close()
        except BufferError:
            raise UsageError("a view of the arena is still in use") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def check(self) -> None:
        """Assert what always holds: blobs that can be read do not overlap, and lie in order from the cursor on."""
        places = sorted((offset, end) for _, offset, end in self._live)
        assert all(one[1] <= other[0] for one, other in pairwise(places))
        generations = [generation for generation, *_ in self._live]
        assert generations == list(range(self._generation - len(generations) + 1, self._generation + 1))
        from_cursor = [(offset < self._cursor, offset) for _, offset, _ in self._live]
        assert from_cursor == sorted(from_cursor)

    def _doomed(self, offset: int, end: int) -> list[tuple[int, int, int]]:
        """What a blob at that place writes over, and what is older than that, because the cursor has jumped over it."""
        doomed = []
        is_wrapping = offset < self._cursor
        for generation, start, stop in self._live:
            is_jumped_over = is_wrapping and start >= self._cursor
            if not is_jumped_over and not (start < end and offset < stop):
                break
            doomed.append((generation, start, stop))
        return doomed

    def _give_up(self, offset: int, end: int) -> None:
        for _ in self._doomed(offset, end):
            self._live.popleft()


def _quickest_checksum() -> Callable[[Buffer], int]:
    try:
        return library().fnv1a64
    except LibraryAbsent:
        return checksum.fnv1a64


def _check_epoch(epoch: int) -> None:
    if not 0 <= epoch <= U64_MAX:
        raise UsageError(f"epoch {epoch} is not a u64")


def _check_word(memory: memoryview) -> None:
    room = len(memory) - _WORD_BYTES
    if room < arena_header.CAPACITY_MIN:
        raise NotAnArena(f"shared memory of {len(memory)} bytes is not an arena")
    with memory[-_WORD_BYTES:].cast("Q") as word:
        if word[_MAGIC_AT] != _MAGIC or not arena_header.CAPACITY_MIN <= word[_CAPACITY_AT] <= room:
            raise NotAnArena("shared memory without the word of an arena")


def _map_read_only(name: str) -> mmap.mmap:
    """The memory of a name.

    ``SharedMemory`` would map it for writing, and, up to Python 3.12, end it for everybody when the first process that
    had opened it exits.
    """
    try:
        descriptor = _posixshmem.shm_open("/" + name, os.O_RDONLY, mode=0)
    except (OSError, ValueError) as error:
        raise ResourceError(f"there is no arena {name!r}: {error}", retry=False) from None
    try:
        return mmap.mmap(descriptor, os.fstat(descriptor).st_size, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:
        raise NotAnArena(f"the shared memory {name!r} cannot be mapped: {error}") from None
    finally:
        os.close(descriptor)

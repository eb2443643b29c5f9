import subprocess
import sys
from collections.abc import Iterator
from multiprocessing.shared_memory import SharedMemory
from random import Random
from unittest.mock import patch

import msgspec
import pytest

from bobbin.errors import ResourceError, UsageError
from bobbin.native.library import LibraryAbsent
from bobbin.reactive.messages import U64_MAX, Backend, BlobRef
from bobbin.runtime import arena as arena_module
from bobbin.runtime.arena import VERIFIED_MAX, Arena, ArenaReader, NotAnArena
from bobbin.wire.lazily import checksum
from bobbin.wire.lazily.arena_header import (
    HEADER_BYTES,
    BlobTooLarge,
    CapacityTooSmall,
    ChecksumMismatch,
    DescriptorOutOfBounds,
    GenerationOverflow,
    Header,
    HeaderMismatch,
    pack,
)


@pytest.fixture
def arena() -> Iterator[Arena]:
    with Arena(1_000, epoch=3) as made:
        yield made


@pytest.fixture
def reader(arena: Arena) -> Iterator[ArenaReader]:
    with ArenaReader(arena.name) as opened:
        yield opened


def test_what_is_written_can_be_read_by_name(arena: Arena, reader: ArenaReader) -> None:
    """RX-063, RX-144."""
    blobs = [arena.write(data) for data in (b"first", b"", bytearray(b"third"), memoryview(b"fourth"))]
    assert [reader.read(blob) for blob in blobs] == [b"first", b"", b"third", b"fourth"]
    assert [blob.generation for blob in blobs] == [1, 2, 3, 4]
    assert [blob.offset for blob in blobs] == [0, 45, 85, 130]
    assert {blob.epoch for blob in blobs} == {3} == {reader.epoch}
    assert reader.capacity == arena.capacity == 1_000
    with reader.view(blobs[0]) as view:
        assert bytes(view) == b"first"
        assert view.readonly


def test_a_reader_cannot_write(arena: Arena, reader: ArenaReader) -> None:
    with reader.view(arena.write(b"fixed")) as view, pytest.raises(TypeError):
        view[0] = 0
    assert not hasattr(reader, "write")
    assert memoryview(reader._map).readonly


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"generation": 2}, "generation"),
        ({"generation": 0}, "generation"),
        ({"epoch": 4}, "epoch"),
        ({"length": 4}, "length"),
        ({"checksum": 1}, "checksum"),
        ({"offset": 1}, "magic"),
    ],
)
def test_descriptors_that_are_not_those_of_the_writer_are_refused(
    arena: Arena, reader: ArenaReader, changes: dict[str, int], field: str
) -> None:
    """RX-063, RX-145."""
    blob = arena.write(b"bytes")
    for place in (arena, reader):
        with pytest.raises(HeaderMismatch) as refused:
            place.read(msgspec.structs.replace(blob, **changes))
        assert refused.value.field == field
    assert reader.read(blob) == b"bytes"


def test_a_descriptor_beyond_the_arena_is_out_of_bounds(arena: Arena, reader: ArenaReader) -> None:
    blob = arena.write(b"bytes")
    for changes in ({"offset": 960}, {"length": U64_MAX}, {"offset": U64_MAX}):
        with pytest.raises(DescriptorOutOfBounds):
            reader.read(msgspec.structs.replace(blob, **changes))


def test_damaged_bytes_are_told_from_a_wrong_header(arena: Arena, reader: ArenaReader) -> None:
    """RX-145."""
    blob = arena.write(b"bytes")
    arena._memory[blob.offset + HEADER_BYTES] ^= 1
    for look in (reader.read, reader.view):
        with pytest.raises(ChecksumMismatch):
            look(blob)


def test_what_was_written_over_is_refused(arena: Arena, reader: ArenaReader) -> None:
    """RX-063: a stale generation is not read."""
    old = arena.write(bytes(500))
    assert reader.read(old) == bytes(500)
    new = arena.write(bytes(600))
    assert new.offset == 0
    assert not reader.is_live(old)
    assert not reader.is_live(msgspec.structs.replace(new, epoch=4))
    with pytest.raises(HeaderMismatch) as refused:
        reader.read(old)
    assert refused.value.field == "generation"
    assert reader.read(new) == bytes(600)


def test_bytes_that_look_like_an_old_header_do_not_pass_for_it(arena: Arena, reader: ArenaReader) -> None:
    arena.write(bytes(60))
    old = arena.write(b"true words")
    assert reader.read(old) == b"true words"
    arena.write(bytes(700))
    forged = pack(Header(old.generation, old.epoch, old.length, old.checksum)) + b"false word"
    arena.write(bytes(old.offset - HEADER_BYTES) + forged)
    assert bytes(arena._memory[old.offset : old.offset + 50]) == forged
    for look in (reader.read, reader.view):
        with pytest.raises(HeaderMismatch):
            look(old)


def test_another_epoch_gives_up_every_blob(arena: Arena, reader: ArenaReader) -> None:
    old = arena.write(b"before")
    arena.advance(4)
    with pytest.raises(HeaderMismatch) as refused:
        reader.read(old)
    assert refused.value.field == "epoch"
    new = arena.write(b"after")
    assert (new.epoch, new.generation) == (4, 2)
    assert reader.read(new) == b"after"
    for epoch in (4, 0, -1, U64_MAX + 1):
        with pytest.raises(UsageError):
            arena.advance(epoch)
    assert reader.read(new) == b"after"


def test_a_blob_is_summed_once_by_each_reader(arena: Arena, reader: ArenaReader) -> None:
    """RX-166: at most one pass per descriptor; a repeat makes no copy and no pass."""
    blob = arena.write(bytes(300))
    passes: list[int] = []

    def count(data: bytes | bytearray | memoryview) -> int:
        passes.append(len(data))
        return checksum.fnv1a64(data)

    with patch.object(reader, "_checksum", count), patch.object(arena, "_checksum", count):
        for _ in range(3):
            reader.view(blob).release()
            assert reader.read(blob) == bytes(300)
            assert arena.read(blob) == bytes(300)
    assert passes == [300]


def test_what_is_remembered_of_checksums_is_bounded(reader: ArenaReader) -> None:
    for number in range(VERIFIED_MAX + 3):
        reader._remember(BlobRef(0, 0, number, 0, 0))
    assert len(reader._verified) == VERIFIED_MAX
    assert BlobRef(0, 0, 2, 0, 0) not in reader._verified


def test_a_blob_that_goes_while_it_is_read_is_refused(arena: Arena, reader: ArenaReader) -> None:
    blob = arena.write(bytes(500))
    seen = reader._checksum

    def slow(data: bytes | bytearray | memoryview) -> int:
        found = seen(data)
        arena.write(bytes(600))
        return found

    with patch.object(reader, "_checksum", slow), pytest.raises(HeaderMismatch):
        reader.read(blob)


def test_blobs_that_do_not_fit(arena: Arena) -> None:
    kept = arena.write(b"kept")
    with pytest.raises(BlobTooLarge):
        arena.write(bytes(961))
    assert arena.read(kept) == b"kept"
    assert arena.write(bytes(960)).offset == 0
    with pytest.raises(CapacityTooSmall):
        Arena(40)
    with pytest.raises(UsageError):
        Arena(100, epoch=U64_MAX + 1)


def test_generations_end_before_they_repeat(arena: Arena) -> None:
    """RX-144."""
    kept = arena.write(b"kept")
    arena._generation = U64_MAX
    with pytest.raises(GenerationOverflow):
        arena.write(b"one too many")
    assert arena.read(kept) == b"kept"


@pytest.mark.parametrize("seed", range(20))
def test_random_writes_against_a_model(seed: int) -> None:
    """What is said to be live has its bytes, and nothing else can be read."""
    chance = Random(seed)
    capacity = chance.choice([41, 100, 1_000, 5_000])
    written: list[tuple[BlobRef, bytes]] = []
    with Arena(capacity) as arena, ArenaReader(arena.name) as reader:
        for _ in range(200):
            data = chance.randbytes(chance.randrange(min(capacity - HEADER_BYTES, chance.choice([3, 100, 5_000])) + 1))
            lost = arena.lost_by(len(data))
            alive = [blob for blob, _ in written if arena.is_live(blob)]
            written.append((arena.write(data), data))
            arena.check()
            assert [blob for blob in alive if not arena.is_live(blob)] == [b for b in alive if b.generation <= lost]
        for blob, data in written:
            if reader.is_live(blob):
                assert reader.read(blob) == data
            else:
                with pytest.raises(HeaderMismatch):
                    reader.read(blob)
        assert reader.is_live(written[-1][0])


def test_it_works_without_the_c_library() -> None:
    with patch.object(arena_module, "library", side_effect=LibraryAbsent("a test")), Arena(2_000) as arena:
        assert arena._checksum is checksum.fnv1a64
        blob = arena.write(bytes(1_500))
    assert blob.checksum == checksum.fnv1a64(bytes(1_500))


def test_what_is_no_arena() -> None:
    with pytest.raises(ResourceError):
        ArenaReader("no-such-arena-anywhere")
    with pytest.raises(ResourceError):
        ArenaReader("a\0b")
    for size in (10, 4_096):
        other = SharedMemory(create=True, size=size)
        try:
            with pytest.raises(NotAnArena):
                ArenaReader(other.name)
        finally:
            other.close()
            other.unlink()


def test_a_capacity_that_the_memory_does_not_have_is_not_believed(arena: Arena) -> None:
    arena._word[1] = 1 << 40
    with pytest.raises(NotAnArena):
        ArenaReader(arena.name)


def test_blobs_elsewhere_are_not_looked_for(arena: Arena) -> None:
    blob = msgspec.structs.replace(arena.write(b"x"), backend=Backend.ARROW)
    with pytest.raises(UsageError):
        arena.read(blob)


def test_closing() -> None:
    arena = Arena(100)
    reader = ArenaReader(arena.name)
    blob = arena.write(b"x")
    view = reader.view(blob)
    own = arena.view(blob)
    for place in (reader, arena):
        with pytest.raises(UsageError, match="still in use"):
            place.close()
        with pytest.raises(UsageError, match="closed"):
            place.read(blob)
    assert bytes(view) == b"x"
    view.release()
    own.release()
    reader.close()
    arena.close()
    arena.close()
    reader.close()
    with pytest.raises(UsageError, match="closed"):
        arena.write(b"y")
    with pytest.raises(ResourceError):
        ArenaReader(arena.name)


_OTHER_PROCESS = """
import sys
from bobbin.reactive.messages import BlobRef
from bobbin.runtime.arena import ArenaReader

reader = ArenaReader(sys.argv[1])
for line in sys.stdin:
    blob = BlobRef(*map(int, line.split()))
    try:
        print(reader.read(blob).hex(), flush=True)
    except Exception as refused:
        print(type(refused).__name__, getattr(refused, "field", ""), flush=True)
"""


def test_another_process_reads_by_name(arena: Arena) -> None:
    """RX-062, RX-063, across two processes; and the arena outlives a reader that exits."""
    other = subprocess.Popen(
        [sys.executable, "-c", _OTHER_PROCESS, arena.name], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdin
    assert other.stdout

    def ask(blob: BlobRef) -> str:
        assert other.stdin
        assert other.stdout
        print(blob.offset, blob.length, blob.generation, blob.epoch, blob.checksum, file=other.stdin, flush=True)
        return other.stdout.readline().strip()

    first = arena.write(b"for another process")
    assert bytes.fromhex(ask(first)) == b"for another process"
    second = arena.write(bytes(range(256)) * 3)
    assert bytes.fromhex(ask(second)) == bytes(range(256)) * 3
    third = arena.write(b"over the first" * 12)
    assert third.offset == 0
    assert ask(first) == "HeaderMismatch generation"
    arena.advance(9)
    assert ask(third) == "HeaderMismatch epoch"
    fourth = arena.write(b"x")
    arena._memory[fourth.offset + HEADER_BYTES] ^= 1
    before = bytes(arena._shared.buf or b"")
    assert ask(fourth) == "ChecksumMismatch"
    other.stdin.close()
    assert other.wait(timeout=60) == 0
    other.stdout.close()
    assert bytes(arena._shared.buf or b"") == before
    # Another reader still finds it: the one that has gone did not take it along.
    with ArenaReader(arena.name) as later:
        assert later.epoch == 9


_WRITER = """
import sys
from bobbin.runtime.arena import Arena

with Arena(3_000) as arena:
    print(arena.name, flush=True)
    for number in range(2_000):
        blob = arena.write(bytes([number % 251]) * (number % 700))
        print(number, blob.offset, blob.length, blob.generation, blob.epoch, blob.checksum, flush=True)
    sys.stdin.read()
"""


def test_reading_while_another_process_writes() -> None:
    """Whatever is read is a blob as it was written; what has been written over meanwhile is refused."""
    command = [sys.executable, "-c", _WRITER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout
        assert writer.stdin
        with ArenaReader(writer.stdout.readline().strip()) as reader:
            found = expected = b""
            for _ in range(2_000):
                number, offset, length, generation, epoch, summed = map(int, writer.stdout.readline().split())
                expected = bytes([number % 251]) * (number % 700)
                try:
                    found = reader.read(BlobRef(offset, length, generation, epoch, summed))
                except HeaderMismatch:
                    continue
                assert found == expected
            assert found == expected
        writer.stdin.close()
    assert writer.returncode == 0

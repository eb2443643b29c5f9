import ctypes
from pathlib import Path
from threading import Thread

import pytest

from bobbin.errors import PeerError, ResourceError, UsageError
from bobbin.native.library import (
    FILE_NAME,
    FOLDER,
    INVALID_MESSAGE,
    FfiBytes,
    LibraryAbsent,
    Status,
    library,
    load,
)
from bobbin.wire.lazily import checksum

_DELTA = b'{"Delta":{"base_epoch":1,"epoch":2,"ops":[]}}'
_SPACED = b' {"Delta": {"ops": [], "epoch": 2, "base_epoch": 1}}\n'


def test_the_library_is_built_with_the_package() -> None:
    assert (FOLDER / FILE_NAME).is_file()
    assert (FOLDER / "lazily.h").is_file()
    assert library() is library()


def test_the_structure_of_bytes() -> None:
    """RX-076."""
    assert [name for name, *_ in FfiBytes._fields_] == ["ptr", "len"]
    assert FfiBytes.ptr.offset == 0
    assert FfiBytes.len.offset == ctypes.sizeof(ctypes.c_void_p)
    assert FfiBytes.len.size == ctypes.sizeof(ctypes.c_size_t)


def test_the_numbers_of_statuses() -> None:
    """RX-077."""
    assert [(status.value, status.name) for status in Status] == [
        (0, "OK"),
        (1, "EMPTY"),
        (2, "NULL_POINTER"),
        (3, "INVALID_MESSAGE"),
        (4, "ENCODE_FAILED"),
        (5, "PANIC"),
    ]


@pytest.mark.parametrize(
    ("frame", "kind"),
    [
        (b'{"Snapshot":{"epoch":0,"nodes":[],"edges":[],"roots":[]}}', 1),
        (b'{"type":"snapshot","epoch":0,"nodes":[],"edges":[],"roots":[]}', 1),
        (_DELTA, 2),
        (b'{"type":"delta","base_epoch":0,"epoch":1,"ops":[]}', 2),
        (b'{"CrdtSync":{"ops":[]}}', 3),
        (b'{"ResyncRequest":{"from_epoch":1}}', 4),
        (b'{"OutboxAck":{"through_epoch":1}}', 5),
        (b'{"DeltaSinceRequest":{"node":1,"their_vv":[]}}', 0),
        (b"garbage", 0),
    ],
)
def test_kinds(frame: bytes, kind: int) -> None:
    """RX-078: Unknown is 0; RX-124: the further kinds."""
    assert library().kind(frame) == kind
    assert library().validate(frame) is (Status.OK if kind else Status.INVALID_MESSAGE)


def test_one_spelling() -> None:
    """RX-083."""
    assert library().clone(_SPACED) == library().clone(_DELTA) == _DELTA


def test_what_is_no_message() -> None:
    """RX-081, RX-163."""
    with library().channel() as channel:
        for frame in (b"garbage", b"", b"{}", _DELTA + b"x", _DELTA[:-1]):
            for refuse in (library().clone, channel.send):
                with pytest.raises(PeerError) as refused:
                    refuse(frame)
                assert refused.value.code == INVALID_MESSAGE
        assert len(channel) == 0


def test_a_channel_is_a_queue() -> None:
    with library().channel() as channel:
        assert channel.receive() is None
        channel.send(_SPACED)
        channel.send(b'{"OutboxAck":{"through_epoch":7}}')
        assert len(channel) == 2
        assert channel.receive() == _DELTA
        assert channel.receive() == b'{"OutboxAck":{"through_epoch":7}}'
        assert channel.receive() is None


def test_a_channel_keeps_no_reference_to_its_input() -> None:
    """RX-079."""
    frame = ctypes.create_string_buffer(_DELTA)
    with library().channel() as channel:
        channel._functions.lazily_ffi_channel_send_json(channel._handle, frame, len(_DELTA))
        frame.value = b"x" * len(_DELTA)
        assert channel.receive() == _DELTA


def test_output_stays_until_it_is_given_back() -> None:
    """RX-080: also beyond the end of the channel, and beyond other calls."""
    channel = library().channel()
    functions = channel._functions
    channel.send(_DELTA)
    found = FfiBytes()
    assert functions.lazily_ffi_channel_recv_json(channel._handle, ctypes.byref(found)) == Status.OK
    channel.close()
    for _ in range(100):
        library().clone(_SPACED)
    assert ctypes.string_at(found.ptr, found.len) == _DELTA
    functions.lazily_ffi_bytes_free(found)


def test_null_pointers_are_a_status() -> None:
    """RX-081."""
    functions = library()._functions
    found = FfiBytes()
    assert functions.lazily_ffi_ipc_message_validate_json(None, 0) == Status.NULL_POINTER
    assert functions.lazily_ffi_channel_recv_json(None, ctypes.byref(found)) == Status.NULL_POINTER
    assert functions.lazily_ffi_channel_len(None, None) == Status.NULL_POINTER
    assert functions.lazily_ffi_channel_free(None) == Status.NULL_POINTER


def test_a_closed_channel_refuses() -> None:
    channel = library().channel()
    channel.close()
    channel.close()
    for use in (channel.receive, channel.__len__, lambda: channel.send(_DELTA)):
        with pytest.raises(UsageError, match="closed"):
            use()


def test_several_threads_share_a_channel() -> None:
    with library().channel() as channel:

        def send(first: int) -> None:
            for number in range(first, first + 300):
                channel.send(b'{"OutboxAck":{"through_epoch":%d}}' % number)

        threads = [Thread(target=send, args=(first,)) for first in (0, 1_000, 2_000)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        frames = [channel.receive() for _ in range(900)]
        assert channel.receive() is None
    numbers = [int((frame or b"").split(b":")[2].rstrip(b"}")) for frame in frames]
    for first in (0, 1_000, 2_000):
        assert [number for number in numbers if first <= number < first + 1_000] == list(range(first, first + 300))


@pytest.mark.parametrize("size", [0, 1, 31, 1_000, 70_000])
def test_the_checksum_is_the_one_of_python(size: int) -> None:
    data = bytes(number * 7 % 256 for number in range(size))
    expected = checksum.fnv1a64(data)
    for buffer in (data, bytearray(data), memoryview(data), memoryview(bytearray(data)).toreadonly()):
        assert library().fnv1a64(buffer) == expected
    assert library().fnv1a64(memoryview(b"ab" + data)[2:]) == expected


def test_a_library_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(LibraryAbsent, match="was not built") as absent:
        load(tmp_path / FILE_NAME)
    assert not absent.value.retry
    assert isinstance(absent.value, ResourceError)


def test_a_file_that_is_no_library(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_bytes(b"not a library")
    with pytest.raises(LibraryAbsent, match="cannot be loaded"):
        load(tmp_path / FILE_NAME)

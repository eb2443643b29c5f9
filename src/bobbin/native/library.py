"""The C library, loaded by ctypes.

``library()`` gives it, or raises ``LibraryAbsent`` where the package was built without a compiler. What it promises
about frames and about memory is said in ``lazily.h``, which lies in ``FOLDER`` with the library. Here each result is a
value of Python's, every buffer that came out is copied and given back at once, and a status that is not good is an
error.
"""

import ctypes
import sys
from enum import IntEnum, unique
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import numpy as np

from bobbin.errors import PeerError, ResourceError, UsageError
from bobbin.wire.lazily.forms import MessageKind

FOLDER: Final = Path(__file__).resolve().parent
"""Where the header is, and the library if it was built."""
FILE_NAME: Final = "liblazily.dylib" if sys.platform == "darwin" else "liblazily.so"

INVALID_MESSAGE: Final = "invalid-message"
"""The code of the error for a frame that is no message."""


@unique
class Status(IntEnum):
    """How a call ended."""

    OK = 0
    EMPTY = 1
    NULL_POINTER = 2
    INVALID_MESSAGE = 3
    ENCODE_FAILED = 4
    PANIC = 5


class LibraryAbsent(ResourceError):
    """The package was built where there was no C compiler. Nothing is wrong with it otherwise."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"the C library of bobbin is not there ({reason}); install a C compiler and then bobbin again", retry=False
        )
        self.reason: Final = reason


class FfiBytes(ctypes.Structure):
    """``LazilyFfiBytes``: bytes that belong to the library until they are given back."""

    _fields_ = (  # type: ignore[mutable-override] # ctypes reads it once and never writes it
        ("ptr", ctypes.POINTER(ctypes.c_uint8)),
        ("len", ctypes.c_size_t),
    )


class Channel:
    """A queue of frames in the library: what goes in is checked, and comes out in its one spelling."""

    def __init__(self, functions: ctypes.CDLL) -> None:
        self._functions: Final = functions
        self._handle: int | None = functions.lazily_ffi_channel_new()
        if self._handle is None:
            raise _error(Status.PANIC)

    def send(self, frame: bytes) -> None:
        """Queue a frame. One that is no message raises ``PeerError``; a full channel ``ResourceError``."""
        _check(self._functions.lazily_ffi_channel_send_json(self._open(), frame, len(frame)))

    def receive(self) -> bytes | None:
        """The oldest frame; None when there is none."""
        found = FfiBytes()
        status = self._functions.lazily_ffi_channel_recv_json(self._open(), ctypes.byref(found))
        if status == Status.EMPTY:
            return None
        _check(status)
        return _take(self._functions, found)

    def __len__(self) -> int:
        found = ctypes.c_size_t()
        _check(self._functions.lazily_ffi_channel_len(self._open(), ctypes.byref(found)))
        return found.value

    def close(self) -> None:
        """End the channel, with what nobody received. No other thread may be using it."""
        if self._handle is not None:
            handle, self._handle = self._handle, None
            self._functions.lazily_ffi_channel_free(handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # A channel whose making failed has no handle at all.
        if getattr(self, "_handle", None) is not None:
            self.close()

    def _open(self) -> int:
        if self._handle is None:
            raise UsageError("the channel is closed")
        return self._handle


class Library:
    """The functions of ``lazily.h``."""

    def __init__(self, functions: ctypes.CDLL) -> None:
        _declare(functions)
        self._functions: Final = functions

    def fnv1a64(self, data: bytes | bytearray | memoryview) -> int:
        """The checksum of some bytes, which are not copied."""
        if isinstance(data, bytes) or not len(data):
            return int(self._functions.lazily_fnv1a64(bytes(data), len(data)))
        # An array is the way to the address of a buffer that may be read only.
        array = np.frombuffer(data, dtype=np.uint8)
        return int(self._functions.lazily_fnv1a64(array.ctypes.data, array.nbytes))

    def validate(self, frame: bytes) -> Status:
        """Whether a frame is a message."""
        return Status(self._functions.lazily_ffi_ipc_message_validate_json(frame, len(frame)))

    def kind(self, frame: bytes) -> MessageKind:
        """The kind of a message; ``UNKNOWN`` for what is none."""
        found = ctypes.c_int()
        self._functions.lazily_ffi_ipc_message_kind_json(frame, len(frame), ctypes.byref(found))
        return MessageKind(found.value)

    def clone(self, frame: bytes) -> bytes:
        """The one spelling of a message. Bytes that are none raise ``PeerError``."""
        found = FfiBytes()
        _check(self._functions.lazily_ffi_ipc_message_clone_json(frame, len(frame), ctypes.byref(found)))
        return _take(self._functions, found)

    def channel(self) -> Channel:
        """A new, empty channel."""
        return Channel(self._functions)


@cache
def library() -> Library:
    """The library of this package. Raises ``LibraryAbsent`` where it was not built."""
    return load(FOLDER / FILE_NAME)


def load(path: Path) -> Library:
    """The library in some file."""
    if not path.is_file():
        raise LibraryAbsent("it was not built")
    try:
        functions = ctypes.CDLL(str(path))
    except OSError as error:
        raise LibraryAbsent(f"it cannot be loaded: {error}") from None
    return Library(functions)


def _declare(functions: ctypes.CDLL) -> None:
    frame = (ctypes.c_char_p, ctypes.c_size_t)
    handle, out, status = ctypes.c_void_p, ctypes.POINTER(FfiBytes), ctypes.c_int
    for name, result, arguments in (
        ("lazily_ffi_ipc_message_validate_json", status, frame),
        ("lazily_ffi_ipc_message_kind_json", status, (*frame, ctypes.POINTER(ctypes.c_int))),
        ("lazily_ffi_ipc_message_clone_json", status, (*frame, out)),
        ("lazily_ffi_bytes_free", None, (FfiBytes,)),
        ("lazily_ffi_channel_new", handle, ()),
        ("lazily_ffi_channel_free", status, (handle,)),
        ("lazily_ffi_channel_send_json", status, (handle, *frame)),
        ("lazily_ffi_channel_recv_json", status, (handle, out)),
        ("lazily_ffi_channel_len", status, (handle, ctypes.POINTER(ctypes.c_size_t))),
        ("lazily_fnv1a64", ctypes.c_uint64, (ctypes.c_void_p, ctypes.c_size_t)),
    ):
        function = getattr(functions, name)
        function.restype = result
        function.argtypes = arguments


def _take(functions: ctypes.CDLL, found: FfiBytes) -> bytes:
    try:
        return ctypes.string_at(found.ptr, found.len)
    finally:
        functions.lazily_ffi_bytes_free(found)


def _check(status: int) -> None:
    if status != Status.OK:
        raise _error(Status(status))


def _error(status: Status) -> Exception:
    match status:
        case Status.INVALID_MESSAGE:
            return PeerError(INVALID_MESSAGE, "the frame is not a message")
        case Status.ENCODE_FAILED:
            return ResourceError("the frame is too long when written out, or the channel is full", retry=True)
        case Status.PANIC:
            return ResourceError("the C library ran out of memory", retry=True)
        case _:
            return UsageError(f"the C library answered {status.name}")

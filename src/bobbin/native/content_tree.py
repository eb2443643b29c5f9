"""The content tree in C: the results of ``bobbin.cluster.content_tree``, bit for bit, in less time.

It is worth having where the processor has instructions for SHA-256 (``TreeFunctions.is_fast``). Elsewhere nearly all
time goes into hashes, and those of Python's own library are as fast as any.

An update is one call. All names go as one piece of bytes, all contents as another, with an array of lengths for each;
what the library promises about them is said in ``content_tree.h``. Calls keep hold of the interpreter as Python's own
code does, since handing it over could cost more than the call; only one that takes long lets other threads run. Those
that keep hold of it never wait for those that do not: where they would have to, or where the tree turns out to hold so
much that the call takes long, they give up and are made again as the others.

The classes are those of Python to whoever uses them, and share nothing with them but their names and types. A draft of
one kind is of no use to a tree of the other. As in Python, a tree and its drafts are for one thread at a time; other
threads may meanwhile use theirs.
"""

import ctypes
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum, unique
from functools import cache, partial
from pathlib import Path
from typing import Final, NoReturn

from bobbin.cluster.content_tree import EMPTY, ContentTree, TreeDraft
from bobbin.errors import ResourceError, UsageError
from bobbin.native.library import FILE_NAME, FOLDER, LibraryAbsent

_GONE: Final = (1 << 64) - 1
"""The length of a content that is none: its name is taken away."""
_LONG_CHANGES: Final = 2_000
_LONG_BYTES: Final = 1 << 20
"""An update of that many changes or bytes takes milliseconds."""
_QUICK: Final = 1
"""For calls that keep hold of the interpreter: it gives up rather than wait or take long."""
_PATIENT: Final = 0
_VERSION: Final = 2
"""``BOBBIN_TREE_VERSION``: a library of another one may have functions of other arguments, or other hashes."""
_HASH: Final = ctypes.c_char * len(EMPTY)


class _Form(ctypes.Structure):
    """``BobbinForm``: how a name and a value make a content."""

    _fields_ = (  # type: ignore[mutable-override] # ctypes reads it once and never writes it
        ("head", ctypes.c_char_p),
        ("head_bytes", ctypes.c_size_t),
        ("middle", ctypes.c_char_p),
        ("middle_bytes", ctypes.c_size_t),
    )


def form_of(head: bytes, middle: bytes) -> ctypes.Structure:
    """Where a content is ``head``, a name, ``middle`` and a value, the name and the value with their lengths."""
    return _Form(head, len(head), middle, len(middle))


_form_of_values: Final = cache(partial(form_of, b""))


@unique
class TreeStatus(IntEnum):
    """How a call ended."""

    OK = 0
    NULL_POINTER = 1
    INVALID = 2
    NO_MEMORY = 3
    USED = 4
    STALE = 5
    SLOW = 6


_OK: Final = int(TreeStatus.OK)
_SLOW: Final = int(TreeStatus.SLOW)
"""Plain numbers, since comparing with a member takes longer and is on the way of every transaction."""


class _SlowError(ResourceError):
    """A quick call gave up, with nothing changed."""

    def __init__(self) -> None:
        super().__init__("the tree is in use, or holds so much that this takes long", retry=True)


@dataclass(frozen=True, slots=True)
class TreeFunctions:
    """The functions of ``content_tree.h``."""

    holding: ctypes.PyDLL
    """They keep hold of the interpreter."""
    yielding: ctypes.CDLL
    """They let other threads of Python run meanwhile."""

    @property
    def is_fast(self) -> bool:
        """Whether the processor has the instructions."""
        return bool(self.holding.bobbin_tree_is_fast())


class NativeTreeDraft(TreeDraft):
    """Changes to a tree that are not decided."""

    def __init__(self, base: bytes, on: "NativeTreeDraft | None", tree: int, functions: TreeFunctions) -> None:
        super().__init__(base, on, {}, {}, ())
        # A tree in Python finds that this is no draft of its kind.
        self.levels = ()
        self._functions: Final = functions
        self._has_notes = False
        self.handle: int | None = functions.holding.bobbin_tree_draft_new(tree, None if on is None else on.handle)
        if self.handle is None:
            raise _error(TreeStatus.NO_MEMORY)

    def settle(self) -> None:
        """The tree has these changes now: let go of what was below, and of the notes."""
        _check(self._functions.holding.bobbin_tree_draft_settle(self.handle))
        self.note_settled()

    def note_settled(self) -> None:
        """The library has let go of its part of both."""
        self._has_notes, self.on = False, None

    def update(self, changes: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Set the contents of some names; None takes a name away. Once for each draft."""
        self._update(None, changes)

    def update_values(self, middle: bytes, changes: Iterable[tuple[bytes, bytes | None]]) -> None:
        """The same for values: a content is then a name, ``middle`` and a value, with the length before both."""
        self._update(_form_of_values(middle), changes)

    def _update(self, form: ctypes.Structure | None, changes: Iterable[tuple[bytes, bytes | None]]) -> None:
        if self.top != self.base or self._has_notes:
            raise _error(TreeStatus.USED)
        pieces = _in_pieces(changes)
        if pieces is None:
            return
        self.top = _updated(self._functions, "bobbin_tree_draft_update", self.handle, form, pieces)
        self._has_notes = True

    def __del__(self) -> None:
        # A draft whose making failed has no handle at all.
        if getattr(self, "handle", None) is not None:
            handle, self.handle = self.handle, None
            self._functions.holding.bobbin_tree_draft_free(handle)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a draft in C cannot be copied")


class NativeContentTree(ContentTree):
    """Names, each with the hash of its content. Raises ``LibraryAbsent`` where there is no library."""

    def __init__(self) -> None:
        super().__init__()
        self._functions: Final = tree_functions()
        self._handle: int | None = self._functions.holding.bobbin_tree_new()
        if self._handle is None:
            raise _error(TreeStatus.NO_MEMORY)

    def __contains__(self, name: bytes) -> bool:
        return bool(self._functions.yielding.bobbin_tree_contains(self._handle, name, len(name)))

    def __len__(self) -> int:
        return int(self._functions.holding.bobbin_tree_len(self._handle))

    def update(self, changes: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Set the contents of some names; None takes a name away."""
        pieces = _in_pieces(changes)
        if pieces is None:
            return
        self.top = _updated(self._functions, "bobbin_tree_update", self._handle, None, pieces)

    def draft(self, on: TreeDraft | None = None) -> NativeTreeDraft:
        """A draft of changes to this tree, or to what an earlier draft of it makes of it."""
        assert self._handle is not None, "it is there until the tree is gone"
        if on is None:
            return NativeTreeDraft(self.top, None, self._handle, self._functions)
        return NativeTreeDraft(on.top, _native(on), self._handle, self._functions)

    def merge(self, draft: TreeDraft) -> None:
        """Become what a draft says. It must stand on this tree as it is: the one below it was merged before."""
        merged = _native(draft)
        status = self._functions.holding.bobbin_tree_merge(self._handle, merged.handle, _QUICK)
        if status == _SLOW:
            status = self._functions.yielding.bobbin_tree_merge(self._handle, merged.handle, _PATIENT)
        _check(status)
        self.top = merged.top
        merged.note_settled()

    def __del__(self) -> None:
        # A tree whose making failed has no handle at all.
        if getattr(self, "_handle", None) is not None:
            handle, self._handle = self._handle, None
            self._functions.yielding.bobbin_tree_free(handle)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a tree in C cannot be copied")


def load_tree_functions(path: Path) -> TreeFunctions:
    """The functions of the library in some file. Raises ``LibraryAbsent`` where it is not there or has others."""
    if not path.is_file():
        raise LibraryAbsent("it was not built")
    try:
        functions = TreeFunctions(ctypes.PyDLL(str(path)), ctypes.CDLL(str(path)))
    except OSError as error:
        raise LibraryAbsent(f"it cannot be loaded: {error}") from None
    try:
        version = functions.holding.bobbin_tree_version()
        for library in (functions.holding, functions.yielding):
            _declare(library)
    except AttributeError:
        raise LibraryAbsent("it was built without content trees, or before they had a version") from None
    if version != _VERSION:
        raise LibraryAbsent(f"its content trees are of version {version}, where {_VERSION} is due")
    return functions


@cache
def tree_functions() -> TreeFunctions:
    """Those of this package. Raises ``LibraryAbsent`` where they are not there."""
    return load_tree_functions(FOLDER / FILE_NAME)


def _declare(functions: ctypes.CDLL) -> None:
    handle, piece, size, status = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int
    pairs = (size, piece, size, ctypes.c_void_p, piece, size, ctypes.c_void_p, ctypes.POINTER(_HASH))
    form = ctypes.POINTER(_Form)
    for name, result, arguments in (
        ("bobbin_tree_version", ctypes.c_int, ()),
        ("bobbin_tree_is_fast", ctypes.c_int, ()),
        ("bobbin_tree_new", handle, ()),
        ("bobbin_tree_free", None, (handle,)),
        ("bobbin_tree_len", size, (handle,)),
        ("bobbin_tree_contains", ctypes.c_int, (handle, piece, size)),
        ("bobbin_tree_update", status, (handle, form, ctypes.c_int, *pairs)),
        ("bobbin_tree_merge", status, (handle, handle, ctypes.c_int)),
        ("bobbin_tree_draft_new", handle, (handle, handle)),
        ("bobbin_tree_draft_free", None, (handle,)),
        ("bobbin_tree_draft_update", status, (handle, form, ctypes.c_int, *pairs)),
        ("bobbin_tree_draft_settle", status, (handle,)),
        ("bobbin_merkle_root", status, (form, piece, size, *pairs)),
    ):
        function = getattr(functions, name)
        function.restype = result
        function.argtypes = arguments


class Pieces:
    """Names and contents, or values, as the library takes them."""

    __slots__ = ("_content_lengths", "_contents", "_name_lengths", "_names")

    def __init__(self, names: Sequence[bytes], contents: Sequence[bytes | None]) -> None:
        self._names = b"".join(names)
        self._name_lengths = array("Q", map(len, names))
        try:
            # Mostly nothing is taken away; looking for None in a step of its own would cost more than this.
            self._contents = b"".join(contents)  # type: ignore[arg-type] # None is what the error says
            self._content_lengths = array("Q", map(len, contents))  # type: ignore[arg-type]
        except TypeError:
            self._contents = b"".join([content for content in contents if content is not None])
            self._content_lengths = array("Q", [_GONE if content is None else len(content) for content in contents])

    @property
    def is_long(self) -> bool:
        """Whether the library will be busy with them for some time."""
        return len(self._name_lengths) >= _LONG_CHANGES or len(self._names) + len(self._contents) >= _LONG_BYTES

    def given_to(self, function: "ctypes._NamedFuncPointer", *before: object) -> bytes:
        """The hash that they lead to."""
        top = _HASH()
        name_lengths, count = self._name_lengths.buffer_info()
        content_lengths, _ = self._content_lengths.buffer_info()
        names, contents = self._names, self._contents
        status = function(
            *before, count, names, len(names), name_lengths, contents, len(contents), content_lengths, ctypes.byref(top)
        )
        if status != _OK:
            raise _error(TreeStatus(status))
        return top.raw


def _updated(
    functions: TreeFunctions, name: str, handle: int | None, form: ctypes.Structure | None, pieces: Pieces
) -> bytes:
    """The hash that an update leads to."""
    if not pieces.is_long:
        try:
            return pieces.given_to(getattr(functions.holding, name), handle, form, _QUICK)
        except _SlowError:
            pass
    return pieces.given_to(getattr(functions.yielding, name), handle, form, _PATIENT)


def _in_pieces(changes: Iterable[tuple[bytes, bytes | None]]) -> Pieces | None:
    """None where there are none."""
    columns = tuple(zip(*changes, strict=True))
    if not columns:
        return None
    names, contents = columns
    return Pieces(names, contents)


def _native(draft: TreeDraft) -> NativeTreeDraft:
    if not isinstance(draft, NativeTreeDraft):
        raise UsageError("a tree in C takes drafts in C only")
    return draft


def _check(status: int) -> None:
    if status != _OK:
        raise _error(TreeStatus(status))


def _error(status: TreeStatus) -> Exception:
    match status:
        case TreeStatus.NO_MEMORY:
            return ResourceError("the C library ran out of memory", retry=True)
        case TreeStatus.SLOW:
            return _SlowError()
        case TreeStatus.USED:
            return UsageError("a draft takes its changes once")
        case TreeStatus.STALE:
            return UsageError("the tree has become another one since it was drafted upon")
        case TreeStatus.INVALID:
            return UsageError("names and contents of a tree are bytes")
        case _:
            return UsageError(f"the C library answered {status.name}")

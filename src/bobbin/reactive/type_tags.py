"""Type tags: what the bytes of a value mean, by a name that is the same in every process.

A tag is a text that programs agree on, as they agree on the name of a column. It is looked up in a registry of this
process and nowhere else: it is never the name of a class, never imported, and a registry is never sent. A tag that is
not known is no fault; its bytes pass through as they are, since the channel only moves them.

==========  ==========================================================================================
tag         bytes
==========  ==========================================================================================
``i64``     8 bytes, little-endian, two's complement
``f64``     8 bytes, little-endian, IEEE 754
``bool``    1 byte, 0 or 1
``string``  UTF-8
``bytes``   themselves
``json``    one JSON value in UTF-8, keys ascending, no white space; neither NaN nor infinities
==========  ==========================================================================================

What always holds: a tag stands for one type. Bytes that came from a peer decode to a value or raise ``ValueFault``;
JSON that could not be written again, for its depth, is no value.
"""

import json
from collections.abc import Callable
from struct import Struct as Layout
from struct import error as layout_error
from typing import Final, TypeVar

import msgspec
from msgspec import Struct

from bobbin.errors import PeerError, UsageError

T = TypeVar("T")

JSON_DEPTH_MAX: Final = 128

_I64: Final = Layout("<q")
_F64: Final = Layout("<d")
_NUMBERS: Final = frozenset({int, float})
_NOT_WRITTEN: Final = (ValueError, TypeError, ArithmeticError, RecursionError, layout_error)
_NOT_READ: Final = (ValueError, RecursionError, layout_error, msgspec.MsgspecError)


class TagTaken(UsageError):
    """A tag stands for another type already. The registry is as it was."""


class ValueFault(PeerError):
    """The bytes of a value are not what its tag says. Nothing was decoded."""

    def __init__(self, tag: str, detail: str) -> None:
        super().__init__("malformed-value", f"not a value of the type tag {tag[:80]!r}: {detail}")
        self.tag = tag


class _Type(Struct, frozen=True):
    """What a tag stands for."""

    given: tuple[object, ...]
    """As it was registered."""
    write: Callable[[object], bytes]
    read: Callable[[bytes], object]


class TypeTags:
    """The registry of one program."""

    def __init__(self) -> None:
        self._types: Final[dict[str, _Type]] = {}

    @classmethod
    def standard(cls) -> "TypeTags":
        """A registry with the built-in tags."""
        tags = cls()
        tags.register("i64", int, _I64.pack, _read_i64)
        tags.register("f64", float, _F64.pack, _read_f64)
        tags.register("bool", bool, _write_bool, _read_bool)
        tags.register("string", str, str.encode, _read_string)
        tags.register("bytes", bytes, bytes, bytes)
        tags.register("json", object, _write_json, _read_json)
        return tags

    def register(self, tag: str, kind: type[T], encode: Callable[[T], bytes], decode: Callable[[bytes], T]) -> None:
        """Let a tag stand for a type. ``encode`` and ``decode`` raise ``ValueError`` where they cannot.

        Raises ``TagTaken`` where the tag stands for something else already. The same again changes nothing.
        """
        if not tag:
            raise UsageError("a type tag is not empty")
        found = self._types.get(tag)
        given = (kind, encode, decode)
        if found is not None and found.given != given:
            raise TagTaken(f"the type tag {tag!r} is taken")

        def write(value: object) -> bytes:
            # True is an int to Python, and is none to whoever reads the tag.
            wrong = isinstance(value, bool) and kind in _NUMBERS
            try:
                number = float(value) if kind is float and isinstance(value, int) else value
                if wrong or not isinstance(number, kind):
                    raise UsageError(f"the type tag {tag!r} is for {kind.__name__}, not for {type(value).__name__}")
                return encode(number)
            except _NOT_WRITTEN as error:
                raise UsageError(f"this value cannot be written under the type tag {tag!r}: {error}") from error

        self._types[tag] = _Type(given, write, decode)

    def knows(self, tag: str) -> bool:
        """Whether a tag stands for a type here."""
        return tag in self._types

    def encode(self, tag: str, value: object) -> bytes:
        """The bytes of a value. Under a tag that is not known they must be bytes already."""
        found = self._types.get(tag)
        if found is not None:
            return found.write(value)
        if isinstance(value, bytes):
            return value
        raise UsageError(f"the type tag {tag[:80]!r} is not registered, so its values are bytes")

    def decode(self, tag: str, raw: bytes) -> object:
        """The value of bytes from anywhere, or ``ValueFault``. Under a tag that is not known it is the bytes."""
        found = self._types.get(tag)
        if found is None:
            return raw
        try:
            return found.read(raw)
        except _NOT_READ as error:
            raise ValueFault(tag, str(error)) from error


# ---- the built-in tags ----------------------------------------------------------------------------------------------


def _read_i64(raw: bytes) -> int:
    value: int = _I64.unpack(raw)[0]
    return value


def _read_f64(raw: bytes) -> float:
    value: float = _F64.unpack(raw)[0]
    return value


def _write_bool(value: bool) -> bytes:  # noqa: FBT001 -- the value itself
    return b"\x01" if value else b"\x00"


def _read_bool(raw: bytes) -> bool:
    if raw not in (b"\x00", b"\x01"):
        raise ValueError("one byte, 0 or 1, was expected")
    return raw == b"\x01"


def _read_string(raw: bytes) -> str:
    return raw.decode()


def _write_json(value: object) -> bytes:
    # First, because it notices what contains itself.
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True)
    _check_json(value)
    return text.encode()


def _check_json(value: object) -> None:
    """Refuse what would come back as something else, keys that are no texts, and what a reader may find too deep."""
    level: list[object] = [value]
    for _ in range(JSON_DEPTH_MAX):
        inner: list[object] = []
        for one in level:
            if isinstance(one, dict):
                if not all(isinstance(key, str) for key in one):
                    raise ValueError("the keys of an object are texts")
                inner.extend(one.values())
            elif isinstance(one, list | tuple):
                inner.extend(one)
        if not inner:
            return
        level = inner
    raise ValueError(f"nested deeper than {JSON_DEPTH_MAX}")


def _read_json(raw: bytes) -> object:
    value: object = msgspec.json.decode(raw)
    _check_json(value)
    return value

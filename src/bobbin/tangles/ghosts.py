"""Ghosts: messages of a set or dict that were deleted on purpose and are remembered by id and depth.

A filter names them as if they were held, so that nobody sends them again. The registry of a tangle forgets what lies
deeper than its span below the highest ghost; what old peers could still offer from there is outside every range asked.

As text it is a JSON array of pairs in the order of their arrival, which is what a pzp peer keeps in a file.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from bobbin.errors import IntegrityError, UsageError

_PAIRS: Final = msgspec.json.Decoder(list[tuple[str, int]])


class DamagedGhosts(IntegrityError):
    """The text of a registry is none. Nothing was taken from it."""


class Ghosts:
    """The ghosts of one tangle."""

    def __init__(self, entries: Iterable[tuple[str, int]] = ()) -> None:
        self._depths: dict[str, int] = dict(entries)

    def __contains__(self, message: object) -> bool:
        return message in self._depths

    def __len__(self) -> int:
        return len(self._depths)

    @property
    def depths(self) -> Mapping[str, int]:
        """The depth of each ghost, in the order of arrival."""
        return MappingProxyType(self._depths)

    def save(self, message: str, depth: int, *, span: int) -> tuple[str, ...]:
        """Remember a ghost; returns those that are forgotten because they lie ``span`` or more below the highest."""
        if depth < 0 or span < 0:
            raise UsageError("neither a depth nor a span is negative")
        self._depths[message] = depth
        floor = max(self._depths.values()) - span
        gone = tuple(ghost for ghost, at in self._depths.items() if at <= floor)
        for ghost in gone:
            del self._depths[ghost]
        return gone

    def remove(self, message: str) -> bool:
        """Forget a ghost; whether it was one."""
        return self._depths.pop(message, None) is not None

    def encode(self) -> str:
        """The registry as text."""
        return msgspec.json.encode(list(self._depths.items())).decode()

    @classmethod
    def decode(cls, text: str) -> "Ghosts":
        """Raises ``DamagedGhosts`` for a text that is no registry."""
        try:
            pairs = _PAIRS.decode(text)
        except msgspec.DecodeError as error:
            raise DamagedGhosts(f"a ghost registry cannot be read: {error}") from error
        ghosts = cls(pairs)
        if len(ghosts) != len(pairs) or any(depth < 0 for _, depth in pairs):
            raise DamagedGhosts("a ghost registry names a message twice, or a negative depth")
        return ghosts

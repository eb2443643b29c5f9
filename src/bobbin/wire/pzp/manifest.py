"""The manifest of a PZP peer: which procedures it has, as a tree of names with what kind of call each leaf is.

Every real peer answers the question ``manifest``, to anybody. So this is how one finds out whether the other side
understands more than the published protocol, without showing it anything that it does not know.
"""

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

import msgspec

from bobbin.wire.pzp.calls import CALL_BYTES_MAX, Way

NAME: Final = ("manifest",)
"""What to ask for it."""
MANIFEST_BYTES_MAX: Final = CALL_BYTES_MAX

_SYNC: Final = "sync"
"""A question whose answer is there at once."""

Tree: TypeAlias = dict[str, "str | Tree"]
_trees: Final = msgspec.json.Decoder(Mapping[str, msgspec.Raw])


def encode(streams: Iterable[tuple[str, ...]]) -> bytes:
    """The manifest of a side that has these streams, both ways each, and answers for its manifest."""
    root: Tree = {NAME[0]: _SYNC}
    for name in streams:
        place = root
        for word in name[:-1]:
            inner = place.setdefault(word, {})
            assert isinstance(inner, dict), "a name is no beginning of another"
            place = inner
        place[name[-1]] = Way.DUPLEX.value
    return msgspec.json.encode(root)


def offers(manifest: bytes, name: tuple[str, ...]) -> bool:
    """Whether a manifest has this stream. One that cannot be read has nothing."""
    if len(manifest) > MANIFEST_BYTES_MAX:
        return False
    found = manifest
    try:
        for word in name:
            found = bytes(_trees.decode(found)[word])
        return msgspec.json.decode(found, type=str) == Way.DUPLEX.value
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, KeyError):
        return False

"""Cursors as they rest in the store: the root of the claims is sealed together with them.

A cursor says what a peer has advertised, and the root over it saves hashing all of it again in the next process. Were a
wrong one believed, this side would take a peer for known whose claims are others by now, or were damaged meanwhile. So
a hash stands behind the root, over all that it speaks of and over the version of the package that has made it: another
one may write the same fields otherwise. Where it does not fit, there is no root, and the claims are hashed.
"""

from typing import Final

import msgspec
from blake3 import blake3
from msgspec import structs

from bobbin.interlace.cursor import Cursor
from bobbin.runtime.claim_indexes import version

_BYTES: Final = 32
"""Of a root, and of the hash behind it."""


def sealed(cursor: Cursor) -> Cursor:
    """A cursor to be stored."""
    return structs.replace(cursor, root=cursor.root + _seal(cursor, cursor.root)) if cursor.root else cursor


def unsealed(cursor: Cursor) -> Cursor:
    """A cursor as it was before; without its root where anything is not as it was."""
    root, seal = cursor.root[:_BYTES], cursor.root[_BYTES:]
    return structs.replace(cursor, root=root if root and seal == _seal(cursor, root) else b"")


def _seal(cursor: Cursor, root: bytes) -> bytes:
    said = (version(), cursor.plan, cursor.source, root, cursor.advertisements)
    return blake3(msgspec.msgpack.encode(said)).digest(_BYTES)

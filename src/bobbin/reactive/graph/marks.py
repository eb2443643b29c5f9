"""How far a node can be trusted, as a number, since these are compared for every node of every update.

The order matters. Below ``CHECK`` a node is quiet: a change above it has yet to reach it, and everything that reads it
is told when one does. From ``CHECK`` on it has been reached, all that reads it has been reached too, and effects among
them are scheduled; so a second change need not go further.
"""

from typing import Final, final

CLEAN: Final = 0
"""The value is right."""
WAITING: Final = 1
"""Nothing it reads is known to have changed, but something could not be asked: look again when read."""
FAILED: Final = 2
"""There is no value: compute again when read."""
CHECK: Final = 3
"""Something far above has changed. Whether that reaches here is not known."""
DIRTY: Final = 4
"""Something that it reads has changed, or it was never computed."""
RUNNING: Final = 5
"""It is being computed."""
DISPOSED: Final = 6
"""It is no longer part of the graph."""


@final
class Unset:
    """Stands where the value of a slot will be that was never computed."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset()


@final
class Lost:
    """Stands for the value of a slot whose failure was seen by a computation, so that no later value equals it."""

    __slots__ = ("before",)

    def __init__(self, before: object) -> None:
        self.before: Final = before


def is_same(one: object, other: object) -> bool:
    """Whether a value counts as unchanged: it is the same object, or an equal one of the same type.

    ``True == 1 == 1.0`` in Python and nowhere on the wire, hence the type. Values that cannot be compared are others.
    """
    if one is other:
        return True
    try:
        return type(one) is type(other) and bool(one == other)
    except Exception:  # noqa: BLE001 -- the comparison is the user's code
        return False

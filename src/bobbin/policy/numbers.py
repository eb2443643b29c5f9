"""The numbers for texts that the decisions over one store have in common.

A node decides for every link about the same records. With numbers in common, the texts and what leads to them exist
once, and relations that say the same have the same columns, which are then held once too.

A peer can claim and withdraw for ever, so texts come to be known that occur nowhere any more. A decision that has
brought too many of those goes on with numbers of its own (see ``Standing``), and when the common ones have become too
many for what they are used for, decisions that begin from then on start new ones. The old go with their last user.
"""

from typing import Final

from bobbin.datalog.local.values import Values

IDLE_TEXTS_MAX: Final = 200_000


class Numbers:
    """Hands out the numbers that a decision begins with."""

    def __init__(self) -> None:
        self._values = Values()
        self._cells_max = 0
        """The most values that the relations of one decision were seen to hold."""

    def begin(self) -> Values:
        """The numbers for a decision that begins now."""
        if len(self._values) > IDLE_TEXTS_MAX + 2 * self._cells_max:
            self._values, self._cells_max = Values(), 0
        return self._values

    def note(self, values: Values, cells: int) -> None:
        """A decision with these numbers holds so many values."""
        if values is self._values and cells > self._cells_max:
            self._cells_max = cells

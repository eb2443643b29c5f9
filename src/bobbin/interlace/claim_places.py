"""Where the claim of each record lies in an index, in a form that copies of the index can share.

Most of it is one dictionary that never changes while several hold it. What each of them has changed since stands in a
small one of its own, until that has grown to a part of the whole; then both are joined for this holder alone.
"""

from typing import Final

_PART: Final = 8
"""Changes of this part of all are joined."""
_CHANGED_MIN: Final = 1_024


class Places:
    """A number for each of some records."""

    def __init__(self, known: dict[str, int]) -> None:
        """``known`` belongs to this object from now on."""
        self._known = known
        self._is_lent = False
        """Whether somebody else reads ``_known`` too."""
        self._changed: dict[str, int | None] = {}
        """Since it was lent; None for a record that has gone."""
        self._count = len(known)

    def __len__(self) -> int:
        return self._count

    def get(self, record: str) -> int | None:
        """The number of a record, if it has one."""
        return self._changed[record] if record in self._changed else self._known.get(record)

    def put(self, record: str, number: int) -> None:
        """Give a record a number."""
        self._count += self.get(record) is None
        if self._is_lent:
            self._changed[record] = number
            self._join()
        else:
            self._known[record] = number

    def discard(self, record: str) -> None:
        """Forget a record."""
        if self.get(record) is None:
            return
        self._count -= 1
        if self._is_lent:
            self._changed[record] = None
            self._join()
        else:
            del self._known[record]

    def copy(self) -> "Places":
        """The same, to be changed for itself."""
        other = Places(self._known)
        self._is_lent = other._is_lent = True
        other._changed = self._changed.copy()
        other._count = self._count
        return other

    def _join(self) -> None:
        if len(self._changed) <= _CHANGED_MIN + len(self._known) // _PART:
            return
        joined = self._known.copy()
        for record, number in self._changed.items():
            if number is None:
                joined.pop(record, None)
            else:
                joined[record] = number
        self._known, self._changed, self._is_lent = joined, {}, False

"""What this side wants of the peer: the advertised records that it may request and does not have (Lace-050).

A record is asked for when the last evaluation derived ``MayRequest``, the peer advertises it, it is neither stored nor
refused here, and its format is accepted. One that came as wrong bytes, or was not available, is not asked for again
until the peer's advertisement of it changes, and does not stand in the way of a fixed point.
"""

from collections.abc import Callable, Collection
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, TypeAlias

from bobbin.interlace.learned import Learned
from bobbin.policy.resting import RestingSet

if TYPE_CHECKING:
    from bobbin.policy.claims import ClaimedField

FindAbsent: TypeAlias = Callable[[Collection[str]], frozenset[str]]
"""Of some records, those that are neither stored nor refused here."""


class Wants:
    """The request side of one link."""

    def __init__(self) -> None:
        self._may_request = RestingSet()
        self._missing: set[str] = set()
        """Those of ``_may_request`` that were neither stored nor refused when last looked at."""
        self._passed_over: dict[str, tuple[ClaimedField, ...]] = {}
        """Rejected or not available, with what was claimed of them when they were asked for."""
        self._came: set[str] = set()
        """Stored since the last evaluation. One that has left again before the next need not be among what moved."""

    @property
    def may_request(self) -> AbstractSet[str]:
        """What the last evaluation derived."""
        return self._may_request

    def begin_exchange(self) -> None:
        """What could not be had last time may be had now."""
        self._passed_over.clear()

    def update(
        self, added: frozenset[str], removed: frozenset[str], moved: frozenset[str], find_absent: FindAbsent
    ) -> None:
        """Follow an evaluation. ``moved``: records that came into the store or left it since the last one."""
        self._may_request.change(added, removed)
        self._missing -= removed
        doubtful = added | self._may_request.common(moved | self._came)
        self._came.clear()
        if doubtful:
            self._missing -= doubtful
            self._missing |= find_absent(doubtful)

    def settle(self, records: Collection[str]) -> None:
        """These have come and are stored."""
        self._missing.difference_update(records)
        self._came.update(records)

    def pass_over(self, record: str, learned: Learned) -> None:
        """Do not ask for this one again under the advertisement that it has now."""
        advertisement = learned.advertisement(record)
        if advertisement is not None:
            self._passed_over[record] = advertisement.fields

    def choose(
        self, learned: Learned, formats: Collection[str], at_most: int, find_absent: FindAbsent
    ) -> tuple[str, ...]:
        """The next request list: bounded, unique, bytewise ascending, every condition looked at once more."""
        self._forget_changed(learned)
        if not self._missing:
            return ()
        wanted = [
            record
            for record in learned.having(self._missing)
            if record not in self._passed_over and format_of(record) in formats
        ]
        chosen = sorted(wanted)[:at_most]
        absent = find_absent(chosen)
        self._missing.difference_update(set(chosen) - absent)
        return tuple(record for record in chosen if record in absent)

    def check(self) -> None:
        """Only what may be requested is missed."""
        assert self._missing <= self._may_request, "what is missed may be requested"

    def _forget_changed(self, learned: Learned) -> None:
        """An advertisement that was withdrawn or changed opens the way again."""
        for record, fields in list(self._passed_over.items()):
            advertisement = learned.advertisement(record)
            if advertisement is None or advertisement.fields != fields:
                del self._passed_over[record]


def format_of(record: str) -> str:
    """The hash suffix of a record's name."""
    return record.rpartition(".")[2]

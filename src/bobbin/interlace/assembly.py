"""Putting the peer's claims together from what is known and the little that was told, and telling that little.

What a side offers is told as a difference from something that the peer has: from what it offers itself, or from what
it holds of this side. The peer takes that, leaves out what is to be left out, and adds what was listed. The result
counts only if its count and root are those of the standing.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from bobbin.interlace.catalogue import Catalogue
from bobbin.interlace.claim_index import ClaimIndex
from bobbin.interlace.learned import Learned, claims_of, listed_at_once
from bobbin.interlace.limits import Limits
from bobbin.interlace.messages import Advertise, Advertisement
from bobbin.interlace.offers import News, Offers
from bobbin.interlace.partitioned import payload
from bobbin.interlace.reconciliation import HELD_BYTES, NAME_SYMBOLS, Changed, Compared, Standing
from bobbin.interlace.ways import Unusable

_FEW: Final = 16
"""So little is not worth asking about."""
_MOST_PART: Final = 4
"""Where more than this part of what is offered would have to be listed, partitions may do with less."""


class Assembly:
    """Both directions of one epoch."""

    def __init__(self, offers: Offers, learned: Learned, limits: Limits, *, ids_max: int) -> None:
        self.records_max: Final = listed_at_once(limits)
        """Advertisement records that one block has room for."""
        self.ids_max: Final = ids_max
        self._offers: Final = offers
        self._learned: Final = learned
        self._limits: Final = limits

    # ---- what is told ---------------------------------------------------------------------------------------------

    def changed(self, news: News, peer: Standing) -> Advertise | None:
        """What has changed since what the peer holds; None if that is not known, too much, or cannot be named."""
        if news.base is None or peer.held != news.base[:HELD_BYTES]:
            return None
        added: list[str] = []
        listed: list[str] = []
        for record in news.added:
            theirs = self._learned.advertisement(record)
            ours = self._offers.current()[record]
            (added if theirs is not None and theirs.fields == ours.fields else listed).append(record)
        if len(listed) > self.records_max or len(added) + len(news.gone) > self.ids_max:
            return None
        named, removed = _names(added), _names(news.gone)
        if named is None or removed is None:
            return None
        part = Changed(added=named, removed=removed)
        return Advertise(part=part, records=self._offers.list_some(listed, self._limits))

    def compared(self) -> Advertise | None:
        """What is different from what the peer offers, which is known; None if it is too much, or cannot be named."""
        came, gone = self._learned.bare().changes_to(self._offers.bare())
        fits = len(came) <= self.records_max and len(gone) <= self.ids_max
        removed = _names(gone)
        if not fits or removed is None or _MOST_PART * len(came) > max(len(self._offers), _FEW):
            return None
        records = self._offers.list_some([one.record for one in came], self._limits)
        return Advertise(part=Compared(removed=removed), records=records)

    def listing(self, records: Collection[str]) -> tuple[Advertisement, ...]:
        """The advertisement records of some records that are offered."""
        self.expect_room(len(records))
        return self._offers.list_some(records, self._limits)

    def expect_room(self, records: int) -> None:
        """So many advertisement records have room in one block. Raises ``Unusable`` if they do not."""
        if records > self.records_max:
            raise Unusable(f"{records} advertisement records differ, and a block has room for {self.records_max}")

    # ---- what is heard --------------------------------------------------------------------------------------------

    def expect_held(self, standing: Standing) -> None:
        """What is held is what a standing says. Raises ``Unusable`` if it is not."""
        self._expect(len(self._learned), self._learned.root, standing)

    def take_nothing(self, standing: Standing) -> None:
        """The peer offers nothing. Raises ``Unusable`` where its root says otherwise."""
        self._expect(0, ClaimIndex().root(), standing)
        self._become(self._learned.nothing(), ClaimIndex(), standing)

    def take_own(self, standing: Standing, removed: Sequence[str] = (), records: Sequence[Advertisement] = ()) -> None:
        """The peer offers what this side does, without some and with others. Raises ``Unusable`` if it does not."""
        index = self._offers.index.copy()
        index.update(claims_of(records), removed)
        self._expect(len(index), index.root(), standing)
        self._become(_made(self._learned.as_claimed(self._offers.bare()), removed, records), index, standing)

    def hear_compared(self, part: Compared, records: Sequence[Advertisement], standing: Standing) -> None:
        """The same, told by names."""
        self._expect_few(part.removed)
        self.take_own(standing, _find_all(self._offers.bare(), part.removed), records)

    def hear_changed(
        self, part: Changed, records: Sequence[Advertisement], standing: Standing, gone: Iterable[Advertisement]
    ) -> None:
        """The peer offers what is held of it, but for some changes. ``gone``: what this side has just withdrawn.

        It may still count on what was withdrawn.
        """
        self._expect_few((*part.added, *part.removed))
        held = self._learned.bare()
        removed = _find_all(held, part.removed)
        late = {payload(one.record)[:NAME_SYMBOLS]: one for one in gone}
        came = [late[name] for name in part.added if name in late]
        own = _find_all(self._offers.bare(), [name for name in part.added if name not in late])
        came += [self._offers.current()[record] for record in own]
        came += records
        index = self._learned.index.copy()
        index.update(claims_of(came), removed)
        self._expect(len(index), index.root(), standing)
        self._become(_made(held.copy(), removed, came), index, standing)

    def _become(self, claims: Catalogue, index: ClaimIndex, standing: Standing) -> None:
        assert len(claims) == len(index) == standing.count, "the index is of the claims"
        self._learned.become(claims, index)

    def _expect_few(self, names: Sequence[str]) -> None:
        if len(names) > self.ids_max:
            raise Unusable(f"{len(names)} records are named, and {self.ids_max} are the most")

    @staticmethod
    def _expect(count: int, root: bytes, standing: Standing) -> None:
        if (count, root) != (standing.count, standing.root):
            raise Unusable(f"{count} advertisements have another root than the {standing.count} announced")


def _names(records: Iterable[str]) -> tuple[str, ...] | None:
    """Records by the beginning of their digest text, in order; None where that does not tell them apart."""
    names = sorted(payload(record)[:NAME_SYMBOLS] for record in records)
    if any(len(name) < NAME_SYMBOLS for name in names) or len(set(names)) < len(names):
        return None
    return tuple(names)


def _find_all(catalogue: Catalogue, names: Sequence[str]) -> list[str]:
    """The records that some names stand for. Raises ``Unusable`` for a name that stands for none, or for two."""
    if any(len(name) != NAME_SYMBOLS for name in names):
        raise Unusable(f"a name has {NAME_SYMBOLS} symbols")
    found = catalogue.named(names, NAME_SYMBOLS)
    return [_only(found[name]) for name in names]


def _only(found: list[str]) -> str:
    if len(found) != 1:
        raise Unusable(f"a name stands for {len(found)} records")
    return found[0]


def _made(base: Catalogue, removed: Iterable[str], added: Iterable[Advertisement]) -> Catalogue:
    """A catalogue that may be changed, changed."""
    for record in removed:
        base.discard(record)
    for one in added:
        base[one.record] = Advertisement(record=one.record, fields=one.fields)
    return base

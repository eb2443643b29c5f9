"""Advertisements in partitions, held once for all links where they are the same.

A side offers the same records to many peers, under its one source label: there even the digests are the same. Of what
many peers claim, only the records and their fields are; a digest follows from these and from who claims them. So a
catalogue of one's own offers is shared with digests and roots, and one of claims without, once its roots have been
verified; where they are needed again, they are computed again.
"""

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from operator import attrgetter
from typing import Final

from bobbin.interlace.advertise import Renderer, digested
from bobbin.interlace.messages import Advertisement
from bobbin.interlace.partitioned import Partitioned
from bobbin.policy.operands import Origin

_DIGEST: Final = attrgetter("digest")


class Catalogue(Partitioned[Advertisement], MutableMapping[str, Advertisement]):
    """Advertisements by record, with the summaries of their partitions."""

    def __init__(self, length: int, source: Origin | None, *, with_digests: bool) -> None:
        """``source``: who advertises; without, every advertisement comes with its digest.

        ``with_digests``: whether what is shared has them.
        """
        super().__init__(length, (length, source) if with_digests else None)
        self._source: Final = source
        self._with_digests: Final = with_digests

    def __getitem__(self, record: str) -> Advertisement:
        found = self.entry(record)
        if found is None:
            raise KeyError(record)
        return found

    def __setitem__(self, record: str, advertisement: Advertisement) -> None:
        self.add(record, self._digested(advertisement) if self._with_digests else advertisement)

    def add_all(self, entries: Mapping[str, Advertisement]) -> None:
        """Take advertisements of records that are not here, many at a time."""
        if self._with_digests:
            digests = self._digests(entries.values())
            entries = {
                record: one if one.digest else Advertisement(record=one.record, fields=one.fields, digest=digest)
                for (record, one), digest in zip(entries.items(), digests, strict=True)
            }
        super().add_all(entries)

    def __delitem__(self, record: str) -> None:
        if self.discard(record) is None:
            raise KeyError(record)

    def __iter__(self) -> Iterator[str]:
        return self.records()

    def copy(self) -> "Catalogue":
        """The same, to be changed for itself."""
        self._share_all()
        other = Catalogue(self._length, self._source, with_digests=self._with_digests)
        other._buckets.update(self._buckets)
        other._count, other._summaries = self._count, self._summaries
        return other

    @property
    def is_bare(self) -> bool:
        """Whether what is shared has no digests, so that it is the same whoever advertises it."""
        return not self._with_digests

    def of_source(self, source: Origin | None) -> "Catalogue":
        """The same as another one advertises it, to be changed for itself. Only of a bare catalogue."""
        assert self.is_bare, "digests are of one source"
        # A root that was computed here is of this source; a partition that is shared has none.
        self.share()
        other = Catalogue(self._length, source, with_digests=False)
        other._buckets.update(self._buckets)
        other._count = self._count
        other._summaries = None if self._count else ()
        return other

    def changes_to(self, other: "Catalogue") -> tuple[list[Advertisement], list[str]]:
        """What another catalogue has that is not here, or not with the same fields, and what only this one has.

        A partition that both share is passed over.
        """
        came: list[Advertisement] = []
        gone: list[str] = []
        ours, theirs = self.parts(), other.parts()
        for prefix in ours.keys() | theirs.keys():
            before, after = ours.get(prefix, {}), theirs.get(prefix, {})
            if before is after:
                continue
            for record, one in after.items():
                known = before.get(record)
                if known is None or (known is not one and known.fields != one.fields):
                    came.append(one)
            gone += before.keys() - after.keys()
        return came, gone

    def _digests(self, entries: Iterable[Advertisement]) -> list[bytes]:
        if self._source is None:
            return [self._digested(one).digest for one in entries]
        digest = Renderer(self._source).digest
        return [one.digest or digest(one.record, one.fields) for one in entries]

    def _digested(self, advertisement: Advertisement) -> Advertisement:
        if advertisement.digest:
            return advertisement
        assert self._source is not None, "advertisements without digest come with their source"
        return digested(advertisement, self._source)

    def _rest(self, entries: dict[str, Advertisement]) -> None:
        if self._with_digests or self._source is None or not any(map(_DIGEST, entries.values())):
            return
        for record, one in entries.items():
            if one.digest:
                entries[record] = Advertisement(record=one.record, fields=one.fields)

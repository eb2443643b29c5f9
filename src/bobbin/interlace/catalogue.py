"""Advertisements in partitions, held once for all links where they are the same.

A side offers the same records to many peers, under its one source label: there even the digests are the same. Of what
many peers claim, only the records and their fields are; a digest follows from these and from who claims them. So a
catalogue of one's own offers is shared with digests and roots, and one of claims without, once its roots have been
verified; where they are needed again, they are computed again.
"""

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Final

from bobbin.interlace.advertise import Renderer, digested
from bobbin.interlace.messages import Advertisement
from bobbin.interlace.partitioned import Partitioned
from bobbin.policy.operands import Origin


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
        if self._with_digests or self._source is None:
            return
        for record, one in entries.items():
            if one.digest:
                entries[record] = Advertisement(record=one.record, fields=one.fields)

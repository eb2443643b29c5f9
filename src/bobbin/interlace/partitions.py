"""Records with nothing but their advertisement digests, in partitions: what statements summarise."""

from collections.abc import Iterable

from bobbin.interlace.partitioned import Partitioned, payload

__all__ = ["Partitions", "payload"]


class Partitions(Partitioned[bytes]):
    """A set of records with their advertisement digests, in partitions."""

    def digest(self, record: str) -> bytes | None:
        """The advertisement digest of a record, if the record is here."""
        return self.entry(record)

    def _digests(self, entries: Iterable[bytes]) -> list[bytes]:
        return list(entries)

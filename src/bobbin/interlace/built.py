"""What was computed of advertisements before an exchange asked for it: their digests, and summaries of partitions.

A job that has gone over all records of a store leaves it there. It only saves work. What an exchange offers follows
from its own evaluation and from nothing else; here it finds the digest of a record that it offers, and the root of a
partition of which it offers all. A record never changes, so under one source label and one schema its digest is the
same whoever computes it; and of two sets with as many members, one of which has all that the other has, both are the
same.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from msgspec import Struct

from bobbin.interlace.advertise import Renderer
from bobbin.interlace.messages import Partition
from bobbin.policy.claims import ClaimedField
from bobbin.policy.operands import Origin

SAMPLE: Final = 64
"""About so many digests are computed anew, and compared."""


class Built(Struct, frozen=True, kw_only=True):
    """What was found for some records that are offered."""

    said: str
    """Where it was found, or why there is nothing, for the account."""
    digests: Mapping[str, bytes] = {}
    """Of the records that were asked about, as far as they are known."""
    partitions: tuple[Partition, ...] = ()
    """Of all records that were looked at then; no more are known than these count."""

    def is_true(self, told: Sequence[tuple[str, tuple[ClaimedField, ...]]], source: Origin) -> bool:
        """Whether a sample of the digests is what a source's claims about some records give."""
        known = [(record, fields) for record, fields in told if record in self.digests]
        digest = Renderer(source).digest
        some = known[:: len(known) // SAMPLE + 1]
        return all(self.digests[record] == digest(record, fields) for record, fields in some)

    def has_all(self, partition: Partition, records: Collection[str]) -> bool:
        """Whether a partition that was summarised then has just these records."""
        return len(records) == partition.count and all(map(self.digests.__contains__, records))

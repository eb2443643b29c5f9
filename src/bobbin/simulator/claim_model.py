"""What a peer has told, followed a second time with plain sets: the measure for ``interlace.learned``.

Nothing is kept but a table of records and fields. Partitions are found by looking at every name, roots are computed
over a full tree, each time from nothing. What a block may not say is named (``open`` and ``hear`` return a complaint).
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final, TypeAlias

from blake3 import blake3

from bobbin.facts import block as fact_block
from bobbin.interlace.messages import Advertise, Advertisement, Partition
from bobbin.policy.claims import ClaimedField

Table: TypeAlias = dict[str, tuple[ClaimedField, ...]]
"""Advertised records with their fields in canonical order."""


def under(table: Mapping[str, tuple[ClaimedField, ...]], prefix: str) -> Table:
    """The part of a table whose digest texts begin with a prefix."""
    return {record: fields for record, fields in table.items() if record.split(".")[1].startswith(prefix)}


def summarise(table: Mapping[str, tuple[ClaimedField, ...]], prefix: str, source: str) -> Partition:
    """Count and root of what lies under a prefix."""
    digests = sorted(_digest(record, fields, source) for record, fields in under(table, prefix).items())
    return Partition(prefix=prefix, count=len(digests), root=_root(digests))


def prefixes(table: Iterable[str], length: int) -> set[str]:
    """The prefixes of some length that records lie under."""
    return {record.split(".")[1][:length] for record in table}


@lru_cache(maxsize=8192)
def _digest(record: str, fields: tuple[ClaimedField, ...], source: str) -> bytes:
    facts = [("AdvertisedField", (record, source, field.name, field.index, field.value)) for field in fields]
    return blake3(
        b"lace-advertisement-record/v1" + fact_block.render([("Advertised", (record, source)), *facts])
    ).digest()


def _root(digests: list[bytes]) -> bytes:
    empty = blake3(b"lace-advertisement-empty/v1").digest()
    level = [blake3(b"lace-advertisement-leaf/v1" + digest).digest() for digest in digests] or [empty]
    while len(level) & (len(level) - 1):
        level.append(empty)
    while len(level) > 1:
        pairs = zip(level[::2], level[1::2], strict=True)
        level = [blake3(b"lace-advertisement-node/v1" + left + right).digest() for left, right in pairs]
    return level[0]


def tells(block: Advertise, offered: Table, known: Table | None, *, source: str, length: int) -> bool:
    """Whether a first block says exactly what is offered, to a peer that was told ``known``; None: nothing yet."""
    if block.records:
        told = {ad.record: ad.fields for ad in block.records}
        return told == offered and list(told) == sorted(offered) and not block.partitions
    if not block.partitions:
        return offered == (known or {})
    named = {partition.prefix for partition in block.partitions}
    before = known or {}
    as_they_are = all(
        partition == summarise(offered, partition.prefix, source)
        and len(partition.prefix) == length
        and (partition.count > 0 or known is not None)
        for partition in block.partitions
    )
    rest = prefixes([*offered, *before], length) - named
    return as_they_are and all(under(offered, prefix) == under(before, prefix) for prefix in rest)


def misanswers(block: Advertise, asked: Advertise, announced: Table, *, source: str) -> str | None:
    """What is wrong with a later block, as the answer to what a peer asked about what was announced to it."""
    listed: Table = {}
    for prefix in asked.lists:
        listed.update(under(announced, prefix))
    told = {ad.record: ad.fields for ad in block.records}
    if told != listed or len(told) != len(block.records):
        return "a listing is not exactly what was asked for"
    children = {
        child: summarise(announced, child, source)
        for prefix in asked.narrows
        for child in prefixes(under(announced, prefix), len(prefix) + 1)
    }
    if {partition.prefix: partition for partition in block.partitions} != children:
        return "child summaries are not exactly those that were asked for"
    return None


class ClaimModel:
    """The claims of one peer, as its blocks change them."""

    def __init__(
        self, source: str, length: int, held: Mapping[str, tuple[ClaimedField, ...]] = MappingProxyType({})
    ) -> None:
        """``length``: of the prefixes that partitions start with. ``held``: from the last exchange."""
        self.table: Final[Table] = dict(held)
        self.version = 0
        self._source: Final = source
        self._length: Final = length
        self._first = True
        self._announced: dict[str, Partition] = {}
        """Of this phase, at every depth."""

    def open(self, block: Advertise) -> str | None:
        """The first block of an iteration; returns what is wrong with it, if anything is."""
        first, self._first = self._first, False
        self._announced = {}
        if block.lists or block.narrows:
            return "the first block asks"
        if block.records and block.partitions:
            return "the first block lists and summarises"
        if block.records or (first and not block.partitions):
            self._put("", block.records)
            return None
        for partition in block.partitions:
            if len(partition.prefix) != self._length or (first and not partition.count):
                return "a partition that cannot be"
            self._announced[partition.prefix] = partition
            if not partition.count:
                if partition != summarise({}, partition.prefix, self._source):
                    return "an empty partition with a root"
                self._put(partition.prefix, ())
        if first:
            for prefix in prefixes(self.table, self._length) - self._announced.keys():
                self._put(prefix, ())
        return None

    def hear(self, block: Advertise, asked: Advertise) -> str | None:
        """A later block, which answers what ``asked`` did ask."""
        children: dict[str, int] = dict.fromkeys(asked.narrows, 0)
        for child in block.partitions:
            if child.prefix[:-1] not in children or not child.count:
                return "a child that nobody asked for, or an empty one"
            children[child.prefix[:-1]] += child.count
            self._announced[child.prefix] = child
        for prefix, count in children.items():
            if count != self._announced[prefix].count:
                return "children that do not add up"
            named = {child.prefix for child in block.partitions}
            for gone in prefixes(under(self.table, prefix), len(prefix) + 1) - named:
                self._put(gone, ())
        homes = {prefix: [ad for ad in block.records if under({ad.record: ()}, prefix)] for prefix in asked.lists}
        if sum(map(len, homes.values())) != len(block.records):
            return "a record that nobody asked for"
        for prefix, records in homes.items():
            self._put(prefix, records)
            if summarise(self.table, prefix, self._source) != self._announced[prefix]:
                return f"the records under {prefix} have another count or root than announced"
        return None

    def recognise(self, own: Table) -> None:
        """Take what was announced and needs no listing: what a side says of itself, perhaps with what it knew before.

        There is only one table with a given root, so whoever guesses it has it proven.
        """
        for prefix, partition in sorted(self._announced.items(), key=lambda item: -len(item[0])):
            mine, held = under(own, prefix), under(self.table, prefix)
            for guess in (mine, {**mine, **held}):
                if summarise(held, prefix, self._source) != partition == summarise(guess, prefix, self._source):
                    self._put(prefix, [Advertisement(record=record, fields=fields) for record, fields in guess.items()])
                    break

    def become(self, table: Mapping[str, tuple[ClaimedField, ...]]) -> None:
        """The peer claims just this, which was proven in another way."""
        if self.table != table:
            self.version += 1
        self._first = False
        self._announced = {}
        self.table.clear()
        self.table.update(table)

    def unproven(self) -> str | None:
        """A partition that was announced in this phase and does not hold, if there is one."""
        for prefix, partition in self._announced.items():
            if summarise(self.table, prefix, self._source) != partition:
                return prefix
        return None

    def _put(self, prefix: str, records: Iterable[Advertisement]) -> None:
        """What lies under a prefix is now this."""
        self.version += 1
        for record in under(self.table, prefix):
            del self.table[record]
        self.table.update({advertisement.record: advertisement.fields for advertisement in records})

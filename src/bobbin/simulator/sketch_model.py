"""What two sides with the capability for sketches say to each other, followed a second time with plain sets.

A claim has a digest, a set of claims has a root, and a key gives each claim a short id: all of it is computed here from
tables, each time from nothing. What a machine says must follow from what it offers, part by part. What it has learned
is taken for a guess and proven: there is only one set of claims with a given root.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Final

import numpy as np
from blake3 import blake3
from msgspec import structs

from bobbin.facts import block as fact_block
from bobbin.interlace.messages import Advertise, Advertisement, Hello
from bobbin.interlace.reconciliation import (
    Changed,
    Compared,
    Cut,
    Fallback,
    Lacking,
    More,
    Part,
    Plain,
    Probe,
    Ranged,
    Sketched,
    Standing,
    Supplied,
)
from bobbin.policy.claims import ClaimedField
from bobbin.reconcile import Encoder, Ids, digest_rows, measure, short_ids
from bobbin.reconcile.symbols import SYMBOL_BYTES
from bobbin.simulator.claim_model import Table, misanswers, tells

_NAME: Final = slice(2, 13)
_HELD: Final = 16


@lru_cache(maxsize=8192)
def claim_digest(record: str, fields: tuple[ClaimedField, ...]) -> bytes:
    """The digest of a claim: of its advertisement record without a source."""
    facts = [("AdvertisedField", (record, "", field.name, field.index, field.value)) for field in fields]
    return blake3(b"bobbin-claim/v1" + fact_block.render([("Advertised", (record, "")), *facts])).digest()


def root(table: Mapping[str, tuple[ClaimedField, ...]]) -> bytes:
    """The root of a set of claims."""
    return _root(tuple(sorted(claim_digest(record, fields) for record, fields in table.items())))


@lru_cache(maxsize=1024)
def _root(digests: tuple[bytes, ...]) -> bytes:
    buckets = dict.fromkeys(range(4096), b"")
    for number, some in groupby(digests, key=lambda digest: digest[0] << 4 | digest[1] >> 4):
        buckets[number] = b"".join(some)
    groups: list[bytes] = []
    for first in range(0, 4096, 64):
        inside = [buckets[number] for number in range(first, first + 64)]
        said = [(len(one) // 32).to_bytes(8, "little") + _bucket_hash(one) for one in inside]
        count = sum(map(len, inside)) // 32
        groups.append(count.to_bytes(8, "little") + blake3(b"bobbin-claim-group/v1" + b"".join(said)).digest())
    return blake3(b"bobbin-claim-root/v1" + b"".join(groups)).digest()


@lru_cache(maxsize=1024)
def _bucket_hash(digests: bytes) -> bytes:
    return blake3(b"bobbin-claim-bucket/v1" + digests).digest()


def key_of(own: Hello, peer: Hello, *, initiator: bool) -> bytes | None:
    """The key of a link, from both hellos; None where a side cannot."""
    if own.reconcile is None or peer.reconcile is None:
        return None
    first, second = (own, peer) if initiator else (peer, own)
    assert first.reconcile is not None
    assert second.reconcile is not None
    shares = first.reconcile.to_bytes(8, "little") + second.reconcile.to_bytes(8, "little")
    return blake3(b"bobbin-reconcile-key/v1" + shares).digest()[:16]


class SketchModel:
    """One side's part in the dialogue of an epoch."""

    def __init__(self, key: bytes, source: str, length: int, moments: Mapping[str, int]) -> None:
        """``source``: of what this side offers. ``moments``: when records say that they were made."""
        self.fell_back = False
        """Whether the plain way was taken for good, by the end of the phase before this one."""
        self.peer: Standing | None = None
        """The peer's last standing."""
        self._key: Final = key
        self._source: Final = source
        self._length: Final = length
        self._moments: Final = moments
        self._own: Standing | None = None
        self._gives_up = False
        self._before: Table = {}
        """What was announced in the phase before this one."""
        self._symbols = 0
        self._lacking: bytes | None = None
        self._tells_plainly = False

    def begin_phase(self, announced: Table) -> None:
        """A first block is about to be said. ``announced``: what the last one has announced."""
        self.fell_back = self.fell_back or self._gives_up
        self._before = announced
        self._symbols = 0
        self._lacking = None
        self._tells_plainly = False

    # ---- first blocks ---------------------------------------------------------------------------------------------

    def stands(self, block: Advertise, offered: Table, known: Table | None, held: Table) -> bool:
        """Whether a first block says how this side stands, to a peer that was told ``known``."""
        if structs.replace(block, part=None, tick=None) != Advertise():
            return False
        if block.part is None:
            return offered == known
        if not isinstance(block.part, Standing) or (known is not None and offered == known):
            return False
        part = block.part
        if (part.count, part.root, part.held) != (len(offered), root(offered), root(held)[:_HELD]):
            return False
        self._own = part
        return True

    def open(self, block: Advertise) -> str | None:
        """The peer's first block; returns what is wrong with it, if anything is."""
        if structs.replace(block, part=None, tick=None) != Advertise():
            return "a first block has more than a standing"
        if isinstance(block.part, Standing):
            self.peer = block.part
            return None
        return "a first block has no standing" if self.peer is None or block.part is not None else None

    # ---- later blocks ---------------------------------------------------------------------------------------------

    def hear(self, block: Advertise) -> None:
        """A later block of the peer. Whatever it leads to is proven at the end."""
        if isinstance(block.part, Fallback) and not self._gives_up:
            self._gives_up, self._tells_plainly = True, False
        if isinstance(block.part, Lacking):
            self._lacking = block.part.ids

    @staticmethod
    def drops(block: Advertise, said: Sequence[Advertise]) -> bool:
        """Whether nothing of a block counts, because either side gives up with it. ``said``: ours of its number."""
        return any(isinstance(one.part, Fallback) for one in (block, *said[:1]))

    def misspeaks(
        self, block: Advertise, asked: Advertise, offered: Table, claims: Table, held: Table | None = None
    ) -> str | None:
        """What is wrong with a later block, after the peer's last one (``asked``).

        ``claims``: what the machine has learned, where it speaks as one that knows. ``held``: what the peer held of
        this side when it said how it stands, where that is known.
        """
        if any(offered.get(one.record) != one.fields for one in block.records):
            return "an advertisement is listed that is not offered"
        part = block.part
        if isinstance(part, Fallback):
            self._gives_up, self._tells_plainly = True, False
            return None
        if isinstance(part, Plain):
            if self._tells_plainly:
                return "everything is told twice"
            self._tells_plainly = True
            bare = Advertise(records=block.records, partitions=block.partitions)
            is_told = tells(bare, offered, None, source=self._source, length=self._length)
            return None if is_told else "what is told plainly is not what is offered"
        if part is None:
            bare = Advertise(records=block.records, partitions=block.partitions)
            return misanswers(bare, asked, offered, source=self._source)
        if block.partitions:
            # Questions may stand there: whoever tells in its own way may have been told plainly. A peer that has not
            # told so ends the exchange over them, which no honest one leads to.
            return "partitions stand where they have no place"
        return self._misstates(part, block.records, offered, claims, held)

    def proves(self, claims: Table) -> bool:
        """Whether a set of claims is the one that the peer's last standing is of."""
        return self.peer is not None and (len(claims), root(claims)) == (self.peer.count, self.peer.root)

    def _misstates(
        self, part: Part, records: tuple[Advertisement, ...], offered: Table, claims: Table, held: Table | None
    ) -> str | None:
        told = {one.record: one.fields for one in records}
        ids = self._ids(offered)
        match part:
            case Probe():
                good = part.bulk == measure(_array(ids.values())).encode() and not told
                good = good and all(self._adds_up(cut, ids) for cut in part.cuts)
            case Sketched():
                good = not told and self._continues(part, ids)
            case Ranged():
                young = {short for record, short in ids.items() if self._moments.get(record, 0) >= part.moment}
                good = not told and sorted(young) == sorted(_numbers(part.ids))
            case More():
                good = not told
            case Lacking():
                good = set(_numbers(part.ids)).isdisjoint(ids.values())
            case Supplied():
                wanted = set(_numbers(self._lacking or b""))
                good = self._lacking is not None and told.keys() == {one for one in ids if ids[one] in wanted}
            case Changed():
                good = self._is_change(part, told, offered, held)
            case Compared():
                left = {one: fields for one, fields in claims.items() if one[_NAME] not in part.removed}
                good = self.proves(claims) and {**left, **told} == offered
            case _:
                good = False
        return None if good else f"{type(part).__name__} does not follow from what is offered"

    def _adds_up(self, cut: Cut, ids: Mapping[str, int]) -> bool:
        """Whether a cut says what the claims before it add up to."""
        return (
            cut.sum == sum(short for record, short in ids.items() if self._moments.get(record, 0) < cut.moment) % 2**64
        )

    def _continues(self, part: Sketched, ids: Mapping[str, int]) -> bool:
        """Whether symbols are the next ones of the one stream that what is offered has."""
        encoder = Encoder(_array(ids.values()))
        encoder.produce(self._symbols)
        follows = part.first == self._symbols
        symbols = encoder.produce(len(part.raw) // SYMBOL_BYTES)
        self._symbols += len(symbols)
        return follows and symbols.encode() == part.raw

    def _is_change(self, part: Changed, told: Table, offered: Table, held: Table | None) -> bool:
        """Whether a change leads to what is offered now, from what was announced before or what the peer holds.

        A peer may hold what was announced on an earlier link. Where nobody can tell what that is, its root can.
        """
        added = {one: fields for one, fields in offered.items() if one[_NAME] in part.added}
        if len(added) != len(part.added):
            return False
        for base in (self._before, held or {}):
            left = {one: fields for one, fields in base.items() if one[_NAME] not in part.removed}
            if {**left, **added, **told} == offered:
                return True
        rest = {one: fields for one, fields in offered.items() if one not in added and one not in told}
        return not part.removed and self.peer is not None and root(rest)[:_HELD] == self.peer.held

    def _ids(self, table: Table) -> dict[str, int]:
        names = sorted(table)
        digests = [claim_digest(name, table[name]) for name in names]
        return dict(zip(names, short_ids(self._key, digest_rows(digests)).tolist(), strict=True))


def _array(ids: Iterable[int]) -> Ids:
    return np.array(list(ids), np.uint64)


def _numbers(raw: bytes) -> list[int]:
    """Short ids as they are told."""
    return [int.from_bytes(raw[at : at + 8], "little") for at in range(0, len(raw), 8)]

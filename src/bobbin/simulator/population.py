"""Random records of every kind, for worlds of an exchange: groups and apps, versions, links, member evidence, Blobs."""

from random import Random
from typing import Final

from msgspec import Struct

from bobbin.records import tai
from bobbin.records.ids import Verifier
from bobbin.records.record import Header, Record, build_blob, build_plex, seal
from bobbin.records.signing import SigningKey
from bobbin.simulator.clock import EPOCH_TAI_NS, SECOND_NS

GROUPS: Final = ("u", "ward")
APPS: Final = ("note", "ding")
MEMBER: Final = "member"
LEFT: Final = "left"
DOCUMENT: Final = "document"
CLUSTER: Final = frozenset("0123")
CHUNK: Final = "Chunk+Link"


class Population(Struct, frozen=True, kw_only=True):
    """Everything that can exist in one world."""

    records: tuple[Record, ...]
    keys: tuple[SigningKey, ...]
    """Of the people that seal; the first one says who is a member."""

    @property
    def verifiers(self) -> tuple[Verifier, ...]:
        return tuple(key.verifier for key in self.keys)


def populate(random: Random, count: int, *, is_clustered: bool = False) -> Population:
    """So many records, as different as records can be; clustered ones have digests that begin alike."""
    keys = tuple(SigningKey.from_secret(random.randbytes(32)) for _ in range(3))
    records: list[Record] = []
    while len(records) < count:
        record = _record(random, keys, records)
        if is_clustered and record.hash[2] not in CLUSTER:
            continue
        if all(known.hash != record.hash for known in records):
            records.append(record)
    return Population(records=tuple(records), keys=keys)


def _record(random: Random, keys: tuple[SigningKey, ...], known: list[Record]) -> Record:
    kind = random.random()
    if kind < 0.15:
        return build_blob(random.randbytes(random.randrange(120)))
    group = random.choice(GROUPS)
    app, name = random.choice(APPS), f"n/{random.randrange(6)}"
    key = random.choice(keys)
    if kind < 0.3:
        app, name = random.choice((MEMBER, MEMBER, LEFT)), random.choice(keys).verifier
        key = keys[0] if random.random() < 0.8 else key
    elif kind < 0.45:
        app = DOCUMENT
    plex = build_plex(
        group=group,
        app=app,
        name=name,
        tai_ns=EPOCH_TAI_NS + random.randrange(-120, 120) * SECOND_NS,
        data=random.randbytes(random.randrange(200)),
        extras=_extras(random, known),
    )
    is_sealed = kind < 0.3 or random.random() < 0.4
    return seal(plex, key, auxiliary=random.randbytes(32)) if is_sealed else plex


def _extras(random: Random, known: list[Record]) -> list[Header]:
    extras: list[Header] = []
    if known and random.random() < 0.5:
        extras.append((CHUNK, f"part {random.choice(known).hash}"))
    if random.random() < 0.2:
        extras.append(("X-Private", "yes"))
    if random.random() < 0.3:
        extras.append(("Release-TAI", tai.render(EPOCH_TAI_NS + random.randrange(-60, 90) * SECOND_NS)))
    extras += [("X-Level", random.choice("ab")) for _ in range(random.randrange(3))]
    return extras

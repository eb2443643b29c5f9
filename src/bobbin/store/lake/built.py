"""What ``advertise`` has built of an offer, for an exchange over the lake: digests, and the roots of partitions.

A table counts if it is of the label and the fields of the exchange, of its plan or of all records, and was made from
the records that the lake has now. Every file of it is compared with the digest that its manifest gives, what partitions
count with what there is, and some roots are computed anew. A table for which any of that fails is passed over, and the
reason is said: the exchange computes for itself then, as it does where there is none.

Memory is bounded by what is asked for, and by one summary for each partition. The rest of a table only passes by.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from bobbin.interlace import merkle
from bobbin.interlace.built import Built
from bobbin.interlace.messages import Partition
from bobbin.interlace.schema import Schema
from bobbin.policy.executables import LocalPolicy
from bobbin.records.ids import DIGEST_SIZE
from bobbin.store.base import StoreError
from bobbin.store.lake import reading, staging
from bobbin.store.lake.errors import DamagedLake
from bobbin.store.lake.lake import Lake
from bobbin.store.lake.manifest import DataFile, Manifest, number_in
from bobbin.store.lake.tables import ADVERTISEMENTS, PARTITIONS, RECORDS, Table

LENGTHS: Final = "k"
"""The property of ``partitions`` that says which prefix lengths it has."""
MAY_SEND: Final = "MaySend"
ALL_FIELDS: Final = "all"
_WORTH_PART: Final = 8
"""Where less than this part of a table is asked for, computing costs less than reading."""
_PARTITIONS_MAX: Final = 1 << 18
"""Summaries that are read at most: so many has a length of three, and no exchange tells more."""
_SAMPLE_ROWS: Final = 4_096
"""Partitions with about so many records together have their roots computed anew."""
_LETTER: Final = len("P.")


def spell_fields(schema: Schema) -> str:
    """A field schema as a property: ``all``, or a list of names in JSON."""
    return ALL_FIELDS if schema.all else msgspec.json.encode(sorted(schema.names)).decode()


def find(lake: Lake, policy: LocalPolicy, schema: Schema, records: Collection[str], length: int) -> Built:
    """What there is of advertisements of these records, and of all partitions of a prefix length."""
    reasons: list[str] = []
    try:
        for manifest in _candidates(lake, policy, schema):
            reason = _unfit(lake, policy, manifest) or _unwieldy(manifest, records)
            try:
                if reason is None:
                    return _load(lake, manifest, frozenset(records), length)
            except StoreError as error:
                reason = f"{manifest.table} cannot be used: {error}"
            reasons.append(reason)
    except StoreError as error:  # a manifest that is none
        reasons.append(str(error))
    what = f"{policy.own_origin} with these fields"
    return Built(said=f"computed: {'; '.join(reasons) or f'the lake has no advertisements of {what}'}")


def _candidates(lake: Lake, policy: LocalPolicy, schema: Schema) -> list[Manifest]:
    """The tables of this label and these fields; first those of the plan, which have no more than is offered."""
    named = [lake.manifest(name) for name in lake.tables() if name.startswith(f"{ADVERTISEMENTS.name}/")]
    said = {"source": policy.own_origin, "fields": spell_fields(schema)}
    fitting = [one for one in named if said.items() <= one.properties.items()]
    return sorted(fitting, key=lambda one: (one.properties.get("plan") != policy.plan.identifier, one.table))


def _unfit(lake: Lake, policy: LocalPolicy, manifest: Manifest) -> str | None:
    """Why a table is of no use for a policy over the lake as it is now."""
    said = manifest.properties
    if "selection" in said:
        wanted = {
            "plan": policy.plan.identifier,
            "index": str(policy.index),
            "query": policy.query.identifier,
            "predicate": MAY_SEND,
        }
        for name, value in wanted.items():
            if said.get(name) != value:
                return f"{manifest.table} is of another {name}"
    return _stale(lake, manifest)


def _stale(lake: Lake, manifest: Manifest) -> str | None:
    made = number_in(manifest, RECORDS.name, -1)
    if lake.is_current(RECORDS.name, made):
        return None
    current = lake.manifest(RECORDS.name).number
    return f"{manifest.table} was made from manifest {max(made, 0)} of {RECORDS.name}, and {current} is current"


def _unwieldy(manifest: Manifest, records: Collection[str]) -> str | None:
    if len(records) * _WORTH_PART >= manifest.rows:
        return None
    return f"{manifest.table} has {manifest.rows} rows, and {len(records)} are wanted"


def _load(lake: Lake, manifest: Manifest, wanted: frozenset[str], length: int) -> Built:
    """Read a table, and the partitions that belong to it. Raises ``DamagedLake`` for what cannot be true."""
    summaries, remark = _partitions(lake, manifest, length)
    sampled = _sampled(summaries)
    members: dict[str, list[bytes]] = {prefix: [] for prefix in sampled}
    counted: Counter[str] = Counter()
    digests: dict[str, bytes] = {}
    asked, looked_at = pa.array(sorted(wanted), pa.string()), pa.array(sorted(sampled), pa.string())
    for batch in _rows(lake, manifest, ADVERTISEMENTS):
        _check_digests(manifest, batch.column("digest"))
        prefixes = pc.utf8_slice_codeunits(batch.column("record"), _LETTER, _LETTER + length)
        for one in pc.value_counts(prefixes).to_pylist():
            counted[one["values"]] += one["counts"]
        hit = batch.filter(pc.is_in(batch.column("record"), asked))
        digests.update(zip(hit.column("record").to_pylist(), hit.column("digest").to_pylist(), strict=True))
        in_sample = pc.is_in(prefixes, looked_at)
        chosen = batch.filter(in_sample).column("digest").to_pylist()
        for prefix, digest in zip(prefixes.filter(in_sample).to_pylist(), chosen, strict=True):
            members[prefix].append(digest)
    if summaries and counted != {one.prefix: one.count for one in summaries.values()}:
        raise DamagedLake(f"its partitions count other records than the {manifest.rows} that it has")
    for prefix, own in members.items():
        if summaries[prefix].root != merkle.root(own):
            raise DamagedLake(f"the root of its partition {prefix} is not that of its digests")
    said = f"{manifest.table}, manifest {manifest.number}"
    return Built(said=f"{said}{remark}", digests=digests, partitions=tuple(summaries.values()))


def _partitions(lake: Lake, manifest: Manifest, length: int) -> tuple[dict[str, Partition], str]:
    """The summaries that belong to a table, by prefix; none, and a remark, where there are none of this length."""
    name = manifest.table.replace(ADVERTISEMENTS.name, PARTITIONS.name, 1)
    made = lake.manifest(name)
    if str(length) not in made.properties.get(LENGTHS, "").split(",") or _stale(lake, made):
        return {}, f"; roots computed, since {name} has none of {length} symbols for these records"
    found: dict[str, Partition] = {}
    for batch in _rows(lake, made, PARTITIONS):
        own = batch.filter(pc.equal(batch.column("k"), length))
        _check_digests(made, own.column("root"))
        for row in own.to_pylist():
            found[row["prefix"]] = Partition(prefix=row["prefix"], count=row["count"], root=row["root"])
        if len(found) > _PARTITIONS_MAX:
            return {}, f"; roots computed, since {name} has more than {_PARTITIONS_MAX} of {length} symbols"
    return found, f", and {name}, manifest {made.number}"


def _sampled(summaries: dict[str, Partition]) -> set[str]:
    """Partitions, at even distances, that have about as many records together as are looked at."""
    total = sum(one.count for one in summaries.values())
    step = max(1, total // _SAMPLE_ROWS)
    return set(sorted(summaries)[::step])


def _rows(lake: Lake, manifest: Manifest, table: Table) -> Iterator[pa.RecordBatch]:
    """The rows of a table whose files are, to the last bit, what its manifest says."""
    for file in manifest.files:
        _check_file(lake, file)
        yield from reading.pieces(lake.files, file, table)


def _check_file(lake: Lake, file: DataFile) -> None:
    if staging.digest_of(lake.files, file.path) != file.digest:
        raise DamagedLake(f"{file.path} has changed since it was written")


def _check_digests(manifest: Manifest, digests: pa.Array) -> None:
    is_right = pc.all(pc.equal(pc.binary_length(digests), DIGEST_SIZE), min_count=0).as_py()
    if digests.null_count or not is_right:
        raise DamagedLake(f"{manifest.table} has digests of another size than {DIGEST_SIZE} bytes")
